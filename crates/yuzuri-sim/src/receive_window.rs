//! The advertised receive window while receive buffer auto-tuning follows the application's reads
//! (`tcp_rcv_space_adjust`, `tcp_grow_window`).

use crate::segment::MSS_BYTES;
use crate::units::{MILLISECOND, nanos_between};
use yuzuri_netmodel::Time;

const MSS: u64 = MSS_BYTES as u64;
/// Initial and maximum receive buffer, bytes (`net.ipv4.tcp_rmem`). Half of it is for payload
/// (`tcp_adv_win_scale` of 1).
const BUFFER_FIRST: u64 = 131_072;
const MAX_BUFFER_BYTES: u64 = 6_291_456;
/// Initial advertised window: whole segments in half the buffer.
const OFFERED_FIRST: u64 = BUFFER_FIRST / 2 / MSS * MSS;
/// Initial value of the bytes read per round trip: the sender's initial window.
const READ_FIRST: u64 = 10 * MSS;
/// Memory per segment in the kernel's buffer estimate, and memory of a segment in the out-of-order
/// queue, bytes (`rcvmem`, `skb->truesize`).
const MEMORY_PER_SEGMENT: u64 = 2984;
const TRUE_SIZE: u64 = 2304;

/// The state of a receiver's buffer, bytes.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveWindow {
    buffer: u64,
    /// Upper limit of the advertised window (`window_clamp`), and the window itself
    /// (`rcv_ssthresh`).
    clamp: u64,
    offered: u64,
    /// Bytes read in the last round trip (`rcvq_space`).
    read: u64,
    read_before: u64,
    measured_at: Time,
    /// Receiver-side RTT estimate, eighths of a ms, and the timestamp of the last sample
    /// (`rcv_rtt_est`).
    rtt_eighths: u64,
    last_echo_ms: u64,
}

impl ReceiveWindow {
    pub(crate) fn new() -> ReceiveWindow {
        ReceiveWindow {
            buffer: BUFFER_FIRST,
            clamp: BUFFER_FIRST / 2,
            offered: OFFERED_FIRST,
            read: READ_FIRST,
            read_before: 0,
            measured_at: Time::ZERO,
            rtt_eighths: 0,
            last_echo_ms: 0,
        }
    }

    /// Bytes free for payload while `waiting` segments are in the out-of-order queue.
    fn free(&self, waiting: u32) -> u64 {
        self.buffer.saturating_sub(u64::from(waiting) * TRUE_SIZE) / 2
    }

    /// Takes an RTT sample from a full segment; `echo` is its timestamp echo reply. One sample per
    /// timestamp value (`tcp_rcv_rtt_measure_ts`).
    pub(crate) fn sample(&mut self, now: Time, echo: Time) {
        let echo_ms = echo.as_nanos() / MILLISECOND;
        if echo_ms == self.last_echo_ms {
            return;
        }
        self.last_echo_ms = echo_ms;
        let rtt_ms = (now.as_nanos() / MILLISECOND).saturating_sub(echo_ms).max(1);
        self.rtt_eighths = match self.rtt_eighths {
            0 => rtt_ms << 3,
            before => before + rtt_ms - (before >> 3),
        };
    }

    /// Grows the window on a segment's arrival. Returns whether it grew; the segment is then
    /// acknowledged immediately.
    pub(crate) fn grow(&mut self, waiting: u32) -> bool {
        let room = self.clamp.min(self.free(waiting)).saturating_sub(self.offered);
        self.offered += room.min(2 * MSS);
        room > 0
    }

    /// The application has read `bytes` in total.
    pub(crate) fn read(&mut self, now: Time, bytes: u64) {
        if self.measured_at == Time::ZERO {
            self.measured_at = now;
        }
        let rtt_ns = (self.rtt_eighths >> 3) * MILLISECOND;
        if rtt_ns == 0 || nanos_between(now, self.measured_at) < rtt_ns {
            return;
        }
        let copied = bytes - self.read_before;
        if copied > self.read {
            // Twice the bytes read, to survive losses, plus twice the sender's relative growth in a
            // round trip.
            let base = 2 * copied + 16 * MSS;
            let wanted = base + 2 * (base * (copied - self.read) / self.read);
            let buffer = (wanted / MSS * MEMORY_PER_SEGMENT).min(MAX_BUFFER_BYTES);
            if buffer > self.buffer {
                self.buffer = buffer;
                self.clamp = buffer / 2;
            }
            self.read = copied;
        }
        self.read_before = bytes;
        self.measured_at = now;
    }

    /// The advertised window, whole segments.
    pub(crate) fn segments(&self, waiting: u32) -> u32 {
        (self.offered.min(self.free(waiting)) / MSS) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_stays_ahead_of_slow_start() {
        let mut window = ReceiveWindow::new();
        assert_eq!(window.segments(0), 45);
        let (mut received, mut cwnd) = (0, 10);
        for round in 1..=8_u64 {
            for n in 0..cwnd {
                received += MSS;
                window.grow(0);
                let ms = |ms: u64| Time::from_nanos(ms * MILLISECOND);
                let now = round * 50 + n * 40 / cwnd;
                window.sample(ms(now), ms(now - 49));
                window.read(ms(now), received);
            }
            cwnd *= 2;
            if round >= 3 {
                assert!(u64::from(window.segments(0)) > cwnd / 2, "round {round}: {}", window.segments(0));
            }
        }
        assert!(window.buffer <= MAX_BUFFER_BYTES);
    }

    #[test]
    fn what_waits_out_of_order_takes_room() {
        let window = ReceiveWindow::new();
        assert!(window.segments(30) < window.segments(0));
        assert_eq!(window.segments(60), 0);
    }
}
