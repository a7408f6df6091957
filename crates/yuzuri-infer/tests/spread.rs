//! Flows spread over threads: each flow comes to one part, whole and in order, whatever their number.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use yuzuri_capture::{
    Capture, Flags, FlowKey, FlowSlot, Framing, NewSegment, Options, PcapWriter, Segment, TcpOptions,
};
use yuzuri_infer::packets::{Part, spread};

const CLIENTS: u16 = 7;
const TURNS: u32 = 900;

/// Connections that take turns; in the middle each client opens a new one from the same port.
fn capture() -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new(), Framing::Ethernet, 96).unwrap();
    let mut frame = Vec::new();
    let server = SocketAddr::from(([10, 0, 2, 2], 80));
    for turn in 0..TURNS {
        for client in 0..CLIENTS {
            let from = SocketAddr::from(([10, 0, 1, 1], 40_000 + client));
            let (connection, step) = (turn / (TURNS / 2), turn % (TURNS / 2));
            let isn = 1000 * u32::from(client) + 500_000 * connection;
            let mut packet = NewSegment { seq: isn + 1 + step, ..NewSegment::new(from, server) };
            match step {
                0 => (packet.seq, packet.flags) = (isn, Flags::SYN),
                step if step == TURNS / 2 - 1 => packet.flags = Flags::FIN | Flags::ACK,
                _ => packet.payload_bytes = 1,
            }
            packet.window = step as u16;
            let stamps = Some((step, turn)).filter(|_| step % 3 > 0);
            packet.options = TcpOptions {
                timestamps: stamps,
                mss: Some(1460).filter(|_| step == 0),
                window_scale: Some(7).filter(|_| step == 0),
                sack_permitted: step == 0,
                ..TcpOptions::default()
            };
            if step % 5 == 4 {
                packet.options.sack.push(isn + step, isn + 2 * step);
            }
            frame.clear();
            let wire_bytes = packet.encode(Framing::Ethernet, &mut frame);
            writer.write(i64::from(turn) * 1_000_000, &frame, wire_bytes).unwrap();
        }
    }
    writer.into_inner()
}

/// What came of each flow: its key, then each segment but for its slot, and whether its end was told.
type Log = (FlowKey, Vec<Segment>, bool);

#[derive(Default)]
struct Notes {
    open: BTreeMap<FlowSlot, Log>,
    done: Vec<Log>,
    finished: bool,
}

impl Part for Notes {
    fn begin(&mut self, flow: FlowSlot, key: FlowKey) {
        assert!(flow.index() <= self.open.len() + self.done.len(), "{flow:?}: slots are dense");
        assert!(self.open.insert(flow, (key, Vec::new(), false)).is_none(), "{flow:?} began twice");
    }

    fn segment(&mut self, segment: &Segment) {
        let log = &mut self.open.get_mut(&segment.flow).unwrap().1;
        log.push(Segment { flow: FlowSlot(0), ..*segment });
    }

    fn end(&mut self, flow: FlowSlot) {
        let (key, segments, _) = self.open.remove(&flow).unwrap();
        self.done.push((key, segments, true));
    }

    fn finish(&mut self) {
        assert!(!std::mem::replace(&mut self.finished, true), "finished once");
        self.done.extend(std::mem::take(&mut self.open).into_values());
    }
}

fn logs(bytes: &[u8], parts: usize) -> Vec<Log> {
    let mut capture = Capture::new(bytes, "made up", &Options::default()).unwrap();
    let mut notes: Vec<Notes> = (0..parts).map(|_| Notes::default()).collect();
    assert!(spread(&mut capture, &mut notes, || true).unwrap(), "the end");
    let mut all: Vec<Log> = Vec::new();
    for part in notes {
        assert!(part.finished);
        assert!(parts > usize::from(CLIENTS) || !part.done.is_empty(), "each has a share");
        all.extend(part.done);
    }
    all.sort_by_key(|(key, segments, _)| (*key, segments[0].seq));
    all
}

#[test]
fn each_flow_comes_whole_and_in_order_to_one_part() {
    let bytes = capture();
    let alone = logs(&bytes, 1);
    assert_eq!(alone.len(), 2 * usize::from(CLIENTS), "each client had two connections");
    assert_eq!(
        alone.iter().map(|(_, segments, _)| segments.len()).sum::<usize>(),
        (TURNS * u32::from(CLIENTS)) as usize
    );
    assert!(alone.iter().all(|(_, segments, _)| segments.is_sorted_by_key(|segment| segment.seq)));
    assert_eq!(alone.iter().filter(|(.., ended)| *ended).count(), usize::from(CLIENTS), "the former ones");
    for parts in 2..=10 {
        assert_eq!(logs(&bytes, parts), alone, "{parts} parts");
    }
}

#[test]
fn whoever_has_had_enough_gets_what_was_read() {
    let bytes = capture();
    for parts in [1, 2, 3] {
        let mut capture = Capture::new(&bytes[..], "made up", &Options::default()).unwrap();
        let mut notes: Vec<Notes> = (0..parts).map(|_| Notes::default()).collect();
        let asked = AtomicUsize::new(0);
        let go_on = || asked.fetch_add(1, Ordering::Relaxed) > 0;
        assert!(!spread(&mut capture, &mut notes, go_on).unwrap(), "not the end");
        let read: usize =
            notes.iter().flat_map(|part| &part.done).map(|(_, segments, _)| segments.len()).sum();
        assert_eq!((read, asked.into_inner()), (4095, 1), "{parts} parts");
        assert!(notes.iter().all(|part| part.finished));
    }
}

#[test]
fn a_part_that_panics_takes_the_reading_with_it() {
    struct Faulty(u32);
    impl Part for Faulty {
        fn begin(&mut self, _: FlowSlot, _: FlowKey) {}
        fn segment(&mut self, _: &Segment) {
            self.0 += 1;
            assert!(self.0 < 100, "a fault");
        }
        fn end(&mut self, _: FlowSlot) {}
        fn finish(&mut self) {}
    }
    let bytes = capture();
    for parts in [1, 2, 3] {
        let mut faulty: Vec<Faulty> = (0..parts).map(|_| Faulty(0)).collect();
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut capture = Capture::new(&bytes[..], "made up", &Options::default()).unwrap();
            spread(&mut capture, &mut faulty, || true).is_ok()
        }));
        assert!(read.is_err(), "{parts} parts");
    }
}
