//! Sharing in a run: for each terminal that shares, a thread inside its namespace runs the sharing
//! library.

use super::work::sleep_until;
use crate::LabError;
use crate::net::{CELL, NamespaceHandle, Topology};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use yuzuri_netmodel::radio::Phy;
use yuzuri_policy::{Aggregation, Key, NodeId, Objective, Phase, PolicyName};
use yuzuri_scenario::{BoundBy, Scenario, ShareSpec};
use yuzuri_share::{
    ControlLoop, Event, InterfaceConfig, KeySource, OwnSockets, RadioConfig, ShareConfig, Status, StatusCell,
    SummaryStatus,
};
use yuzuri_stats::counted;
use yuzuri_transfer::Shown;

/// Time limit for the daemons to start before the run: a guest loads their programs one after the
/// other.
const READY_TIMEOUT: Duration = Duration::from_secs(600);
/// The name of the terminals' group.
pub(super) const GROUP: &str = "yuzuri-lab";
/// The key of groups that have one: the SHA-256 of "yuzuri-lab group key".
const GROUP_KEY: [u8; 32] = [
    0x5e, 0x4c, 0x58, 0xdd, 0xac, 0xd1, 0x96, 0xd5, 0x7c, 0x6e, 0x01, 0x0f, 0xd9, 0xbc, 0x1d, 0x0e, 0xf5,
    0x71, 0x7b, 0xb9, 0xe7, 0xcd, 0xff, 0x58, 0x8f, 0x61, 0xeb, 0x0f, 0xe2, 0xbd, 0x7b, 0xb8,
];
/// How often the stop flag is checked while they start.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The columns of the file of ticks.
pub(super) const COLUMNS: &str = "time_s,terminal,leads,phase,members,senders,capacity_bps,queue_us,paced,flow,rate_bps,\
                                  cwnd,srtt_us,lower,upper,no_decrease,burst,rule";

/// The state of a terminal's daemon at the end of the evaluated part, and its counters until then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShareRecord {
    /// The policy that computed the bounds.
    pub policy: PolicyName,
    /// The objective of the policy `yuzuri`.
    pub objective: Objective,
    /// The name of the registered congestion control.
    pub control: String,
    /// Ticks processed (one every 500 ms).
    pub ticks: u64,
    /// Of these, ticks that were at least 500 ms late.
    pub late_ticks: u64,
    /// Calls that the kernel failed.
    pub kernel_refusals: u64,
    /// Why new flows were migrated only at the next tick; absent: they started under the congestion
    /// control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_flows_wait: Option<String>,
    /// Messages sent.
    pub messages_sent: u64,
    /// Their bytes, excluding UDP and IP headers.
    pub bytes_sent: u64,
    /// Messages of others that were accepted.
    pub messages_accepted: u64,
    /// Messages of others that were refused.
    pub messages_refused: u64,
    /// Whether it was the leader at the end.
    pub leads: bool,
    /// How often it became leader.
    pub led: u64,
    /// The phase of the group; absent: there was no leader.
    pub phase: Option<Phase>,
    /// Members that sent, according to the leader.
    pub senders: u16,
    /// The estimated capacity of the group, Mbit/s.
    pub capacity_mbps: f64,
    /// Mean of the upper bounds in the evaluated part, segments.
    pub bound_mean: Option<f64>,
    /// How often each rule bounded its flows in the evaluated part, in ticks times flows.
    pub rules: BTreeMap<String, u64>,
}

impl ShareRecord {
    /// The name of the phase; empty if there was no leader.
    pub fn phase_word(&self) -> &'static str {
        self.phase.map_or("", Phase::name)
    }
}

/// A terminal at one tick.
#[derive(Debug, Clone)]
struct Row {
    at: Instant,
    status: Arc<Status>,
}

/// The results of a daemon's thread.
#[derive(Debug, Default)]
struct SharerRecord {
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// The messages of a daemon's thread.
enum WorkerMessage {
    /// Sharing has started.
    Ready,
    /// The daemon has ended with this error.
    Failed(LabError),
}

struct Running {
    terminal: usize,
    spec: ShareSpec,
    control: String,
    thread: JoinHandle<SharerRecord>,
}

/// The latest status of every terminal's daemon, merged into one status with an interface per
/// terminal.
#[derive(Debug, Clone, Default)]
pub struct Statuses {
    cell: StatusCell,
    latest: Arc<Mutex<BTreeMap<usize, Arc<Status>>>>,
}

impl Statuses {
    /// Publishes, until a daemon reports, that no flow is bounded, with the reason.
    pub fn starting(why_not: String) -> Statuses {
        let statuses = Statuses::default();
        statuses.waiting(why_not);
        statuses
    }

    /// Publishes another reason, unless a daemon has reported.
    pub fn waiting(&self, why_not: String) {
        let latest = self.latest.lock();
        if latest.is_empty() {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            self.cell.write(Status {
                version,
                pid: std::process::id(),
                why_not: Some(why_not),
                ..Status::default()
            });
        }
    }

    /// The merged status, for a control socket.
    pub fn cell(&self) -> StatusCell {
        self.cell.clone()
    }

    fn report(&self, terminal: usize, name: &str, status: &Arc<Status>) {
        let mut latest = self.latest.lock();
        let mut own = Status::clone(status);
        for interface in &mut own.interfaces {
            name.clone_into(&mut interface.name);
        }
        latest.insert(terminal, Arc::new(own));
        let mut merged = latest.values().next().map_or_else(Status::default, |first| Status::clone(first));
        merged.interfaces = latest.values().flat_map(|status| status.interfaces.iter().cloned()).collect();
        merged.steers = latest.values().any(|status| status.steers);
        self.cell.write(merged);
    }
}

/// The daemons of a run. Dropping it stops them, which must happen before the network is removed.
pub struct Sharing {
    running: Vec<Running>,
    /// By terminal: the sockets of programs that bound their own flows.
    own: BTreeMap<usize, OwnSockets>,
    receiver: Receiver<WorkerMessage>,
    origin: Arc<OnceLock<Instant>>,
    stop: Arc<AtomicBool>,
}

/// The daemons' results.
#[derive(Debug, Default)]
pub struct Shared {
    terminals: BTreeMap<usize, (ShareSpec, String, Vec<Row>)>,
    /// Problems that did not end the run.
    pub notes: Vec<String>,
}

/// The group has a key only if an access point leads it: terminals obey an access point in a keyed
/// group only. Without one, messages are as in earlier runs. No run has a host that forges
/// messages.
pub(super) fn group_key(scenario: &Scenario) -> KeySource {
    match scenario.gate {
        Some(_) => KeySource::Key(Key::from_bytes(GROUP_KEY)),
        None => KeySource::Keyless,
    }
}

/// The radio properties that nl80211 would report for a station; a TAP device reports none.
pub(super) fn radio_of(phy: Phy) -> RadioConfig {
    let aggregation = Aggregation::up_to(phy.ampdu_bytes());
    RadioConfig { rate_mbps: phy.rate_bps() as f64 / 1e6, aggregation }
}

impl Sharing {
    /// Starts the daemons, and waits until those that share from the beginning are ready. The
    /// kernel has only one list of congestion controls for all namespaces, so that their names
    /// contain the run's number.
    ///
    /// # Errors
    /// If the kernel lacks what is needed (no `struct_ops`, no TCP iterator: before 5.15), or if
    /// `stop` was set.
    pub fn start(
        scenario: &Scenario,
        seed: u64,
        run: u16,
        topology: &Topology,
        statuses: Option<&Statuses>,
        stop: &AtomicBool,
    ) -> Result<Sharing, LabError> {
        let (sender, receiver) = channel();
        let mut sharing = Sharing {
            running: Vec::new(),
            own: BTreeMap::new(),
            receiver,
            origin: Arc::default(),
            stop: Arc::default(),
        };
        let mut awaited = 0;
        for (terminal, t) in scenario.terminals().enumerate() {
            let Some(spec) = scenario.share_of(t.kind) else { continue };
            let control = format!("lab{run}_s{terminal}");
            let own = (spec.by == BoundBy::Program).then(OwnSockets::default);
            if let Some(own) = &own {
                sharing.own.insert(terminal, own.clone());
            }
            let interface = InterfaceConfig {
                group: Some(InterfaceConfig::group_named(GROUP)),
                radio: Some(radio_of(t.kind.phy)),
                ..InterfaceConfig::named(CELL)
            };
            let config = ShareConfig {
                interfaces: vec![interface],
                policy: spec.policy_config(),
                key: group_key(scenario),
                control_name: control.clone(),
                // Not random, so that a seed reproduces which terminal leads.
                own,
                node: Some(NodeId((seed.wrapping_add(1) << 16) | (terminal as u64 + 1))),
                ..ShareConfig::default()
            };
            let from_s = spec.starts_s.max(t.kind.joins_s);
            awaited += usize::from(from_s == 0.0);
            let sharer = Sharer {
                name: t.name(),
                terminal,
                statuses: statuses.cloned(),
                config,
                from_s,
                until_s: scenario.leaves_s(t.kind),
                ends: scenario.leaves_s(t.kind) < scenario.duration_s,
                handle: topology.terminals[terminal].namespace.handle()?,
                origin: sharing.origin.clone(),
                stop: sharing.stop.clone(),
                sender: sender.clone(),
            };
            let thread = std::thread::Builder::new().name(format!("share-{terminal}"));
            let thread = thread.spawn(move || sharer.work());
            let thread = thread.map_err(LabError::network("starting a terminal's sharing"))?;
            sharing.running.push(Running { terminal, spec, control, thread });
        }
        let until = Instant::now() + READY_TIMEOUT;
        while awaited > 0 {
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Stopped);
            }
            match sharing.receiver.recv_timeout(CHECK_INTERVAL) {
                Ok(WorkerMessage::Ready) => awaited -= 1,
                Ok(WorkerMessage::Failed(error)) => return Err(error),
                Err(_) if Instant::now() < until => {}
                Err(_) => {
                    return Err(LabError::Run(format!(
                        "not ready to share within {1} s: {0}",
                        counted(awaited, "terminal"),
                        READY_TIMEOUT.as_secs()
                    )));
                }
            }
        }
        Ok(sharing)
    }

    /// The callback for the transfers of a terminal whose program bounds its own sockets.
    pub fn shown(&self, terminal: usize) -> Option<Shown> {
        self.own.get(&terminal).map(OwnSockets::shown)
    }

    /// Sets the scenario's time zero.
    pub fn begin(&self, origin: Instant) {
        // Set only once.
        let _ = self.origin.set(origin);
    }

    /// The error of a daemon that has ended, if any.
    pub fn failed(&self) -> Option<LabError> {
        self.receiver
            .try_iter()
            .find_map(|message| if let WorkerMessage::Failed(error) = message { Some(error) } else { None })
    }

    /// Stops all daemons: the flows get their former congestion control back, and nothing stays
    /// registered.
    pub fn finish(mut self) -> Shared {
        self.stop.store(true, Ordering::Relaxed);
        let mut shared = Shared::default();
        // Remove them one by one: if a thread has panicked, dropping `self` still waits for the
        // others.
        while let Some(Running { terminal, spec, control, thread }) = self.running.pop() {
            let outcome = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            shared.notes.extend(outcome.notes);
            shared.terminals.insert(terminal, (spec, control, outcome.rows));
        }
        shared
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for running in self.running.drain(..) {
            // If the thread panicked, the message has already been printed.
            let _ = running.thread.join();
        }
    }
}

/// The parameters of a daemon's thread.
struct Sharer {
    name: String,
    terminal: usize,
    statuses: Option<Statuses>,
    config: ShareConfig,
    /// When it starts and ends, seconds. It ends before the run if its terminal leaves early.
    from_s: f64,
    until_s: f64,
    ends: bool,
    handle: NamespaceHandle,
    origin: Arc<OnceLock<Instant>>,
    stop: Arc<AtomicBool>,
    sender: Sender<WorkerMessage>,
}

impl Sharer {
    fn work(self) -> SharerRecord {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let mut outcome = SharerRecord::default();
        if let Err(error) = self.run_daemon(&notes, &mut outcome.rows) {
            // If the receiver is gone, the run is already over.
            let _ = self
                .sender
                .send(WorkerMessage::Failed(LabError::Run(format!("{}: sharing: {error}", self.name))));
        }
        outcome.notes = std::mem::take(&mut notes.lock());
        outcome
    }

    fn run_daemon(&self, notes: &Arc<Mutex<Vec<String>>>, rows: &mut Vec<Row>) -> Result<(), SharerError> {
        self.handle.enter()?;
        if self.from_s > 0.0 && !self.sleep_until(self.from_s) {
            return Ok(());
        }
        let (name, notes) = (self.name.clone(), notes.clone());
        let mut share = ControlLoop::start_with(self.config.clone(), move |event| {
            if matches!(event, Event::StoppedBounding { .. } | Event::Problem(_)) {
                let note = format!("{name}: sharing: {event}");
                notes.lock().push(note);
            }
        })?;
        // If the receiver is gone, the run is already over.
        let _ = self.sender.send(WorkerMessage::Ready);
        let mut ticks = 0;
        while !self.stop.load(Ordering::Relaxed) && !self.is_over() {
            share.step()?;
            let status = share.status();
            if status.ticks > ticks {
                ticks = status.ticks;
                if let Some(statuses) = &self.statuses {
                    statuses.report(self.terminal, &self.name, &status);
                }
                rows.push(Row { at: Instant::now(), status });
            }
        }
        share.leave();
        Ok(())
    }

    fn sleep_until(&self, seconds: f64) -> bool {
        while !self.stop.load(Ordering::Relaxed) {
            match self.origin.get() {
                Some(origin) => return sleep_until(*origin + Duration::from_secs_f64(seconds), &self.stop),
                None => std::thread::sleep(CHECK_INTERVAL),
            }
        }
        false
    }

    fn is_over(&self) -> bool {
        let end = self.origin.get().map(|origin| *origin + Duration::from_secs_f64(self.until_s));
        self.ends && end.is_some_and(|end| Instant::now() >= end)
    }
}

#[derive(Debug, thiserror::Error)]
enum SharerError {
    #[error(transparent)]
    Share(#[from] yuzuri_share::ShareError),
    #[error(transparent)]
    Lab(#[from] LabError),
}

/// The leader's summary as cells of the file of ticks.
pub(super) fn summary_cells(summary: Option<&SummaryStatus>) -> String {
    match summary {
        Some(s) => format!(
            ",{},{},{},{},{},{}",
            s.phase.name(),
            s.members,
            s.senders,
            s.capacity_bps,
            s.queue_us,
            s.paced
        ),
        None => ",,,,,,".into(),
    }
}

impl Shared {
    /// A terminal's results for a span of scenario time, seconds; `None` if it did not share.
    pub fn record(&self, terminal: usize, origin: Instant, [from_s, to_s]: [f64; 2]) -> Option<ShareRecord> {
        let (spec, control, rows) = self.terminals.get(&terminal)?;
        let at = |seconds: f64| origin + Duration::from_secs_f64(seconds);
        let last = rows.iter().rfind(|row| row.at <= at(to_s)).map(|row| row.status.clone());
        let counted = rows.iter().filter(|row| row.at > at(from_s) && row.at <= at(to_s));
        let mut rules: BTreeMap<String, u64> = BTreeMap::new();
        let (mut bounds, mut sum) = (0_u64, 0_u64);
        for flow in counted.flat_map(|row| &row.status.interfaces).flat_map(|interface| &interface.flows) {
            *rules.entry(flow.rule.name().to_owned()).or_default() += 1;
            if flow.bound.upper > 0 {
                bounds += 1;
                sum += u64::from(flow.bound.upper);
            }
        }
        let status = last.unwrap_or_default();
        let interface = status.interfaces.first();
        let messages = interface.map(|interface| interface.messages.clone()).unwrap_or_default();
        let summary = interface.and_then(|interface| interface.summary.as_ref());
        Some(ShareRecord {
            policy: spec.policy,
            objective: spec.objective,
            control: control.clone(),
            ticks: status.ticks,
            late_ticks: status.late_ticks,
            kernel_refusals: status.kernel_refusals,
            new_flows_wait: status.new_flows_wait.clone(),
            messages_sent: messages.sent.values().sum(),
            bytes_sent: messages.sent_bytes,
            messages_accepted: messages.accepted.values().sum(),
            messages_refused: messages.refused.values().sum(),
            leads: interface.is_some_and(|interface| interface.leads),
            led: messages.led,
            phase: summary.map(|summary| summary.phase),
            senders: summary.map_or(0, |summary| summary.senders),
            capacity_mbps: summary.map_or(0.0, |summary| summary.capacity_bps as f64 / 1e6),
            bound_mean: (bounds > 0).then(|| sum as f64 / bounds as f64),
            rules,
        })
    }

    /// Every tick of every terminal, with one line per flow; `None` if no terminal shared.
    pub fn csv(&self, names: &[String], origin: Instant) -> Option<String> {
        if self.terminals.is_empty() {
            return None;
        }
        let mut text = format!("{COLUMNS}\n");
        let all = self
            .terminals
            .iter()
            .flat_map(|(terminal, (_, _, rows))| rows.iter().map(move |row| (terminal, row)));
        let mut all: Vec<(&usize, &Row)> = all.collect();
        all.sort_by_key(|(terminal, row)| (row.at, **terminal));
        for (terminal, row) in all {
            let time_s = match row.at.checked_duration_since(origin) {
                Some(after) => after.as_secs_f64(),
                None => -origin.duration_since(row.at).as_secs_f64(),
            };
            for interface in &row.status.interfaces {
                let mut head = format!("{time_s:.3},{},{}", names[*terminal], interface.leads);
                head += &summary_cells(interface.summary.as_ref());
                if interface.flows.is_empty() {
                    let _ = writeln!(text, "{head},,,,,,,,,");
                }
                for f in &interface.flows {
                    let (flow, rule) = (f.local.port(), f.rule.name());
                    let _ = writeln!(
                        text,
                        "{head},{flow},{},{},{},{},{},{},{},{rule}",
                        f.rate_bps, f.cwnd, f.srtt_us, f.bound.lower, f.bound.upper, f.no_decrease, f.burst
                    );
                }
            }
        }
        Some(text)
    }
}
