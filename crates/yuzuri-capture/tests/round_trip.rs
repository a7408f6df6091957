//! Captures survive a round trip: every format, byte order and compression.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Captured, Packing, PcapNg, START_NS, frame, pack, pcap_header, pcap_record, read, read_from};
use proptest::prelude::*;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use yuzuri_capture::{
    Checksum, Compression, Ecn, End, Ending, FileFacts, Flags, Format, Framing, NewSegment, Options,
    PcapWriter, Segment, TcpOptions,
};

fn address() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        // Few, so that both directions of a flow and equal ends occur.
        (0u8..3, 0u8..3).prop_map(|(a, b)| (IpAddr::from([10, 0, 0, a]), IpAddr::from([10, 0, 0, b]))),
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ]
}

fn options() -> impl Strategy<Value = TcpOptions> {
    let plain = any::<(Option<(u32, u32)>, Option<u16>, Option<u8>, bool)>();
    (plain, proptest::collection::vec(any::<(u32, u32)>(), 0..2)).prop_map(|(plain, blocks)| {
        let (timestamps, mss, window_scale, sack_permitted) = plain;
        let mut options =
            TcpOptions { timestamps, mss, window_scale, sack_permitted, ..TcpOptions::default() };
        blocks.into_iter().for_each(|(left, right)| options.sack.push(left, right));
        options
    })
}

fn segment() -> impl Strategy<Value = NewSegment> {
    let header = any::<(u32, u32, u16)>();
    // SYN, FIN and RST end flows and have tests of their own.
    let flags = (0u16..64).prop_map(|bits| Flags(bits << 3 & 0x1f8));
    (address(), 0u16..3, 0u16..3, header, flags, options(), 0u16..3000, 0u8..4).prop_map(
        |((from, to), from_port, to_port, (seq, ack, window), flags, options, payload_bytes, ecn)| {
            NewSegment {
                from: SocketAddr::new(from, from_port),
                to: SocketAddr::new(to, to_port),
                seq,
                ack,
                flags,
                window,
                options,
                payload_bytes,
                ecn: Ecn::from_bits(ecn),
            }
        },
    )
}

/// Whether the segment read is the one written.
fn check(captured: &Captured, time_ns: i64, written: &NewSegment, whole: bool) -> Result<(), TestCaseError> {
    let Captured::Segment(read, key) = captured else {
        return Err(TestCaseError::fail(format!("{captured:?}")));
    };
    let higher = (written.from.ip(), written.from.port()) > (written.to.ip(), written.to.port());
    prop_assert_eq!(read.from, if higher { End::Higher } else { End::Lower });
    prop_assert_eq!((key.end(read.from), key.end(read.from.other())), (written.from, written.to));
    let mut options = Vec::new();
    written.options.encode(&mut options);
    let tcp_bytes = 20 + options.len() as u32 + u32::from(written.payload_bytes);
    let expected = Segment {
        time_ns,
        seq: written.seq,
        ack: written.ack,
        payload_bytes: u32::from(written.payload_bytes),
        wire_bytes: tcp_bytes + if written.from.is_ipv4() { 20 } else { 40 },
        window: written.window,
        flags: written.flags,
        ecn: written.ecn,
        fragment: false,
        ..*read
    };
    prop_assert_eq!(*read, expected);
    if whole {
        prop_assert_eq!(read.options, written.options);
        prop_assert_eq!(read.checksum, Checksum::Valid);
    } else {
        prop_assert!(read.options.cut || read.options == written.options);
    }
    Ok(())
}

/// Facts that always hold.
fn check_facts(facts: &FileFacts, packets: usize) -> Result<(), TestCaseError> {
    prop_assert_eq!(facts.packets, packets as u64);
    prop_assert_eq!(facts.ending, Ending::Whole);
    let sums = facts.checksums;
    prop_assert_eq!(facts.segments, sums.unknown + sums.valid + sums.partial + sums.invalid);
    prop_assert_eq!(facts.packets, facts.segments + facts.skipped.total());
    Ok(())
}

/// Returns a limited number of bytes at a time, with an interruption now and then.
struct ChunkedReader<'a> {
    bytes: &'a [u8],
    max_bytes: usize,
    calls: u64,
}

impl Read for ChunkedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let max_bytes = buffer.len().min(self.max_bytes);
        self.bytes.read(&mut buffer[..max_bytes])
    }
}

proptest! {
    #[test]
    fn pcap_writer(
        segments in proptest::collection::vec((0i64..(1 << 32) * 1_000_000_000, segment()), 0..30),
        ethernet: bool,
        snaplen in prop_oneof![Just(65535u32), 94u32..200],
        dribble in 1usize..5000,
    ) {
        let framing = if ethernet { Framing::Ethernet } else { Framing::Raw };
        let mut writer = PcapWriter::new(Vec::new(), framing, snaplen).unwrap();
        for (time_ns, segment) in &segments {
            let frame = frame(segment, framing);
            writer.write(*time_ns, &frame, frame.len() as u32).unwrap();
        }
        let bytes = writer.into_inner();
        let (captured, facts) = read(&bytes);
        check_facts(&facts, segments.len())?;
        prop_assert_eq!((facts.format, facts.link_types[0].link_type), (Format::PcapNano, framing.link_type()));
        prop_assert_eq!(captured.len(), segments.len());
        for (captured, (time_ns, segment)) in captured.iter().zip(&segments) {
            let whole = frame(segment, framing).len() <= snaplen as usize;
            check(captured, *time_ns, segment, whole)?;
        }
        // The same result for any sizes of reads.
        let dribble = ChunkedReader { bytes: &bytes, max_bytes: dribble, calls: 0 };
        prop_assert_eq!(read_from(dribble, &Options::default()), (captured, facts));
    }

    #[test]
    fn pcap_of_each_kind(
        segments in proptest::collection::vec(((any::<u32>(), 0u32..1_000_000), segment()), 0..10),
        big_endian: bool,
        kind in 0usize..3,
        nanoseconds in 0u32..1000,
    ) {
        let (magic, format) = [
            (0xa1b2_c3d4, Format::PcapMicro),
            (0xa1b2_3c4d, Format::PcapNano),
            (0xa1b2_cd34, Format::PcapModified),
        ][kind];
        let mut bytes = pcap_header(big_endian, magic, 1);
        let mut times_ns = Vec::new();
        for ((seconds, micros), segment) in &segments {
            let mut frame = frame(segment, Framing::Ethernet);
            let length = frame.len() as u32;
            if format == Format::PcapModified {
                frame.splice(0..0, [0xee; 8]);
            }
            let (fraction, below) = if format == Format::PcapNano { (micros * 1000 + nanoseconds, nanoseconds) } else { (*micros, 0) };
            bytes.extend(pcap_record(big_endian, [*seconds, fraction, length, length], &frame));
            times_ns.push(i64::from(*seconds) * 1_000_000_000 + i64::from(micros * 1000 + below));
        }
        let (captured, facts) = read(&bytes);
        check_facts(&facts, segments.len())?;
        prop_assert_eq!(facts.format, format);
        for ((captured, (_, segment)), time_ns) in captured.iter().zip(&segments).zip(times_ns) {
            check(captured, time_ns, segment, true)?;
        }
    }

    #[test]
    fn pcapng(
        sections in proptest::collection::vec((any::<bool>(), any::<bool>(), proptest::collection::vec(
            (segment(), 0u8..3, 0u32..3, 0u64..1 << 62, any::<bool>()), 0..8)), 1..4),
        offset_s in -1000i64..1000,
    ) {
        let mut file: Option<PcapNg> = None;
        let mut expected: Vec<(i64, &NewSegment)> = Vec::new();
        let mut last_ns = 0;
        for (place, (big_endian, fine, packets)) in sections.iter().enumerate() {
            let file = file.get_or_insert_with(|| PcapNg::new(*big_endian));
            if place > 0 {
                file.big_endian = *big_endian;
                file.section();
            }
            // Ethernet in microseconds, raw IP in the section's own resolution, Ethernet in 2^-20
            // s.
            file.interface(1, 0);
            let (resolution, unit_ns) = if *fine { (9, 1) } else { (3, 1_000_000) };
            file.clock(101, resolution, offset_s);
            file.clock(1, 0x80 | 20, 0);
            for (segment, kind, interface, ticks, unknown) in packets {
                let framing = if *interface == 1 { Framing::Raw } else { Framing::Ethernet };
                let bytes = frame(segment, framing);
                let length = bytes.len() as u32;
                let stamp_ns = match interface {
                    0 => i64::try_from(ticks.saturating_mul(1000)).unwrap_or(i64::MAX),
                    1 => i64::try_from(ticks.saturating_mul(unit_ns)).unwrap_or(i64::MAX).saturating_add(offset_s * 1_000_000_000),
                    _ => i64::try_from((u128::from(*ticks) * 1_000_000_000) >> 20).unwrap_or(i64::MAX),
                };
                match kind {
                    0 => file.enhanced(*interface, *ticks, &bytes, length),
                    1 => file.obsolete(*interface as u16, *ticks, &bytes, length),
                    // Always on the first interface, without a time.
                    _ => file.simple(&frame(segment, Framing::Ethernet), frame(segment, Framing::Ethernet).len() as u32),
                }
                last_ns = if *kind < 2 { stamp_ns } else { last_ns };
                expected.push((last_ns, segment));
                if *unknown {
                    file.block(0x8000_0bad, b"whatever this is");
                }
            }
        }
        let (captured, facts) = read(&file.unwrap().bytes);
        check_facts(&facts, expected.len())?;
        prop_assert_eq!(facts.format, Format::PcapNg);
        prop_assert_eq!(captured.len(), expected.len());
        for (captured, (time_ns, segment)) in captured.iter().zip(expected) {
            check(captured, time_ns, segment, true)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn compressed(segments in proptest::collection::vec(segment(), 1..40), cut in any::<prop::sample::Index>()) {
        let stamped: Vec<_> = (START_NS..).step_by(1000).zip(segments).collect();
        let bytes = common::pcap(&stamped);
        let (captured, mut facts) = read(&bytes);
        let (first, second) = bytes.split_at(cut.index(bytes.len()));
        for (packing, compression) in
            [(Packing::Gzip, Compression::Gzip), (Packing::Zstd, Compression::Zstd), (Packing::Xz, Compression::Xz)]
        {
            facts.compression = compression;
            prop_assert_eq!(read(&pack(packing, &bytes)), (captured.clone(), facts.clone()), "{:?}", packing);
            // One file from two, as `cat` makes it.
            let members = [pack(packing, first), pack(packing, second)].concat();
            prop_assert_eq!(read(&members), (captured.clone(), facts.clone()), "{:?} of two", packing);
        }
    }
}
