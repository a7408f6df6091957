//! Proportional Rate Reduction (RFC 6937 with the slow-start reduction bound of
//! `tcp_cwnd_reduction`).

/// The state of a reduction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prr {
    prr_delivered: u32,
    prr_out: u32,
}

impl Prr {
    /// Starts a reduction.
    pub(crate) fn start(&mut self) {
        *self = Prr::default();
    }

    /// Counts a segment sent in recovery.
    pub(crate) fn on_sent(&mut self) {
        self.prr_out += 1;
    }

    /// The window after `newly_delivered` segments were delivered. `no_loss`: the ACK advanced
    /// SND.UNA and no segment was marked lost.
    pub(crate) fn cwnd(
        &mut self,
        newly_delivered: u32,
        in_flight: u32,
        ssthresh: u32,
        prior_cwnd: u32,
        no_loss: bool,
    ) -> Option<u32> {
        if newly_delivered == 0 || prior_cwnd == 0 {
            return None;
        }
        self.prr_delivered += newly_delivered;
        let send = if in_flight > ssthresh {
            let proportional =
                (u64::from(ssthresh) * u64::from(self.prr_delivered)).div_ceil(u64::from(prior_cwnd));
            (proportional as u32).saturating_sub(self.prr_out)
        } else {
            let bounded =
                self.prr_delivered.saturating_sub(self.prr_out).max(newly_delivered) + u32::from(no_loss);
            bounded.min(ssthresh - in_flight)
        };
        // The fast retransmission is always sent.
        Some(in_flight + send.max(u32::from(self.prr_out == 0)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sends_seven_segments_per_ten_delivered() {
        let mut prr = Prr::default();
        prr.start();
        let (mut in_flight, mut sent) = (100_u32, 0);
        for _ in 0..100 {
            in_flight -= 1;
            let cwnd = prr.cwnd(1, in_flight, 70, 100, true).unwrap();
            while in_flight < cwnd {
                in_flight += 1;
                sent += 1;
                prr.on_sent();
            }
        }
        assert_eq!(in_flight, 70);
        assert_eq!(sent, 70);
    }
}
