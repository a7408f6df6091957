//! Tunnels and other file formats yield the same segments as the plain capture.
#![allow(clippy::unwrap_used)]

mod common;

use common::wrapped::{BELOW_IP, TUNNELS, erf, outside, snoop, udp};
use common::{frame, odd, pcap_of_frames, segments};
use yuzuri_capture::{Capture, Ending, Format, Framing, Options, Segment, Tunnels};

/// Segments without their times.
fn timeless(bytes: &[u8]) -> Vec<Segment> {
    segments(bytes).into_iter().map(|segment| Segment { time_ns: 0, ..segment }).collect()
}

fn through(wrap: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let frames = odd::download().into_iter();
    pcap_of_frames(frames.map(|(time_ns, segment)| (time_ns, wrap(&frame(&segment, Framing::Ethernet)))))
}

#[test]
fn tunnelled_packets_are_read_as_without_the_tunnel() {
    let plain = segments(odd::file("plain.pcap"));
    for (name, wrap) in TUNNELS.iter().chain(&BELOW_IP) {
        let capture = through(wrap);
        assert_eq!(segments(&capture), plain, "{name}");
        let facts = common::read(&capture).1;
        let tunnelled = if BELOW_IP.iter().any(|(other, _)| other == name) { 0 } else { 10 };
        assert_eq!(
            (facts.tunnels.total(), facts.flows.seen, facts.checksums.valid),
            (tunnelled, 1, 10),
            "{name}"
        );
    }
    let in_each_other = through(|inner| (TUNNELS[0].1)(&(TUNNELS[6].1)(inner)));
    assert_eq!(segments(&in_each_other), plain);
    assert_eq!(common::read(&in_each_other).1.tunnels, Tunnels { vxlan: 10, ..Tunnels::default() });
}

#[test]
fn truncation_within_a_tunnel_is_reported() {
    for (name, wrap) in TUNNELS {
        let frame = wrap(&frame(&odd::download()[3].1, Framing::Ethernet));
        for length in 0..frame.len() {
            let facts = common::read(&pcap_of_frames([(0, frame[..length].to_vec())])).1;
            let skipped = facts.skipped;
            let cut = skipped.cut + skipped.not_tcp + facts.segments;
            assert_eq!((cut, facts.packets), (1, 1), "{name}, {length} bytes: {skipped:?}");
            // Up to the UDP header, nothing shows that more was to come.
            assert!(skipped.not_tcp == 0 || length < 14 + 20 + 8, "{name}, {length} bytes");
        }
    }
}

#[test]
fn a_port_alone_makes_no_tunnel() {
    let inner = frame(&odd::download()[3].1, Framing::Ethernet);
    let not_vxlan = udp(4789, &[&[0, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat());
    let arp = [&[2; 12][..], &[8, 6], &[0; 46]].concat();
    let others = [
        not_vxlan,
        udp(4789, &[&[0x08, 0, 0, 0, 0, 0, 7, 0][..], &arp].concat()),
        udp(2152, &[&[0x30, 26, 0, 0, 0, 0, 0, 7][..], &inner[14..]].concat()),
        udp(53, &[7; 100]),
        // PPTP, whose version is 1; source routing.
        outside(47, &[&[0x30, 1, 0x88, 0x0b][..], &[7; 60]].concat()),
        outside(47, &[&[0x40, 0, 8, 0][..], &inner[14..]].concat()),
        outside(4, &[0x25; 60]),
    ];
    let facts = common::read(&pcap_of_frames((0..).zip(others))).1;
    assert_eq!(
        (facts.packets, facts.skipped.not_tcp, facts.tunnels.total()),
        (7, 7, 0),
        "{:?}",
        facts.skipped
    );
    let deep = (0..6).fold(inner, |inner, _| (TUNNELS[0].1)(&inner));
    assert_eq!(common::read(&pcap_of_frames([(0, deep)])).1.skipped.too_deep, 1);
}

#[test]
fn snoop_and_erf_give_the_same_as_pcap() {
    let plain = segments(odd::file("plain.pcap"));
    for (format, bytes, drops) in [(Format::Snoop, snoop(), Some(2)), (Format::Erf, erf(), None)] {
        let facts = common::read(&bytes).1;
        assert_eq!((facts.format, facts.capture_drops), (format, drops));
        assert_eq!((facts.ending, facts.cut_packets, facts.checksums.valid), (Ending::Whole, 0, 10));
        let captured = segments(&bytes);
        assert_eq!(captured, plain, "{format:?}");
        // A file cut anywhere yields what comes before the cut, or is no capture.
        for length in 0..bytes.len() {
            let Ok(mut capture) = Capture::new(&bytes[..length], "it", &Options::default()) else {
                assert!(length < 120, "{format:?}, {length} bytes");
                continue;
            };
            let count = capture.fold(0, |count, _, _| count + 1).unwrap();
            let ending = capture.facts().ending;
            assert!(matches!(ending, Ending::Cut { .. } | Ending::Whole), "{format:?}, {length}: {ending:?}");
            assert!(count <= 10 && (count < 10 || length + 8 >= bytes.len()));
        }
    }
    assert_eq!(timeless(&common::pack(common::Packing::Zstd, &erf())), timeless(odd::file("plain.pcap")));
}

#[test]
fn lengths_that_contradict_each_other_end_a_file() {
    let mut longer = snoop();
    // The captured length of the first packet exceeds its record's.
    longer[16 + 4..16 + 8].copy_from_slice(&5000u32.to_be_bytes());
    assert!(matches!(common::read(&longer).1.ending, Ending::Damaged { offset_bytes: 16, .. }));
    let mut shorter = erf();
    let third: usize = [0, 0]
        .iter()
        .fold(0, |at, _| at + usize::from(shorter[at + 10]) * 256 + usize::from(shorter[at + 11]));
    let fourth = third + usize::from(shorter[third + 11]);
    shorter[fourth + 10..fourth + 12].copy_from_slice(&7u16.to_be_bytes());
    let facts = common::read(&shorter).1;
    assert_eq!((facts.packets, matches!(facts.ending, Ending::Damaged { .. })), (3, true));
}
