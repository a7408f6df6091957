//! The outstanding data, as in RFC 6675: what was sent, and which of it was selectively
//! acknowledged, lost or retransmitted.

use std::collections::VecDeque;

/// Outstanding segments tracked individually: a flow that claims more is hostile or fragmented.
const MAX_SEGMENTS: usize = 1 << 16;
/// Duplicate acknowledgements, or segments acknowledged above a hole, after which the hole counts
/// as lost (RFC 6675).
const DUP_THRESH: u64 = 3;

/// A transmission. Positions are 64-bit: sequence numbers without their wrap.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    at_ns: i64,
    bytes: u32,
    /// The sender's own clock at that time, ticks of its timestamps.
    stamp: u32,
    sacked: bool,
    lost: bool,
    again: bool,
    /// It was retransmitted: which transmission an acknowledgement answers is ambiguous (Karn).
    twice: bool,
    /// Lost upstream of the capture, or missed by it: only the hole shows it.
    unseen: bool,
}

impl Sent {
    fn new((start, end): (u64, u64), (at_ns, stamp): (i64, u32), unseen: bool) -> Sent {
        Sent {
            start,
            at_ns,
            bytes: (end - start) as u32,
            stamp,
            sacked: false,
            lost: false,
            again: false,
            twice: false,
            unseen,
        }
    }

    fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }

    fn end(&self) -> u64 {
        self.start + self.bytes()
    }
}

/// The effect of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acked {
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub bytes: u64,
    /// When the latest acknowledged segment was sent that was sent only once, by the capture's
    /// clock and by the sender's.
    pub sent: Option<(i64, u32)>,
    /// Bytes newly selectively acknowledged.
    pub sacked_bytes: u64,
}

/// How a segment relates to earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// New data.
    New,
    /// Data sent before, or whose hole was noticed long ago.
    Again,
    /// A hole filled late: the network reordered.
    Late,
}

/// Outstanding data by state, bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    sacked_bytes: u64,
    lost_bytes: u64,
    again_bytes: u64,
}

impl Sums {
    /// `bytes` of `s` arrived.
    fn arrived(&mut self, s: &Sent, bytes: u64, done: &mut Acked) {
        done.bytes += bytes;
        if s.lost {
            self.lost_bytes -= bytes;
        }
        if s.again {
            self.again_bytes -= bytes;
        }
        if !s.twice && !s.unseen {
            let sent = (s.at_ns, s.stamp);
            if done.sent.is_none_or(|latest| latest < sent) {
                done.sent = Some(sent);
            }
        }
    }

    /// `bytes` of `s` are no longer outstanding.
    fn forget(&mut self, s: &Sent, bytes: u64, done: &mut Acked) {
        if s.sacked {
            self.sacked_bytes -= bytes;
        } else {
            self.arrived(s, bytes, done);
        }
    }
}

/// The outstanding data of a sender.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    sent: VecDeque<Sent>,
    una: u64,
    nxt: u64,
    /// End of the highest selectively acknowledged block.
    high_sacked: u64,
    sums: Sums,
    /// Segments below this position were already checked for loss.
    loss_checked: u64,
    /// The blocks of the last acknowledgement that had any: their data is marked and is not
    /// examined again (`recv_sack_cache` of the kernel). Marks are never removed.
    known: Vec<(u64, u64)>,
}

impl Scoreboard {
    /// Begins at the first byte of data.
    pub(super) fn begin(&mut self, at: u64) {
        *self = Scoreboard { una: at, nxt: at, high_sacked: at, loss_checked: at, ..Scoreboard::default() };
    }

    pub(super) fn una(&self) -> u64 {
        self.una
    }

    pub(super) fn nxt(&self) -> u64 {
        self.nxt
    }

    pub(super) fn holds(&self) -> bool {
        !self.sent.is_empty()
    }

    pub(super) fn sacked_bytes(&self) -> u64 {
        self.sums.sacked_bytes
    }

    /// Bytes lost that have not arrived since, whether retransmitted or not (`lost_out` of the
    /// kernel).
    pub(super) fn lost_bytes(&self) -> u64 {
        self.sums.lost_bytes
    }

    /// Bytes believed to be in the network (`pipe` of RFC 6675).
    pub(super) fn in_flight(&self) -> u64 {
        (self.nxt - self.una + self.sums.again_bytes)
            .saturating_sub(self.sums.sacked_bytes + self.sums.lost_bytes)
    }

    /// Records that `start..end` was sent at a time by the capture's and by the sender's clock.
    /// `reorder_ns`: a hole filled within this time was only late.
    pub(super) fn send(
        &mut self,
        (start, end): (u64, u64),
        (at_ns, stamp): (i64, u32),
        reorder_ns: i64,
        mss_bytes: u64,
    ) -> Kind {
        if end > self.nxt {
            let from = start.max(self.nxt);
            self.miss(start, at_ns, mss_bytes);
            self.push((from, end), (at_ns, stamp), false, mss_bytes);
            self.nxt = end;
            return if start < from { Kind::Again } else { Kind::New };
        }
        let mut kind = Kind::Again;
        let first = self.sent.partition_point(|s| s.end() <= start);
        for s in self.sent.iter_mut().skip(first) {
            if s.start >= end {
                break;
            }
            if s.unseen {
                s.unseen = false;
                if at_ns - s.at_ns < reorder_ns && !s.lost {
                    kind = Kind::Late;
                }
            }
            if kind == Kind::Again && !s.sacked {
                if !s.lost {
                    s.lost = true;
                    self.sums.lost_bytes += s.bytes();
                }
                s.twice = true;
                if !s.again {
                    s.again = true;
                    self.sums.again_bytes += s.bytes();
                }
            }
            (s.at_ns, s.stamp) = (at_ns, stamp);
        }
        kind
    }

    /// Records that everything before `start` was sent, too, though it was not seen.
    pub(super) fn miss(&mut self, start: u64, at_ns: i64, mss_bytes: u64) {
        if start > self.nxt {
            self.push((self.nxt, start), (at_ns, 0), true, mss_bytes);
            self.nxt = start;
        }
    }

    /// Adds a range segment by segment: it may be a super-segment that the device splits, or a hole
    /// of several segments.
    #[inline]
    fn push(&mut self, (start, end): (u64, u64), at: (i64, u32), unseen: bool, mss_bytes: u64) {
        if end - start <= mss_bytes && self.sent.len() < MAX_SEGMENTS {
            self.sent.push_back(Sent::new((start, end), at, unseen));
        } else {
            self.push_several((start, end), at, unseen, mss_bytes);
        }
    }

    #[inline(never)]
    fn push_several(&mut self, (mut start, end): (u64, u64), at: (i64, u32), unseen: bool, mss_bytes: u64) {
        while start < end {
            if self.sent.len() >= MAX_SEGMENTS {
                // Merged into the last one: the flight stays correct, some round-trip times are
                // lost.
                if let Some(last) = self.sent.back_mut() {
                    let more = u32::try_from(end - start).unwrap_or(u32::MAX).min(u32::MAX - last.bytes);
                    if last.again {
                        self.sums.again_bytes += u64::from(more);
                    }
                    if last.lost {
                        self.sums.lost_bytes += u64::from(more);
                    }
                    if last.sacked {
                        self.sums.sacked_bytes += u64::from(more);
                    }
                    last.bytes += more;
                    last.twice = true;
                }
                return;
            }
            let to = end.min(start + mss_bytes.max(1));
            self.sent.push_back(Sent::new((start, to), at, unseen));
            start = to;
        }
    }

    /// `ack` and the blocks arrived at the sender.
    pub(super) fn acknowledge(&mut self, ack: u64, blocks: &[(u64, u64)], mss_bytes: u64) -> Acked {
        let mut done = Acked::default();
        let mut doubtful = false;
        let ack = ack.min(self.nxt);
        if ack > self.una {
            while let Some(s) = self.sent.front_mut() {
                if s.start >= ack {
                    break;
                }
                if s.end() > ack {
                    // Part of a super-segment, or of a hole.
                    let part = ack - s.start;
                    let kept = *s;
                    s.start = ack;
                    s.bytes -= part as u32;
                    doubtful |= kept.twice;
                    self.sums.forget(&kept, part, &mut done);
                    break;
                }
                let gone = *s;
                self.sent.pop_front();
                doubtful |= gone.twice;
                self.sums.forget(&gone, gone.bytes(), &mut done);
            }
            if doubtful {
                // As in the kernel: data held back behind a repaired hole yields no round-trip time
                // (`tcp_clean_rtx_queue`).
                done.sent = None;
            }
            self.una = ack;
            self.high_sacked = self.high_sacked.max(ack);
            self.loss_checked = self.loss_checked.max(ack);
        }
        let before = self.high_sacked;
        // Below: D-SACK (RFC 2883), handled by the caller. Above: not of this flow.
        let (una, nxt) = (self.una, self.nxt);
        let believed = |(start, end): &&(u64, u64)| start < end && *end <= nxt && *start >= una;
        for (start, end) in blocks.iter().filter(believed) {
            self.high_sacked = self.high_sacked.max(*end);
            let known = self.known.iter().find(|(from, to)| from < end && to > start);
            let (from, to) = *known.unwrap_or(&(*end, *end));
            self.sack((*start, *end), (*start, from), &mut done);
            self.sack((*start, *end), (to, *end), &mut done);
        }
        if !blocks.is_empty() {
            self.known.clear();
            self.known.extend(blocks.iter().filter(believed));
        }
        if self.high_sacked > before {
            self.mark_lost(mss_bytes);
        }
        done
    }

    /// Marks segments that lie entirely in a block, within the part that `from..to` touches.
    fn sack(&mut self, (start, end): (u64, u64), (from, to): (u64, u64), done: &mut Acked) {
        if from >= to {
            return;
        }
        let first = self.sent.partition_point(|s| s.end() <= from);
        for s in self.sent.iter_mut().skip(first) {
            if s.start >= to {
                break;
            }
            if s.sacked || s.start < start || s.end() > end {
                continue;
            }
            let bytes = s.bytes();
            self.sums.arrived(s, bytes, done);
            (s.sacked, s.lost, s.again) = (true, false, false);
            self.sums.sacked_bytes += bytes;
            done.sacked_bytes += bytes;
        }
    }

    /// Holes below three selectively acknowledged segments are lost.
    fn mark_lost(&mut self, mss_bytes: u64) {
        let to = self.high_sacked.saturating_sub(DUP_THRESH * mss_bytes);
        if to <= self.loss_checked {
            return;
        }
        let first = self.sent.partition_point(|s| s.end() <= self.loss_checked);
        for s in self.sent.iter_mut().skip(first) {
            if s.end() > to {
                break;
            }
            if !s.sacked && !s.lost {
                s.lost = true;
                self.sums.lost_bytes += s.bytes();
            }
            self.loss_checked = s.end();
        }
    }

    /// All outstanding data is lost (RFC 6298, section 5).
    pub(super) fn time_out(&mut self) {
        for s in self.sent.iter_mut().filter(|s| !s.sacked) {
            if !s.lost {
                s.lost = true;
                self.sums.lost_bytes += s.bytes();
            }
            if s.again {
                s.again = false;
                self.sums.again_bytes -= s.bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        board.begin(0);
        for n in 0..segments {
            assert_eq!(board.send((n * MSS, (n + 1) * MSS), (n as i64, n as u32), 100, MSS), Kind::New);
        }
        board
    }

    #[test]
    fn sent_data_is_in_flight_until_acknowledged() {
        let mut board = board(10);
        assert_eq!(board.in_flight(), 10 * MSS);
        let done = board.acknowledge(4 * MSS, &[], MSS);
        assert_eq!((done.bytes, done.sent), (4 * MSS, Some((3, 3))));
        assert_eq!(board.in_flight(), 6 * MSS);
        // Acknowledging more than was sent acknowledges everything.
        board.acknowledge(400 * MSS, &[], MSS);
        assert_eq!((board.in_flight(), board.una()), (0, 10 * MSS));
    }

    #[test]
    fn a_hole_below_three_sacked_segments_is_lost_and_its_retransmission_in_flight() {
        let mut board = board(10);
        let done = board.acknowledge(0, &[(MSS, 3 * MSS)], MSS);
        assert_eq!(done.sacked_bytes, 2 * MSS);
        assert_eq!(board.in_flight(), 8 * MSS, "two are not enough");
        board.acknowledge(0, &[(MSS, 4 * MSS)], MSS);
        assert_eq!(board.in_flight(), 6 * MSS, "three acknowledged, one lost");
        assert_eq!(board.send((0, MSS), (20, 20), 100, MSS), Kind::Again);
        assert_eq!(board.in_flight(), 7 * MSS);
        let done = board.acknowledge(10 * MSS, &[], MSS);
        assert_eq!(done.sent, None, "behind a repaired hole no time is measured");
        assert_eq!((board.in_flight(), board.sacked_bytes()), (0, 0));
    }

    #[test]
    fn a_super_segment_is_acknowledged_piece_by_piece() {
        let mut board = Scoreboard::default();
        board.begin(0);
        board.send((0, 44 * MSS), (1, 1), 100, MSS);
        board.acknowledge(2 * MSS, &[(10 * MSS, 12 * MSS)], MSS);
        assert_eq!(board.sacked_bytes(), 2 * MSS);
        // Of the 8 segments in the hole, the last is not lost: only two above it have arrived.
        assert_eq!(board.in_flight(), (44 - 2 - 2 - 7) * MSS);
    }

    #[test]
    fn blocks_that_grow_and_join_mark_each_segment_once() {
        let mut board = board(20);
        let mut sacked = |blocks: &[(u64, u64)]| {
            let blocks: Vec<_> = blocks.iter().map(|(from, to)| (from * MSS, to * MSS)).collect();
            let done = board.acknowledge(0, &blocks, MSS);
            (done.sacked_bytes / MSS, board.sacked_bytes() / MSS)
        };
        assert_eq!(sacked(&[(4, 6)]), (2, 2));
        assert_eq!(sacked(&[(4, 8)]), (2, 4), "to the right");
        assert_eq!(sacked(&[(3, 8), (10, 12)]), (3, 7), "to the left, and another");
        assert_eq!(sacked(&[(10, 12), (3, 8)]), (0, 7), "again");
        assert_eq!(sacked(&[(14, 15), (3, 12)]), (3, 10), "what lay between two");
        assert_eq!(sacked(&[(2, 16)]), (4, 14), "all");
        assert_eq!(sacked(&[(2, 30)]), (0, 14), "more than was sent is not of this flow");
        assert_eq!(sacked(&[(2, 18)]), (2, 16));
    }

    #[test]
    fn a_reordered_segment_is_no_retransmission() {
        let mut board = board(2);
        board.send((3 * MSS, 4 * MSS), (1000, 1000), 100, MSS);
        assert_eq!(board.in_flight(), 4 * MSS, "the hole was sent, too");
        assert_eq!(board.send((2 * MSS, 3 * MSS), (1050, 1050), 100, MSS), Kind::Late);
        board.send((5 * MSS, 6 * MSS), (2000, 2000), 100, MSS);
        assert_eq!(board.send((4 * MSS, 5 * MSS), (9000, 9000), 100, MSS), Kind::Again);
    }

    #[test]
    fn after_a_timeout_only_what_is_sent_again_is_in_flight() {
        let mut board = board(5);
        board.acknowledge(0, &[(4 * MSS, 5 * MSS)], MSS);
        board.time_out();
        assert_eq!(board.in_flight(), 0);
        board.send((0, MSS), (50, 50), 100, MSS);
        assert_eq!(board.in_flight(), MSS);
    }
}
