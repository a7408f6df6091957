//! A simulated network of members: loss, delay, duplication and partitions by a seed, and a record
//! of all messages.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use yuzuri_policy::{
    Addressed, Body, GroupId, GroupKey, Key, Member, MemberConfig, Message, Moment, NodeId, Outgoing,
    Rendezvous, RendezvousConfig, Report, Summary, To,
};

pub const TICK: Duration = Duration::from_millis(500);

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn at(millis: u64) -> Moment {
    Moment::at(ms(millis))
}

pub fn group() -> GroupId {
    GroupId::of(b"one access point")
}

pub fn key() -> Key {
    Key::from_bytes([7; 32])
}

/// A report as terminals send it: two destinations.
pub fn report(rate_mbps: u64) -> Report {
    Report {
        rate_bps: rate_mbps * 1_000_000,
        flows: 1,
        elastic: true,
        srtt_us: 60_000,
        destinations: vec![(yuzuri_policy::Destination(1), 50_000), (yuzuri_policy::Destination(2), 55_000)],
        ..Report::default()
    }
}

/// A report of a member that does not lead, repeating a challenge: a holder of the key can prove
/// its liveness with it.
pub fn said_by(node: u64, epoch: u64, sequence: u32, echo: u32) -> Vec<u8> {
    let message = Message {
        group: group(),
        node: NodeId(node),
        epoch,
        sequence,
        rank: 128,
        sends: true,
        leads: false,
        access_point: false,
        asks: false,
        addressed: Some(Addressed { to: NodeId(1), echo }),
        challenge: None,
        body: Body::Report(report(1)),
    };
    message.encode(&GroupKey::new(Some(&key()), group()))
}

pub struct Terminal {
    pub member: Member,
    pub address: SocketAddr,
    /// Its report at each tick.
    pub sends: Option<Report>,
    /// It leads without sending.
    pub is_access_point: bool,
    /// Additional senders in its summaries, without yuzuri.
    pub others: u16,
    /// The cell of members that can hear each other. None: it is switched off.
    pub cell: Option<u32>,
    /// How far its clock is ahead of the network's.
    pub ahead: Duration,
    next_tick: Moment,
}

#[derive(Debug, Clone)]
pub struct Sent {
    pub at: Moment,
    pub from: usize,
    pub to: To,
    pub bytes: Vec<u8>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Deliver { to: usize, from: SocketAddr, bytes: Vec<u8> },
    Relay { from: SocketAddr, bytes: Vec<u8> },
    Wake { terminal: usize },
}

pub struct Net {
    pub now: Moment,
    pub terminals: Vec<Terminal>,
    pub loss: f64,
    pub duplication: f64,
    pub min_delay: Duration,
    pub max_delay: Duration,
    pub sent: Vec<Sent>,
    pub rendezvous: Option<(SocketAddr, Rendezvous)>,
    pub random: Pcg32,
    events: BinaryHeap<Reverse<(Moment, u64, Event)>>,
    order: u64,
}

impl Net {
    pub fn new(seed: u64) -> Net {
        let mut bytes = [0x5a; 16];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Net {
            now: Moment::default(),
            terminals: Vec::new(),
            loss: 0.0,
            duplication: 0.0,
            min_delay: ms(1),
            max_delay: ms(20),
            sent: Vec::new(),
            rendezvous: None,
            random: Pcg32::from_seed(bytes),
            events: BinaryHeap::new(),
            order: 0,
        }
    }

    pub fn with_rendezvous(seed: u64) -> Net {
        let mut net = Net::new(seed);
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4000);
        net.rendezvous = Some((address, Rendezvous::new(RendezvousConfig::new([9; 32]), net.now)));
        net
    }

    pub fn config(&mut self, node: u64) -> MemberConfig {
        let epoch = yuzuri_policy::epoch(Duration::from_secs(1_800_000_000), self.random.next_u32());
        let mut config = MemberConfig::new(NodeId(node), group(), Some(key()), epoch, self.random.next_u64());
        config.rendezvous = self.rendezvous.as_ref().map(|(address, _)| *address);
        config
    }

    /// Adds a terminal with this id, in cell 0; returns its index.
    pub fn add(&mut self, node: u64) -> usize {
        let config = self.config(node);
        self.add_with(config)
    }

    pub fn add_with(&mut self, config: MemberConfig) -> usize {
        let place = self.terminals.len();
        let ip = Ipv4Addr::new(10, 0, (place >> 8) as u8, place as u8);
        let is_access_point = config.access_point;
        let member = Member::new(config, self.now).unwrap();
        let phase = ms(u64::from(self.random.next_u32()) % 500);
        let terminal = Terminal {
            member,
            address: SocketAddr::new(IpAddr::V4(ip), 4000),
            sends: None,
            is_access_point,
            others: 0,
            cell: Some(0),
            ahead: Duration::ZERO,
            next_tick: self.now + phase,
        };
        self.terminals.push(terminal);
        self.plan(place);
        place
    }

    /// Restarts the same terminal, with another session.
    pub fn restart(&mut self, place: usize, config: MemberConfig) {
        self.terminals[place].member = Member::new(config, self.now).unwrap();
    }

    /// Begins to send between two ticks: the daemon reports immediately.
    pub fn begin(&mut self, place: usize, rate_mbps: u64) {
        self.terminals[place].sends = Some(report(rate_mbps));
        self.tick(place);
    }

    pub fn stop(&mut self, place: usize) {
        self.terminals[place].sends = None;
    }

    fn happens(&mut self, probability: f64) -> bool {
        f64::from(self.random.next_u32()) < probability * 4_294_967_296.0
    }

    fn push(&mut self, at: Moment, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn own_now(&self, place: usize) -> Moment {
        self.now + self.terminals[place].ahead
    }

    /// Schedules this terminal's next wake-up.
    fn plan(&mut self, place: usize) {
        let terminal = &self.terminals[place];
        let next = terminal.member.next().since_beginning().saturating_sub(terminal.ahead);
        let wake = Moment::at(next).min(terminal.next_tick).max(self.now);
        self.push(wake, Event::Wake { terminal: place });
    }

    fn tick(&mut self, place: usize) {
        let now = self.own_now(place);
        let terminal = &mut self.terminals[place];
        let member = &mut terminal.member;
        if terminal.is_access_point {
            member.lead(now);
        } else {
            member.report(now, terminal.sends.clone());
        }
        if member.is_leader(now) {
            let (mut capacity_bps, mut senders) = (0, 0);
            for (_, report) in member.reports(now) {
                capacity_bps += report.rate_bps;
                senders += 1;
            }
            let share_bps = capacity_bps / senders.max(1);
            let destinations = report(1).destinations;
            let senders = senders as u16 + terminal.others;
            let summary = Summary { senders, capacity_bps, share_bps, destinations, ..Summary::default() };
            member.summarize(now, summary);
        }
        self.fetch(place);
    }

    pub fn fetch(&mut self, place: usize) {
        let now = self.own_now(place);
        let mut out = Vec::new();
        self.terminals[place].member.poll(now, &mut out);
        for outgoing in out {
            self.transmit(place, outgoing);
        }
        self.plan(place);
    }

    fn transmit(&mut self, from: usize, outgoing: Outgoing) {
        let Outgoing { to, bytes } = outgoing;
        self.sent.push(Sent { at: self.now, from, to, bytes: bytes.clone() });
        let Some(cell) = self.terminals[from].cell else { return };
        let address = self.terminals[from].address;
        let hears = |terminal: &Terminal| terminal.cell == Some(cell);
        match to {
            To::One(whither) if self.rendezvous.as_ref().is_some_and(|(at, _)| *at == whither) => {
                let bytes = bytes.clone();
                self.carry(Event::Relay { from: address, bytes });
            }
            To::One(whither) => {
                let place = self.terminals.iter().position(|t| t.address == whither && hears(t));
                if let Some(to) = place {
                    self.carry(Event::Deliver { to, from: address, bytes });
                }
            }
            // Not to itself: echoes are tested separately.
            To::All => {
                for to in 0..self.terminals.len() {
                    if to != from && hears(&self.terminals[to]) {
                        self.carry(Event::Deliver { to, from: address, bytes: bytes.clone() });
                    }
                }
            }
        }
    }

    fn carry(&mut self, event: Event) {
        if self.happens(self.loss) {
            return;
        }
        let spread = (self.max_delay - self.min_delay).as_micros() as u64;
        let delay = self.min_delay + Duration::from_micros(u64::from(self.random.next_u32()) % (spread + 1));
        if self.duplication > 0.0 && self.happens(self.duplication) {
            let copy = match &event {
                Event::Deliver { to, from, bytes } => {
                    Event::Deliver { to: *to, from: *from, bytes: bytes.clone() }
                }
                Event::Relay { from, bytes } => Event::Relay { from: *from, bytes: bytes.clone() },
                Event::Wake { terminal } => Event::Wake { terminal: *terminal },
            };
            self.push(self.now + delay * 2, copy);
        }
        self.push(self.now + delay, event);
    }

    /// Delivers a datagram of any origin to a terminal.
    pub fn inject(&mut self, to: usize, from: SocketAddr, bytes: &[u8]) {
        let now = self.own_now(to);
        self.terminals[to].member.receive(now, from, bytes);
        self.fetch(to);
    }

    pub fn run_until(&mut self, end: Moment) {
        self.run_while(end, |_| true);
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    /// Runs until the condition fails; returns that time, if it is before the end.
    pub fn run_while(&mut self, end: Moment, condition: impl Fn(&Net) -> bool) -> Option<Moment> {
        while condition(self) {
            if self.events.peek().is_none_or(|Reverse((at, ..))| *at > end) {
                self.now = end;
                return None;
            }
            let Reverse((at, _, event)) = self.events.pop()?;
            self.now = self.now.max(at);
            self.handle(event);
        }
        Some(self.now)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Deliver { to, from, bytes } => {
                if self.terminals[to].cell.is_some() {
                    let now = self.own_now(to);
                    self.terminals[to].member.receive(now, from, &bytes);
                    self.fetch(to);
                }
            }
            Event::Relay { from, bytes } => {
                let now = self.now;
                let mut out = Vec::new();
                let Some((address, rendezvous)) = &mut self.rendezvous else { return };
                let address = *address;
                rendezvous.receive(now, from, &bytes, &mut out);
                for Outgoing { to, bytes } in out {
                    let place =
                        self.terminals.iter().position(|t| To::One(t.address) == to && t.cell.is_some());
                    if let Some(to) = place {
                        self.carry(Event::Deliver { to, from: address, bytes });
                    }
                }
            }
            Event::Wake { terminal: place } => self.wake(place),
        }
    }

    fn wake(&mut self, place: usize) {
        let own_now = self.own_now(place);
        let now = self.now;
        let terminal = &mut self.terminals[place];
        if terminal.cell.is_none() {
            // Switched off: check again later.
            terminal.next_tick = now + TICK;
            self.push(now + TICK, Event::Wake { terminal: place });
        } else if terminal.next_tick <= now {
            terminal.next_tick = now + TICK;
            self.tick(place);
        } else if terminal.member.next() <= own_now {
            self.fetch(place);
        }
        // Otherwise it was woken earlier and has been rescheduled.
    }

    pub fn member(&self, place: usize) -> &Member {
        &self.terminals[place].member
    }

    /// The leader of a cell according to its sending terminals, if they agree.
    pub fn agreed(&self, cell: u32) -> Option<NodeId> {
        let mut leaders = self
            .terminals
            .iter()
            .filter(|t| t.cell == Some(cell) && t.sends.is_some())
            .map(|t| t.member.leader());
        let first = leaders.next()??;
        leaders.all(|leader| leader == Some(first)).then_some(first)
    }

    pub fn leaders(&self, cell: u32) -> usize {
        let in_cell = self.terminals.iter().filter(|t| t.cell == Some(cell));
        in_cell.filter(|t| t.member.is_leader(self.now + t.ahead)).count()
    }

    /// Whether the leader of this terminal's cell counts it among those that report.
    pub fn is_counted(&self, place: usize) -> bool {
        let node = self.member(place).node();
        self.terminals.iter().filter(|t| t.cell == self.terminals[place].cell).any(|t| {
            let now = self.now + t.ahead;
            t.member.is_leader(now) && t.member.reports(now).any(|(other, _)| other == node)
        })
    }

    /// The senders in the summary that this terminal applies.
    pub fn senders(&self, place: usize) -> Option<u16> {
        self.member(place).summary(self.own_now(place)).map(|summary| summary.senders)
    }

    /// Messages sent since.
    pub fn sent_since(&self, since: Moment) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(move |sent| sent.at >= since)
    }
}
