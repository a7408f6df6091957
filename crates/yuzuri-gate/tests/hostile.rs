//! Compares the BPF programs with the model in Rust, frame by frame (`BPF_PROG_TEST_RUN`): random
//! handshakes, streams, damaged and invalid frames. `SEED` repeats a run, and `CASES` sets its size
//! (`SEED=7 CASES=2000000`).
#![allow(clippy::unwrap_used, missing_docs)]

mod frames;
mod loaded;

use frames::*;
use std::collections::HashMap;
use std::time::Duration;
use yuzuri_gate::model::Model;
use yuzuri_gate::{Bound, ConnectionState, Direction, FlowKey, Gate, Options};

const CASES: u64 = 150_000;
/// The number of frames after which the model's and the kernel's tables are compared, and cleared.
const ROUND: u64 = 5000;
const LONG: Duration = Duration::from_secs(3600);

fn gate(test: &str) -> Option<Gate> {
    loaded::gate(test, &Options::default())
}

/// A simulated connection: the next segments of its ends.
struct SimulatedConnection {
    form: Form,
    n: u16,
    station_next: u32,
    acked: u32,
    server_next: u32,
    clock: u32,
    stamps: bool,
    /// The number of frames of its handshake generated so far.
    opened: u8,
    /// Its station opened it.
    by_station: bool,
    /// It carries data in order, mostly without losses.
    calm: bool,
    /// The data sent by its station.
    sent: u32,
}

/// Frames for a connection.
struct FrameSource {
    rng: Rng,
    all: Vec<SimulatedConnection>,
}

impl FrameSource {
    fn new(seed: u64) -> FrameSource {
        let mut rng = Rng::new(seed);
        let all = (0..16).map(|n| SimulatedConnection {
            form: rng.of(&FORMS),
            n,
            station_next: rng.next() as u32,
            acked: 0,
            server_next: 0,
            clock: rng.next() as u32,
            stamps: rng.one_in(2),
            opened: 0,
            by_station: true,
            calm: rng.one_in(2),
            sent: 0,
        });
        let all = all.collect();
        FrameSource { rng, all }
    }

    /// The options of a random SYN: mostly those of real stacks, sometimes invalid ones.
    fn offer(&mut self) -> Vec<u8> {
        let rng = &mut self.rng;
        let scale = if rng.one_in(6) { None } else { Some(rng.below(16) as u8) };
        let mut options = syn_options(scale);
        match rng.below(80) {
            0 => options.extend([30, 12, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            1 => options.extend([29, 4, 1, 1]),
            2 => options = vec![19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 2],
            3 => options = rng.bytes(12),
            4 => options.extend([3, 4, 7, 7]),
            5 => options.extend([35, 3, 9, 0]),
            6 => options = vec![1; 37],
            7 => options = vec![0, 3, 3, 3],
            8 => options.extend([3, 9]),
            9 => options.clear(),
            _ => {}
        }
        options.truncate(40);
        options
    }

    /// A frame of the connection at `at`, whose station may send to `edge`: its direction, and
    /// whether it was damaged.
    fn frame(&mut self, at: usize, edge: Option<u32>) -> (Direction, Vec<u8>, bool) {
        let opened = &mut self.all[at].opened;
        *opened = opened.saturating_add(1);
        // A handshake first; then other segments, and sometimes another handshake.
        let what = match *opened {
            1 => 0,
            2 => 4,
            _ => self.rng.below(1000),
        };
        let options = if what < 6 { self.offer() } else { Vec::new() };
        let rng = &mut self.rng;
        let c = &mut self.all[at];
        c.clock = c.clock.wrapping_add(rng.below(3) as u32);
        let plain = if c.stamps { stamps(c.clock, c.clock.wrapping_sub(1)) } else { Vec::new() };
        let (direction, tcp) = match what {
            0..=3 => {
                // Mostly a new connection between the same ends, whose answer follows.
                if c.opened == 1 || !rng.one_in(3) {
                    c.opened = 1;
                    (c.station_next, c.server_next) = (rng.next() as u32, rng.next() as u32);
                    c.acked = c.station_next.wrapping_add(1);
                    c.sent = c.acked;
                }
                // Mostly the station opens; of a repeated SYN the options may differ.
                let up = !rng.one_in(6);
                c.by_station = up;
                let seq = if up { c.station_next } else { c.server_next };
                let data = if rng.one_in(20) { rng.bytes(50) } else { Vec::new() };
                let tcp = Tcp::new(SYN, seq, 0, rng.next() as u16).with(&options).carrying(data);
                (if up { Direction::Up } else { Direction::Down }, tcp)
            }
            4..=5 => {
                let down = c.by_station != rng.one_in(10);
                let (seq, of) =
                    if down { (c.server_next, c.station_next) } else { (c.station_next, c.server_next) };
                let ack =
                    if rng.one_in(10) { rng.next() as u32 } else { of.wrapping_add(1 + rng.below(2) as u32) };
                let tcp = Tcp::new(SYN | ACK, seq, ack, rng.next() as u16).with(&options);
                (if down { Direction::Down } else { Direction::Up }, tcp)
            }
            6..=997 if c.calm => {
                let under_way = c.sent.wrapping_sub(c.acked);
                if under_way < 1400 * rng.below(20) as u32 && !rng.one_in(50) {
                    let mut tcp = Tcp::new(ACK, c.sent, c.server_next, 500).carrying(vec![7; 1400]);
                    tcp.options = plain;
                    c.sent = c.sent.wrapping_add(1400);
                    (Direction::Up, tcp)
                } else {
                    // Now and then an ACK that must not be dropped: the last one, a duplicate, or
                    // one that opens the window or has a mark or SACK blocks.
                    let by = if rng.one_in(8) {
                        under_way
                    } else {
                        under_way.min((1 + rng.below(3)) as u32 * 1400)
                    };
                    c.acked = c.acked.wrapping_add(if rng.one_in(200) { 0 } else { by });
                    let window = if rng.one_in(20) { rng.next() as u16 } else { 50_000 };
                    let flags = if rng.one_in(200) { ACK | rng.next() as u8 & !(SYN | RST) } else { ACK };
                    let mut tcp = Tcp::new(flags, c.server_next, c.acked, window);
                    tcp.options = plain;
                    if rng.one_in(300) {
                        tcp.options.extend([1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 9]);
                    }
                    (Direction::Down, tcp)
                }
            }
            6..=655 => {
                let by = if rng.one_in(1000) { rng.next() } else { rng.below(6) * 1448 };
                c.acked = c.acked.wrapping_add(by as u32);
                // At times the station has sent everything that its window admits, and everything
                // is acknowledged.
                if let Some(edge) = edge.filter(|_| rng.one_in(5)) {
                    c.acked = edge.wrapping_sub(rng.below(5000) as u32);
                }
                let back = if rng.one_in(10) { rng.below(3000) as u32 } else { 0 };
                let window = if rng.one_in(30) { 0 } else { rng.next() as u16 };
                let flags = if rng.one_in(20) { rng.next() as u8 & !(SYN | RST) } else { ACK };
                let data = if rng.one_in(8) { rng.bytes(100) } else { Vec::new() };
                let mut tcp =
                    Tcp::new(flags, c.server_next, c.acked.wrapping_sub(back), window).carrying(data);
                tcp.options = plain;
                (Direction::Down, tcp)
            }
            656..=979 => {
                let end = c.acked.wrapping_add(rng.below(100_000) as u32);
                let size = rng.below(1400) as usize;
                let mut tcp = Tcp::new(ACK, end, c.server_next, rng.next() as u16).carrying(rng.bytes(size));
                tcp.options = plain;
                (Direction::Up, tcp)
            }
            _ => {
                let flags = if rng.one_in(2) { RST | ACK } else { rng.next() as u8 };
                let seq = rng.next() as u32;
                (rng.of(&[Direction::Down, Direction::Up]), Tcp::new(flags, seq, seq, rng.next() as u16))
            }
        };
        let mut made = frame(c.form, direction, c.n, &tcp);
        if rng.one_in(20) {
            made.resize(made.len() + rng.below(20) as usize, 0);
        }
        let damaged = rng.one_in(if c.calm { 100 } else { 8 });
        if damaged {
            for _ in 0..=rng.below(4) {
                // Mostly the headers.
                let most = if rng.one_in(4) { made.len() } else { made.len().min(80) };
                let place = rng.below(most as u64) as usize;
                made[place] = rng.next() as u8;
            }
            if rng.one_in(4) {
                made.truncate(15 + rng.below(made.len() as u64 - 15) as usize);
            }
        }
        (direction, made, damaged)
    }
}

/// Compares the tables of both; returns the number of connections.
fn compare(gate: &Gate, model: &Model, seed: u64) -> usize {
    let seen: HashMap<FlowKey, _> = gate.flows().unwrap().into_iter().map(|flow| (flow.key, flow)).collect();
    assert_eq!(seen.len(), model.flows.len(), "seed {seed}");
    for (key, ours) in &model.flows {
        let theirs = &seen[key];
        let state = match ours {
            flow if flow.is_closed => ConnectionState::Reset,
            flow if flow.is_never_modified => ConnectionState::NeverModified,
            flow if flow.is_known => ConnectionState::Established,
            _ => ConnectionState::SynSeen,
        };
        let kernel = (
            theirs.state,
            theirs.scale,
            theirs.edge,
            theirs.acked_bytes,
            theirs.up_bytes,
            theirs.repeated_segments,
            theirs.beyond_edge_bytes,
            theirs.lowered,
            theirs.thinned,
            theirs.mss.unwrap_or(0),
        );
        let model = (
            state,
            ours.clamp.scale,
            ours.clamp.edge,
            ours.acked_bytes,
            ours.up_bytes,
            ours.repeated_segments,
            ours.beyond_edge_bytes,
            ours.lowered,
            ours.thinned,
            ours.mss,
        );
        assert_eq!(kernel, model, "{key}, seed {seed}: the kernel's is on the left");
    }
    model.flows.len()
}

/// An ACK as sent by the server and as received by the station, with the gate's edge before it. A
/// damaged frame moves the gate's edge, and the observer forgets the connection. The next edge may
/// then be left of the gate's, and an ACK may be beyond the gate's edge, or more than a window
/// behind it, while half of the sequence space away it is ahead of the observer's. There the gate
/// starts over, and so must the observer.
fn advertise(
    observer: &mut WindowObserver,
    key: FlowKey,
    form: Form,
    edge: Option<u32>,
    scale: u8,
    [sent, had]: [&[u8]; 2],
) {
    let at = tcp_at(form);
    let ack = u32::from_be_bytes(sent[at + 8..at + 12].try_into().unwrap());
    if edge.is_some_and(|edge| !(0..=3 << 29).contains(&(edge.wrapping_sub(ack) as i32))) {
        observer.forget(&key);
    }
    observer.acked(key, form, scale, sent, had);
}

/// The rarest of the drawn cases: once in a million frames.
#[test]
fn the_observer_restarts_where_the_gate_does() {
    let (form, n, a) = (Form::V4, 1, 1_000_000_u32);
    let (mut model, mut observer) = (Model::default(), WindowObserver::default());
    model.bounds.insert(key(form, n), Bound { bytes: 20_000, thin_bytes: 0 });
    let mut opens = |direction, tcp: Tcp| {
        model.frame(direction, &mut frame(form, direction, n, &tcp.with(&syn_options(Some(7)))));
    };
    opens(Direction::Up, Tcp::new(SYN, a - 1, 0, 60_000));
    opens(Direction::Down, Tcp::new(SYN | ACK, 5, a, 60_000));
    let far = a + (1 << 29);
    let behind = far.wrapping_add(100 << 7).wrapping_sub((3 << 29) + 1);
    let mut lowered = 0;
    // The first frame is damaged: the station drops it, and the gate does not notice.
    for (ack, window, damaged) in [
        (far, 100, true),
        (a, 60_000, false),
        (behind, 1000, false),
        (behind.wrapping_add(1000), 65_535, false),
    ] {
        let edge = model.flows[&key(form, n)].clamp.edge;
        let sent = frame(form, Direction::Down, n, &Tcp::new(ACK, 6, ack, window));
        let mut had = sent.clone();
        model.frame(Direction::Down, &mut had);
        lowered += u32::from(had != sent);
        if !damaged {
            advertise(&mut observer, key(form, n), form, edge, 7, [&sent, &had]);
        }
    }
    assert_eq!((lowered, observer.advertised), (1, 1));
}

#[test]
fn the_bpf_program_matches_the_model() {
    let Some(mut gate) = gate("the_bpf_program_matches_the_model") else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seed = number("SEED")
        .unwrap_or_else(|| std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
    let cases = number("CASES").unwrap_or(CASES);
    println!("SEED={seed} CASES={cases}");
    let (mut lowered, mut flows, mut sums, mut refused) = (0u64, 0, 0u64, 0u64);
    let (mut edges, mut rounded, mut thinned, mut needless) = (0, 0, 0u64, 0u64);
    for round in 0..cases.div_ceil(ROUND) {
        let mut player = FrameSource::new(seed.wrapping_add(round));
        let mut model = Model::default();
        let mut observer = WindowObserver::default();
        for case in 0..ROUND {
            let at = player.rng.below(player.all.len() as u64) as usize;
            let (form, n) = (player.all[at].form, player.all[at].n);
            if player.rng.one_in(30) {
                let most = player.rng.of(&[5_000, 50_000, 5_000_000, u32::MAX.into()]);
                let bytes = player.rng.below(most) as u32;
                let thin_bytes = player.rng.of(&[0, 2800, 11_200, u32::MAX]);
                let bound = Bound { bytes, thin_bytes };
                gate.bound(&[(key(form, n), bound)], LONG).unwrap();
                model.bounds.insert(key(form, n), bound);
            }
            let edge = model.flows.get(&key(form, n)).and_then(|flow| flow.clamp.edge);
            let (direction, frame, damaged) = player.frame(at, edge);
            let mut expected = frame.clone();
            let before = model.flows.clone();
            let may_be_left_out = direction == Direction::Down && model.may_leave_out(&frame);
            let tried = gate.try_packet(direction, &frame, 1);
            if tried.as_ref().is_ok_and(|tried| !tried.passes) {
                assert!(may_be_left_out, "seed {seed}, round {round}, {form:?}: {frame:02x?}");
                assert_eq!(tried.unwrap().frame, frame);
                model.left_out(&frame);
                thinned += 1;
                continue;
            }
            needless += u64::from(may_be_left_out);
            model.frame(direction, &mut expected);
            let Ok(tried) = tried else {
                // The kernel takes no frame that is shorter than the IP header that it names.
                assert!(damaged && frame.len() < 54 && frame == expected, "{frame:02x?}");
                refused += 1;
                continue;
            };
            assert_eq!(
                tried.frame, expected,
                "seed {seed}, round {round}, frame {case}, {form:?}, {direction:?}: from {frame:02x?}"
            );
            // Independent of the model: a correct checksum stays correct.
            if !damaged && tried.frame != frame {
                assert!(is_sum_right(form, &frame) && is_sum_right(form, &tried.frame), "{frame:02x?}");
                sums += 1;
            }
            lowered += u64::from(tried.frame != frame);
            let tcp_flags = |frame: &[u8]| frame[tcp_at(form) + 13];
            if damaged || tcp_flags(&frame) & (SYN | RST) != 0 {
                // Only the model determines to which connection the frame belongs, and its effect.
                model
                    .flows
                    .iter()
                    .filter(|(key, flow)| before.get(key) != Some(flow))
                    .for_each(|(key, _)| observer.forget(key));
            } else if let Some(flow) = model.flows.get(&key(form, n)).filter(|flow| {
                direction == Direction::Down
                    && flow.is_known
                    && !flow.is_never_modified
                    && tcp_flags(&frame) & ACK != 0
            }) {
                advertise(&mut observer, key(form, n), form, edge, flow.clamp.scale, [&frame, &tried.frame]);
            }
        }
        (edges, rounded) = (edges + observer.advertised, rounded + observer.rounded);
        flows += compare(&gate, &model, seed);
        for key in model.flows.keys().chain(model.bounds.keys()) {
            gate.forget(key);
        }
        assert!(gate.flows().unwrap().is_empty());
    }
    println!(
        "{cases} frames, {flows} connections, {lowered} windows lowered, {sums} checksums right, {edges} edges \
         advertised, none moved left ({rounded} by less than a unit of more than 1 kB), {thinned} ACKs \
         dropped, {needless} more could have been, {refused} not taken"
    );
    assert!(refused * 50 < cases);
    assert!(thinned * 1000 > cases, "too few ACKs were left out: {thinned}");
    assert!(edges * 12 > cases, "too few edges were advertised for this to say anything: {edges}");
    assert!(lowered * 40 > cases, "too few windows were lowered for this to say anything: {lowered}");
    let outcome =
        "same as the model in Rust; no other byte changed, no checksum wrong, no right edge moved left";
    yuzuri_testnet::attack(
        "damaged and invented frames through the gate's programs",
        cases,
        "frames",
        outcome,
    );
}

/// Frames that must never be modified, form by form, each next to a frame that is.
#[test]
fn unknown_packets_pass_unchanged() {
    let Some(mut gate) = gate("unknown_packets_pass_unchanged") else { return };
    let bounded = |gate: &mut Gate, form: Form, n: u16, options: &[u8]| {
        let syn = Tcp::new(SYN, 1000, 0, 65_535).with(options);
        let syn_ack = Tcp::new(SYN | ACK, 5000, 1001, 65_535).with(options);
        for (direction, tcp) in [(Direction::Up, &syn), (Direction::Down, &syn_ack)] {
            let made = frame(form, direction, n, tcp);
            assert_eq!(gate.try_packet(direction, &made, 1).unwrap().frame, made);
        }
        gate.bound(&[(key(form, n), 8000)], LONG).unwrap();
    };
    let is_lowered = |gate: &Gate, form: Form, frame: &[u8]| {
        let tried = gate.try_packet(Direction::Down, frame, 1).unwrap();
        assert!(tried.passes);
        let window = tcp_at(form) + 14;
        let same =
            tried.frame[..window] == frame[..window] && tried.frame[window + 4..] == frame[window + 4..];
        assert!(same, "more than the window and the checksum changed");
        tried.frame != frame
    };
    // An ACK far beyond the window advertised in the handshake.
    let ack = Tcp::new(ACK, 5001, 101_001, 60_000);
    for (n, form) in FORMS.into_iter().enumerate() {
        let n = n as u16;
        bounded(&mut gate, form, n, &syn_options(Some(7)));
        let tried =
            gate.try_packet(Direction::Down, &frame(form, Direction::Down, n, &ack), 1).unwrap().frame;
        let window = tcp_at(form) + 14;
        // 8000 bytes in units of 128, rounded up.
        assert_eq!(tried[window..window + 2], 63u16.to_be_bytes(), "{form:?}");
        assert!(is_sum_right(form, &tried));

        let mut zero = ack.clone();
        zero.window = 0;
        assert!(!is_lowered(&gate, form, &frame(form, Direction::Down, n, &zero)));
        let mut reset = ack.clone();
        reset.flags |= RST;
        assert!(!is_lowered(&gate, form, &frame(form, Direction::Down, n, &reset)));
        assert!(
            !is_lowered(&gate, form, &frame(form, Direction::Down, 999, &ack)),
            "its beginning was not seen"
        );
        assert!(is_lowered(&gate, form, &frame(form, Direction::Down, n, &ack)));
    }
    let (v4, v6) = (Form::V4, Form::V6);
    let changed = |form: Form, n: u16, at: usize, to: u8| {
        let mut made = frame(form, Direction::Down, n, &ack);
        made[at] = to;
        made
    };
    assert!(!is_lowered(&gate, v4, &changed(v4, 0, 20, 0x20)), "the first fragment");
    assert!(!is_lowered(&gate, v4, &changed(v4, 0, 21, 5)), "a later fragment");
    assert!(!is_lowered(&gate, v6, &changed(v6, 1, 20, 0)), "an extension header");
    assert!(!is_lowered(&gate, v4, &changed(v4, 0, 46, 0x40)), "a header of 16 bytes");
    let mut padded = frame(v4, Direction::Down, 0, &ack);
    padded.resize(60, 0xee);
    assert!(is_lowered(&gate, v4, &padded), "padding is not part of it");
    // Connections with signed headers, or with a window shared between paths.
    for (n, (options, what)) in [
        (vec![19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 7], "MD5"),
        (vec![3, 3, 7, 29, 4, 1, 1], "TCP-AO"),
        (vec![3, 3, 7, 30, 4, 0, 0], "MPTCP"),
        (vec![3, 3, 7, 8, 99], "an option longer than the header"),
    ]
    .into_iter()
    .enumerate()
    {
        bounded(&mut gate, v4, 100 + n as u16, &options);
        assert!(!is_lowered(&gate, v4, &frame(v4, Direction::Down, 100 + n as u16, &ack)), "{what}");
    }
    // A connection whose server does not scale its windows.
    bounded(&mut gate, v4, 200, &syn_options(None));
    let tried = gate.try_packet(Direction::Down, &frame(v4, Direction::Down, 200, &ack), 1).unwrap().frame;
    assert_eq!(tried[48..50], 8000u16.to_be_bytes());
}

#[test]
fn a_bound_expires_and_stations_have_bounds_of_their_own() {
    let Some(mut gate) = gate("a_bound_expires_and_stations_have_bounds_of_their_own") else { return };
    let form = Form::V4;
    let open = |gate: &Gate, n: u16| {
        let options = syn_options(Some(0));
        let syn = Tcp::new(SYN, 1000, 0, 65_535).with(&options);
        let syn_ack = Tcp::new(SYN | ACK, 5000, 1001, 100).with(&options);
        gate.try_packet(Direction::Up, &frame(form, Direction::Up, n, &syn), 1).unwrap();
        gate.try_packet(Direction::Down, &frame(form, Direction::Down, n, &syn_ack), 1).unwrap();
    };
    let advertised = |gate: &Gate, n: u16, ack: u32| {
        let ack = frame(form, Direction::Down, n, &Tcp::new(ACK, 5001, ack, 60_000));
        let frame = gate.try_packet(Direction::Down, &ack, 1).unwrap().frame;
        u16::from_be_bytes([frame[48], frame[49]])
    };
    // Each ACK is beyond the right edge advertised before it.
    let station = key(form, 0).station().ip();
    open(&gate, 0);
    assert_eq!(advertised(&gate, 0, 100_000), 60_000, "no bound yet");
    gate.bound_others(9000, LONG).unwrap();
    assert_eq!(advertised(&gate, 0, 200_000), 9000);
    gate.bound_stations(&[(station, 8000)], LONG).unwrap();
    assert_eq!(advertised(&gate, 0, 300_000), 8000);
    gate.bound(&[(key(form, 0), 7000)], LONG).unwrap();
    assert_eq!(advertised(&gate, 0, 400_000), 7000);
    gate.bound(&[(key(form, 0), 0)], LONG).unwrap();
    assert_eq!(advertised(&gate, 0, 500_000), 60_000, "0 is no bound, whatever its station's is");
    gate.bound(&[(key(form, 0), 7000)], Duration::ZERO).unwrap();
    assert_eq!(advertised(&gate, 0, 600_000), 8000, "expired");
    gate.release_station(station);
    assert_eq!(advertised(&gate, 0, 700_000), 9000);
    gate.bound_others(9000, Duration::ZERO).unwrap();
    assert_eq!(advertised(&gate, 0, 800_000), 60_000, "expired");
    let counts = gate.counts().unwrap();
    assert_eq!((counts.lowered, counts.failed, counts.unknown_handshake), (5, 0, 0), "{counts:?}");
    assert_eq!((counts.down, counts.up), (9, 1));
    // Like a station's new connections before the next tick of the daemon.
    gate.bound_stations(&[(station, 6000)], LONG).unwrap();
    open(&gate, 1);
    assert_eq!(advertised(&gate, 1, 1101), 6000);
}

/// Prints the programs' time for a packet (`BPF_PROG_TEST_RUN`, one packet repeatedly: no cache
/// misses).
#[test]
fn what_a_packet_costs() {
    let Some(mut gate) = gate("what_a_packet_costs") else { return };
    const REPEAT: u32 = 200_000;
    let (form, options) = (Form::V4, [syn_options(Some(7)), stamps(1, 1)].concat());
    let syn = Tcp::new(SYN, 1000, 0, 65_535).with(&options);
    let syn_ack = Tcp::new(SYN | ACK, 5000, 1001, 65_535).with(&options);
    gate.try_packet(Direction::Up, &frame(form, Direction::Up, 0, &syn), 1).unwrap();
    gate.try_packet(Direction::Down, &frame(form, Direction::Down, 0, &syn_ack), 1).unwrap();
    gate.bound(&[(key(form, 0), 20_000)], LONG).unwrap();
    let ack = Tcp::new(ACK, 5001, 101_001, 60_000).with(&stamps(2, 2));
    let data = Tcp::new(ACK, 200_000, 5001, 500).with(&stamps(2, 2)).carrying(vec![0; 1448]);
    let not_tcp = {
        let mut made = frame(form, Direction::Down, 0, &ack);
        made[23] = 17;
        made
    };
    for (what, direction, made) in [
        ("an ACK down that is lowered", Direction::Down, frame(form, Direction::Down, 0, &ack)),
        ("an ACK down of a stranger", Direction::Down, frame(form, Direction::Down, 9, &ack)),
        ("a packet that is not TCP", Direction::Down, not_tcp),
        ("data up", Direction::Up, frame(form, Direction::Up, 0, &data)),
    ] {
        let runs = (0..5).map(|_| gate.try_packet(direction, &made, REPEAT).unwrap().mean);
        let least = runs.min().unwrap();
        println!("what_a_packet_costs: {what}: {} ns", least.as_nanos());
        // A tenth of the time of 1448 bytes at 100 Mbit/s, on any machine.
        assert!(least < Duration::from_micros(12), "{what}: {least:?}");
    }
}
