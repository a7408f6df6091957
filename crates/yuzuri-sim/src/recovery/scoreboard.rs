//! What is outstanding: one record per segment between the first not acknowledged and the next to send.

use crate::cc::LostSegment;
use crate::units::after;
use std::collections::VecDeque;
use yuzuri_netmodel::Time;

/// A segment that was sent and is not yet acknowledged (`struct tcp_skb_cb`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outstanding {
    /// When it was sent last.
    pub(crate) sent_at: Time,
    /// What it was sent on: the count of acknowledgements and timers handled. Tells what was sent first where many acknowledgements arrive in one
    /// aggregate and so at the same instant; in the kernel they are some µs apart.
    pub(crate) sent_on: u64,
    /// State of the delivery count when it was sent last (delivery-rate estimation).
    pub(crate) first_sent_at: Time,
    pub(crate) delivered_at: Time,
    pub(crate) delivered: u64,
    pub(crate) payload_bytes: u16,
    pub(crate) app_limited: bool,
    /// In flight right after it was sent last, and what had been marked lost by then (BBR v3).
    pub(crate) tx_in_flight: u32,
    pub(crate) lost_before: u64,
    pub(crate) sacked: bool,
    pub(crate) lost: bool,
    /// A retransmission of it is in the network.
    pub(crate) retransmitted: bool,
    /// It was retransmitted at least once.
    pub(crate) ever_retransmitted: bool,
}

/// The retransmission queue, its counts (`packets_out`, `sacked_out`, `lost_out`, `retrans_out`) and the order of sending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    una: u32,
    queue: VecDeque<Outstanding>,
    pub(crate) sacked_out: u32,
    pub(crate) lost_out: u32,
    pub(crate) retrans_out: u32,
    /// The highest segment sacked plus one.
    pub(crate) highest_sacked: u32,
    /// No lost segment below it waits for retransmission.
    hint: u32,
    /// Segments in the order they were sent last (`tsorted_sent_queue`). Entries of acknowledged or re-sent segments are stale and skipped.
    by_time: VecDeque<(u32, u64)>,
    /// Marked lost and not yet taken.
    newly_lost: Vec<LostSegment>,
}

fn lost_segment(segment: &Outstanding) -> LostSegment {
    LostSegment {
        tx_in_flight: segment.tx_in_flight,
        lost_before: segment.lost_before,
        app_limited: segment.app_limited,
    }
}

impl Scoreboard {
    /// First segment not acknowledged.
    pub(crate) fn una(&self) -> u32 {
        self.una
    }

    /// The next segment to send.
    pub(crate) fn next(&self) -> u32 {
        self.una + self.packets_out()
    }

    pub(crate) fn packets_out(&self) -> u32 {
        self.queue.len() as u32
    }

    /// `tcp_packets_in_flight`
    pub(crate) fn in_flight(&self) -> u32 {
        self.packets_out() + self.retrans_out - self.sacked_out - self.lost_out
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Outstanding> {
        self.queue.get(number.checked_sub(self.una)? as usize)
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Outstanding> {
        self.queue.get_mut(number.checked_sub(self.una)? as usize)
    }

    pub(crate) fn head(&self) -> Option<&Outstanding> {
        self.queue.front()
    }

    /// A new segment leaves.
    pub(crate) fn push(&mut self, segment: Outstanding) {
        self.by_time.push_back((self.next(), segment.sent_on));
        self.queue.push_back(segment);
    }

    /// `number` is sent again; `stamp` sets the stamps of the sending.
    pub(crate) fn retransmit(&mut self, number: u32, stamp: impl FnOnce(&mut Outstanding)) {
        let Some(segment) = self.get_mut(number) else { return };
        stamp(segment);
        let (again, sent_on) = (!segment.retransmitted, segment.sent_on);
        segment.retransmitted = true;
        segment.ever_retransmitted = true;
        self.retrans_out += u32::from(again);
        self.by_time.push_back((number, sent_on));
    }

    /// Removes the head, acknowledged cumulatively.
    pub(crate) fn pop(&mut self) -> Option<Outstanding> {
        let segment = self.queue.pop_front()?;
        self.una += 1;
        self.sacked_out -= u32::from(segment.sacked);
        self.lost_out -= u32::from(segment.lost);
        self.retrans_out -= u32::from(segment.retransmitted);
        Some(segment)
    }

    /// Marks `number` as sacked; returns what was known of it before, if it was not sacked yet.
    pub(crate) fn sack(&mut self, number: u32) -> Option<Outstanding> {
        let segment = self.get_mut(number).filter(|segment| !segment.sacked)?;
        let before = *segment;
        segment.sacked = true;
        segment.lost = false;
        segment.retransmitted = false;
        self.sacked_out += 1;
        self.lost_out -= u32::from(before.lost);
        self.retrans_out -= u32::from(before.retransmitted);
        self.highest_sacked = self.highest_sacked.max(number + 1);
        Some(before)
    }

    /// Marks `number` as lost, and its retransmission, if there is one. Returns whether that is news.
    pub(crate) fn mark_lost(&mut self, number: u32) -> bool {
        let Some(segment) = self.get_mut(number).filter(|segment| !segment.sacked) else { return false };
        let (newly, again) = (!segment.lost, segment.retransmitted);
        let record = lost_segment(segment);
        segment.lost = true;
        segment.retransmitted = false;
        self.lost_out += u32::from(newly);
        self.retrans_out -= u32::from(again);
        if newly || again {
            self.newly_lost.push(record);
            self.hint = self.hint.min(number);
        }
        newly || again
    }

    /// Marks as lost what was never marked and has at least `threshold` sacked segments behind it (RFC 6675, `IsLost`). Returns how many.
    pub(crate) fn mark_lost_by_sacks(&mut self, threshold: u32) -> u32 {
        let mut behind = self.sacked_out;
        let (mut lost, mut first) = (0, None);
        for (n, segment) in self.queue.iter_mut().enumerate() {
            if behind < threshold {
                break;
            }
            if segment.sacked {
                behind -= 1;
            } else if !segment.lost {
                segment.lost = true;
                self.newly_lost.push(lost_segment(segment));
                lost += 1;
                first.get_or_insert(self.una + n as u32);
            }
        }
        self.lost_out += lost;
        self.hint = first.map_or(self.hint, |first| self.hint.min(first));
        lost
    }

    /// What was marked lost since this was asked last.
    pub(crate) fn take_newly_lost(&mut self) -> Vec<LostSegment> {
        std::mem::take(&mut self.newly_lost)
    }

    /// Takes back all marks of loss (`tcp_undo_cwnd_reduction`).
    pub(crate) fn unmark_lost(&mut self) {
        for segment in &mut self.queue {
            segment.lost = false;
        }
        self.lost_out = 0;
    }

    /// After a timeout: everything that was not sacked is lost, except what was sent less than `settled_ns` before `now`, bar the head
    /// (`tcp_timeout_mark_lost`).
    pub(crate) fn mark_all_lost(&mut self, now: Time, settled_ns: u64) {
        let una = self.una;
        // A head that was sacked means the receiver reneged: then no SACK counts any more.
        let reneged = self.queue.front().is_some_and(|head| head.sacked);
        for (n, segment) in self.queue.iter_mut().enumerate() {
            if reneged && segment.sacked {
                segment.sacked = false;
                self.sacked_out -= 1;
            }
            if segment.sacked || (n > 0 && after(segment.sent_at, settled_ns) > now) {
                continue;
            }
            if !segment.lost {
                self.lost_out += 1;
                self.newly_lost.push(lost_segment(segment));
            }
            self.retrans_out -= u32::from(segment.retransmitted);
            segment.lost = true;
            segment.retransmitted = false;
        }
        self.hint = una;
    }

    /// The first lost segment that waits for retransmission.
    pub(crate) fn next_lost(&mut self) -> Option<u32> {
        if self.lost_out <= self.retrans_out {
            return None;
        }
        self.hint = self.hint.max(self.una);
        let from = (self.hint - self.una) as usize;
        let found =
            self.queue.range(from.min(self.queue.len())..).position(|s| s.lost && !s.retransmitted)?;
        self.hint += found as u32;
        Some(self.hint)
    }

    /// Walks the segments sent before `newest` (what it was sent on, and its number) in the order of sending, while they are neither acknowledged nor lost and
    /// waiting. `judge` says whether one is lost. Returns those found lost.
    pub(crate) fn sent_before(
        &mut self,
        newest: (u64, u32),
        mut judge: impl FnMut(Time) -> bool,
    ) -> Vec<u32> {
        let mut lost = Vec::new();
        let mut front = true;
        let mut at = 0;
        while let Some(&(number, sent_on)) = self.by_time.get(at) {
            let current = self
                .get(number)
                .filter(|s| s.sent_on == sent_on && !s.sacked && (!s.lost || s.retransmitted))
                .map(|s| s.sent_at);
            if let Some(sent_at) = current {
                if (sent_on, number) >= newest {
                    break;
                }
                if judge(sent_at) {
                    lost.push(number);
                } else {
                    front = false;
                }
            }
            if front {
                self.by_time.pop_front();
            } else {
                at += 1;
            }
        }
        for &number in &lost {
            self.mark_lost(number);
        }
        lost
    }
}
