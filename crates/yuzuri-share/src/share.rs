//! A sharing at work: one thread, each half second a tick, and between the ticks what comes in.

use crate::config::{ShareConfig, WithoutKernel};
use crate::discover::{Discovery, GroupFrom, chosen};
use crate::flows::Flows;
use crate::hands::Hands;
use crate::link::{Identity, Link, with_defaults};
use crate::status::{InterfaceStatus, Status};
use crate::{Board, ShareError, clock};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use yuzuri_kernel::steer::{FlowState, Prefix, Scope};
use yuzuri_policy::{Moment, NodeId, Outgoing, PolicyConfig};

/// From one tick to the next.
const TICK: Duration = Duration::from_millis(500);
/// Neighbours, access points and rates are asked for so often; of the rest the kernel sends word.
const LOOK: Duration = Duration::from_secs(5);
/// Word of a change seldom comes alone.
const SETTLE: Duration = Duration::from_millis(100);
/// No datagram of ours is longer; what is, is refused for its length.
const BUFFER: usize = 2048;

/// What happened, for a log.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A group was joined, or another one found behind an interface.
    Joined {
        /// The interface.
        interface: String,
        /// The group, 16 hexadecimal digits.
        group: String,
        /// What it was told from.
        from: GroupFrom,
    },
    /// An interface takes no part any more.
    Gone {
        /// The interface.
        interface: String,
    },
    /// Another leads.
    Leader {
        /// The interface.
        interface: String,
        /// Who.
        node: Option<NodeId>,
        /// It is this terminal.
        own: bool,
    },
    /// Nothing is bounded any more, or from the start.
    StoodDown {
        /// Why.
        why: String,
    },
    /// Another policy is in force.
    Policy(PolicyConfig),
    /// Somebody else had our id: we drew another one, worth keeping.
    Redrawn(NodeId),
    /// Something does not work, and is tried again.
    Problem(String),
    /// The flows are as they were.
    Left {
        /// Flows that have their former control again.
        moved_back: usize,
        /// Flows that the kernel would not move back; they go on as plain CUBIC.
        stay: usize,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Joined { interface, group, from } => {
                write!(f, "{interface}: in group {group} (by {})", from.name())
            }
            Event::Gone { interface } => write!(f, "{interface}: takes no part any more"),
            Event::Leader { interface, own: true, .. } => write!(f, "{interface}: this terminal leads"),
            Event::Leader { interface, node: Some(node), .. } => write!(f, "{interface}: {node} leads"),
            Event::Leader { interface, node: None, .. } => write!(f, "{interface}: follows nobody"),
            Event::StoodDown { why } => write!(f, "bounds nothing: {why}"),
            Event::Policy(policy) => {
                write!(f, "policy {}", policy.name)?;
                write!(f, ", objective {}", policy.objective.name())
            }
            Event::Redrawn(node) => write!(f, "another member has our id; ours is {node} now"),
            Event::Problem(what) => f.write_str(what),
            Event::Left { moved_back, stay: 0 } => {
                write!(f, "left; {moved_back} flows have their control again")
            }
            Event::Left { moved_back, stay } => {
                write!(f, "left; {moved_back} flows have their control again, {stay} go on as plain CUBIC")
            }
        }
    }
}

/// What is asked of a sharing while it runs.
#[derive(Debug, Clone)]
pub enum Order {
    /// Another policy.
    Policy(PolicyConfig),
    /// Other settings: the policy and the interfaces. What else differs needs a new start.
    Reload(Box<ShareConfig>),
}

/// A sharing.
pub struct Share {
    config: ShareConfig,
    identity: Identity,
    hands: Hands,
    discovery: Discovery,
    links: Vec<Link>,
    flows: Flows,
    walk: Vec<FlowState>,
    out: Vec<Outgoing>,
    buffer: Vec<u8>,
    started: Moment,
    tick_at: Moment,
    look_at: Moment,
    scope: Option<Scope>,
    elsewhere: u32,
    ticks: u64,
    late_ticks: u64,
    problems: Vec<String>,
    leaders: Vec<(String, Option<NodeId>)>,
    board: Board,
    orders: Receiver<Order>,
    order: Sender<Order>,
    tell: Box<dyn FnMut(&Event) + Send>,
}

impl Share {
    /// Registers the control in the calling thread's network namespace and finds the interfaces. Flows are taken from the first tick on.
    ///
    /// # Errors
    /// No key; an interface that is not there; a kernel that refuses the control, unless the settings say to go on without.
    pub fn start(config: ShareConfig) -> Result<Share, ShareError> {
        Share::start_with(config, |_| {})
    }

    /// As [`Share::start`], and tells of what happens.
    ///
    /// # Errors
    /// As [`Share::start`].
    pub fn start_with(
        config: ShareConfig,
        tell: impl FnMut(&Event) + Send + 'static,
    ) -> Result<Share, ShareError> {
        let key = config.key.load()?;
        let node = match config.node.filter(|node| node.0 != 0) {
            Some(node) => node,
            None => crate::new_node()?,
        };
        let identity = Identity { node, key, rank: config.rank, port: config.port };
        let mut discovery = Discovery::new().map_err(|why| ShareError::system("starting to share", why))?;
        let there = discovery.interfaces().map_err(|why| ShareError::system("starting to share", why))?;
        if let Some(missing) = config.interfaces.iter().find(|i| there.iter().all(|t| t.name != i.name)) {
            let names: Vec<&str> = there.iter().map(|i| i.name.as_str()).collect();
            return Err(ShareError::NoInterface { name: missing.name.clone(), there: names.join(", ") });
        }
        let mut tell: Box<dyn FnMut(&Event) + Send> = Box::new(tell);
        let hands = match Hands::take(&config.control_name) {
            Ok(hands) => hands,
            Err(error) if config.without_kernel == WithoutKernel::Watch => {
                tell(&Event::StoodDown { why: error.to_string() });
                Hands::none(Some(error.to_string()))
            }
            Err(error) => return Err(error.into()),
        };
        let now = clock::now();
        let (order, orders) = channel();
        let mut share = Share {
            config,
            identity,
            hands,
            discovery,
            links: Vec::new(),
            flows: Flows::default(),
            walk: Vec::new(),
            out: Vec::new(),
            buffer: vec![0; BUFFER],
            started: now,
            tick_at: now,
            look_at: now + LOOK,
            scope: None,
            elsewhere: 0,
            ticks: 0,
            late_ticks: 0,
            problems: Vec::new(),
            leaders: Vec::new(),
            board: Board::default(),
            orders,
            order,
            tell,
        };
        share.look(now);
        share.publish(now);
        Ok(share)
    }

    /// Where the status is hung out.
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    /// Where orders are handed in, from any thread; they are carried out within half a second.
    pub fn orders(&self) -> Sender<Order> {
        self.order.clone()
    }

    /// The last status.
    pub fn status(&self) -> std::sync::Arc<Status> {
        self.board.read()
    }

    /// Works until the flag is set, then leaves: flows have their former control again, and the group is told.
    ///
    /// # Errors
    /// What the kernel says when it is waited for messages.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), ShareError> {
        while !stop.load(Ordering::Relaxed) {
            self.step()?;
        }
        self.leave();
        Ok(())
    }

    /// Waits until something is due or comes in, half a second at the most, and does it.
    ///
    /// # Errors
    /// What the kernel says when it is waited for messages.
    pub fn step(&mut self) -> Result<(), ShareError> {
        self.wait()?;
        let now = clock::now();
        if self.discovery.netlink.changed() {
            self.look_at = self.look_at.min(now + SETTLE);
        }
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Policy(policy) => self.choose(policy),
                Order::Reload(config) => self.reload(*config),
            }
        }
        for link in &mut self.links {
            link.receive(now, &mut self.buffer);
        }
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.look(now);
        }
        let is_tick = now >= self.tick_at;
        if is_tick {
            self.tick(now);
        }
        for link in &mut self.links {
            link.send(now, &mut self.out);
        }
        if is_tick {
            self.publish(now);
        }
        Ok(())
    }

    fn wait(&self) -> Result<(), ShareError> {
        let now = clock::now();
        let next = self.links.iter().filter_map(Link::next).fold(self.tick_at.min(self.look_at), Moment::min);
        // Rounded up: else the last millisecond is waited for in turns.
        let wait_ms = next.since(now).min(TICK).as_nanos().div_ceil(1_000_000) as u16;
        let sockets = self.links.iter().flat_map(|link| link.sockets.descriptors());
        let mut fds: Vec<PollFd<'_>> = sockets
            .chain(std::iter::once(self.discovery.netlink.descriptor()))
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        match poll(&mut fds, PollTimeout::from(wait_ms)) {
            Ok(_) | Err(nix::Error::EINTR) => Ok(()),
            Err(error) => Err(ShareError::system("waiting for messages", error)),
        }
    }

    fn tick(&mut self, now: Moment) {
        self.ticks += 1;
        let late = now.since(self.tick_at);
        if late >= TICK {
            self.late_ticks += 1;
            self.tick_at = now + TICK;
        } else {
            self.tick_at = self.tick_at + TICK;
        }
        let steered = self.hands.steers();
        self.hands.observe(&mut self.walk);
        self.sort_flows(now);
        for link in &mut self.links {
            link.tick(now);
            link.decide(now);
        }
        self.hands.apply(self.links.iter().flat_map(|link| {
            let ours = link.states.iter().map(|state| state.standing.is_ours());
            link.decisions.iter().zip(ours).filter(|(_, ours)| *ours).map(|(decision, _)| decision)
        }));
        if steered && !self.hands.steers() {
            let why = self.hands.why_not().unwrap_or_default().to_owned();
            (self.tell)(&Event::StoodDown { why });
        }
        self.note_members();
    }

    /// Each flow belongs to the interface that has its address.
    fn sort_flows(&mut self, now: Moment) {
        for link in &mut self.links {
            link.seen.clear();
            link.states.clear();
        }
        self.flows.begin();
        self.elsewhere = 0;
        for state in self.walk.drain(..) {
            let local = state.local.ip();
            match self.links.iter_mut().find(|link| link.has(local)) {
                Some(link) => {
                    link.seen.push(self.flows.see(now, &state));
                    link.states.push(state);
                }
                None => self.elsewhere += 1,
            }
        }
        self.flows.end();
    }

    fn note_members(&mut self) {
        let mut redrawn = None;
        for link in &self.links {
            let Some(member) = &link.member else { continue };
            if member.node() != self.identity.node {
                redrawn = Some(member.node());
            }
            let leader = member.leader();
            let name = &link.interface.name;
            let before = self.leaders.iter_mut().find(|(of, _)| of == name);
            let changed = match before {
                Some((_, before)) => std::mem::replace(before, leader) != leader,
                None => {
                    self.leaders.push((name.clone(), leader));
                    leader.is_some()
                }
            };
            if changed {
                let own = leader == Some(member.node());
                (self.tell)(&Event::Leader { interface: name.clone(), node: leader, own });
            }
        }
        if let Some(node) = redrawn.filter(|node| self.config.node != Some(*node)) {
            self.config.node = Some(node);
            (self.tell)(&Event::Redrawn(node));
        }
    }

    /// Looks which interfaces there are and what is behind them.
    fn look(&mut self, now: Moment) {
        let mut problems = Vec::new();
        match self.discovery.interfaces() {
            Ok(all) => {
                let wanted = chosen(&self.config, &all);
                let there = |link: &Link| {
                    wanted.iter().any(|(interface, config)| {
                        (interface.index, &interface.name) == (link.interface.index, &link.interface.name)
                            && with_defaults(config, &self.config).rendezvous == link.config.rendezvous
                    })
                };
                let (stay, mut gone): (Vec<Link>, Vec<Link>) =
                    std::mem::take(&mut self.links).into_iter().partition(there);
                self.links = stay;
                for link in &mut gone {
                    link.leave(now, &mut self.out);
                    (self.tell)(&Event::Gone { interface: link.interface.name.clone() });
                }
                drop(gone);
                for (interface, config) in wanted {
                    let config = with_defaults(&config, &self.config);
                    let station = self.discovery.station(&interface);
                    let group = self.discovery.group(&interface, &config, station.as_ref());
                    let name = interface.name.clone();
                    let known = self.links.iter().position(|link| link.interface.index == interface.index);
                    let at = match known {
                        Some(at) => {
                            self.links[at].interface = interface;
                            self.links[at].config = config;
                            at
                        }
                        None => {
                            match Link::open(interface, config, self.config.policy, self.identity.port) {
                                Ok(link) => self.links.push(link),
                                Err(why) => {
                                    problems.push(why);
                                    continue;
                                }
                            }
                            self.links.len() - 1
                        }
                    };
                    let link = &mut self.links[at];
                    let told = link.config.radio.map(|radio| radio.hint());
                    link.radio = told.or(station.map(|station| station.radio)).unwrap_or_default();
                    match group.map(|group| (group, link.set_group(now, group, &self.identity))) {
                        Some((_, Ok(false))) => {}
                        Some(((group, from), Ok(true))) => {
                            (self.tell)(&Event::Joined { interface: name, group: group.to_string(), from });
                        }
                        Some((_, Err(error))) => problems.push(format!("{name}: {error}")),
                        // What was found before holds until something else is.
                        None if link.member.is_some() => {}
                        None if link.interface.broadcasts => problems.push(format!(
                            "{name}: waiting for the gateway's link address, which tells the group; `group` in the configuration names one"
                        )),
                        None => problems.push(format!(
                            "{name}: nothing tells which terminals share it; name `group` and `rendezvous` in the configuration"
                        )),
                    }
                }
                self.leaders.retain(|(name, _)| self.links.iter().any(|link| link.interface.name == *name));
                self.set_scope(&mut problems);
            }
            Err(why) => problems.push(why),
        }
        for problem in &problems {
            if !self.problems.contains(problem) {
                (self.tell)(&Event::Problem(problem.clone()));
            }
        }
        self.problems = problems;
    }

    /// Flows of these interfaces' addresses are taken, and no others.
    fn set_scope(&mut self, problems: &mut Vec<String>) {
        let addresses = self.links.iter().flat_map(|link| &link.interface.addresses);
        let mut prefixes: Vec<Prefix> = addresses.map(|address| Prefix::host(*address)).collect();
        if prefixes.len() > Scope::MOST {
            problems.push(format!(
                "the interfaces have {} addresses; flows of the first {} are shared, the others are left alone",
                prefixes.len(),
                Scope::MOST
            ));
            prefixes.truncate(Scope::MOST);
        }
        let scope = Scope(prefixes);
        if self.scope.as_ref() == Some(&scope) {
            return;
        }
        match self.hands.look_at(&scope) {
            Ok(()) => self.scope = Some(scope),
            Err(error) => problems.push(error.to_string()),
        }
    }

    /// Another policy from the next tick on; flows, group and what is known of them stay.
    pub fn choose(&mut self, policy: PolicyConfig) {
        if policy == self.config.policy {
            return;
        }
        let now = clock::now();
        self.config.policy = policy;
        self.links.iter_mut().for_each(|link| link.choose(now, policy));
        (self.tell)(&Event::Policy(policy));
        self.publish(now);
    }

    /// Takes over the policy and the interfaces of other settings. Key, port, name of the control, id and rank stay as they were.
    pub fn reload(&mut self, config: ShareConfig) {
        let now = clock::now();
        self.config.interfaces = config.interfaces;
        self.config.rendezvous = config.rendezvous;
        self.config.group = config.group;
        self.choose(config.policy);
        self.look(now);
    }

    /// Gives the flows back and says goodbye. A [`Share`] that is dropped does the same without a word.
    pub fn leave(&mut self) {
        let now = clock::now();
        for link in &mut self.links {
            link.leave(now, &mut self.out);
        }
        match self.hands.let_go("it has left".into()) {
            Some(Ok((moved_back, stay))) => (self.tell)(&Event::Left { moved_back, stay }),
            Some(Err(error)) => (self.tell)(&Event::Problem(format!("giving flows back: {error}"))),
            None => {}
        }
        self.publish(now);
    }

    fn publish(&self, now: Moment) {
        let status = Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: now.since(self.started).as_secs_f64(),
            steers: self.hands.steers(),
            why_not: self.hands.why_not().map(str::to_owned),
            control: self.config.control_name.clone(),
            new_flows_wait: self.hands.new_flows_wait().map(str::to_owned),
            policy: self.config.policy.into(),
            keyed: self.identity.key.is_some(),
            interfaces: self
                .links
                .iter()
                .map(|link| InterfaceStatus::of(link, now, |flow| self.flows.rate_bps(flow)))
                .collect(),
            flows_elsewhere: self.elsewhere,
            ticks: self.ticks,
            late_ticks: self.late_ticks,
            kernel_refusals: self.hands.refused,
            problems: self.problems.clone(),
        };
        self.board.write(status);
    }
}
