//! The gate's window clamp in Rust, without I/O and clock: the equivalent of `bpf/window.h` and
//! `bpf/handshake.h`. Simulations use it, and `tests/hostile.rs` compares the two.

use crate::segment::{ACK, ECE, RST, SYN, Segment, SynOptions};
use crate::{Bound, Direction, FlowKey};
use std::collections::HashMap;

/// The largest window (RFC 7323, 2.3), bytes.
pub const MAX_BOUND: u32 = 1 << 30;
/// A right edge this far ahead of an ACK belongs to a part of the connection whose end was not
/// observed, bytes.
const MAX_AHEAD: u32 = 3 << 29;
/// Units of the window up to this are rounded up, bytes.
const MAX_ROUND_UP: u32 = 1024;

/// Whether one sequence number is after another (RFC 9293, 3.4).
fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// The right edge that a station was advertised, from which the next window field follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowClamp {
    /// The scale of the windows (RFC 7323), 0 to 14.
    pub scale: u8,
    /// The highest right edge that the station was advertised, a sequence number.
    pub edge: Option<u32>,
}

impl WindowClamp {
    /// The window field that replaces `window` in a segment that acknowledges up to `ack`, for a
    /// bound in bytes. Never more than `window`; 0 only if `window` is.
    pub fn window(&mut self, ack: u32, window: u16, bound: Option<u32>) -> u16 {
        // Bytes advertised beyond the ACK. An ACK beyond the right edge leaves none.
        let room = |field: u16| u32::from(field) << self.scale;
        let ahead =
            self.edge.map(|edge| edge.wrapping_sub(ack) as i32).filter(|ahead| *ahead <= MAX_AHEAD as i32);
        let Some(ahead) = ahead else {
            self.edge = Some(ack.wrapping_add(room(window)));
            return window;
        };
        let promised = u32::try_from(ahead).unwrap_or(0);
        let mut field = window;
        if let Some(bound) = bound.filter(|bound| *bound > 0 && window > 0) {
            let want = bound.min(MAX_BOUND).max(promised);
            if room(window) > want {
                let unit = 1 << self.scale;
                let up = want.div_ceil(unit);
                let down = unit > MAX_ROUND_UP && up > 1 && want % unit != 0;
                let lower = if down { up - 1 } else { up };
                if lower > 0 && lower < u32::from(window) {
                    field = lower as u16;
                }
            }
        }
        if room(field) > promised || ahead < 0 {
            self.edge = Some(ack.wrapping_add(room(field)));
        }
        field
    }
}

/// The model's state of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flow {
    /// Its window clamp.
    pub clamp: WindowClamp,
    /// Whether the SYN and its answer were seen.
    pub is_known: bool,
    /// Whether it is never modified.
    pub is_never_modified: bool,
    /// A reset was seen.
    pub is_closed: bool,
    /// Payload that was acknowledged, bytes.
    pub acked_bytes: u64,
    /// Payload from the station, bytes.
    pub up_bytes: u64,
    /// Segments without new data.
    pub repeated_segments: u64,
    /// New payload beyond the right edge, bytes.
    pub beyond_edge_bytes: u64,
    /// Windows lowered.
    pub lowered: u64,
    /// ACKs dropped as redundant.
    pub thinned: u64,
    /// The largest segment that the server accepts, bytes; 0: not announced.
    pub mss: u16,
    /// RecoveryPoint (RFC 6675): the highest sequence number from the station at the last sign of a
    /// loss, until it is acknowledged.
    recover: Option<u32>,
    opener: Option<Direction>,
    iss: u32,
    syn_data: u16,
    opener_scale: Option<u8>,
    answer: (u32, Option<u8>),
    ack: u32,
    up_end: Option<u32>,
    /// For the last segment towards the station: the advertised window, its original window, and
    /// the highest ACK.
    advertised: u32,
    offered: u32,
    ack_down: u32,
}

/// A gate that processes frames one after the other.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// The tracked connections.
    pub flows: HashMap<FlowKey, Flow>,
    /// The bounds of connections.
    pub bounds: HashMap<FlowKey, Bound>,
}

impl Model {
    /// Processes a complete frame. Changes its window and checksum if the clamp lowers the window.
    pub fn frame(&mut self, direction: Direction, frame: &mut [u8]) {
        let Some(segment) = Segment::read(frame, direction) else { return };
        let known = self.flows.get_mut(&segment.key);
        if segment.flags & RST != 0 {
            known.into_iter().for_each(|flow| flow.is_closed = true);
            return;
        }
        if segment.flags & SYN != 0 {
            let syn_options = segment.syn_options();
            if segment.flags & ACK != 0 {
                known.into_iter().for_each(|flow| flow.answered(direction, &segment, &syn_options));
            } else if known.is_none_or(|flow| !flow.repeated_syn(direction, &segment, &syn_options)) {
                self.flows.insert(segment.key, Flow::opened(direction, &segment, &syn_options));
            }
            return;
        }
        let Some(flow) = known.filter(|flow| flow.is_known) else { return };
        match direction {
            Direction::Up => flow.data(&segment),
            Direction::Down if segment.flags & ACK != 0 => {
                let before = flow.ack;
                flow.acknowledged(segment.ack);
                if flow.is_never_modified {
                    return;
                }
                flow.note_loss(&segment, before);
                let bound = self.bounds.get(&segment.key).map(|bound| bound.bytes);
                let window = flow.clamp.window(segment.ack, segment.window, bound);
                flow.lowered += u64::from(window != segment.window);
                flow.went_down(&segment, window);
                let (at, from) = (segment.at, segment.window);
                put_window(&mut frame[at..], from, window);
            }
            Direction::Down => {}
        }
    }

    /// Whether a frame towards the station may be dropped. Whether it is dropped also depends on
    /// the time of the previous one.
    pub fn may_leave_out(&self, frame: &[u8]) -> bool {
        let Some(segment) = Segment::read(frame, Direction::Down) else { return false };
        let (Some(flow), Some(bound)) = (self.flows.get(&segment.key), self.bounds.get(&segment.key)) else {
            return false;
        };
        flow.is_known && !flow.is_never_modified && flow.is_needless(&segment, bound.thin_bytes)
    }

    /// Processes a frame towards the station that was dropped.
    pub fn left_out(&mut self, frame: &[u8]) {
        let Some(segment) = Segment::read(frame, Direction::Down) else { return };
        if let Some(flow) = self.flows.get_mut(&segment.key) {
            flow.acknowledged(segment.ack);
            flow.recover = None;
            flow.thinned += 1;
        }
    }
}

impl Flow {
    fn opened(direction: Direction, syn: &Segment<'_>, syn_options: &SynOptions) -> Flow {
        Flow {
            is_never_modified: syn_options.is_signed || syn_options.broken,
            mss: if direction == Direction::Down { syn_options.mss } else { 0 },
            opener: Some(direction),
            iss: syn.seq,
            syn_data: syn.payload as u16,
            opener_scale: syn_options.scale,
            ..Flow::default()
        }
    }

    /// Whether a SYN is a retransmission of this connection's SYN.
    fn repeated_syn(&mut self, direction: Direction, syn: &Segment<'_>, syn_options: &SynOptions) -> bool {
        let is_same = self.opener == Some(direction) && self.iss == syn.seq;
        if is_same && !self.is_known && self.opener_scale != syn_options.scale {
            self.is_never_modified = true;
        }
        is_same
    }

    /// A SYN-ACK.
    fn answered(&mut self, direction: Direction, syn_ack: &Segment<'_>, syn_options: &SynOptions) {
        let beyond = syn_ack.ack.wrapping_sub(self.iss).wrapping_sub(1);
        if self.opener.is_none_or(|opener| opener == direction) || beyond > u32::from(self.syn_data) {
            return;
        }
        if self.is_known {
            self.is_never_modified |= self.answer != (syn_ack.seq, syn_options.scale);
            return;
        }
        self.is_known = true;
        self.is_never_modified |= syn_options.is_signed || syn_options.broken || syn_options.mptcp;
        self.answer = (syn_ack.seq, syn_options.scale);
        let (server, station) = match direction {
            Direction::Down => (syn_options.scale, self.opener_scale),
            Direction::Up => (self.opener_scale, syn_options.scale),
        };
        self.clamp.scale = server.filter(|_| station.is_some()).unwrap_or(0);
        match direction {
            Direction::Down => {
                self.mss = syn_options.mss;
                (self.ack, self.ack_down) = (syn_ack.ack, syn_ack.ack);
                self.clamp.edge = Some(syn_ack.ack.wrapping_add(u32::from(syn_ack.window)));
            }
            Direction::Up => {
                self.ack = syn_ack.seq.wrapping_add(1);
                self.ack_down = self.ack;
            }
        }
    }

    fn offer_of(&self, segment: &Segment<'_>) -> u32 {
        u32::from(segment.window) << self.clamp.scale
    }

    fn note_loss(&mut self, segment: &Segment<'_>, before: u32) {
        let is_under_way = self.up_end.is_some_and(|end| after(end, segment.ack));
        let is_duplicate = segment.payload == 0
            && segment.ack == before
            && self.offered == self.offer_of(segment)
            && is_under_way;
        self.recover.take_if(|recover| after(segment.ack, *recover));
        if is_duplicate || segment.has_more || segment.flags & ECE != 0 {
            self.recover = Some(self.up_end.unwrap_or(segment.ack));
        }
    }

    fn went_down(&mut self, segment: &Segment<'_>, window: u16) {
        self.advertised = u32::from(window) << self.clamp.scale;
        self.offered = self.offer_of(segment);
        if after(segment.ack, self.ack_down) {
            self.ack_down = segment.ack;
        }
    }

    fn is_needless(&self, segment: &Segment<'_>, thin: u32) -> bool {
        let step = segment.ack.wrapping_sub(self.ack_down);
        let behind = self.up_end.map_or(0, |end| end.wrapping_sub(segment.ack) as i32);
        thin > 0
            && thin <= MAX_BOUND
            && segment.is_plain
            && segment.window > 0
            && self.advertised > 0
            && self.recover.is_none_or(|recover| after(segment.ack, recover))
            && after(segment.ack, self.ack)
            && after(segment.ack, self.ack_down)
            && step < thin
            && self.up_end.is_some()
            && behind >= (thin / 2) as i32
            && self.offer_of(segment).saturating_sub(self.offered) < thin
    }

    fn acknowledged(&mut self, ack: u32) {
        if !after(ack, self.ack) {
            return;
        }
        if self.up_end.is_some_and(|end| !after(ack, end.wrapping_add(1))) {
            self.acked_bytes += u64::from(ack.wrapping_sub(self.ack));
        }
        self.ack = ack;
    }

    fn data(&mut self, segment: &Segment<'_>) {
        if segment.payload == 0 {
            return;
        }
        self.up_bytes += u64::from(segment.payload);
        let end = segment.seq.wrapping_add(segment.payload);
        if self.up_end.is_some_and(|last| !after(end, last)) {
            self.repeated_segments += 1;
            self.recover = self.up_end;
        } else {
            let edge = self.clamp.edge.filter(|_| !self.is_never_modified);
            let room = edge.map_or(0, |edge| edge.wrapping_sub(end) as i32);
            self.beyond_edge_bytes += u64::from(room.min(0).unsigned_abs().min(segment.payload));
            self.up_end = Some(end);
        }
    }
}

/// Writes a window into a TCP header, and updates the checksum (RFC 1624, equation 3).
fn put_window(tcp: &mut [u8], from: u16, to: u16) {
    let old = u16::from_be_bytes([tcp[16], tcp[17]]);
    let mut sum = u32::from(!old) + u32::from(!from) + u32::from(to);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    if from != to {
        tcp[14..16].copy_from_slice(&to.to_be_bytes());
        tcp[16..18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
