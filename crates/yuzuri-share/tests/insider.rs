//! A malicious leader announces tiny shares and justifies them with a thousand invented members;
//! the members must not follow it. The test uses real sockets and the kernel's TCP. The simulation
//! (`yuzuri-sim`, `invented_members`) tests what fraction of plain CUBIC's rate a terminal keeps.
#![allow(clippy::unwrap_used)]

mod cell;

use cell::{Cell, Instance, keyed};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_policy::{
    Addressed, Body, Destination, GroupId, GroupKey, Key, Member, MemberConfig, Message, Moment, NodeId,
    Outgoing, Phase, Report, Rule, Summary, To,
};
use yuzuri_share::{DEFAULT_PORT, ShareConfig, Status};

const KEY: [u8; 32] = [
    0x3c, 0x51, 0x9a, 0x07, 0xe2, 0x44, 0x18, 0xbd, 0x60, 0xf3, 0x2e, 0x95, 0x71, 0xc8, 0x0b, 0xa6, 0xd9,
    0x1f, 0x83, 0x5a, 0x34, 0xee, 0x67, 0x02, 0xb5, 0x4c, 0xf8, 0x29, 0x90, 0x1d, 0x76, 0xcb,
];
const INVENTED: u64 = 1000;

/// A malicious leader. Its messages are those of a real member with the best rank, except for the
/// contents of its summaries.
struct Insider {
    member: Member,
    group: GroupId,
    key: GroupKey,
    socket: UdpSocket,
    began: Instant,
    sequence: u32,
    /// Ticks since another terminal first followed it.
    followed: u64,
}

/// By this tick, counted from when it was first followed, all invented members have sent a hello;
/// the insider then starts to lie.
const LIES_FROM: u64 = INVENTED / HELLOS + 4;
const HELLOS: u64 = 50;
const LIE_BPS: u64 = 20_000;

/// The summary that it sends.
fn said(phase: Phase, share_bps: u64) -> Summary {
    Summary {
        phase,
        capacity_bps: 20_000_000,
        share_bps,
        queue_us: 5_000,
        srtt_us: 60_000,
        destinations: vec![(Destination(1), 1_000)],
        ..Summary::default()
    }
}

impl Insider {
    fn new(group: GroupId, socket: UdpSocket) -> Insider {
        let key = Key::from_bytes(KEY);
        let mut config = MemberConfig::new(NodeId(1), group, Some(key.clone()), 1, 99);
        config.rank = 0;
        let member = Member::new(config, Moment::default()).unwrap();
        let key = GroupKey::new(Some(&key), group);
        Insider { member, group, key, socket, began: Instant::now(), sequence: 0, followed: 0 }
    }

    fn now(&self) -> Moment {
        Moment::at(self.began.elapsed())
    }

    fn invented(&self, node: u64, body: Body, addressed: Option<Addressed>) -> Vec<u8> {
        let (asks, leads, access_point) = (false, false, false);
        let (group, epoch, sequence, rank, challenge) = (self.group, 7, self.sequence, 128, Some(1));
        let node = NodeId(1000 + node);
        Message {
            group,
            node,
            epoch,
            sequence,
            rank,
            sends: true,
            leads,
            access_point,
            asks,
            addressed,
            challenge,
            body,
        }
        .encode(&self.key)
    }

    fn lies(&self) -> bool {
        self.followed >= LIES_FROM
    }

    /// One tick: it leads. Once it is followed, its invented members send hellos; then it lies.
    fn tick(&mut self) {
        self.sequence += 1;
        let report =
            Report { flows: 1, elastic: true, rate_bps: 20_000, srtt_us: 60_000, ..Report::default() };
        let now = self.now();
        self.member.report(now, Some(report));
        if self.member.is_leader(now) {
            let (phase, share_bps) =
                if self.lies() { (Phase::Hold, LIE_BPS) } else { (Phase::StartUp, 20_000_000) };
            self.member.summarize(now, said(phase, share_bps));
        }
        // Earlier hellos would only evict each other from the member table.
        if self.member.reports(now).count() > 1 {
            self.followed += 1;
            let first = self.followed * HELLOS % INVENTED;
            for node in first..first + HELLOS {
                let bytes = self.invented(node, Body::Hello { leader: Some(NodeId(1)) }, None);
                self.send(&Outgoing { to: To::All, bytes });
            }
        }
        self.speak();
    }

    /// Sends its member's messages, with the number of senders in summaries replaced.
    fn speak(&mut self) {
        let now = self.now();
        let mut out = Vec::new();
        self.member.poll(now, &mut out);
        for mut outgoing in out {
            let mut message = Message::decode(&outgoing.bytes, self.group, &self.key).unwrap();
            let lies = self.lies();
            if let Body::Summary { summary, .. } = &mut message.body
                && lies
            {
                (summary.members, summary.senders) = (INVENTED as u16 + 2, INVENTED as u16 + 2);
                outgoing.bytes = message.encode(&self.key);
            }
            self.send(&outgoing);
        }
    }

    fn send(&self, outgoing: &Outgoing) {
        let to = match outgoing.to {
            To::All => SocketAddr::new(Ipv4Addr::BROADCAST.into(), DEFAULT_PORT),
            To::One(address) => address,
        };
        self.socket.send_to(&outgoing.bytes, to).unwrap();
    }

    fn run(mut self, stop: &AtomicBool) -> u64 {
        self.socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut buffer = [0; 2048];
        let mut next = self.now();
        while !stop.load(Ordering::Relaxed) {
            if let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
                let now = self.now();
                self.member.receive(now, from, &buffer[..length]);
            }
            if self.now() >= next {
                self.tick();
                next = next + Duration::from_millis(500);
            }
            self.speak();
        }
        self.member.counts().led
    }
}

#[test]
fn a_thousand_invented_members_and_a_lying_leader_starve_no_flow() {
    let test = "a_thousand_invented_members_and_a_lying_leader_starve_no_flow";
    let Some(cell) = Cell::or_skip(test, 2) else { return };
    let group = GroupId::of(b"an insider");
    let config = ShareConfig { group: Some(group), ..keyed_with(KEY) };
    let Some(victim) = Instance::or_skip(test, &cell, 1, config) else { return };
    let socket = cell.inside(2, || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT)).unwrap();
        socket.set_broadcast(true).unwrap();
        // Bind the device like the terminal's own socket; otherwise a broadcast needs a route.
        socket2::SockRef::from(&socket).bind_device(Some(b"eth0")).unwrap();
        socket
    });
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = stop.clone();
    let insider = std::thread::spawn(move || Insider::new(group, socket).run(&stopping));
    let traffic = cell.traffic(1);
    let share = |status: &Status| status.interfaces.iter().find_map(|i| Some(i.summary.as_ref()?.share_bps));
    victim.until("the insider lies", |status| share(status) == Some(LIE_BPS));
    // Long enough for the challenge, a period of doubt, and the mistrust that follows. On a link
    // with microseconds of delay any window suffices; the test therefore checks whether the
    // insider's summaries bound the flow, not the flow's rate.
    let (mut ticks, mut obeyed, mut mistrusted) = (0, 0, 0);
    let mut last = victim.status().ticks;
    while ticks < 80 {
        std::thread::sleep(Duration::from_millis(20));
        let status = victim.status();
        if status.ticks == last {
            continue;
        }
        last = status.ticks;
        let rules = status.interfaces.iter().flat_map(|i| &i.flows).filter(|f| f.local == traffic.local());
        ticks += 1;
        for flow in rules {
            obeyed += u32::from(matches!(flow.rule, Rule::Share | Rule::Probe));
            mistrusted += u32::from(flow.rule == Rule::Mistrust);
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(insider.join().unwrap() >= 1, "it led");
    println!("of {ticks} decisions {obeyed} obeyed, {mistrusted} mistrusted");
    assert!(obeyed <= ticks / 5, "{obeyed} of {ticks} decisions: {:#?}", victim.status());
    assert!(mistrusted >= ticks / 2, "{mistrusted} of {ticks} decisions: {:#?}", victim.status());
    yuzuri_testnet::attack(
        "insider that leads and invents 1,000 members",
        1,
        "insider",
        "mistrusted; obeyed in a fifth of 80 decisions at most",
    );
}

fn keyed_with(key: [u8; 32]) -> ShareConfig {
    ShareConfig { key: yuzuri_share::KeySource::Key(Key::from_bytes(key)), ..keyed(0) }
}
