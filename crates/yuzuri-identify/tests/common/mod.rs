//! A simulated connection over one bottleneck, written in every supported format.

#![allow(dead_code, missing_docs, clippy::unwrap_used)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use yuzuri_capture::{Flags, Framing, NewSegment, PcapWriter, SackBlocks, TcpOptions};
use yuzuri_netmodel::{Packet, Time};
use yuzuri_sim::cc::Algorithm;
use yuzuri_sim::{Kind, LocalQueue, MSS_BYTES, Receiver, ReceiverConfig, Segment, Sender, SenderConfig};
use yuzuri_trace::recording::Writer;
use yuzuri_trace::{
    CaState, Counts, Density, Event, Flow, FlowId, Item, Kind as EventKind, Session, Snapshot, Source,
};

const MSS: u32 = MSS_BYTES as u32;
const CLIENT_ISN: u32 = 0xffff_8000;
const SERVER_ISN: u32 = 7_000;
const START_NS: i64 = 1_700_000_000_000_000_000;
const WINDOW_SCALE: u8 = 10;

/// A bottleneck: a drop-tail queue, the line, and the forward delay; the return path has only a
/// delay.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub rate_bps: u64,
    pub queue: usize,
    pub rtt_ms: u64,
    pub seconds: u64,
}

/// 10 Mbit/s, 100 packets, 100 ms.
pub const LINE: Line = Line { rate_bps: 10_000_000, queue: 100, rtt_ms: 100, seconds: 60 };

/// The state that the sender's kernel would show when an acknowledgement arrives, before it is
/// processed.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub at_ns: u64,
    pub una: u32,
    pub nxt: u32,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub srtt_us: u64,
    pub min_rtt_us: u64,
    pub sacked: u32,
    pub in_flight: u32,
    pub state: u8,
    pub retransmitted: u64,
}

/// A connection.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Packets at the sender: time, with the data or against it, segment.
    pub packets: Vec<(u64, bool, Segment)>,
    pub moments: Vec<Moment>,
    pub control: &'static str,
}

pub fn addresses(number: u16) -> (SocketAddr, SocketAddr) {
    (SocketAddr::from(([10, 0, 1, 2], 40_000 + number)), SocketAddr::from(([10, 0, 2, 2], 5001)))
}

/// Simulates a bulk transfer.
pub fn run(algorithm: Algorithm, line: Line) -> Run {
    run_of(SenderConfig { algorithm, ..SenderConfig::default() }, line)
}

/// Simulates a bulk transfer of this sender.
pub fn run_of(config: SenderConfig, line: Line) -> Run {
    let algorithm = config.algorithm;
    enum Arrival {
        Data(Segment),
        Ack(Segment),
    }
    let mut sender = Sender::new(0, config, 1);
    let mut receiver = Receiver::new(0, ReceiverConfig::default());
    let mut run = Run { control: algorithm.name(), ..Run::default() };
    let mut queue: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let mut arrivals: BTreeMap<u64, Arrival> = BTreeMap::new();
    let mut number = 0;
    let mut now = 0;
    let (mut busy_until, end) = (0, line.seconds * 1_000_000_000);
    let packet_ns = |bytes: u64| bytes * 8 * 1_000_000_000 / line.rate_bps;
    sender.open();
    sender.write_endlessly(true);
    while now < end {
        while let Some(segment) = sender.poll_transmit(Time::from_nanos(now), LocalQueue::default()) {
            run.packets.push((now, true, segment));
            let length_ns = packet_ns(u64::from(segment.bytes()));
            let waiting = busy_until.max(now) - now;
            if waiting > line.queue as u64 * packet_ns(1514) {
                continue;
            }
            busy_until = busy_until.max(now) + length_ns;
            number += 1;
            queue.push(Reverse((busy_until + line.rtt_ms * 500_000, number)));
            arrivals.insert(number, Arrival::Data(segment));
        }
        while let Some(ack) = receiver.poll_transmit(Time::from_nanos(now)) {
            number += 1;
            queue.push(Reverse((now + line.rtt_ms * 500_000, number)));
            arrivals.insert(number, Arrival::Ack(ack));
        }
        let timers =
            [sender.next_timer(), receiver.next_timer()].into_iter().flatten().map(Time::as_nanos).min();
        let next = queue.peek().map(|Reverse((at, _))| *at);
        now = next.into_iter().chain(timers).min().unwrap().max(now);
        if next.is_some_and(|at| at <= now) {
            let Reverse((_, number)) = queue.pop().unwrap();
            match arrivals.remove(&number).unwrap() {
                Arrival::Data(segment) => receiver.on_segment(Time::from_nanos(now), &segment),
                Arrival::Ack(segment) => {
                    run.packets.push((now, false, segment));
                    if segment.kind == Kind::Ack {
                        run.moments.push(moment(now, &sender));
                    }
                    sender.on_segment(Time::from_nanos(now), &segment);
                }
            }
        }
        for due in [sender.next_timer(), receiver.next_timer()] {
            if due.is_some_and(|due| due.as_nanos() <= now) {
                sender.on_timer(Time::from_nanos(now));
                receiver.on_timer(Time::from_nanos(now));
            }
        }
    }
    run
}

fn moment(at_ns: u64, sender: &Sender) -> Moment {
    let window = sender.window();
    let acked = (sender.acked_bytes() / u64::from(MSS)) as u32;
    Moment {
        at_ns,
        una: acked,
        nxt: acked + sender.outstanding(),
        cwnd: window.cwnd,
        ssthresh: window.ssthresh,
        srtt_us: window.srtt_us,
        min_rtt_us: window.min_rtt_us.unwrap_or(0),
        sacked: window.sacked_out,
        in_flight: window.in_flight,
        state: window.state as u8,
        retransmitted: sender.counts().retransmissions,
    }
}

fn seq(segments: u32) -> u32 {
    CLIENT_ISN.wrapping_add(1).wrapping_add(segments.wrapping_mul(MSS))
}

impl Run {
    /// Writes a capture at the sender.
    pub fn pcap(&self, number: u16) -> Vec<u8> {
        let mut writer = PcapWriter::new(Vec::new(), Framing::Ethernet, 128).unwrap();
        self.write_pcap(&mut writer, number);
        writer.into_inner()
    }

    pub fn write_pcap(&self, writer: &mut PcapWriter<Vec<u8>>, number: u16) {
        let (client, server) = addresses(number);
        let mut frame = Vec::new();
        let mut shaken = false;
        for (at_ns, up, segment) in &self.packets {
            let (from, to) = if *up { (client, server) } else { (server, client) };
            let mut packet = NewSegment::new(from, to);
            let ms = |time: Time| (time.as_nanos() / 1_000_000) as u32;
            packet.options.timestamps =
                Some((ms(segment.sent_at).wrapping_add(1000), ms(segment.echo).wrapping_add(1000)));
            let syn = TcpOptions {
                mss: Some(1460),
                window_scale: Some(WINDOW_SCALE),
                sack_permitted: true,
                ..packet.options
            };
            match segment.kind {
                Kind::Syn => (packet.seq, packet.flags, packet.options) = (CLIENT_ISN, Flags::SYN, syn),
                Kind::SynAck => {
                    (packet.seq, packet.ack) = (SERVER_ISN, seq(0));
                    (packet.flags, packet.options) = (Flags::SYN | Flags::ACK, syn);
                }
                Kind::Data => {
                    if !std::mem::replace(&mut shaken, true) {
                        let third = NewSegment { seq: seq(0), ack: SERVER_ISN + 1, ..packet.clone() };
                        put(writer, &mut frame, *at_ns, &third);
                    }
                    (packet.seq, packet.ack) = (seq(segment.number), SERVER_ISN + 1);
                    packet.payload_bytes = segment.payload_bytes;
                }
                Kind::Ack => {
                    (packet.seq, packet.ack) = (SERVER_ISN + 1, seq(segment.number));
                    let mut blocks = SackBlocks::default();
                    if let Some(twice) = segment.dsack {
                        blocks.push(seq(twice), seq(twice + 1));
                    }
                    for block in segment.sacked().iter().take(if segment.dsack.is_some() { 2 } else { 3 }) {
                        blocks.push(seq(block.start), seq(block.end));
                    }
                    packet.options.sack = blocks;
                }
            }
            put(writer, &mut frame, *at_ns, &packet);
        }
    }

    /// Writes rows of `tcp_probe`.
    pub fn probe_csv(&self) -> String {
        let mut text = String::from("t_mono,snd_nxt,snd_una,snd_cwnd,ssthresh,snd_wnd,srtt_us\n");
        for m in &self.moments {
            let _ = writeln!(
                text,
                "{}.{:06},{},{},{},{},{},{}",
                m.at_ns / 1_000_000_000,
                m.at_ns / 1000 % 1_000_000,
                seq(m.nxt),
                seq(m.una),
                m.cwnd,
                m.ssthresh,
                60_000_000,
                m.srtt_us
            );
        }
        text
    }

    /// Writes the same in the kernel's own text format.
    pub fn probe_trace(&self) -> String {
        let (client, server) = addresses(0);
        let mut text = String::from("# tracer: nop\n#\n");
        let mut state = 0;
        for m in &self.moments {
            let head = format!(
                "          <idle>-0       [000] ..s2. {:>5}.{:06}: ",
                m.at_ns / 1_000_000_000,
                m.at_ns / 1000 % 1_000_000
            );
            if m.state != state {
                state = m.state;
                let _ = writeln!(
                    text,
                    "{head}tcp_cong_state_set: family=AF_INET sport={} dport={} saddr={} daddr={} saddrv6=::ffff:{} daddrv6=::ffff:{} cong_state={state}",
                    client.port(),
                    server.port(),
                    client.ip(),
                    server.ip(),
                    client.ip(),
                    server.ip()
                );
            }
            let _ = writeln!(
                text,
                "{head}tcp_probe: family=AF_INET src={client} dest={server} mark=0x0 data_len=0 snd_nxt={:#x} snd_una={:#x} snd_cwnd={} ssthresh={} snd_wnd=60000000 srtt={} rcv_wnd=65160 sock_cookie=1 skbaddr=000000001 skaddr=00000002",
                seq(m.nxt),
                seq(m.una),
                m.cwnd,
                m.ssthresh,
                m.srtt_us
            );
        }
        text
    }

    /// Writes the output of `ss -tin` every `every_ms`, with or without the time before it.
    pub fn ss(&self, every_ms: u64, times: bool) -> String {
        let (client, server) = addresses(0);
        let mut text = String::new();
        let mut next_ns = 0;
        let mut segments_in = 0;
        for m in &self.moments {
            segments_in += 1;
            if m.at_ns < next_ns {
                continue;
            }
            next_ns = m.at_ns + every_ms * 1_000_000;
            if times {
                let at_ns = START_NS as u64 + m.at_ns;
                let _ = writeln!(text, "{}.{:09}", at_ns / 1_000_000_000, at_ns % 1_000_000_000);
            }
            let outstanding = m.nxt - m.una;
            let repairing = u32::from(m.state >= 3);
            let mut more = String::new();
            if m.ssthresh < 0x7fff_ffff {
                let _ = write!(more, " ssthresh:{}", m.ssthresh);
            }
            if m.retransmitted > 0 {
                let _ = write!(more, " retrans:{repairing}/{}", m.retransmitted);
            }
            if m.sacked > 0 {
                let _ = write!(more, " sacked:{}", m.sacked);
            }
            let _ = writeln!(
                text,
                "State Recv-Q Send-Q Local Address:Port Peer Address:Port Process\nESTAB 0      {} {client} {server}\n\t ts sack {} \
                 wscale:10,10 rto:304 rtt:{}/1.5 ato:40 mss:{MSS} pmtu:1500 rcvmss:536 advmss:1448 cwnd:{}{more} bytes_acked:{} \
                 segs_in:{segments_in} data_segs_out:{} send 1.1Mbps lastrcv:7 unacked:{outstanding} rcv_space:14480 minrtt:{} \
                 snd_wnd:60000000",
                outstanding * MSS,
                self.control,
                m.srtt_us as f64 / 1000.0,
                m.cwnd,
                u64::from(m.una) * u64::from(MSS),
                m.nxt,
                m.min_rtt_us as f64 / 1000.0
            );
        }
        text
    }

    /// Writes a recording.
    pub fn recording(&self, path: &Path) {
        let session = Session {
            yuzuri: "0.1.0".into(),
            host: "test".into(),
            kernel: "6.12".into(),
            machine: "x86_64".into(),
            source: Source::Events,
            density: Density::EveryAck,
            filter: String::new(),
            hooks: Vec::new(),
            started_unix_ns: START_NS,
            started_mono_ns: 0,
        };
        let (client, server) = addresses(0);
        let id = FlowId(7);
        let flow = Flow {
            id,
            local: client,
            remote: server,
            congestion_control: self.control.into(),
            ..Flow::default()
        };
        let mut items = vec![Item::Flow(std::sync::Arc::new(flow))];
        let mut former = CaState::Open;
        for m in &self.moments {
            let ca_state = CaState::from_kernel(m.state).unwrap();
            let event = Event {
                mono_ns: m.at_ns,
                flow: id,
                kind: EventKind::Sample,
                ca_state,
                ca_before: ca_state,
                counts: Counts { acks: 1, ..Counts::default() },
                snapshot: Snapshot {
                    cwnd: m.cwnd,
                    ssthresh: m.ssthresh,
                    srtt_us: m.srtt_us as u32,
                    min_rtt_us: m.min_rtt_us as u32,
                    packets_out: m.nxt - m.una,
                    sacked_out: m.sacked,
                    mss: MSS,
                    snd_wnd: 60_000_000,
                    bytes_acked: u64::from(m.una) * u64::from(MSS),
                    total_retrans: m.retransmitted as u32,
                    ..Snapshot::default()
                },
                ..Event::default()
            };
            if ca_state != former {
                items.push(Item::Event(Event {
                    kind: EventKind::State,
                    ca_before: former,
                    counts: Counts::default(),
                    ..event
                }));
                former = ca_state;
            }
            items.push(Item::Event(event));
        }
        let mut writer = Writer::create(path, &session, true).unwrap();
        let start = Instant::now();
        for (number, items) in items.chunks(1000).enumerate() {
            writer.write(items, start + Duration::from_millis(number as u64)).unwrap();
        }
        let summary = writer.finish();
        assert_eq!(summary.lost, 0);
    }
}

fn put(writer: &mut PcapWriter<Vec<u8>>, frame: &mut Vec<u8>, at_ns: u64, packet: &NewSegment) {
    frame.clear();
    let wire_bytes = packet.encode(Framing::Ethernet, frame);
    writer.write(START_NS + at_ns as i64, frame, wire_bytes).unwrap();
}
