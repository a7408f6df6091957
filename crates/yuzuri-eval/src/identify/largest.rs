//! The largest flow of a capture, unchanged or as another host would have captured it.

use anyhow::Result;
use std::path::Path;
use yuzuri_capture::{Capture, Item, Options, Segment};
use yuzuri_infer::packets::{Ended, Tracker};

/// Alterations of a capture, as on a host with other settings or at another place.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadSettings {
    /// Segments that immediately follow in sequence become one super-segment, as if the device
    /// split (TSO) or merged (GRO) them.
    pub merged: bool,
    /// Without timestamps (RFC 7323).
    pub without_timestamps: bool,
    /// The distance from the original capture point, ns: data passes that much later there and
    /// acknowledgements that much earlier; if negative, the other way round.
    pub capture_point_shift_ns: i64,
}

/// Segments closer together than this are merged.
const AT_ONCE_NS: i64 = 150_000;
/// No super-segment is larger (`GSO_MAX_SIZE`, less headers).
const MAX_BYTES: u32 = 65_000;

/// Merges segments into super-segments.
#[derive(Default)]
struct Merge {
    held: Option<Segment>,
}

impl Merge {
    /// Adds a segment; returns those that are ready.
    fn push(&mut self, segment: Segment) -> [Option<Segment>; 2] {
        if let Some(held) = &mut self.held {
            let follows = held.flow == segment.flow
                && held.from == segment.from
                && held.seq.wrapping_add(held.payload_bytes) == segment.seq
                && segment.payload_bytes > 0
                && segment.time_ns - held.time_ns < AT_ONCE_NS
                && held.payload_bytes + segment.payload_bytes <= MAX_BYTES;
            if follows {
                held.payload_bytes += segment.payload_bytes;
                held.wire_bytes += segment.payload_bytes;
                return [None, None];
            }
        }
        let ready = self.held.take();
        if segment.payload_bytes > 0 {
            self.held = Some(segment);
            [ready, None]
        } else {
            [ready, Some(segment)]
        }
    }
}

/// The flow of a capture with the most acknowledged data, reconstructed from its first
/// `max_packets` segments; `None` without flows.
pub fn largest(path: &Path, max_packets: u64, read_settings: ReadSettings) -> Result<Option<Ended>> {
    let mut capture = Capture::open(path, &Options::default())?;
    let mut tracker = Tracker::new();
    let mut merge = Merge::default();
    let mut packets = 0;
    let mut track = |segment: Segment| {
        if read_settings.merged {
            merge.push(segment).iter().flatten().for_each(|segment| tracker.segment(segment));
        } else {
            tracker.segment(&segment);
        }
    };
    let mut moved: Vec<Segment> = Vec::new();
    let mut opener = None;
    while let Some(item) = capture.next_item()? {
        let Item::Segment(segment) = item else { continue };
        let mut segment = *segment;
        packets += 1;
        if read_settings.without_timestamps {
            segment.options.timestamps = None;
            segment.options.mss = segment.options.mss.map(|mss| mss - 12);
        }
        if read_settings.capture_point_shift_ns == 0 {
            track(segment);
        } else {
            // The laboratory's senders open their flows.
            let outwards = *opener.get_or_insert(segment.from) == segment.from;
            segment.time_ns += if outwards {
                read_settings.capture_point_shift_ns
            } else {
                -read_settings.capture_point_shift_ns
            };
            moved.push(segment);
        }
        if packets >= max_packets {
            break;
        }
    }
    moved.sort_by_key(|segment| segment.time_ns);
    moved.into_iter().for_each(&mut track);
    merge.held.iter().for_each(|segment| tracker.segment(segment));
    let ended = tracker.live().filter_map(|slot| tracker.end(slot));
    Ok(ended.max_by_key(|ended| ended.main().map_or(0, |(_, window_trace)| window_trace.acked_bytes)))
}
