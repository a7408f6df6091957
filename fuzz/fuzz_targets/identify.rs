//! Flows of untrusted segments: windows, rounds, the replay of every algorithm and an answer, never
//! a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use yuzuri_capture::{Checksum, Ecn, End, Flags, FlowSlot, SackBlocks, Segment, TcpOptions};
use yuzuri_infer::identify;
use yuzuri_infer::packets::Tracker;

/// Bytes of one segment: small numbers that add up, so that the fuzzer finds window traces that
/// look like flows.
const SEGMENT_BYTES: usize = 12;

struct State {
    time_ns: i64,
    seq: [u32; 2],
}

fn segment(bytes: &[u8; SEGMENT_BYTES], state: &mut State) -> Segment {
    let [kind, step, sized, sequence, acked, back, left, length, flags, window, clock, echo] = *bytes;
    let from = if kind & 1 == 0 { End::Lower } else { End::Higher };
    state.time_ns += i64::from(step as i8) * if kind & 2 == 0 { 100_000 } else { 50_000_000 };
    let payload_bytes = if kind & 4 == 0 { u32::from(sized) * 12 } else { u32::from(sized) << 20 };
    let sent = &mut state.seq[from.index()];
    let seq = sent.wrapping_sub(u32::from(back) * 1448);
    *sent = sent.wrapping_add(payload_bytes).wrapping_add(if kind & 8 == 0 {
        0
    } else {
        u32::from(sequence) << 24
    });
    let ack = state.seq[from.other().index()].wrapping_sub(u32::from(acked) * 1448);
    let mut sack = SackBlocks::default();
    if kind & 16 != 0 {
        let start = ack.wrapping_add(u32::from(left) * 1448);
        sack.push(start, start.wrapping_add(u32::from(length) * 1448));
    }
    let millis = (state.time_ns / 1_000_000) as u32;
    let timestamps = (kind & 32 == 0)
        .then(|| (millis.wrapping_add(u32::from(clock)), millis.wrapping_sub(u32::from(echo))));
    let options = TcpOptions {
        timestamps,
        mss: (kind & 64 != 0).then_some(u16::from(left) * 8),
        window_scale: (kind & 64 != 0).then_some(length),
        sack_permitted: true,
        sack,
        ..TcpOptions::default()
    };
    Segment {
        time_ns: state.time_ns,
        flow: FlowSlot(0),
        seq,
        ack,
        payload_bytes,
        wire_bytes: payload_bytes.saturating_add(52),
        window: u16::from(window) << 8,
        ip_id: u16::from(clock),
        flags: Flags(u16::from(flags) | if kind & 128 == 0 { Flags::ACK.0 } else { 0 }),
        options,
        from,
        ecn: if flags & 64 == 0 { Ecn::NotEct } else { Ecn::Ce },
        checksum: Checksum::Unknown,
        first: false,
        fragment: false,
    }
}

fuzz_target!(|data: &[u8]| {
    let mut state = State { time_ns: 1_000_000_000, seq: [0, 1 << 31] };
    let mut tracker = Tracker::new();
    for bytes in data.as_chunks::<SEGMENT_BYTES>().0 {
        tracker.segment(&segment(bytes, &mut state));
    }
    let Some(ended) = tracker.end(FlowSlot(0)) else { return };
    for window_trace in ended.window_traces.into_iter().flatten() {
        let rounds = window_trace.rounds.len();
        let verdict = identify(window_trace, Some(ended.seen), None, None);
        assert_eq!(verdict.predicted.len(), rounds);
        assert!(verdict.ranked.iter().all(|ranked| (0.0..=1.0).contains(&ranked.probability)));
    }
});
