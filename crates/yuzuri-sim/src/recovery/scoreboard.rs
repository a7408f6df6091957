//! The scoreboard: one record per outstanding segment.

use crate::cc::LostSegment;
use crate::units::after;
use std::collections::VecDeque;
use yuzuri_netmodel::Time;

/// A segment sent and not yet cumulatively acknowledged (`struct tcp_skb_cb`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outstanding {
    /// Time of the last transmission.
    pub(crate) sent_at: Time,
    /// Send epoch of the last transmission: the number of ACKs and timers handled before it. It
    /// orders transmissions when an aggregate delivers many ACKs at the same instant; in the kernel
    /// these are a few µs apart.
    pub(crate) send_epoch: u64,
    /// Delivery state at the last transmission (delivery rate estimation).
    pub(crate) first_sent_at: Time,
    pub(crate) delivered_at: Time,
    pub(crate) delivered: u64,
    pub(crate) payload_bytes: u16,
    pub(crate) app_limited: bool,
    /// Segments in flight after the last transmission, and segments marked lost before it (BBRv3).
    pub(crate) tx_in_flight: u32,
    pub(crate) lost_before: u64,
    pub(crate) sacked: bool,
    pub(crate) lost: bool,
    /// A retransmission is in flight.
    pub(crate) retransmitted: bool,
    /// The segment has been retransmitted at least once.
    pub(crate) ever_retransmitted: bool,
}

/// The retransmission queue, its counters (`packets_out`, `sacked_out`, `lost_out`, `retrans_out`)
/// and the transmission order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    snd_una: u32,
    rtx_queue: VecDeque<Outstanding>,
    pub(crate) sacked_out: u32,
    pub(crate) lost_out: u32,
    pub(crate) retrans_out: u32,
    /// One past the highest sacked segment.
    pub(crate) highest_sacked: u32,
    /// No lost segment below this one awaits retransmission.
    retransmit_hint: u32,
    /// Segments by time of last transmission (`tsorted_sent_queue`). Entries of acknowledged or
    /// retransmitted segments are stale and skipped.
    tsorted: VecDeque<(u32, u64)>,
    /// Segments marked lost since the last [`take_newly_lost`](Scoreboard::take_newly_lost).
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
    /// The first unacknowledged segment (SND.UNA).
    pub(crate) fn snd_una(&self) -> u32 {
        self.snd_una
    }

    /// The next segment to send (SND.NXT).
    pub(crate) fn snd_nxt(&self) -> u32 {
        self.snd_una + self.packets_out()
    }

    pub(crate) fn packets_out(&self) -> u32 {
        self.rtx_queue.len() as u32
    }

    /// `tcp_packets_in_flight`
    pub(crate) fn in_flight(&self) -> u32 {
        self.packets_out() + self.retrans_out - self.sacked_out - self.lost_out
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Outstanding> {
        self.rtx_queue.get(number.checked_sub(self.snd_una)? as usize)
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Outstanding> {
        self.rtx_queue.get_mut(number.checked_sub(self.snd_una)? as usize)
    }

    pub(crate) fn head(&self) -> Option<&Outstanding> {
        self.rtx_queue.front()
    }

    /// Appends a newly sent segment.
    pub(crate) fn push(&mut self, segment: Outstanding) {
        self.tsorted.push_back((self.snd_nxt(), segment.send_epoch));
        self.rtx_queue.push_back(segment);
    }

    /// Records a retransmission of `number`; `stamp` updates its send stamps.
    pub(crate) fn retransmit(&mut self, number: u32, stamp: impl FnOnce(&mut Outstanding)) {
        let Some(segment) = self.get_mut(number) else { return };
        stamp(segment);
        let (newly, send_epoch) = (!segment.retransmitted, segment.send_epoch);
        segment.retransmitted = true;
        segment.ever_retransmitted = true;
        self.retrans_out += u32::from(newly);
        self.tsorted.push_back((number, send_epoch));
    }

    /// Removes the cumulatively acknowledged head.
    pub(crate) fn pop(&mut self) -> Option<Outstanding> {
        let segment = self.rtx_queue.pop_front()?;
        self.snd_una += 1;
        self.sacked_out -= u32::from(segment.sacked);
        self.lost_out -= u32::from(segment.lost);
        self.retrans_out -= u32::from(segment.retransmitted);
        Some(segment)
    }

    /// Marks `number` as sacked. Returns its previous record if it was not yet sacked.
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

    /// Marks `number` as lost, or its retransmission if one is in flight. Returns whether the mark
    /// is new.
    pub(crate) fn mark_lost(&mut self, number: u32) -> bool {
        let Some(segment) = self.get_mut(number).filter(|segment| !segment.sacked) else { return false };
        let (newly, retransmission) = (!segment.lost, segment.retransmitted);
        let record = lost_segment(segment);
        segment.lost = true;
        segment.retransmitted = false;
        self.lost_out += u32::from(newly);
        self.retrans_out -= u32::from(retransmission);
        if newly || retransmission {
            self.newly_lost.push(record);
            self.retransmit_hint = self.retransmit_hint.min(number);
        }
        newly || retransmission
    }

    /// Marks segments lost that have at least `threshold` sacked segments above them (RFC 6675,
    /// `IsLost`). Returns the number of newly marked segments.
    pub(crate) fn mark_lost_by_sacks(&mut self, threshold: u32) -> u32 {
        let mut sacked_above = self.sacked_out;
        let (mut lost, mut first) = (0, None);
        for (n, segment) in self.rtx_queue.iter_mut().enumerate() {
            if sacked_above < threshold {
                break;
            }
            if segment.sacked {
                sacked_above -= 1;
            } else if !segment.lost {
                segment.lost = true;
                self.newly_lost.push(lost_segment(segment));
                lost += 1;
                first.get_or_insert(self.snd_una + n as u32);
            }
        }
        self.lost_out += lost;
        self.retransmit_hint = first.map_or(self.retransmit_hint, |first| self.retransmit_hint.min(first));
        lost
    }

    /// Takes the segments marked lost since the last call.
    pub(crate) fn take_newly_lost(&mut self) -> Vec<LostSegment> {
        std::mem::take(&mut self.newly_lost)
    }

    /// Clears all loss marks (`tcp_undo_cwnd_reduction`).
    pub(crate) fn clear_loss_marks(&mut self) {
        for segment in &mut self.rtx_queue {
            segment.lost = false;
        }
        self.lost_out = 0;
    }

    /// Marks all unsacked segments lost after an RTO, except those sent less than `min_age_ns`
    /// before `now`. The head is always marked (`tcp_timeout_mark_lost`).
    pub(crate) fn timeout_mark_lost(&mut self, now: Time, min_age_ns: u64) {
        // A sacked head means that the receiver reneged: discard all SACK information.
        let reneged = self.rtx_queue.front().is_some_and(|head| head.sacked);
        for (n, segment) in self.rtx_queue.iter_mut().enumerate() {
            if reneged && segment.sacked {
                segment.sacked = false;
                self.sacked_out -= 1;
            }
            if segment.sacked || (n > 0 && after(segment.sent_at, min_age_ns) > now) {
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
        self.retransmit_hint = self.snd_una;
    }

    /// The first lost segment that awaits retransmission.
    pub(crate) fn next_lost(&mut self) -> Option<u32> {
        if self.lost_out <= self.retrans_out {
            return None;
        }
        self.retransmit_hint = self.retransmit_hint.max(self.snd_una);
        let from = (self.retransmit_hint - self.snd_una) as usize;
        let found = self
            .rtx_queue
            .range(from.min(self.rtx_queue.len())..)
            .position(|s| s.lost && !s.retransmitted)?;
        self.retransmit_hint += found as u32;
        Some(self.retransmit_hint)
    }

    /// Walks the segments transmitted before `latest` (send epoch and number) in transmission
    /// order. Skips segments that are acknowledged, or lost and awaiting retransmission. Marks and
    /// returns those for which `is_lost` returns true.
    pub(crate) fn mark_lost_sent_before(
        &mut self,
        newest: (u64, u32),
        mut is_lost: impl FnMut(Time) -> bool,
    ) -> Vec<u32> {
        let mut lost = Vec::new();
        let mut at_front = true;
        let mut index = 0;
        while let Some(&(number, send_epoch)) = self.tsorted.get(index) {
            let current = self
                .get(number)
                .filter(|s| s.send_epoch == send_epoch && !s.sacked && (!s.lost || s.retransmitted))
                .map(|s| s.sent_at);
            if let Some(sent_at) = current {
                if (send_epoch, number) >= newest {
                    break;
                }
                if is_lost(sent_at) {
                    lost.push(number);
                } else {
                    at_front = false;
                }
            }
            if at_front {
                self.tsorted.pop_front();
            } else {
                index += 1;
            }
        }
        for &number in &lost {
            self.mark_lost(number);
        }
        lost
    }
}
