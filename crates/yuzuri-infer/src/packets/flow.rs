//! A flow of a capture: its handshake, and its two directions.

use super::capture_point::capture_point;
use super::copies::CopyDetector;
use super::direction::Direction;
use super::limits::{PacketLimits, note_limits, packet_limits};
use super::observations::SenderObservations;
use crate::window_trace::{CapturePoint, WindowTrace};
use serde::{Deserialize, Serialize};
use yuzuri_capture::{Checksum, Ecn, End, Flags, Segment};

/// Anomalies of a flow, counted. Each is a reason to trust the results less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anomalies {
    /// Segments with a wrong checksum whose end's others are mostly right: damaged, and ignored.
    pub bad_checksums: u64,
    /// Segments with a wrong checksum, like the end's others: the network card fills it in, or the
    /// capture was altered. They count.
    #[serde(default)]
    pub believed_checksums: u64,
    /// Segments with impossible or cut options.
    pub odd_options: u64,
    /// First fragments of IP packets.
    pub fragments: u64,
    /// Segments stamped earlier than the previous one.
    pub steps_back: u64,
    /// Copies of segments captured before: ignored.
    pub copies: u64,
}

/// Properties of a flow other than its window traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Segments.
    pub segments: u64,
    /// By end, lower first: segments it sent.
    pub by_end: [u64; 2],
    /// The SYN was seen.
    pub syn: bool,
    /// The SYN-ACK was seen.
    pub syn_ack: bool,
    /// Both ends offered timestamps or used them.
    pub timestamps: bool,
    /// Both ends offered selective acknowledgement.
    pub sack: bool,
    /// The capture has too few bytes of each packet to hold the options of a SYN.
    #[serde(default)]
    pub syn_cut: bool,
    /// Packets with an ECN codepoint.
    pub ecn_capable: u64,
    /// Packets marked by the network (CE).
    pub ce: u64,
    /// Anomalies.
    pub anomalies: Anomalies,
}

/// A flow being followed.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    directions: [Option<Box<Direction>>; 2],
    syn: [Option<Syn>; 2],
    /// Whether the handshake's third segment was seen.
    third: bool,
    last_ns: i64,
    copies: CopyDetector,
    /// By end: segments with a right checksum, and with a wrong one.
    sums: [(u64, u64); 2],
    /// By end: segments with only the sum of their pseudo-header, and whether there were others.
    partial: [u32; 2],
    not_partial: [bool; 2],
    /// Whether these show at which host the capture is.
    at_host: bool,
    /// By end: it sent data in a packet that is not ECN-capable.
    data_without_ect: [bool; 2],
    seen: Seen,
}

/// One in this many of an end's checksums may be wrong because of damage: far more than networks
/// damage, one in 1,100 to 32,000 (Stone and Partridge, "When the CRC and TCP Checksum Disagree",
/// SIGCOMM 2000), and far less than is wrong if network cards fill them in, or if addresses were
/// changed in the capture.
const DAMAGED: u64 = 8;

/// This many segments of an end with only the sum of their pseudo-header, and none without, were
/// captured on its host: one of 30,000 others looks so by chance.
const PARTIAL: u32 = 3;

/// In a shorter handshake, the hosts' response times dominate, and do not show where the capture
/// is.
const MIN_HANDSHAKE_NS: i64 = 2_000_000;

/// A SYN: its time, and its options.
#[derive(Clone, Copy, Debug)]
struct Syn {
    at_ns: i64,
    mss: Option<u16>,
    scale: Option<u8>,
    sack: bool,
    timestamps: bool,
    answers: bool,
    repeated: bool,
    ecn_capable: bool,
    /// The capture lacks the end of its options.
    cut: bool,
}

/// A flow of a capture, at its end.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What was seen.
    pub seen: Seen,
    /// By end, lower first: the window trace of its data; `None` if it sent none.
    pub window_traces: [Option<WindowTrace>; 2],
    /// By end: observations of each round of the window trace other than its flight.
    pub observations: [SenderObservations; 2],
}

impl Flow {
    pub(super) fn new() -> Flow {
        Flow {
            directions: [None, None],
            syn: [None, None],
            third: false,
            last_ns: i64::MIN,
            copies: CopyDetector::default(),
            sums: [(0, 0); 2],
            partial: [0; 2],
            not_partial: [false; 2],
            at_host: false,
            data_without_ect: [false; 2],
            seen: Seen::default(),
        }
    }

    #[inline(always)]
    pub(super) fn segment(&mut self, segment: &Segment) {
        let (from, to) = (segment.from.index(), segment.from.other().index());
        self.seen.segments += 1;
        self.seen.by_end[from] += 1;
        if !self.sane(segment) {
            return;
        }
        if segment.flags.contains(Flags::SYN) {
            self.syn(segment);
        } else if !self.third {
            self.third(segment);
        }
        self.seen.timestamps |= segment.options.timestamps.is_some();
        let partial = segment.checksum == Checksum::Partial;
        self.not_partial[from] |= !partial;
        if partial {
            self.partial[from] = self.partial[from].saturating_add(1);
        }
        if self.partial != [0; 2] && !self.at_host {
            self.captured_at_host(from);
        }
        match segment.ecn {
            Ecn::NotEct => self.data_without_ect[from] |= segment.payload_bytes > 0,
            Ecn::Ce => {
                self.seen.ce += 1;
                self.seen.ecn_capable += 1;
            }
            _ => self.seen.ecn_capable += 1,
        }
        // First process the acknowledgement for the other direction: data in the same segment is at
        // the earliest a response to it.
        if let Some(direction) = &mut self.directions[to] {
            direction.answer(segment);
        }
        let begins = segment.payload_bytes > 0 || segment.flags.contains(Flags::SYN);
        if let Some(direction) = &mut self.directions[from] {
            if begins {
                direction.data(segment);
            } else {
                direction.bare(segment);
            }
        } else if begins {
            self.direction(from).data(segment);
        }
    }

    /// The network card fills in the checksums of what its own host sends: these were captured
    /// there. If both ends are on one machine, no card does, and both ends' segments look alike.
    #[cold]
    fn captured_at_host(&mut self, from: usize) {
        let only_partial = self.partial[from] >= PARTIAL && !self.not_partial[from];
        if only_partial && self.partial[1 - from] == 0 && self.not_partial[1 - from] {
            self.at_host = true;
            self.direction(from).captured_at(CapturePoint::Sender);
            self.direction(1 - from).captured_at(CapturePoint::Receiver);
        }
    }

    /// Whether the segment is plausible.
    #[inline(always)]
    fn sane(&mut self, segment: &Segment) -> bool {
        let odd = &mut self.seen.anomalies;
        if segment.time_ns < self.last_ns {
            odd.steps_back += 1;
        }
        self.last_ns = segment.time_ns;
        if segment.options.malformed {
            odd.odd_options += 1;
        }
        if segment.fragment {
            odd.fragments += 1;
        }
        let (right, wrong) = &mut self.sums[segment.from.index()];
        *right += u64::from(segment.checksum == Checksum::Valid);
        if segment.checksum == Checksum::Invalid {
            *wrong += 1;
            if *right >= DAMAGED * *wrong {
                odd.bad_checksums += 1;
                return false;
            }
            odd.believed_checksums += 1;
        }
        if self.copies.is_copy(segment) {
            odd.copies += 1;
            return false;
        }
        true
    }

    fn direction(&mut self, end: usize) -> &mut Direction {
        self.directions[end].get_or_insert_with(|| Box::new(Direction::new()))
    }

    fn syn(&mut self, segment: &Segment) {
        let from = segment.from.index();
        self.seen.syn |= !segment.flags.contains(Flags::ACK);
        self.seen.syn_ack |= segment.flags.contains(Flags::ACK);
        self.syn[from] = Some(Syn {
            at_ns: segment.time_ns,
            mss: segment.options.mss,
            scale: segment.options.window_scale,
            sack: segment.options.sack_permitted,
            timestamps: segment.options.timestamps.is_some(),
            answers: segment.flags.contains(Flags::ACK),
            repeated: self.syn[from].is_some(),
            // A SYN without an answer is retransmitted without ECN.
            ecn_capable: segment.ecn != Ecn::NotEct || self.syn[from].is_some_and(|syn| syn.ecn_capable),
            cut: segment.options.cut,
        });
        self.seen.syn_cut |= segment.options.cut;
        if let [Some(a), Some(b)] = self.syn {
            let sack = a.sack && b.sack;
            self.seen.sack = sack;
            self.seen.timestamps = a.timestamps && b.timestamps;
            // An option that was not captured is unknown; one that a whole SYN lacks was not sent.
            let cut = a.cut || b.cut;
            let size = |syn: Syn| syn.mss.or((!syn.cut).then_some(536)).map_or(0, |mss| mss.max(1));
            let mss = size(a).min(size(b));
            // Without the option in both SYNs windows are not scaled (RFC 7323, section 2.2).
            let scaled = a.scale.is_some() && b.scale.is_some();
            for (end, other) in [(0, b), (1, a)] {
                let scale = if scaled { other.scale } else { (!cut).then_some(0) };
                self.direction(end).set_handshake_options(
                    u32::from(mss),
                    (sack || !cut).then_some(sack),
                    scale,
                );
            }
        }
    }

    /// The segment after SYN and SYN-ACK: their times show where the capture is.
    fn third(&mut self, segment: &Segment) {
        let [Some(a), Some(b)] = self.syn else { return };
        let (opener, first, second) = if a.answers { (1, b, a) } else { (0, a, b) };
        if segment.from.index() != opener || first.repeated || second.repeated || !second.answers {
            return;
        }
        self.third = true;
        let (there, back) = (second.at_ns - first.at_ns, segment.time_ns - second.at_ns);
        if there < 0 || back < 0 || there + back < 50_000 {
            return;
        }
        let rtt_us = u32::try_from((there + back) / 1000).unwrap_or(u32::MAX);
        let is_long_enough = there + back >= MIN_HANDSHAKE_NS;
        let point =
            |there, back| if is_long_enough { capture_point(there, back) } else { CapturePoint::Unknown };
        self.direction(opener).set_handshake_times(point(there, back), rtt_us);
        self.direction(1 - opener).set_handshake_times(point(back, there), rtt_us);
    }

    pub(super) fn rounds(&self) -> [usize; 2] {
        [0, 1].map(|end| self.directions[end].as_deref().map_or(0, Direction::rounds))
    }

    pub(super) fn finish(self) -> Ended {
        let mut observations = [SenderObservations::default(), SenderObservations::default()];
        let mut window_traces = [None, None];
        for (end, direction) in self.directions.into_iter().enumerate() {
            if let Some(direction) = direction.filter(|direction| direction.has_data()) {
                let (mut window_trace, seen) = direction.finish();
                note_limits(&mut window_trace, &seen);
                window_trace.data_without_ect = Some(self.data_without_ect[end]);
                if let Some(syn) = self.syn[end].filter(|syn| !syn.answers) {
                    window_trace.syn_ecn_capable = Some(syn.ecn_capable);
                }
                (window_traces[end], observations[end]) = (Some(window_trace), seen);
            }
        }
        Ended { seen: self.seen, window_traces, observations }
    }
}

impl Ended {
    /// What limited an end's data; `None` if it sent none.
    pub fn limits(&self, end: End) -> Option<PacketLimits> {
        let window_trace = self.window_traces[end.index()].as_ref()?;
        Some(packet_limits(window_trace, &self.observations[end.index()]))
    }

    /// The end that sent most, with its window trace; `None` if no data was seen.
    pub fn main(&self) -> Option<(End, &WindowTrace)> {
        let ends = [(End::Lower, &self.window_traces[0]), (End::Higher, &self.window_traces[1])];
        let data = ends.into_iter().filter_map(|(end, window_trace)| Some((end, window_trace.as_ref()?)));
        data.max_by_key(|(_, window_trace)| (window_trace.acked_bytes, window_trace.segments))
    }
}
