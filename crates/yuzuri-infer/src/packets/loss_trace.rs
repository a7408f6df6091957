//! What is visible of a window away from the sender and without timestamps: only losses link
//! acknowledgements to data.
//!
//! A sender retransmits missing data as soon as it learns about it. Data that arrives before the
//! retransmission was in flight at that time.

use crate::window_trace::{Cause, LossTrace, ObservedLoss};

/// Acknowledgements kept: beyond that, every second one is dropped.
const MAX_ACKED: usize = 1 << 17;
/// Holes remembered.
const MAX_MISSING: usize = 256;
/// Segments behind a hole from which on it is a loss (`TCP_REORDERING`): a hole filled earlier was
/// reordering.
const REORDERED: u64 = 3;
/// Segments beyond the window that a sender sends on the first two duplicate acknowledgements (RFC
/// 3042).
const LIMITED_TRANSMIT: f32 = 2.0;
/// A later retransmission was made by a retransmission timeout (`TCP_RTO_MIN`), not in fast
/// recovery.
const MIN_RTO_NS: i64 = 200_000_000;

/// A hole that is not filled.
#[derive(Clone, Copy, Debug)]
struct Open {
    hole: u64,
    /// When the hole was noticed, and when the segment arrived that shows a loss.
    seen_ns: i64,
    lost_ns: Option<i64>,
    /// Segments behind it.
    behind: u64,
    /// Highest position when it was first filled; 0 before.
    until: u64,
    before: f32,
    cause: Cause,
}

/// Collects the visible parts of a window.
#[derive(Clone, Debug, Default)]
pub(super) struct Collector {
    loss_trace: LossTrace,
    high: u64,
    /// Missing ranges with later data beyond them, from and to.
    missing: Vec<(u64, u64)>,
    open: Option<Open>,
    /// The last hole that was filled.
    over: Option<Open>,
    every: u32,
    left_out: u32,
    rtt_ns: i64,
}

impl Collector {
    /// `rtt_us`: the handshake's round-trip time.
    pub(super) fn new(rtt_us: u32) -> Collector {
        Collector { rtt_ns: i64::from(rtt_us) * 1000, every: 1, ..Collector::default() }
    }

    /// Data passed, from and to.
    pub(super) fn data(&mut self, (start, end): (u64, u64), now: i64, mss: u32) {
        let mss = u64::from(mss.max(1));
        if self.high == 0 {
            self.high = start;
            self.loss_trace.begin = (now.saturating_sub(self.rtt_ns), start);
        }
        let open = &mut self.open;
        if start > self.high && self.missing.len() < MAX_MISSING {
            self.missing.push((self.high, start));
        } else if start < self.high {
            let rests = |(from, to): (u64, u64)| [(from, to.min(start)), (from.max(end), to)];
            self.missing =
                self.missing.iter().flat_map(|hole| rests(*hole)).filter(|(from, to)| from < to).collect();
        }
        if start > self.high && open.is_none() && self.over.is_some_and(|over| over.until == self.high) {
            *open = self.over.take();
            self.loss_trace.losses.pop();
        }
        if let Some(hole) = open
            && start > self.high
            && hole.until == self.high
        {
            // Nothing arrived since the retransmission: the end of the earlier flight was lost,
            // too, and belongs to the same recovery.
            hole.until = start;
            if hole.before > 0.0 {
                hole.before += (start - self.high) as f32 / mss as f32;
            }
        }
        if start > self.high && open.is_none() {
            *open = Some(Open {
                hole: self.high,
                seen_ns: now,
                lost_ns: None,
                behind: 0,
                until: 0,
                before: 0.0,
                cause: Cause::Recovery,
            });
        }
        if let Some(hole) = open {
            if start >= self.high {
                hole.behind += (end - start).div_ceil(mss);
                if hole.behind >= REORDERED {
                    hole.lost_ns.get_or_insert(now);
                }
            } else if hole.until == 0 {
                let Some(lost_ns) = hole.lost_ns else {
                    // The segment was only reordered.
                    *open = None;
                    return;
                };
                hole.until = self.high;
                hole.before = (self.high - hole.hole) as f32 / mss as f32 - LIMITED_TRANSMIT;
                // A longer queueing delay looks like a timeout: the window is not used.
                if now.saturating_sub(lost_ns) > MIN_RTO_NS.max(self.rtt_ns) + 2 * self.rtt_ns {
                    hole.cause = Cause::Timeout;
                }
            }
        }
        self.high = self.high.max(end);
    }

    /// Everything up to this position has arrived.
    pub(super) fn acknowledged(&mut self, place: u64, now: i64) {
        if place > self.loss_trace.acked.last().map_or(0, |(_, last)| *last) {
            self.left_out += 1;
            if self.left_out >= self.every {
                self.left_out = 0;
                self.loss_trace.acked.push((now, place));
            }
            if self.loss_trace.acked.len() >= MAX_ACKED {
                let mut place = 0;
                self.loss_trace.acked.retain(|_| {
                    place += 1;
                    place % 2 == 0
                });
                self.every *= 2;
            }
        }
        let Some(open) = self.open.filter(|open| open.until > 0 && place >= open.until) else { return };
        self.over = Some(open);
        let Open { hole, lost_ns, before, cause, seen_ns, .. } = open;
        let at_ns = lost_ns.unwrap_or(seen_ns);
        self.loss_trace.losses.push(ObservedLoss { at_ns, hole, before, cause, over_ns: now, until: place });
        // More was lost meanwhile: the window of that recovery is not seen.
        self.missing.retain(|(_, to)| *to > place);
        self.open = self.missing.first().map(|(hole, _)| Open {
            hole: *hole,
            seen_ns: now,
            lost_ns: Some(now),
            behind: REORDERED,
            until: self.high,
            before: 0.0,
            cause: Cause::Recovery,
        });
    }

    pub(super) fn finish(self) -> LossTrace {
        self.loss_trace
    }
}
