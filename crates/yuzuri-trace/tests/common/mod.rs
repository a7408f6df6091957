//! Traffic like a monitor's: flows whose windows vary, grow and shrink. For the tests and examples;
//! the same seed yields the same items.

#![allow(dead_code, clippy::unwrap_used, missing_docs)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use yuzuri_trace::{
    Account, CaState, Counts, CpuAccount, Density, Event, Flow, FlowId, Hook, HookState, Item, Kind,
    LossReason, Marks, Owner, Place, Reason, Role, Session, Snapshot, Source,
};

pub const STARTED_UNIX_NS: i64 = 1_750_000_000_123_456_789;
pub const STARTED_MONO_NS: u64 = 86_400_000_000_000;

pub fn session() -> Session {
    let hook =
        |name: &str, provides: &str, state| Hook { name: name.into(), provides: provides.into(), state };
    Session {
        yuzuri: "0.1.0".into(),
        host: "bench".into(),
        kernel: "6.12.0 #1 SMP PREEMPT_DYNAMIC".into(),
        machine: "x86_64".into(),
        source: Source::Events,
        density: Density::default(),
        filter: "port 5001".into(),
        hooks: vec![
            hook("tp_btf/tcp_probe", "the state at each ACK", HookState::Used),
            hook(
                "fentry/tcp_enter_cwr",
                "who reduced the window",
                HookState::Missing {
                    why: "not in this kernel".into(),
                    instead: "the change of ca_state".into(),
                },
            ),
        ],
        started_unix_ns: STARTED_UNIX_NS,
        started_mono_ns: STARTED_MONO_NS,
    }
}

pub fn flow(number: u64) -> Flow {
    let local: IpAddr = if number % 3 == 2 {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number as u16).into()
    } else {
        Ipv4Addr::new(10, 0, (number >> 8) as u8, number as u8).into()
    };
    let remote: IpAddr = match local {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1).into(),
    };
    Flow {
        id: FlowId(0x1000 + number),
        local: SocketAddr::new(local, 40_000 + (number % 20_000) as u16),
        remote: SocketAddr::new(remote, 5001),
        netns: 4_026_531_840,
        netns_name: (number % 2 == 1).then(|| "terminal-1".to_owned()),
        owner: (number % 4 != 3).then(|| Owner { pid: 1000 + number as u32, name: "yuzuri send".into() }),
        cgroup: number * 7,
        congestion_control: "cubic".into(),
        role: Role::Opened,
        inode: 90_000 + number,
    }
}

/// xorshift64*: good enough for samples, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

pub struct Traffic {
    pub random: Random,
    pub flows: Vec<Event>,
    pub step_ns: u64,
    pub mono_ns: u64,
    turn: usize,
}

impl Traffic {
    /// `flows` flows, which take turns; one record every `step_ns`.
    pub fn new(flows: usize, step_ns: u64) -> Traffic {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let place = Place::named("tcp:tcp_probe");
        let flows = (0..flows as u64)
            .map(|number| Event {
                flow: FlowId(0x1000 + number),
                place,
                cpu: (number % 2) as u16,
                snapshot: Snapshot {
                    cwnd: 10,
                    ssthresh: Snapshot::SSTHRESH_INFINITE,
                    srtt_us: 20_000 + random.below(10_000) as u32,
                    rttvar_us: 2_000,
                    min_rtt_us: 20_000,
                    mss: 1448,
                    snd_wnd: 3_145_728,
                    rcv_wnd: 65_483,
                    pacing_rate_bps: u64::MAX,
                    reordering: 3,
                    ..Snapshot::default()
                },
                ..Event::default()
            })
            .collect();
        Traffic { random, flows, step_ns, mono_ns: STARTED_MONO_NS, turn: 0 }
    }

    pub fn identities(&self) -> Vec<Item> {
        (0..self.flows.len() as u64).map(|number| Item::Flow(Arc::new(flow(number)))).collect()
    }

    pub fn account(&self, seen: u64, lost: u64) -> Item {
        let cpu = |cpu, seen: u64, lost: u64| CpuAccount {
            cpu: Some(cpu),
            seen,
            kept: seen - lost,
            lost: if lost > 0 { vec![(LossReason::RingFull, lost)] } else { vec![] },
            thinned: seen * 11,
        };
        Item::Account(Arc::new(Account {
            mono_ns: self.mono_ns,
            wall_offset_ns: session().wall_offset_ns() + 250,
            cpus: vec![cpu(0, seen / 2 + seen % 2, lost), cpu(1, seen / 2, 0)],
        }))
    }

    /// The next record.
    pub fn next(&mut self) -> Event {
        let turn = self.turn;
        self.turn = (turn + 1) % self.flows.len();
        self.mono_ns += self.step_ns + self.random.below(1 + self.step_ns / 8);
        let dice = self.random.next();
        let state = &mut self.flows[turn];
        let s = &mut state.snapshot;
        state.mono_ns = self.mono_ns;
        state.marks = Marks::default();
        state.ca_before = state.ca_state;
        state.kind = Kind::Sample;
        state.reason = Reason::None;
        let acks = 1 + (dice >> 8) as u16 % 16;
        state.counts = Counts { acks, ..Counts::default() };
        s.bytes_acked += u64::from(acks) * 1448;
        s.srtt_us = (s.srtt_us + (dice >> 16) as u32 % 201).saturating_sub(100).clamp(20_000, 90_000);
        s.rttvar_us = 1_000 + (dice >> 24) as u32 % 1_500;
        s.packets_out = s.cwnd - (dice >> 32) as u32 % 3;
        s.notsent = (dice >> 40) as u32 % 64 * 1448;
        s.wmem_queued = (s.packets_out + 40) * 2304;
        s.delivery_rate_bps = u64::from(s.cwnd) * 1448 * 8 * 1_000_000 / u64::from(s.srtt_us);
        if dice.is_multiple_of(400) {
            state.kind = Kind::State;
            state.ca_state = CaState::Recovery;
            state.reason = Reason::FastRetransmit;
            s.ssthresh = s.cwnd * 7 / 10;
            s.cwnd = s.ssthresh.max(2);
            s.packets_out = s.cwnd;
            s.lost_out = 1;
            s.retrans_out = 1;
            s.total_retrans += 1;
            state.marks.insert(Marks::SACK);
            state.marks.insert(Marks::SSTHRESH);
            state.counts.sacks = 3;
        } else if state.ca_state == CaState::Recovery && dice.is_multiple_of(20) {
            state.kind = Kind::State;
            state.ca_state = CaState::Open;
            state.reason = Reason::Recovered;
            s.lost_out = 0;
            s.retrans_out = 0;
        } else if s.cwnd < 400 && dice.is_multiple_of(8) {
            s.cwnd += 1;
        }
        *state
    }
}
