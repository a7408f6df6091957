//! The main loop of an access point's daemon: it runs the gate and the controller twice a second.

use super::air::Air;
use super::bottleneck::Channel;
use super::bypass::Bypass;
use super::controller::{Controller, Plan, StationLocation};
use super::devices::Devices;
use super::figures::Figures;
use super::group::{ApGroup, Groups};
use super::rules::{Rules, StationId};
use super::status::{ApStatus, ap_metrics};
use super::steer::{Sending, Steerer};
use crate::wireless::{StationReport, Wireless};
use crate::{PolicyStatus, RadioConfig, ShareError, TextCell, clock, folder, privilege};
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_gate::{AttachMode, Gate, GateError, Options};
use yuzuri_policy::{Objective, PolicyConfig};

/// Interval between ticks.
const PERIOD: Duration = Duration::from_millis(500);
/// Lifetime of a bound: if the daemon dies, all connections are unbounded after this time.
const LASTS: Duration = Duration::from_millis(1500);
/// How often the stations' rates are read, in ticks.
const RATES_EACH: u32 = 4;
/// An older status belongs to a daemon that no longer runs, seconds.
const STALE_S: f64 = 5.0;

/// A gate of the usual size, attached by tcx if the kernel supports it, or always by clsact.
pub fn gate_options(tcx: bool) -> Options {
    Options { tcx, ..Options::default() }
}

/// The settings of an access point's daemon.
#[derive(Debug, Clone)]
pub struct ApConfig {
    /// The devices towards the stations.
    pub devices: Devices,
    /// The policy.
    pub policy: PolicyConfig,
    /// Report what would be done, without bounding anything.
    pub dry_run: bool,
    /// Weights, limits and exemptions of stations, and the user's other choices.
    pub rules: Rules,
    /// The radio of stations for which the kernel does not report it.
    pub radio: Option<RadioConfig>,
    /// The location of certain stations, with priority over the kernel's reports.
    pub places: HashMap<StationId, StationLocation>,
    /// How the gate is created.
    pub gate: Options,
    /// The status file; `None`: none.
    pub status_file: Option<PathBuf>,
    /// The metrics file, for a collector that reads files.
    pub metrics_file: Option<PathBuf>,
    /// hostapd's control socket of each radio between which stations are moved; with fewer than
    /// two, no station is.
    pub hostapd: Vec<PathBuf>,
    /// The groups of stations that run yuzuri themselves; `None`: the gate acts for every station.
    pub group: Option<ApGroup>,
}

impl ApConfig {
    /// The default settings of a daemon at these devices.
    pub fn new(devices: Devices) -> ApConfig {
        ApConfig {
            devices,
            policy: PolicyConfig::default(),
            dry_run: false,
            rules: Rules::default(),
            radio: None,
            places: HashMap::new(),
            gate: Options::default(),
            status_file: None,
            metrics_file: None,
            hostapd: Vec::new(),
            group: None,
        }
    }
}

/// A running daemon. It belongs to the network namespace of the thread that starts it.
pub struct ApLoop {
    config: ApConfig,
    gate: Gate,
    controller: Controller,
    wireless: Wireless,
    air: Air,
    bypass: Bypass,
    /// The message about traffic that bypasses the gate.
    passes_by: Option<String>,
    steerer: Option<Steerer>,
    groups: Option<Groups>,
    ticks: u32,
    next: Instant,
    status: ApStatus,
    problems: Vec<String>,
    /// The devices, as they were when the gate was attached.
    indices: Vec<(String, Option<u32>)>,
    metrics_failed: Option<String>,
    /// The stations' figures without bounds, and with them.
    figures: [Figures; 2],
    text: TextCell,
}

impl ApLoop {
    /// Loads the gate, and attaches it to the devices.
    ///
    /// # Errors
    /// If privilege is missing, or a device does not exist or does not support the gate.
    pub fn start(config: ApConfig) -> Result<ApLoop, ShareError> {
        let steerer = match &config.hostapd[..] {
            [] | [_] => None,
            sockets => Some(Steerer::new(sockets)),
        };
        let mut gate = Gate::load(&config.gate)?;
        for device in config.devices.iter() {
            gate.attach(device)?;
        }
        let indices = config.devices.iter().map(|device| (device.clone(), index(device))).collect();
        let controller = Controller::new(config.policy, config.rules.clone());
        let mut groups =
            config.group.clone().map(|group| Groups::start(group, &config.devices)).transpose()?;
        if let Some(groups) = &mut groups {
            groups.lead(!config.dry_run);
        }
        Ok(ApLoop {
            gate,
            controller,
            wireless: Wireless::open(),
            air: Air::default(),
            bypass: Bypass::default(),
            passes_by: None,
            steerer,
            groups,
            ticks: 0,
            next: Instant::now(),
            status: ApStatus::default(),
            problems: Vec::new(),
            indices,
            metrics_failed: None,
            figures: Default::default(),
            text: TextCell::default(),
            config,
        })
    }

    /// Drops all privileges that are no longer needed. If the gate is attached by clsact,
    /// `CAP_NET_ADMIN` stays, since removing the gate needs it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn drop_privileges(&self) -> Result<(), ShareError> {
        if self.gate.devices().all(|(_, mode)| mode == AttachMode::Tcx) {
            return privilege::drop_privileges();
        }
        yuzuri_confine::keep_only(&[yuzuri_confine::Capability::CAP_NET_ADMIN], None)
            .map_err(|e| ShareError::system("giving up privileges", e))
    }

    /// Waits for the next tick, and runs it. Returns early when `stop` is set.
    pub fn step(&mut self, stop: &AtomicBool) {
        while let Some(left) = self.next.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            // Sleep in short steps, because a signal does not end a sleep immediately.
            let nap = left.min(Duration::from_millis(50));
            match &mut self.groups {
                Some(groups) => {
                    groups.wait(nap);
                    groups.exchange_messages();
                }
                None => std::thread::sleep(nap),
            }
        }
        // After a suspend, missed ticks are skipped.
        self.next = (self.next + PERIOD).max(Instant::now());
        self.problems.clear();
        self.problems.extend(self.metrics_failed.take());
        self.tick();
        self.problems.extend(self.passes_by.clone());
        self.problems.extend(self.groups.iter().flat_map(Groups::problems));
        self.publish();
    }

    fn tick(&mut self) {
        let asks_rates = self.ticks.is_multiple_of(RATES_EACH);
        if asks_rates {
            let heard = self.ask_drivers();
            self.air.receive_reports(yuzuri_kernel::clock::mono_ns(), heard);
            let seen = self.gate.counts().map_or(0, |counts| counts.bytes);
            let now_s = clock::now().since_beginning().as_secs_f64();
            self.passes_by = self.bypass.problem(now_s, &self.config.devices, seen);
        }
        self.ticks = self.ticks.wrapping_add(1);
        let flows = match self.gate.flows() {
            Ok(flows) => flows,
            Err(error) => return self.problems.push(error.to_string()),
        };
        let others = self.gate.others().unwrap_or_else(|error| {
            self.problems.push(error.to_string());
            Vec::new()
        });
        let (config, air) = (&self.config, &self.air);
        // All members of a named group receive the same summary, whatever their radio.
        let is_one_group = config.group.as_ref().is_some_and(|group| group.group.is_some());
        let place = |station: StationId| {
            let known = config.places.get(&station).copied().unwrap_or_else(|| air.place(station.0));
            let channel = if is_one_group { Channel::default() } else { known.channel };
            StationLocation { radio: known.radio.or(config.radio), channel }
        };
        let now_ns = yuzuri_kernel::clock::mono_ns();
        let now = clock::now();
        if let Some(groups) = &mut self.groups {
            let controller = &mut self.controller;
            let members = groups.receive_reports(now, |station| controller.weight_of(station));
            controller.receive_reports(members);
        }
        let plan = self.controller.tick(now, now_ns, &flows, &others, place);
        if let Some(groups) = &mut self.groups {
            let controller = &self.controller;
            groups.publish(now, |channel| controller.summary_for(channel));
        }
        if !self.config.dry_run {
            self.enforce(&plan);
        }
        if let Some(shares) = self.controller.is_sharing() {
            let kind = usize::from(shares && !self.config.dry_run);
            self.figures[kind].add(PERIOD.as_secs_f64(), self.controller.points());
        }
        if asks_rates {
            self.steer();
        }
    }

    fn steer(&mut self) {
        let Some(steerer) = &mut self.steerer else { return };
        let sending: Vec<Sending> = self
            .controller
            .with_backlog()
            .filter(|(id, _)| !self.controller.is_exempt(*id))
            .map(|(id, rate_bps)| Sending {
                id,
                rate_bps: rate_bps as f64,
                radio: self.config.places.get(&id).map_or_else(|| self.air.radio(id.0), |place| place.radio),
            })
            .collect();
        steerer.set_dry_run(self.config.dry_run);
        let now = clock::now().since_beginning();
        if let Err(error) = steerer.tick(now, self.controller.is_limited_by_air(), &sending) {
            self.problems.push(error.to_string());
        }
    }

    fn enforce(&mut self, plan: &Plan) {
        let gate = &mut self.gate;
        plan.free.iter().for_each(|flow| gate.release(flow));
        plan.unpoliced.iter().for_each(|station| gate.unpolice(station.0));
        let rates: Vec<_> = plan.rates.iter().map(|(station, bps)| (station.0, *bps)).collect();
        let done = [
            gate.police(&rates, LASTS),
            gate.bound(&plan.flows, LASTS),
            gate.bound_stations(&plan.stations, LASTS),
            plan.others.map_or(Ok(()), |bytes| gate.bound_others(bytes, LASTS)),
        ];
        self.problems
            .extend(done.into_iter().filter_map(Result::err).map(|error: GateError| error.to_string()));
    }

    /// The reports of all radios' drivers about their stations.
    fn ask_drivers(&mut self) -> HashMap<[u8; 6], StationReport> {
        let mut heard = HashMap::new();
        for device in self.config.devices.iter() {
            // A bridge's ports have the radios.
            let ports =
                std::fs::read_dir(format!("/sys/class/net/{device}/brif")).into_iter().flatten().flatten();
            let names = ports.filter_map(|port| port.file_name().into_string().ok()).chain([device.clone()]);
            for index in names.filter_map(|name| nix::net::if_::if_nametoindex(name.as_str()).ok()) {
                heard.extend(self.wireless.stations(index).unwrap_or_default());
            }
        }
        heard
    }

    fn publish(&mut self) {
        self.status = ApStatus {
            at_s: clock::now().since_beginning().as_secs_f64(),
            dry_run: self.config.dry_run,
            policy: PolicyStatus::from(self.config.policy),
            problems: self.problems.clone(),
            steering: self.steerer.as_ref().map(|steerer| steerer.status),
            groups: self.groups.as_ref().map(|groups| groups.status(clock::now())).unwrap_or_default(),
            plain: Some(self.figures[0]).filter(|figures| figures.seconds > 0.0),
            shared: Some(self.figures[1]).filter(|figures| figures.seconds > 0.0),
            ..ApStatus::of(&self.controller, &self.gate, &self.air)
        };
        let text = serde_json::to_string(&self.status).unwrap_or_default();
        self.text.write(&text);
        let Some(file) = &self.config.status_file else { return };
        // Readers notice that the status is out of date.
        let _ = folder::replace(file, &text);
        if let Some(file) = &self.config.metrics_file {
            let written = folder::replace(file, &ap_metrics(&self.status));
            self.metrics_failed =
                written.err().map(|e| format!("writing metrics to {}: {e}", file.display()));
        }
    }

    /// Sets, from the next tick on, whether the daemon only reports what it would do. Existing
    /// bounds expire.
    pub fn set_dry_run(&mut self, dry_run: bool) {
        if let Some(groups) = &mut self.groups {
            groups.lead(!dry_run);
        }
        self.config.dry_run = dry_run;
    }

    /// Sets, from the next tick on, the location of certain stations, whatever the kernel reports.
    pub fn place(&mut self, places: HashMap<StationId, StationLocation>) {
        self.config.places = places;
    }

    /// Continues with other rules, and with another objective.
    pub fn reload(&mut self, rules: Rules, objective: Objective, radio: Option<RadioConfig>) {
        self.config.policy.objective = objective;
        self.config.radio = radio;
        self.config.rules = rules.clone();
        self.controller.configure(self.config.policy, rules);
    }

    /// A device that was removed or recreated. Its gate is gone, and attaching it again needs
    /// privileges that the daemon has dropped.
    pub fn lost_device(&self) -> Option<&str> {
        let lost = self.indices.iter().find(|(device, before)| index(device) != *before);
        lost.map(|(device, _)| device.as_str())
    }

    /// The status as JSON, for the server of the socket.
    pub fn text(&self) -> TextCell {
        self.text.clone()
    }

    /// The state at the last tick.
    pub fn status(&self) -> &ApStatus {
        &self.status
    }

    /// Releases every connection step by step, for at most 5 s or until `hurry` is set, and removes
    /// the gate.
    pub fn leave(mut self, hurry: &AtomicBool) {
        if let Some(groups) = &mut self.groups {
            groups.leave();
        }
        if !self.config.dry_run {
            let until = Instant::now() + Duration::from_secs(5);
            while Instant::now() < until && !hurry.load(Ordering::Relaxed) {
                let Ok(flows) = self.gate.flows() else { break };
                let plan = self.controller.release_all(&flows);
                self.enforce(&plan);
                if plan.flows.is_empty() {
                    break;
                }
                std::thread::sleep(PERIOD);
            }
        }
        if let Some(file) = &self.config.status_file {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn index(device: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(device).ok()
}

/// The status of a running daemon, from its file.
///
/// # Errors
/// If no daemon runs, or the file cannot be read.
pub fn read_ap_status(file: &Path) -> Result<ApStatus, ShareError> {
    let failed = |why: String| ShareError::system(format!("reading the status in {}", file.display()), why);
    let none = || {
        failed("no daemon runs there: start one with `yuzuri ap`, or name its folder with --runtime".into())
    };
    const MAX_BYTES: u64 = 64 << 20;
    let mut text = String::new();
    // Every user who may read it may query it.
    match std::fs::File::open(file).and_then(|open| open.take(MAX_BYTES).read_to_string(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(none()),
        Err(error) => return Err(failed(error.to_string())),
    };
    let status: ApStatus = serde_json::from_str(&text).map_err(|e| failed(e.to_string()))?;
    let age_s = clock::now().since_beginning().as_secs_f64() - status.at_s;
    if age_s > STALE_S { Err(none()) } else { Ok(status) }
}
