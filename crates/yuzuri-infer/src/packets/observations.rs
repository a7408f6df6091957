//! Observations, round by round, of why a sender stopped sending.

use super::clocking::{AckClocking, Gaps};
use super::pieces::Pieces;
use super::recent::Recent;
use crate::window_trace::CapturePoint;
use std::collections::VecDeque;
use yuzuri_capture::{Flags, Segment};

/// Segments within this time of each other were sent together, and segments within this time after
/// an acknowledgement were sent in response to it.
pub(super) const AT_ONCE_NS: i64 = 200_000;
/// How long a writer woken by an acknowledgement takes to write, on a host that has other work,
/// too.
pub(super) const WAKES_NS: i64 = 500_000;
/// The resolution of the sender's clock: milliseconds with Linux and nearly all others.
const TICK_NS: i64 = 1_000_000;

/// Observations of a round other than its flight. A capture has hundreds of thousands of rounds,
/// and their memory costs as much time as their packets: this takes three lines of the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundObservations {
    /// The number of bursts: segments sent together.
    pub bursts: u32,
    /// Bursts that end with a segment that is not full, or consist of one segment with PSH: after
    /// it the sender's queue was empty. In bursts of several, Linux always sets PSH
    /// (`__tcp_transmit_skb`: "to expedite GRO flush").
    pub emptied: u32,
    /// Those that end with a segment that is not full: a window that has room for it, or a rate,
    /// would have taken the next data with it.
    pub ran_out: u32,
    /// Time from such bursts to the next, and from the other bursts to the next, milliseconds of
    /// the sender's clock: time with nothing to send, and with something.
    pub rests_ms: (f32, f32),
    /// The last burst ended with a segment that was not full.
    pub last_ran_out: bool,
    /// Bursts that immediately followed an acknowledgement, as those admitted by a window do.
    pub after_ack: u32,
    /// Bursts that followed an acknowledgement without data as closely as those of a writer that it
    /// woke. An answer with data is known to the program itself.
    pub ack_woke_writer: u32,
    /// Of these, those that followed it immediately, as most do on a host with little other work.
    pub ack_woke_writer_at_once: u32,
    /// Bursts that echo the same acknowledgement as the previous burst, if it was the only one of
    /// its tick: no acknowledgement came in between, wherever the capture is, so none caused the
    /// burst.
    pub not_ack_clocked: u32,
    /// The cause of the bursts that begin when the sender's queue is empty: those of its program.
    pub writes: AckClocking,
    /// The cause of the other bursts: there was more to send before.
    pub clocked: AckClocking,
    /// The sum of each burst's fraction of the flight.
    pub refilled: f32,
    /// Segments of all bursts.
    pub segments: u32,
    /// Segments after each burst's first packet. (A host joined several into one packet: they show
    /// no time between them.)
    pub further: u32,
    /// The sum of the times from the start of each burst to the start of the next, milliseconds.
    pub gaps_ms: f32,
    /// The sum of the squares of these times.
    pub gaps_ms2: f32,
    /// Of `gaps_ms`, the time in which the sender had something to send or outstanding, and the
    /// segments that were sent in it.
    pub busy: (f32, u32),
    /// Time from the first segment of each burst to its last, milliseconds, over all bursts.
    pub spread_ms: f32,
    /// Mean time that segments were held in the sender's device, microseconds: from
    /// acknowledgements that had already passed the capture, and that the segment's timestamps do
    /// not echo. Near the sender.
    pub held_us: u32,
    /// Acknowledgements that opened the receiver's window by a segment or more without
    /// acknowledging anything: its program had not read before.
    pub updates: u32,
    /// Acknowledgements of data without holes.
    pub announced: u32,
    /// Of these, those with a smaller window than the previous one: arrived data had not been read.
    pub shrunk: u32,
    /// Acknowledgements as in `late` that left the receiver later than any program takes to be
    /// woken: at the receiver, where no queue delays them.
    pub waited: u32,
    /// Acknowledgements of two or more full segments that came late: at the receiver not at once
    /// after the last of these, elsewhere with an RTT that shows a queue. A receiver acknowledges
    /// every second segment immediately (RFC 5681 section 4.2), unless its window would become
    /// smaller: then Linux waits until the program reads (`__tcp_ack_snd_check`).
    pub late: u32,
    /// The bytes of the receiver's window in use when it was fullest.
    pub used_bytes: u32,
    /// The window field at that time, not scaled.
    pub window: u16,
    /// This field is that of a SYN, which is never scaled (RFC 7323 section 2.2), and later ones
    /// are.
    pub unscaled: bool,
    /// Bursts whose last segment is not full, but ends at the edge of the receiver's window if that
    /// has this scale: the scale, and their number. The window cut these segments
    /// (`tcp_mss_split_point`), so there was more to send.
    pub cut: (u8, u16),
    /// The last burst is one of them.
    pub last_was_cut: bool,
    /// Mean delay from the sender's timestamp (RFC 7323) to the capture, microseconds. Only
    /// differences are meaningful.
    pub passage_us: Option<i64>,
    /// The least of these; `i64::MAX` without any.
    pub min_passage_us: i64,
    /// Where the capture was taken, as far as was known at the end of the round: acknowledgements
    /// took effect accordingly.
    pub point: CapturePoint,
    /// The least time from a segment to its acknowledgement, both at the capture, microseconds.
    pub min_there_us: Option<u32>,
    /// The sender was in loss recovery, or entered it.
    pub repair: bool,
    /// A retransmission timeout.
    pub timeout: bool,
    /// The receiver's window had no room when nothing was outstanding any more.
    pub closed: bool,
}

/// All observations of a sender.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SenderObservations {
    /// The scale of the receiver's window; `None` if its SYN was not seen.
    pub scale: Option<u8>,
    /// By round, as in the window trace.
    pub rounds: Vec<RoundObservations>,
}

impl Default for RoundObservations {
    fn default() -> RoundObservations {
        RoundObservations {
            bursts: 0,
            emptied: 0,
            ran_out: 0,
            rests_ms: (0.0, 0.0),
            last_ran_out: false,
            after_ack: 0,
            ack_woke_writer: 0,
            ack_woke_writer_at_once: 0,
            not_ack_clocked: 0,
            writes: AckClocking::default(),
            clocked: AckClocking::default(),
            refilled: 0.0,
            segments: 0,
            further: 0,
            gaps_ms: 0.0,
            gaps_ms2: 0.0,
            busy: (0.0, 0),
            spread_ms: 0.0,
            held_us: 0,
            updates: 0,
            announced: 0,
            shrunk: 0,
            waited: 0,
            late: 0,
            used_bytes: 0,
            window: 0,
            unscaled: false,
            cut: (0, 0),
            last_was_cut: false,
            passage_us: None,
            min_passage_us: i64::MAX,
            point: CapturePoint::Unknown,
            min_there_us: None,
            repair: false,
            timeout: false,
            closed: false,
        }
    }
}

impl RoundObservations {
    /// The receiver's window when it was fullest, bytes.
    pub(super) fn window_bytes(&self, scale: u32) -> u64 {
        u64::from(self.window) << if self.unscaled { 0 } else { scale }
    }

    fn add_burst(&mut self, burst: &Burst) {
        self.bursts += 1;
        self.segments += burst.segments;
        self.further += burst.segments - burst.first_segments;
        self.spread_ms += (burst.last_ns - burst.first_ns).max(0) as f32 / 1e6;
        self.after_ack += u32::from(burst.after_ack);
        self.emptied += u32::from(burst.emptied);
        self.last_ran_out = burst.ran_out;
        let cut_scale = burst.edge_scale.filter(|_| burst.ran_out);
        self.last_was_cut = cut_scale.is_some();
        if let Some(scale) = cut_scale {
            let others = if self.cut.0 == scale { self.cut.1 } else { 0 };
            self.cut = (scale, others.saturating_add(1));
        }
        self.ran_out += u32::from(burst.ran_out);
        self.ack_woke_writer += u32::from(burst.ack_woke_writer);
        self.ack_woke_writer_at_once += u32::from(burst.ack_woke_writer_at_once);
        self.not_ack_clocked += u32::from(burst.not_ack_clocked);
        let refilled = burst.after_bytes.saturating_sub(burst.before_bytes) as f32;
        self.refilled += refilled / (burst.after_bytes.max(1) as f32);
    }

    /// The time from one burst to the next.
    fn add_gap(&mut self, burst: &Burst, before: &Burst) {
        let gap_ms = burst.gap_ms(before) as f32;
        self.gaps_ms += gap_ms;
        self.gaps_ms2 += gap_ms * gap_ms;
        // A pause of the program says nothing about the path.
        let paused = before.ran_out && burst.before_bytes == 0;
        if !paused {
            self.busy.0 += gap_ms;
            self.busy.1 += before.segments;
        }
        // Away from the sender a burst arrives as the path delivers it.
        let ticks = burst.stamp.wrapping_sub(before.stamp) as i32 as f32;
        let rest_ms = if burst.near { gap_ms } else { ticks.clamp(0.0, gap_ms.max(0.0) * 2.0) };
        let (emptied_ms, others_ms) = &mut self.rests_ms;
        *(if burst.begins_after(before) { emptied_ms } else { others_ms }) += rest_ms;
    }
}

/// The maximum number of acknowledgements remembered until they are echoed: those that pass while a
/// device holds a segment.
const PASSED: usize = 256;

/// Acknowledgements with the same timestamp.
#[derive(Clone, Copy, Debug, Default)]
struct PassedAcks {
    stamp: u32,
    /// When the first of them passed.
    at_ns: i64,
    count: u32,
}

/// Segments that were sent together.
#[derive(Clone, Copy, Debug)]
struct Burst {
    first_ns: i64,
    last_ns: i64,
    stamp: u32,
    near: bool,
    after_ack: bool,
    ack_woke_writer: bool,
    ack_woke_writer_at_once: bool,
    not_ack_clocked: bool,
    /// When the last acknowledgement seen by its sender passed, if it is the only one with its
    /// timestamp.
    seen_ns: Option<i64>,
    /// When the first acknowledgement passed that its sender had not seen at the previous burst.
    head_ns: Option<i64>,
    emptied: bool,
    /// Its last segment was not full.
    ran_out: bool,
    /// The scale with which the receiver's window ends where its last segment does.
    edge_scale: Option<u8>,
    segments: u32,
    /// Of these, those of its first packet.
    first_segments: u32,
    before_bytes: u64,
    after_bytes: u64,
}

impl Burst {
    /// Whether the sender's queue was empty before it. Each write ends with PSH, and so does each
    /// half of a window (`forced_push`): after a full segment there was more if an acknowledgement
    /// sufficed to send it.
    fn begins_after(&self, before: &Burst) -> bool {
        before.ran_out || (before.emptied && !(self.near && self.after_ack))
    }

    /// The time from the start of another burst to the start of this one, milliseconds.
    fn gap_ms(&self, before: &Burst) -> f64 {
        (self.first_ns - before.first_ns) as f64 / 1e6
    }
}

/// The scale with which a window field is exactly the outstanding data, if there is one.
fn edge_scale(used_bytes: u64, window: u16) -> Option<u8> {
    let times = used_bytes.checked_div(window.into())?;
    let is_exact = used_bytes == times * u64::from(window) && times.is_power_of_two();
    Some(times.trailing_zeros() as u8).filter(|scale| is_exact && *scale <= 14)
}

/// A packet of new data.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentPacket {
    /// At least 1.
    pub(super) segments: u32,
    /// Its last segment is not full.
    pub(super) ran_out: bool,
    /// The flight with it.
    pub(super) flight_bytes: u64,
}

/// Observes a sender.
#[derive(Clone, Debug, Default)]
pub(super) struct SenderObserver {
    observations: RoundObservations,
    burst: Option<Burst>,
    /// The last burst.
    last_burst: Option<Burst>,
    /// Acknowledgements that have passed and were not echoed yet.
    passed: VecDeque<PassedAcks>,
    /// The acknowledgements echoed last.
    echoed: Option<PassedAcks>,
    held: (i64, i64),
    /// When recent acknowledgements passed, with or without data.
    recent: Recent,
    /// The last burst that began with an empty queue. Pacing may divide what was written at once
    /// into several.
    last_write: Option<Burst>,
    /// Times from one such burst to the next, and from any burst to another one.
    write_gaps: Gaps,
    gaps: Gaps,
    /// The field, and whether it is that of a SYN beside scaled ones.
    window: Option<(u16, bool)>,
    passages: (i64, i64),
    first_passage_ns: Option<i64>,
    /// The least time from an acknowledgement to the data sent in response: none at the sender.
    min_back_ns: Option<i64>,
    /// The same where the timestamp is that of one acknowledgement only, so that the time is exact.
    min_known_back_ns: Option<i64>,
    /// The time to later segments of a burst, and their bytes: away from the sender, what the path
    /// takes for a byte. (The mean: a host that is late delivers several at once.)
    spacing: (f64, f64),
    done: Pieces<RoundObservations>,
}

impl SenderObserver {
    /// Processes new data. `acted_ns`: when the latest acknowledgement known to the sender passed
    /// the capture.
    pub(super) fn sent(
        &mut self,
        segment: &Segment,
        sent: SentPacket,
        (acted_ns, pure): (i64, bool),
        handshake_ns: Option<i64>,
        point: CapturePoint,
    ) {
        let now = segment.time_ns;
        let stamp = segment.options.timestamps.map(|(stamp, _)| stamp);
        let near = point == CapturePoint::Sender || stamp.is_none();
        let before = self.echoed;
        let newly = segment.options.timestamps.and_then(|(_, echo)| self.held(echo, now));
        // Away from the sender segments arrive as the path delivers them: there the sender's clock
        // shows which were sent together.
        let continues = self.burst.is_some_and(|burst| {
            if near { now - burst.last_ns < AT_ONCE_NS } else { Some(burst.stamp) == stamp }
        });
        if let Some(burst) = self.burst.filter(|_| continues) {
            self.spacing.0 += (now - burst.last_ns).max(0) as f64;
            self.spacing.1 += f64::from(segment.payload_bytes);
        }
        if !continues {
            self.close_burst();
            let echo = segment.options.timestamps.map(|(_, echo)| echo);
            let not_ack_clocked = before.is_some_and(|seen| seen.count == 1 && Some(seen.stamp) == echo);
            let seen = self.echoed.filter(|seen| seen.count == 1 && Some(seen.stamp) == echo);
            let after_ns = now - acted_ns;
            let least_after = |least_ns: Option<i64>| least_ns.map_or(after_ns, |least| least.min(after_ns));
            let seen_least_ns = least_after(self.min_back_ns);
            self.min_back_ns = Some(seen_least_ns);
            let known_least_ns = if seen.is_some() {
                *self.min_known_back_ns.insert(least_after(self.min_known_back_ns))
            } else {
                seen_least_ns
            };
            // The data of a program with its own rhythm may never follow an acknowledgement at
            // once, so the handshake shows the least time. Its segments are small: a segment with
            // data takes longer, by the path's time for its bytes.
            let takes_ns = f64::from(segment.payload_bytes) * self.spacing.0 / self.spacing.1.max(1.0);
            let expected_ns = handshake_ns.map(|ns| ns + takes_ns as i64);
            let least_ns = expected_ns.map_or(known_least_ns, |ns| ns.min(known_least_ns));
            let least_ns = if near { 0 } else { least_ns };
            // If a tick has several acknowledgements, the echo does not show which one was the
            // last: the result is uncertain by a tick, and by a fraction of one in the rest of that
            // tick.
            let tick_ns = if near || seen.is_some() { 0 } else { TICK_NS * 3 / 2 };
            let later_ns = after_ns - least_ns - tick_ns;
            let after_ack = if seen.is_some() && !near {
                after_ns - seen_least_ns < AT_ONCE_NS
            } else {
                later_ns < AT_ONCE_NS
            };
            let seen_ns = if near { Some(acted_ns) } else { seen.map(|seen| seen.at_ns) };
            let since = self.last_burst.map_or(now, |last| last.first_ns);
            let head_ns = if near { self.first_since(since) } else { newly };
            self.burst = Some(Burst {
                first_ns: now,
                last_ns: now,
                stamp: stamp.unwrap_or_default(),
                near,
                after_ack,
                ack_woke_writer: pure && later_ns < WAKES_NS,
                ack_woke_writer_at_once: pure && later_ns < AT_ONCE_NS,
                not_ack_clocked,
                seen_ns,
                head_ns,
                emptied: false,
                ran_out: false,
                edge_scale: None,
                segments: 0,
                first_segments: sent.segments,
                before_bytes: sent.flight_bytes.saturating_sub(segment.payload_bytes.into()),
                after_bytes: 0,
            });
        }
        if let Some(burst) = &mut self.burst {
            burst.last_ns = now;
            burst.segments += sent.segments;
            burst.after_bytes = sent.flight_bytes;
            burst.ran_out = sent.ran_out;
            burst.edge_scale = None;
            burst.emptied = burst.ran_out || (burst.segments == 1 && segment.flags.contains(Flags::PSH));
        }
        if let Some(stamp) = stamp {
            let passage_ns = now.wrapping_sub(i64::from(stamp as i32).wrapping_mul(TICK_NS));
            // Relative to the first one. Another clock or a wrap makes the difference large.
            let first_ns = *self.first_passage_ns.get_or_insert(passage_ns);
            let passage_us = passage_ns.wrapping_sub(first_ns) / 1000;
            self.passages.0 = self.passages.0.wrapping_add(passage_us);
            self.passages.1 += 1;
            let least_us = &mut self.observations.min_passage_us;
            *least_us = passage_us.min(*least_us);
        }
    }

    /// Processes an acknowledgement with this timestamp.
    pub(super) fn passed(&mut self, stamp: u32, now: i64) {
        self.recent.push(now);
        match self.passed.back_mut().filter(|last| last.stamp == stamp) {
            Some(last) => last.count += 1,
            None => {
                if self.passed.len() == PASSED {
                    self.passed.pop_front();
                }
                self.passed.push_back(PassedAcks { stamp, at_ns: now, count: 1 });
            }
        }
    }

    /// Processes the timestamp that a segment echoes. The segment was created before the first
    /// acknowledgement took effect that it does not echo. Returns when the first acknowledgement
    /// passed that no earlier segment had echoed.
    fn held(&mut self, echo: u32, now: i64) -> Option<i64> {
        let newer = |stamp: u32| stamp.wrapping_sub(echo) as i32 > 0;
        let mut newly_ns = None;
        while let Some(passed) = self.passed.front().copied().filter(|passed| !newer(passed.stamp)) {
            newly_ns.get_or_insert(passed.at_ns);
            self.echoed = Some(passed);
            self.passed.pop_front();
        }
        let held_ns = self.passed.front().map_or(0, |passed| now - passed.at_ns);
        self.held.0 += held_ns.max(0) / 1000;
        self.held.1 += 1;
        newly_ns
    }

    /// When the first acknowledgement since then passed, if it is remembered.
    fn first_since(&self, since_ns: i64) -> Option<i64> {
        let all = self.recent.oldest()? <= since_ns || !self.recent.is_full();
        let since = self.recent.newest_first().take_while(|at| *at > since_ns);
        since.last().filter(|_| all)
    }

    /// The receiver's window opened without acknowledging anything.
    pub(super) fn updated(&mut self) {
        self.observations.updates += 1;
    }

    /// Processes the receiver's window that last took effect: the field, and whether it is that of
    /// a SYN beside scaled ones; `more`: it came with an acknowledgement of new data.
    pub(super) fn window(&mut self, window: (u16, bool), more: bool) {
        if let Some((before, false)) = self.window.filter(|_| more) {
            self.observations.announced += 1;
            // It is rounded to a multiple of its scale.
            self.observations.shrunk += u32::from(window.0.saturating_add(1) < before);
        }
        self.window = Some(window);
    }

    /// A segment was acknowledged after this time, both at the capture.
    pub(super) fn there(&mut self, ns: i64) {
        let us = u32::try_from(ns / 1000).unwrap_or(u32::MAX);
        let least_us = &mut self.observations.min_there_us;
        *least_us = Some(least_us.map_or(us, |least_us| least_us.min(us)));
    }

    /// An acknowledgement came late; `waited`: it left the receiver so late.
    pub(super) fn late(&mut self, waited: bool) {
        self.observations.late += 1;
        self.observations.waited += u32::from(waited);
    }

    /// Records the outstanding data.
    pub(super) fn used(&mut self, used_bytes: u64) {
        let Some((window, unscaled)) = self.window else { return };
        if let Some(burst) = self.burst.as_mut().filter(|burst| burst.ran_out) {
            burst.edge_scale = edge_scale(used_bytes, window);
        }
        let used_bytes = u32::try_from(used_bytes).unwrap_or(u32::MAX);
        let seen = &mut self.observations;
        let fuller =
            u64::from(used_bytes) * u64::from(seen.window) >= u64::from(seen.used_bytes) * u64::from(window);
        if fuller || seen.window == 0 || seen.unscaled != unscaled {
            (seen.used_bytes, seen.window, seen.unscaled) = (used_bytes, window, unscaled);
        }
    }

    pub(super) fn repairs(&mut self, timeout: bool) {
        self.observations.repair = true;
        self.observations.timeout |= timeout;
    }

    /// Nothing is outstanding; `closed`: the window is closed.
    pub(super) fn idle(&mut self, closed: bool) {
        self.observations.closed = closed;
    }

    fn close_burst(&mut self) {
        let Some(burst) = &self.burst else { return };
        self.observations.add_burst(burst);
        if let Some(before) = &self.last_burst {
            self.observations.add_gap(burst, before);
            let begins = burst.begins_after(before);
            // The data of one write may leave in several bursts: the program's rhythm is that of
            // the first ones.
            let since = if begins { self.last_write.as_ref() } else { Some(before) };
            if let Some(since) = since {
                let last = burst.seen_ns.zip(since.seen_ns);
                let first = if begins { burst.head_ns.zip(since.head_ns) } else { last };
                let (clocked, gaps) = if begins {
                    (&mut self.observations.writes, &mut self.write_gaps)
                } else {
                    (&mut self.observations.clocked, &mut self.gaps)
                };
                clocked.add(burst.gap_ms(since), [last, first], gaps);
            }
            if begins {
                self.last_write = Some(*burst);
            }
        }
        self.last_burst = self.burst.take();
    }

    /// A round has ended; `kept`: it is kept.
    pub(super) fn close(&mut self, kept: bool, point: CapturePoint) {
        self.close_burst();
        let (sum_us, count) = std::mem::take(&mut self.passages);
        let (held_us, segments) = std::mem::take(&mut self.held);
        if kept {
            self.observations.point = point;
            self.observations.held_us = u32::try_from(held_us / segments.max(1)).unwrap_or(u32::MAX);
            if count > 0 {
                self.observations.passage_us = Some(sum_us / count);
            }
            self.done.push(self.observations);
        }
        self.observations = RoundObservations::default();
    }

    /// `scale`: of the receiver's window, if its SYN was seen.
    pub(super) fn finish(self, scale: Option<u8>) -> SenderObservations {
        SenderObservations { scale, rounds: self.done.into_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_takes_three_lines_of_the_cache() {
        assert!(size_of::<RoundObservations>() <= 192, "{}", size_of::<RoundObservations>());
    }
}
