//! The advertised receive window while receive buffer auto-tuning follows the application's reads
//! (`tcp_rcv_space_adjust`, `tcp_grow_window`).

use crate::segment::MSS_BYTES;
use crate::units::{MILLISECOND, nanos_between};
use yuzuri_netmodel::Time;

const MSS: u64 = MSS_BYTES as u64;
/// Initial and maximum receive buffer, bytes (`net.ipv4.tcp_rmem`). Half of it is for payload
/// (`tcp_adv_win_scale` of 1).
const INITIAL_BUFFER_BYTES: u64 = 131_072;
const MAX_BUFFER_BYTES: u64 = 6_291_456;
/// Initial advertised window: whole segments in half the buffer.
const INITIAL_RCV_WND_BYTES: u64 = INITIAL_BUFFER_BYTES / 2 / MSS * MSS;
/// Initial value of the bytes read per round trip: the sender's initial window.
const INITIAL_RCVQ_SPACE_BYTES: u64 = 10 * MSS;
/// Memory per segment in the kernel's buffer estimate, and memory of a segment in the out-of-order
/// queue, bytes (`rcvmem`, `skb->truesize`).
const RCVMEM_BYTES: u64 = 2984;
const TRUESIZE_BYTES: u64 = 2304;

/// The state of a receiver's buffer, bytes.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveWindow {
    rcvbuf: u64,
    /// Upper limit of the advertised window (`window_clamp`), and the window itself
    /// (`rcv_ssthresh`).
    window_clamp: u64,
    rcv_ssthresh: u64,
    /// Bytes read in the last round trip (`rcvq_space`).
    rcvq_space: u64,
    copied_before: u64,
    measured_at: Time,
    /// Receiver-side RTT estimate, eighths of a ms, and the timestamp of the last sample
    /// (`rcv_rtt_est`).
    rtt_eighths: u64,
    last_tsecr_ms: u64,
}

impl ReceiveWindow {
    pub(crate) fn new() -> ReceiveWindow {
        ReceiveWindow {
            rcvbuf: INITIAL_BUFFER_BYTES,
            window_clamp: INITIAL_BUFFER_BYTES / 2,
            rcv_ssthresh: INITIAL_RCV_WND_BYTES,
            rcvq_space: INITIAL_RCVQ_SPACE_BYTES,
            copied_before: 0,
            measured_at: Time::ZERO,
            rtt_eighths: 0,
            last_tsecr_ms: 0,
        }
    }

    /// Bytes free for payload while `ooo_segments` segments are in the out-of-order queue.
    fn free(&self, ooo_segments: u32) -> u64 {
        self.rcvbuf.saturating_sub(u64::from(ooo_segments) * TRUESIZE_BYTES) / 2
    }

    /// Takes an RTT sample from a full segment; `tsecr` is its timestamp echo reply. One sample per
    /// timestamp value (`tcp_rcv_rtt_measure_ts`).
    pub(crate) fn rtt_sample(&mut self, now: Time, tsecr: Time) {
        let tsecr_ms = tsecr.as_nanos() / MILLISECOND;
        if tsecr_ms == self.last_tsecr_ms {
            return;
        }
        self.last_tsecr_ms = tsecr_ms;
        let rtt_ms = (now.as_nanos() / MILLISECOND).saturating_sub(tsecr_ms).max(1);
        self.rtt_eighths = match self.rtt_eighths {
            0 => rtt_ms << 3,
            before => before + rtt_ms - (before >> 3),
        };
    }

    /// Grows the window on a segment's arrival. Returns whether it grew; the segment is then
    /// acknowledged immediately.
    pub(crate) fn grow(&mut self, ooo_segments: u32) -> bool {
        let room = self.window_clamp.min(self.free(ooo_segments)).saturating_sub(self.rcv_ssthresh);
        self.rcv_ssthresh += room.min(2 * MSS);
        room > 0
    }

    /// The application has read `bytes` in total.
    pub(crate) fn on_read(&mut self, now: Time, bytes: u64) {
        if self.measured_at == Time::ZERO {
            self.measured_at = now;
        }
        let rtt_ns = (self.rtt_eighths >> 3) * MILLISECOND;
        if rtt_ns == 0 || nanos_between(now, self.measured_at) < rtt_ns {
            return;
        }
        let copied = bytes - self.copied_before;
        if copied > self.rcvq_space {
            // Twice the bytes read, to survive losses, plus twice the sender's relative growth in a
            // round trip.
            let base = 2 * copied + 16 * MSS;
            let wanted = base + 2 * (base * (copied - self.rcvq_space) / self.rcvq_space);
            let rcvbuf = (wanted / MSS * RCVMEM_BYTES).min(MAX_BUFFER_BYTES);
            if rcvbuf > self.rcvbuf {
                self.rcvbuf = rcvbuf;
                self.window_clamp = rcvbuf / 2;
            }
            self.rcvq_space = copied;
        }
        self.copied_before = bytes;
        self.measured_at = now;
    }

    /// The advertised window, whole segments.
    pub(crate) fn advertised_segments(&self, ooo_segments: u32) -> u32 {
        (self.rcv_ssthresh.min(self.free(ooo_segments)) / MSS) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_stays_ahead_of_slow_start() {
        let mut window = ReceiveWindow::new();
        assert_eq!(window.advertised_segments(0), 45);
        let (mut received, mut cwnd) = (0, 10);
        for round in 1..=8_u64 {
            for n in 0..cwnd {
                received += MSS;
                window.grow(0);
                let ms = |ms: u64| Time::from_nanos(ms * MILLISECOND);
                let now = round * 50 + n * 40 / cwnd;
                window.rtt_sample(ms(now), ms(now - 49));
                window.on_read(ms(now), received);
            }
            cwnd *= 2;
            if round >= 3 {
                assert!(
                    u64::from(window.advertised_segments(0)) > cwnd / 2,
                    "round {round}: {}",
                    window.advertised_segments(0)
                );
            }
        }
        assert!(window.rcvbuf <= MAX_BUFFER_BYTES);
    }

    #[test]
    fn out_of_order_segments_reduce_the_advertised_window() {
        let window = ReceiveWindow::new();
        assert!(window.advertised_segments(30) < window.advertised_segments(0));
        assert_eq!(window.advertised_segments(60), 0);
    }
}
