//! Odd captures, each below 4 kB. They are committed in `tests/odd` for other tests and programs;
//! `UPDATE_GOLDEN=1 cargo test -p yuzuri-capture --test odd` rewrites them.

use super::wrapped::{erf, snoop, tunnels};
use super::{Packing, PcapNg, START_NS, end, frame, pack, pcap, pcap_header, pcap_of_frames, pcap_record};
use std::sync::LazyLock;
use yuzuri_capture::{Flags, Framing, NewSegment, PcapWriter, TcpOptions};

const MS_NS: i64 = 1_000_000;

/// A short download: handshake, four segments, their ACKs with a SACK block, the end.
pub fn download() -> Vec<(i64, NewSegment)> {
    let stamps = |value, echo| Some((value, echo));
    let syn = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: stamps(1, 0),
        ..TcpOptions::default()
    };
    let up = |seq, ack, flags, options| NewSegment {
        seq,
        ack,
        flags,
        options,
        ..NewSegment::new(end(2, 40000), end(1, 80))
    };
    let down = |seq, payload_bytes, flags, options| NewSegment {
        seq,
        ack: 101,
        flags,
        options,
        payload_bytes,
        ..NewSegment::new(end(1, 80), end(2, 40000))
    };
    let plain = |value, echo| TcpOptions { timestamps: stamps(value, echo), ..TcpOptions::default() };
    let mut sack = plain(20, 11);
    sack.sack.push(1401, 1501);
    let data = Flags::ACK | Flags::PSH;
    let fin = Flags::FIN | Flags::ACK;
    let segments = [
        up(100, 0, Flags::SYN, syn),
        down(1000, 0, Flags::SYN | Flags::ACK, syn),
        up(101, 1001, Flags::ACK, plain(2, 1)),
        down(1001, 100, data, plain(11, 2)),
        down(1201, 100, data, plain(12, 2)),
        down(1401, 100, data, plain(13, 2)),
        up(101, 1101, Flags::ACK, sack),
        down(1101, 100, data, plain(14, 20)),
        up(101, 1501, fin, plain(21, 14)),
        down(1501, 0, fin, plain(15, 21)),
    ];
    (0..).map(|ms| START_NS + ms * MS_NS).zip(segments).collect()
}

pub fn frames() -> Vec<(i64, Vec<u8>)> {
    download().into_iter().map(|(time_ns, segment)| (time_ns, frame(&segment, Framing::Ethernet))).collect()
}

fn data() -> Vec<u8> {
    frames().swap_remove(3).1
}

fn cut_at(snaplen: u32) -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new(), Framing::Ethernet, snaplen).expect("memory");
    for (time_ns, frame) in frames() {
        writer.write(time_ns, &frame, frame.len() as u32).expect("memory");
    }
    writer.into_inner()
}

fn ethernet(kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
    [&[2; 12], &kind[..], packet].concat()
}

fn stamped(frames: Vec<Vec<u8>>) -> Vec<u8> {
    pcap_of_frames((0..).map(|ms| START_NS + ms * MS_NS).zip(frames))
}

/// The packet without its Ethernet header.
fn packet() -> Vec<u8> {
    data()[14..].to_vec()
}

fn no_tcp() -> Vec<u8> {
    let mut udp = packet();
    udp[9] = 17;
    let icmp = [&[0x60, 0, 0, 0, 0, 8, 58, 255][..], &[0; 32], &[128, 0, 0, 0, 0, 0, 0, 0]].concat();
    stamped(vec![ethernet([8, 6], &[0; 46]), ethernet([8, 0], &udp), ethernet([0x86, 0xdd], &icmp)])
}

fn wrong_checksums() -> Vec<u8> {
    let mut frames = frames();
    // A flipped bit of the payload; a checksum left to the network card: the sum of the
    // pseudo-header alone.
    frames[3].1[80] ^= 1;
    let partial = partial_checksum(&frames[4].1[14..]);
    frames[4].1[50..52].copy_from_slice(&partial.to_be_bytes());
    pcap_of_frames(frames)
}

/// Sum of the pseudo-header of an IPv4 packet, in the simplest way.
fn partial_checksum(packet: &[u8]) -> u16 {
    let words = packet[12..20].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum = words.sum::<u32>() + 6 + (packet.len() as u32 - 20);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

fn time_backwards() -> Vec<u8> {
    let mut segments = download();
    segments[4].0 -= 3000 * MS_NS;
    segments[8].0 -= 7 * MS_NS;
    pcap(&segments)
}

fn hostile_options() -> Vec<u8> {
    let lists: [&[u8]; 8] = [
        &[8, 0, 0, 0],
        &[8, 1, 0, 0],
        &[1, 1, 1, 8],
        &[8, 255, 0, 0],
        &[5, 7, 0, 0, 0, 0, 0, 0],
        &[2, 2, 3, 2],
        &[0; 40],
        &[1; 40],
    ];
    let plain = NewSegment { payload_bytes: 40, ..NewSegment::new(end(2, 40000), end(1, 80)) };
    let with = |list: &&[u8]| {
        let mut bytes = frame(&plain, Framing::Ethernet);
        bytes[14 + 20 + 20..][..list.len()].copy_from_slice(list);
        bytes[14 + 20 + 12] = ((5 + list.len() / 4) << 4) as u8;
        bytes
    };
    stamped(lists.iter().map(with).collect())
}

fn sequence_wrap() -> Vec<u8> {
    let from = 0xffff_ff00u32;
    let data = |place: u32| NewSegment {
        seq: from.wrapping_add(place * 100),
        payload_bytes: 100,
        ..NewSegment::new(end(1, 80), end(2, 40000))
    };
    pcap(&(0..5).map(|place| (START_NS + i64::from(place) * MS_NS, data(place))).collect::<Vec<_>>())
}

fn extensions(count: usize) -> Vec<u8> {
    let tcp = &packet()[20..];
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, if count == 0 { 6 } else { 60 }, 64];
    packet[4..6].copy_from_slice(&((count * 8 + tcp.len()) as u16).to_be_bytes());
    packet.extend([0x20; 32]);
    for place in 0..count {
        packet.extend([if place + 1 == count { 6 } else { 60 }, 0, 1, 4, 0, 0, 0, 0]);
    }
    packet.extend(tcp);
    ethernet([0x86, 0xdd], &packet)
}

fn tagged(count: usize) -> Vec<u8> {
    [&[2; 12], &[0x81, 0, 0, 7].repeat(count)[..], &[8, 0], &packet()].concat()
}

fn zero_total_length() -> Vec<u8> {
    let mut bytes = data();
    bytes[16..18].fill(0);
    // 100,000 bytes, of which the headers were captured.
    let record = pcap_record(false, [1_700_000_000, 0, 66, 100_000], &bytes[..66]);
    [pcap_header(false, 0xa1b2_3c4d, 1), record].concat()
}

fn fragments() -> Vec<u8> {
    let with = |flags: u16| {
        let mut bytes = data();
        bytes[20..22].copy_from_slice(&flags.to_be_bytes());
        bytes
    };
    // Whole, first, second and last one.
    stamped(vec![with(0x4000), with(0x2000), with(0x2010), with(0x0020)])
}

fn every_link_type() -> Vec<u8> {
    let packet = packet();
    let radiotap = [0, 0, 8, 0, 0, 0, 0, 0];
    let wlan = [&[8, 1][..], &[0; 22], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat();
    let cooked = [&[0; 14][..], &[8, 0]].concat();
    let cooked_2 = [&[8, 0][..], &[0; 18]].concat();
    let links: [(u16, &[u8]); 15] = [
        (0, &[2, 0, 0, 0]),
        (0, &[0, 0, 0, 2]),
        (1, &data()[..14]),
        (9, &[0xff, 3, 0, 0x21]),
        (12, &[]),
        (14, &[]),
        (50, &[0, 0x21]),
        (101, &[]),
        (105, &wlan),
        (108, &[0, 0, 0, 2]),
        (113, &cooked),
        (127, &[&radiotap[..], &wlan].concat()),
        (228, &[]),
        (276, &cooked_2),
        // A USB link type.
        (220, &[0; 64]),
    ];
    let mut file = PcapNg::new(false);
    for (interface, (link_type, header)) in (0..).zip(links) {
        file.interface(link_type, 0);
        let frame = [header, &packet].concat();
        file.enhanced(interface, START_NS as u64 / 1000 + u64::from(interface), &frame, frame.len() as u32);
    }
    file.bytes
}

fn resolutions() -> Vec<u8> {
    let mut file = PcapNg::new(true);
    let frame = data();
    let length = frame.len() as u32;
    // 1700000000.5 s and, where a tick is longer, 1700000000 s.
    let clocks: [(u8, u64, i64); 7] = [
        (0, 1_700_000_000, 0),
        (3, 1_700_000_000_500, 0),
        (6, 500_000, 1_700_000_000),
        (9, 1_700_000_000_500_000_000, 0),
        (0x80, 1_700_000_000, 0),
        (0x80 | 10, 1_700_000_000 * 1024 + 512, 0),
        (0x80 | 32, 1_700_000_001 << 32 | 1 << 31, -1),
    ];
    for (interface, (resolution, ticks, offset_s)) in (0..).zip(clocks) {
        file.clock(1, resolution, offset_s);
        file.enhanced(interface, ticks, &frame, length);
    }
    file.bytes
}

fn two_sections() -> Vec<u8> {
    let mut file = PcapNg::new(false);
    let frames = frames();
    for (place, (time_ns, frame)) in frames.iter().enumerate() {
        if place == 5 {
            file.big_endian = true;
            file.section();
        }
        if place % 5 == 0 {
            file.interface(1, 0);
        }
        match place % 5 {
            0 | 3 => file.enhanced(0, *time_ns as u64 / 1000, frame, frame.len() as u32),
            1 => file.obsolete(0, *time_ns as u64 / 1000, frame, frame.len() as u32),
            2 => file.simple(frame, frame.len() as u32),
            _ => file.block(0x8000_0001, b"a block of local use"),
        }
    }
    file.bytes
}

fn statistics() -> Vec<u8> {
    let mut file = PcapNg::new(false);
    for interface in 0..2u32 {
        file.interface(1, 0);
        // The second block of the first interface counts from the start, as the first one does.
        for drops in [3u64, 5].into_iter().take(2 - interface as usize) {
            let fields = [interface, 0, 0].into_iter().flat_map(|field| file.number(field));
            let options =
                [file.option(4, &file.long(1000)), file.option(5, &file.long(drops)), file.option(0, &[])];
            let body = fields.chain(options.concat()).collect::<Vec<_>>();
            file.block(5, &body);
        }
    }
    file.bytes
}

/// A pcapng file with one packet, followed by these bytes.
fn then(bytes: &[u8]) -> Vec<u8> {
    let mut file = PcapNg::new(false);
    file.interface(1, 0);
    file.enhanced(0, START_NS as u64 / 1000, &data(), data().len() as u32);
    file.bytes.extend(bytes);
    file.bytes
}

fn no_interface() -> Vec<u8> {
    let mut file = PcapNg::new(false);
    let frame = data();
    file.enhanced(0, 0, &frame, frame.len() as u32);
    file.simple(&frame, frame.len() as u32);
    file.interface(1, 0);
    file.enhanced(1, 0, &frame, frame.len() as u32);
    file.enhanced(0, 0, &frame, frame.len() as u32);
    file.bytes
}

/// Three million zeros in one packet.
fn bomb() -> Vec<u8> {
    const BYTES: u32 = 3_000_000;
    let record = pcap_record(false, [0, 0, BYTES, BYTES], &vec![0; BYTES as usize]);
    let after = pcap_record(false, [1, 0, data().len() as u32, data().len() as u32], &data());
    pack(Packing::Gzip, &[pcap_header(false, 0xa1b2_3c4d, 1), record, after].concat())
}

/// Two streams joined as by `cat`, the second one truncated.
fn truncated_xz() -> Vec<u8> {
    let whole = pcap(&download());
    let (first, second) = whole.split_at(600);
    let second = pack(Packing::Xz, second);
    [pack(Packing::Xz, first), second[..second.len() / 2].to_vec()].concat()
}

fn truncated_gzip() -> Vec<u8> {
    let mut packed = pack(Packing::Gzip, &pcap(&download()));
    packed.truncate(packed.len() * 3 / 4);
    packed
}

/// Every odd file, with its name.
pub fn all() -> &'static [(&'static str, Vec<u8>)] {
    static FILES: LazyLock<Vec<(&'static str, Vec<u8>)>> = LazyLock::new(build);
    &FILES
}

/// The odd file of that name.
pub fn file(name: &str) -> &'static [u8] {
    let file = all().iter().find(|(other, _)| *other == name);
    &file.unwrap_or_else(|| panic!("no file {name}")).1
}

fn build() -> Vec<(&'static str, Vec<u8>)> {
    let whole = pcap(&download());
    let mut too_long = pcap(&download()[..2]);
    too_long.extend(pcap_record(false, [1_700_000_000, 0, u32::MAX, u32::MAX], &data()));
    let mut big_endian = pcap_header(true, 0xa1b2_c3d4, 1);
    for (time_ns, frame) in frames() {
        let micros = (time_ns / 1000 % 1_000_000) as u32;
        big_endian.extend(pcap_record(
            true,
            [1_700_000_000, micros, frame.len() as u32, frame.len() as u32],
            &frame,
        ));
    }
    let loops = vec![data(); 15];
    let one_direction = download().into_iter().filter(|(_, segment)| segment.from == end(1, 80));
    let length_max = [6u32.to_le_bytes(), (u32::MAX - 3).to_le_bytes(), [0; 4]].concat();
    let length_8 = [6u32.to_le_bytes(), 8u32.to_le_bytes(), 8u32.to_le_bytes()].concat();
    let lengths_differ = [4u32.to_le_bytes(), 16u32.to_le_bytes(), [0; 4], 20u32.to_le_bytes()].concat();
    let neither_order = [0x0a0d_0d0au32.to_le_bytes(), 12u32.to_le_bytes(), [7; 4]].concat();
    let long_packet = {
        let fields = [0u32, 0, 0, 4096, 4096].into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        let length = 12 + fields.len() as u32;
        [&6u32.to_le_bytes()[..], &length.to_le_bytes(), &fields, &length.to_le_bytes()].concat()
    };
    vec![
        ("plain.pcap", whole.clone()),
        ("big-endian-microseconds.pcap", big_endian),
        ("empty.pcap", Vec::new()),
        ("text.pcap", b"time,cwnd\n0.1,10\n0.2,20\n0.3,40\n0.4,80\n".to_vec()),
        ("elf.pcap", [&b"\x7fELF\x02\x01\x01"[..], &[0; 57]].concat()),
        ("recording.pcap", [&b"ARROW1\0\0"[..], &[0xff; 56]].concat()),
        ("cut-in-file-header.pcap", whole[..20].to_vec()),
        ("header-only.pcap", whole[..24].to_vec()),
        ("cut-in-packet-header.pcap", whole[..24 + 16 + 74 + 9].to_vec()),
        ("cut-in-packet.pcap", whole[..24 + 16 + 74 + 16 + 33].to_vec()),
        ("no-tcp.pcap", no_tcp()),
        ("one-direction.pcap", pcap(&one_direction.collect::<Vec<_>>())),
        ("no-syn.pcap", pcap(&download()[3..8])),
        ("wrong-checksums.pcap", wrong_checksums()),
        ("time-backwards.pcap", time_backwards()),
        ("loop.pcap", stamped(loops)),
        ("hostile-options.pcap", hostile_options()),
        ("sequence-wrap.pcap", sequence_wrap()),
        ("extension-headers.pcap", stamped(vec![extensions(0), extensions(16), extensions(100)])),
        ("vlan-tags.pcap", stamped(vec![tagged(1), tagged(2), tagged(8), tagged(60)])),
        ("snaplen-54.pcap", cut_at(54)),
        ("snaplen-68.pcap", cut_at(68)),
        ("snaplen-78.pcap", cut_at(78)),
        ("snaplen-96.pcap", cut_at(96)),
        ("snaplen-40.pcap", cut_at(40)),
        ("zero-total-length.pcap", zero_total_length()),
        ("fragments.pcap", fragments()),
        ("captured-length-max.pcap", too_long),
        ("unknown-link-type.pcap", [pcap_header(false, 0xa1b2_c3d4, 220), whole[24..].to_vec()].concat()),
        ("every-link-type.pcapng", every_link_type()),
        ("no-interface.pcapng", no_interface()),
        ("resolutions.pcapng", resolutions()),
        ("two-sections.pcapng", two_sections()),
        ("statistics.pcapng", statistics()),
        ("block-length-max.pcapng", then(&length_max)),
        ("block-length-8.pcapng", then(&length_8)),
        ("block-lengths-differ.pcapng", then(&lengths_differ)),
        ("neither-byte-order.pcapng", then(&neither_order)),
        ("packet-beyond-block.pcapng", [then(&long_packet), then(&[])[28..].to_vec()].concat()),
        ("tunnels.pcap", tunnels()),
        ("download.snoop", snoop()),
        ("download.erf", erf()),
        ("bomb.pcap.gz", bomb()),
        ("truncated.pcap.gz", truncated_gzip()),
        ("truncated.pcap.xz", truncated_xz()),
        ("nothing-to-unpack.pcap.xz", pack(Packing::Xz, &whole)[..40].to_vec()),
        ("text.gz", pack(Packing::Gzip, b"only text, but long enough for a header\n")),
    ]
}
