//! Flows distributed over threads: each flow goes to one part, complete and in order, whatever
//! their number.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::SocketAddr;
use yuzuri_capture::{
    Capture, Flags, FlowKey, FlowSlot, Framing, NewSegment, Options, Partition, PcapWriter, ReadError,
    Segment, TcpOptions,
};
use yuzuri_infer::packets::{Part, read_each, spread};

const CLIENTS: u16 = 7;
const TURNS: u32 = 900;

/// Connections that take turns; in the middle each client opens a new one from the same port.
fn capture() -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new(), Framing::Ethernet, 96).unwrap();
    let mut frame = Vec::new();
    let server = SocketAddr::from(([10, 0, 2, 2], 80));
    for reduction in 0..TURNS {
        for client in 0..CLIENTS {
            let from = SocketAddr::from(([10, 0, 1, 1], 40_000 + client));
            let (connection, step) = (reduction / (TURNS / 2), reduction % (TURNS / 2));
            let isn = 1000 * u32::from(client) + 500_000 * connection;
            let mut packet = NewSegment { seq: isn + 1 + step, ..NewSegment::new(from, server) };
            match step {
                0 => (packet.seq, packet.flags) = (isn, Flags::SYN),
                step if step == TURNS / 2 - 1 => packet.flags = Flags::FIN | Flags::ACK,
                _ => packet.payload_bytes = 1,
            }
            packet.window = step as u16;
            let stamps = Some((step, reduction)).filter(|_| step % 3 > 0);
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
            writer.write(i64::from(reduction) * 1_000_000, &frame, wire_bytes).unwrap();
        }
    }
    writer.into_inner()
}

/// The events of each flow: its key, then each segment except its slot, and whether its end was
/// reported.
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

/// How packets reach the parts.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// One thread reads and distributes.
    PassedOn,
    /// Each thread reads.
    ReadByEach,
}

const WAYS: [Way; 2] = [Way::PassedOn, Way::ReadByEach];

impl Way {
    fn go<P: Part>(self, reader: impl Read + Clone + Send, parts: &mut [P]) -> Result<(), ReadError> {
        let capture = |partition| {
            let options = Options { partition, ..Options::default() };
            Capture::new(reader.clone(), "made up", &options).unwrap()
        };
        match self {
            Way::PassedOn => spread(&mut capture(Partition::ALL), parts),
            Way::ReadByEach => {
                let mut captures: Vec<_> = Partition::each(parts.len() as u32).map(capture).collect();
                read_each(&mut captures, parts)
            }
        }
    }
}

fn logs(reader: impl Read + Clone + Send, way: Way, parts: usize) -> (Vec<Log>, Result<(), ReadError>) {
    let mut notes: Vec<Notes> = (0..parts).map(|_| Notes::default()).collect();
    let read = way.go(reader, &mut notes);
    let mut all: Vec<Log> = Vec::new();
    for part in notes {
        assert!(part.finished);
        all.extend(part.done);
    }
    // A client's second connection has the same key as its first; a log's first number shows which
    // one it belongs to.
    all.sort_by_key(|(key, segments, _)| (key.to_string(), segments[0].seq));
    (all, read)
}

#[test]
fn each_flow_is_read_whole_and_in_order_by_one_reader() {
    let bytes = capture();
    let (alone, read) = logs(&bytes[..], Way::PassedOn, 1);
    read.unwrap();
    assert_eq!(alone.len(), 2 * usize::from(CLIENTS), "each client had two connections");
    assert_eq!(
        alone.iter().map(|(_, segments, _)| segments.len()).sum::<usize>(),
        (TURNS * u32::from(CLIENTS)) as usize
    );
    assert!(alone.iter().all(|(_, segments, _)| segments.is_sorted_by_key(|segment| segment.seq)));
    assert_eq!(alone.iter().filter(|(.., ended)| *ended).count(), usize::from(CLIENTS), "the former ones");
    for way in WAYS {
        for parts in 1..=10 {
            let (logs, read) = logs(&bytes[..], way, parts);
            read.unwrap();
            assert_eq!(logs, alone, "{way:?}, {parts} parts");
        }
    }
}

/// Fails after its bytes.
#[derive(Clone)]
struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() { Err(io::Error::other("a fault")) } else { self.0.read(buffer) }
    }
}

#[test]
fn data_read_before_an_error_is_returned() {
    let bytes = capture();
    let half = &bytes[..bytes.len() / 2];
    let (alone, read) = logs(half, Way::PassedOn, 1);
    read.unwrap();
    for (way, parts) in WAYS.into_iter().flat_map(|way| [1, 2, 3].map(|parts| (way, parts))) {
        let (logs, read) = logs(Failing(half), way, parts);
        assert_eq!(read.unwrap_err().source.to_string(), "a fault", "{way:?}, {parts} parts");
        assert_eq!(logs, alone, "{way:?}, {parts} parts");
    }
}

#[test]
fn a_panic_in_one_reader_ends_the_reading() {
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
    for (way, parts) in WAYS.into_iter().flat_map(|way| [1, 2, 3].map(|parts| (way, parts))) {
        let mut faulty: Vec<Faulty> = (0..parts).map(|_| Faulty(0)).collect();
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            way.go(&bytes[..], &mut faulty).unwrap();
        }));
        assert!(read.is_err(), "{way:?}, {parts} parts");
    }
}
