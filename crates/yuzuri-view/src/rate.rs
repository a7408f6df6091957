//! Throughput over the last second, from a counter of bytes.

use std::collections::VecDeque;

const SLOT_NS: u64 = 100_000_000;
const SLOTS: u64 = 10;

/// Turns a growing counter of bytes into bits per second over the last second.
#[derive(Debug, Clone, Default)]
pub(crate) struct RateMeter {
    /// (slot number, counter at the end of the slot), oldest first.
    slots: VecDeque<(u64, u64)>,
}

impl RateMeter {
    /// Records the counter's value at a time. Times must not go back by more than a slot; older
    /// ones are ignored.
    pub(crate) fn record(&mut self, mono_ns: u64, bytes: u64) {
        let slot = mono_ns / SLOT_NS;
        match self.slots.back_mut() {
            Some((last, _)) if slot < *last => {}
            Some((last, value)) if slot == *last => *value = bytes,
            _ => {
                self.slots.push_back((slot, bytes));
                while self.slots.len() as u64 > SLOTS + 2 {
                    self.slots.pop_front();
                }
            }
        }
    }

    /// Bits per second over the second that ends now, including the current, unfinished slot.
    pub(crate) fn rate_bps(&self, now_ns: u64) -> f64 {
        let now_slot = now_ns / SLOT_NS;
        let from = now_slot.saturating_sub(SLOTS);
        let Some(&(_, newest)) = self.slots.back() else { return 0.0 };
        // The counter at the end of slot `from`: the last record at or before it. A flow first seen
        // after that has only been watched since its first slot.
        let base = self.slots.iter().rev().find(|(slot, _)| *slot <= from);
        let (base_slot, base_bytes) = match base {
            Some(&(_, bytes)) => (from, bytes),
            None => match self.slots.front() {
                Some(&(slot, bytes)) => (slot, bytes),
                None => return 0.0,
            },
        };
        let span_ns = now_ns.saturating_sub((base_slot + 1) * SLOT_NS).max(SLOT_NS);
        newest.saturating_sub(base_bytes) as f64 * 8e9 / span_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_flow_shows_its_rate_and_falls_to_zero_when_it_stops() {
        let mut meter = RateMeter::default();
        // 1 250 bytes each millisecond: 10 Mbit/s.
        for ms in 0..3000u64 {
            meter.record(ms * 1_000_000, ms * 1250);
        }
        let rate = meter.rate_bps(3_000_000_000);
        assert!((rate / 10e6 - 1.0).abs() < 0.02, "{rate}");
        assert!(meter.rate_bps(3_500_000_000) < 0.6 * rate);
        assert_eq!(meter.rate_bps(4_200_000_000), 0.0);
    }

    #[test]
    fn what_was_sent_before_the_first_tick_does_not_count() {
        let mut meter = RateMeter::default();
        meter.record(5_000_000_000, 1_000_000_000);
        assert_eq!(meter.rate_bps(5_050_000_000), 0.0);
    }
}
