//! Proportional Rate Reduction (RFC 6937 with the slow-start reduction bound of
//! `tcp_cwnd_reduction`).

/// The state of a reduction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prr {
    delivered: u32,
    out: u32,
}

impl Prr {
    /// Starts a reduction.
    pub(crate) fn start(&mut self) {
        *self = Prr::default();
    }

    /// Counts a segment sent in recovery.
    pub(crate) fn sent(&mut self) {
        self.out += 1;
    }

    /// The window after `newly` segments were delivered. `no_loss`: the ACK advanced SND.UNA and no
    /// segment was marked lost.
    pub(crate) fn window(
        &mut self,
        newly: u32,
        in_flight: u32,
        ssthresh: u32,
        prior_cwnd: u32,
        no_loss: bool,
    ) -> Option<u32> {
        if newly == 0 || prior_cwnd == 0 {
            return None;
        }
        self.delivered += newly;
        let send = if in_flight > ssthresh {
            let due = (u64::from(ssthresh) * u64::from(self.delivered)).div_ceil(u64::from(prior_cwnd));
            (due as u32).saturating_sub(self.out)
        } else {
            let conserved = self.delivered.saturating_sub(self.out).max(newly) + u32::from(no_loss);
            conserved.min(ssthresh - in_flight)
        };
        // The fast retransmission is always sent.
        Some(in_flight + send.max(u32::from(self.out == 0)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sends_seven_for_ten_delivered() {
        let mut prr = Prr::default();
        prr.start();
        let (mut in_flight, mut sent) = (100_u32, 0);
        for _ in 0..100 {
            in_flight -= 1;
            let window = prr.window(1, in_flight, 70, 100, true).unwrap();
            while in_flight < window {
                in_flight += 1;
                sent += 1;
                prr.sent();
            }
        }
        assert_eq!(in_flight, 70);
        assert_eq!(sent, 70);
    }
}
