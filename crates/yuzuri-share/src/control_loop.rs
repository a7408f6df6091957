//! The main loop of the sharing daemon: one thread that runs a tick every 500 ms and processes
//! incoming messages between ticks.

mod interfaces;

use crate::batch::Batch;
use crate::config::{ShareConfig, WithoutKernel};
use crate::discover::Discovery;
use crate::enforcer::{Enforcer, WalkCoverage};
use crate::event::{Event, LoopCommand};
use crate::flood::Flood;
use crate::flows::Flows;
use crate::keys::{KeyChain, Secrets};
use crate::link::{Identity, Link};
use crate::migrated::MigratedFlows;
use crate::status::{InterfaceStatus, ReloadStatus, Status};
use crate::{ShareError, StatusCell, clock};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use yuzuri_kernel::steer::{FlowState, Scope};
use yuzuri_policy::{Member, Moment, NodeId, Outgoing, PolicyConfig};

/// Interval between ticks.
const TICK: Duration = Duration::from_millis(500);
/// Poll interval for neighbours, access points and radio rates. Everything else is notified over
/// netlink.
const REFRESH_EVERY: Duration = Duration::from_secs(5);
/// Delay after a netlink notification: changes usually arrive in groups.
const SETTLE: Duration = Duration::from_millis(100);
/// Flows listed per interface in the status, unless a client requests all flows.
pub const MAX_ROWS: usize = 200;
/// Flows that the walk buffer always has room for.
const MIN_WALK: usize = 1024;

/// The control loop of the sharing daemon.
pub struct ControlLoop {
    config: ShareConfig,
    identity: Identity,
    keys: KeyChain,
    flood: Flood,
    rest: Option<Duration>,
    reload: Option<ReloadStatus>,
    enforcer: Enforcer,
    discovery: Discovery,
    links: Vec<Link>,
    flows: Flows,
    walk: Vec<FlowState>,
    out: Vec<Outgoing>,
    batch: Batch,
    started: Moment,
    tick_at: Moment,
    refresh_at: Moment,
    scope: Option<Scope>,
    elsewhere: u32,
    ticks: u64,
    late_ticks: u64,
    problems: Vec<String>,
    waits: Vec<String>,
    leaders: Vec<(String, Option<NodeId>)>,
    status_cell: StatusCell,
    orders: Receiver<LoopCommand>,
    order: Sender<LoopCommand>,
    report: Box<dyn FnMut(&Event) + Send>,
}

impl ControlLoop {
    /// Registers the congestion control in the calling thread's network namespace and finds the
    /// interfaces. Flows are migrated from the first tick on.
    ///
    /// # Errors
    /// If no usable key is configured, if a configured interface does not exist, or if the kernel
    /// rejects the congestion control and the settings require it.
    pub fn start(config: ShareConfig) -> Result<ControlLoop, ShareError> {
        ControlLoop::start_with(config, |_| {})
    }

    /// Same as [`ControlLoop::start`], with a callback for events.
    ///
    /// # Errors
    /// Same as [`ControlLoop::start`].
    pub fn start_with(
        config: ShareConfig,
        report: impl FnMut(&Event) + Send + 'static,
    ) -> Result<ControlLoop, ShareError> {
        let secrets = Secrets::load(&config)?;
        let node = match config.node.filter(|node| node.0 != 0) {
            Some(node) => node,
            None => crate::new_node()?,
        };
        let (rank, name, port) = (config.rank, config.terminal_name, config.port);
        let identity = Identity { node: secrets.bind(node), rank, name, port };
        let mut discovery = Discovery::new()?;
        let there = discovery.interfaces()?;
        if let Some(missing) = config.interfaces.iter().find(|i| there.iter().all(|t| t.name != i.name)) {
            let names: Vec<&str> = there.iter().map(|i| i.name.as_str()).collect();
            return Err(ShareError::NoInterface { name: missing.name.clone(), there: names.join(", ") });
        }
        let mut report: Box<dyn FnMut(&Event) + Send> = Box::new(report);
        secrets.warnings.iter().for_each(|warning| report(&Event::Warning(warning.clone())));
        let migrated = MigratedFlows::new(config.migrated_file.clone());
        let taken = match &config.own {
            Some(sockets) => Ok(Enforcer::of_own(sockets.clone())),
            None => Enforcer::take(&config.control_name, migrated, config.bounds_capacity),
        };
        let enforcer = match taken {
            Ok(enforcer) => enforcer,
            Err(error) if config.without_kernel == WithoutKernel::Watch => {
                report(&Event::StoppedBounding { why: error.to_string() });
                Enforcer::none(Some(error.to_string()))
            }
            Err(error) => return Err(error.into()),
        };
        let now = clock::now();
        let (order, orders) = channel();
        let mut share = ControlLoop {
            config,
            identity,
            keys: KeyChain::new(secrets),
            flood: Flood::default(),
            rest: None,
            reload: None,
            enforcer,
            discovery,
            links: Vec::new(),
            flows: Flows::default(),
            walk: Vec::new(),
            out: Vec::new(),
            batch: Batch::new(),
            started: now,
            tick_at: now,
            refresh_at: now + REFRESH_EVERY,
            scope: None,
            elsewhere: 0,
            ticks: 0,
            late_ticks: 0,
            problems: Vec::new(),
            waits: Vec::new(),
            leaders: Vec::new(),
            status_cell: StatusCell::default(),
            orders,
            order,
            report,
        };
        share.refresh_interfaces(now);
        share.publish(now);
        Ok(share)
    }

    /// The cell to which the loop publishes its status.
    pub fn status_cell(&self) -> StatusCell {
        self.status_cell.clone()
    }

    /// The channel for commands from any thread. The loop executes a command within 500 ms.
    pub fn orders(&self) -> Sender<LoopCommand> {
        self.order.clone()
    }

    /// The last published status.
    pub fn status(&self) -> std::sync::Arc<Status> {
        self.status_cell.read()
    }

    /// Runs until the flag is set. Then restores the former congestion control of every flow and
    /// announces the departure to the group.
    ///
    /// # Errors
    /// If `poll` fails.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), ShareError> {
        while !stop.load(Ordering::Relaxed) {
            self.step()?;
        }
        self.leave();
        Ok(())
    }

    /// Waits for the next timer or message, at most 500 ms, and processes it.
    ///
    /// # Errors
    /// If `poll` fails.
    pub fn step(&mut self) -> Result<(), ShareError> {
        self.wait()?;
        let now = clock::now();
        if self.discovery.netlink.changed() {
            self.refresh_at = self.refresh_at.min(now + SETTLE);
        }
        while let Ok(order) = self.orders.try_recv() {
            match order {
                LoopCommand::Policy(policy) => self.configure(policy),
                LoopCommand::Reload(config) => self.reload(*config),
            }
        }
        let refused = self.links.iter_mut().map(|link| link.receive(now, &mut self.batch)).sum();
        self.rest = self.flood.note(now, refused);
        self.take_notices();
        if self.keys.work() {
            self.refresh_at = now;
        }
        if now >= self.refresh_at {
            self.refresh_at = now + REFRESH_EVERY;
            self.refresh_interfaces(now);
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
        if let Some(rest) = self.rest {
            std::thread::sleep(rest);
        }
        let now = clock::now();
        let next =
            self.links.iter().filter_map(Link::next).fold(self.tick_at.min(self.refresh_at), Moment::min);
        // Round up. Otherwise `poll` would return early and the loop would spin through the last
        // millisecond.
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
        let steered = self.enforcer.steers();
        let all = !self.may_omit_resting() || self.flows.want_all();
        let coverage = self.enforcer.observe(&mut self.walk, all);
        self.sort_flows(now, coverage);
        for link in &mut self.links {
            link.tick(now);
        }
        let decisions = self.links.iter().flat_map(|link| {
            let ours = link.states.iter().map(|state| state.control_state.is_ours());
            link.decisions.iter().zip(ours).filter(|(_, ours)| *ours).map(|(decision, _)| decision)
        });
        let had_room = self.enforcer.without_room().is_empty();
        self.enforcer.apply(decisions, |flow| self.flows.rate_bps(flow));
        // After a suspend or a stall, the measurements belong neither to the previous tick nor to
        // this one.
        if late < TICK {
            let steers = self.enforcer.steers();
            for link in &mut self.links {
                link.note(TICK, &self.flows, steers, self.enforcer.without_room());
            }
        }
        if let Some(problem) = self.enforcer.room_problem().filter(|_| had_room) {
            (self.report)(&Event::Problem(problem));
        }
        if steered && !self.enforcer.steers() {
            let why = self.enforcer.why_not().unwrap_or_default().to_owned();
            (self.report)(&Event::StoppedBounding { why });
            self.report_not_written();
        }
        self.note_members();
        // An active flow needs several times the memory of an idle flow. Without this call the
        // allocator keeps what many such flows had used.
        if self.flows.newly_idle() >= MIN_WALK {
            crate::give_back_memory();
        }
    }

    /// Whether the walk may omit idle flows.
    fn may_omit_resting(&self) -> bool {
        self.links.iter().all(|link| link.terminal.policy.may_omit_resting())
    }

    /// Assigns each flow to the interface that has its local address.
    fn sort_flows(&mut self, now: Moment, coverage: WalkCoverage) {
        let may_omit_resting = self.may_omit_resting();
        for link in &mut self.links {
            link.seen.clear();
            link.states.clear();
        }
        self.flows.begin();
        self.elsewhere = 0;
        for state in self.walk.drain(..) {
            if state.is_idle && may_omit_resting {
                self.flows.set_idle(now, state);
                continue;
            }
            let before = self.flows.wake(&state);
            let local = state.local.ip();
            match self.links.iter_mut().find(|link| link.has(local)) {
                Some(link) => {
                    if let Some(before) = before {
                        link.terminal.policy.recall(&before, self.flows.walks());
                    }
                    link.seen.push(self.flows.see(now, &state));
                    link.states.push(state);
                }
                None => self.elsewhere += 1,
            }
        }
        // Shrink the buffers after a walk that reported far more flows than usual.
        for link in &mut self.links {
            link.seen.shrink_to(link.seen.len() * 2);
            link.states.shrink_to(link.states.len() * 2);
            link.decisions.shrink_to(link.states.len() * 2);
            let rest = self.flows.idle_at(|address| link.has(address));
            link.terminal.policy.rest(rest.all as usize);
        }
        self.walk.shrink_to(MIN_WALK);
        self.flows.end(now, coverage);
    }

    fn note_members(&mut self) {
        let (mut redrawn, mut refresh) = (None, false);
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
                // Check immediately whether it is the access point.
                refresh = true;
                let own = leader == Some(member.node());
                (self.report)(&Event::Leader { interface: name.clone(), node: leader, own });
            }
        }
        if refresh {
            self.refresh_at = clock::now();
        }
        if let Some(node) = redrawn.filter(|node| self.config.node != Some(*node)) {
            self.config.node = Some(node);
            (self.report)(&Event::Redrawn(node));
        }
    }

    /// Changes the policy from the next tick on. The flows, the group and the state of both are
    /// kept.
    pub fn configure(&mut self, policy: PolicyConfig) {
        if policy == self.config.policy {
            return;
        }
        let now = clock::now();
        self.config.policy = policy;
        self.links.iter_mut().for_each(|link| link.terminal.configure(now, policy));
        (self.report)(&Event::Policy(policy));
        self.publish(now);
    }

    /// Applies the policy, the interfaces and the keys of new settings. Port, congestion control
    /// name, node ID and rank are not changed. If the new settings have no usable key, nothing is
    /// changed. The status reports the result.
    pub fn reload(&mut self, config: ShareConfig) {
        let known_notice = self.config.known_notice;
        match Secrets::load(&ShareConfig { known_notice, ..config.clone() }) {
            Ok(secrets) => self.take_over(config, secrets),
            Err(error) => self.reload_failed(&error.to_string()),
        }
    }

    /// Records in the status that new settings were not applied, and why.
    pub fn reload_failed(&mut self, why: &str) {
        (self.report)(&Event::Problem(format!("the configuration stays as it was: {why}")));
        self.note_reload(Some(why.to_owned()));
        self.publish(clock::now());
    }

    fn note_reload(&mut self, error: Option<String>) {
        let count = self.reload.as_ref().map_or(0, |reload| reload.count) + 1;
        self.reload = Some(ReloadStatus { count, error });
    }

    fn take_over(&mut self, config: ShareConfig, secrets: Secrets) {
        let now = clock::now();
        secrets.warnings.iter().for_each(|warning| (self.report)(&Event::Warning(warning.clone())));
        self.identity.node = secrets.bind(self.config.node.unwrap_or(self.identity.node));
        self.keys.replace(secrets);
        (self.config.key, self.config.accepts) = (config.key, config.accepts);
        self.config.notice_file = config.notice_file;
        self.config.interfaces = config.interfaces;
        self.config.rendezvous = config.rendezvous;
        self.config.group = config.group;
        self.configure(config.policy);
        self.refresh_interfaces(now);
        self.note_reload(None);
        self.publish(now);
    }

    /// Applies a group key notice that one interface received to all interfaces.
    fn take_notices(&mut self) {
        let new_notices: Vec<_> = self
            .links
            .iter_mut()
            .filter_map(|link| link.member.as_mut())
            .filter_map(Member::new_notice)
            .collect();
        for notice in new_notices {
            if self.keys.take(&notice) {
                self.config.known_notice = Some(notice);
                self.refresh_at = clock::now();
                (self.report)(&Event::Notice(notice));
            }
        }
    }

    /// Restores the former congestion control of every flow and announces the departure to the
    /// group. Dropping a [`ControlLoop`] does the same without the announcement.
    pub fn leave(&mut self) {
        let now = clock::now();
        for link in &mut self.links {
            link.leave(now, &mut self.out);
        }
        match self.enforcer.release_all("it has left".into()) {
            Some(Ok((migrated_back, not_migrated_back))) => {
                (self.report)(&Event::Left { migrated_back, not_migrated_back })
            }
            Some(Err(error)) => {
                (self.report)(&Event::Problem(format!("restoring the flows' congestion control: {error}")))
            }
            None => {}
        }
        self.report_not_written();
        self.publish(now);
    }

    /// Reports that the record of restored flows was not written. The next process will then assume
    /// that their programs chose the congestion control.
    fn report_not_written(&mut self) {
        if let Some(error) = self.enforcer.not_stored.take() {
            (self.report)(&Event::Problem(error.to_string()));
        }
    }

    /// Publishes the status with the largest flows, and one with all flows if a client requested
    /// it.
    fn publish(&self, now: Moment) {
        self.status_cell.write(self.status_of(now, Some(MAX_ROWS)));
        if self.status_cell.is_asked_for_all() {
            self.status_cell.write_all(self.status_of(now, None));
        }
    }

    fn status_of(&self, now: Moment, max_rows: Option<usize>) -> Status {
        let all = self.flows.idle_at(|_| true).all;
        let here = self.flows.idle_at(|address| self.links.iter().any(|link| link.has(address))).all;
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: now.since(self.started).as_secs_f64(),
            steers: self.enforcer.steers(),
            why_not: self.enforcer.why_not().map(str::to_owned),
            control: self.config.control_name.clone(),
            new_flows_wait: self.enforcer.new_flows_wait().map(str::to_owned),
            policy: self.config.policy.into(),
            keyed: self.keys.secrets.sends.is_some(),
            warnings: self.keys.secrets.warnings.clone(),
            reload: self.reload.clone(),
            interfaces: self
                .links
                .iter()
                .map(|link| {
                    let without_room = self.enforcer.without_room();
                    InterfaceStatus::of(link, now, &self.flows, max_rows, without_room)
                })
                .collect(),
            flows_elsewhere: self.elsewhere + (all - here),
            ticks: self.ticks,
            late_ticks: self.late_ticks,
            kernel_refusals: self.enforcer.refused,
            bounds_refused: self.enforcer.without_room().len() as u64,
            waits: self.waits.clone(),
            problems: self.problems.iter().cloned().chain(self.enforcer.room_problem()).collect(),
        }
    }
}
