//! The access point's daemon in a run: a thread inside the access point's namespace acts for
//! terminals without yuzuri.

use super::sharing::{GROUP, group_key, radio_of, summary_cells};
use crate::LabError;
use crate::net::{CELL, Topology, terminal_mac};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use yuzuri_policy::Phase;
use yuzuri_scenario::{GateSpec, Scenario};
use yuzuri_share::{
    ApConfig, ApGroup, ApLoop, ApStatus, Channel, DEFAULT_PORT, Devices, InterfaceConfig, MembershipState,
    Rules, StationId, StationLocation, StationRule,
};

/// The state of the access point's daemon at the end of the evaluated part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateRecord {
    /// Ticks (one every 500 ms).
    #[serde(alias = "looks")]
    pub ticks: u64,
    /// The phase of the group; absent: there was no tick.
    pub phase: Option<Phase>,
    /// Terminals that sent.
    pub senders: u16,
    /// Terminals that shared by themselves, led by the access point.
    #[serde(default)]
    pub members: u16,
    /// The estimated capacity, Mbit/s.
    pub capacity_mbps: f64,
    /// Windows lowered.
    pub lowered: u64,
    /// ACKs dropped as redundant.
    #[serde(default)]
    pub thinned: u64,
    /// Packets without a window that were ECN-marked.
    #[serde(default)]
    pub marked: u64,
    /// Packets without a window that were dropped.
    #[serde(default)]
    pub dropped: u64,
    /// Windows that could not be changed.
    pub failed: u64,
    /// Segments of connections whose handshake was not observed.
    pub unknown_handshake: u64,
    /// Mean of the bounds in the evaluated part, bytes; absent: nothing was bounded.
    pub bound_mean_bytes: Option<f64>,
}

/// A running daemon. Dropping it stops it, which must happen before the network is removed.
pub(super) struct GateRun {
    thread: Option<JoinHandle<Result<Vec<TickStatus>, LabError>>>,
    origin: Arc<OnceLock<Instant>>,
    stop: Arc<AtomicBool>,
    names: Vec<(StationId, String)>,
}

struct TickStatus {
    at: Instant,
    status: ApStatus,
}

/// The decisions of a daemon, tick by tick.
pub(crate) struct GateResult {
    ticks: Vec<TickStatus>,
    names: Vec<(StationId, String)>,
}

impl GateRun {
    /// Starts the daemon at the access point's device in the cell, and waits until the gate is
    /// attached.
    ///
    /// # Errors
    /// If the kernel lacks what is needed.
    pub(super) fn start(
        scenario: &Scenario,
        spec: &GateSpec,
        topology: &Topology,
    ) -> Result<GateRun, LabError> {
        let id = |number: usize| StationId(terminal_mac(number as u16));
        let rule = |kind: &str| StationRule {
            weight: spec.weight.get(kind).copied().unwrap_or(1.0),
            max_bps: spec.max_mbps.get(kind).map(|mbps| mbps * 1e6),
            exempt: false,
        };
        let stations = scenario.terminals().enumerate().map(|(n, t)| (id(n), rule(&t.kind.name)));
        let rules = Rules {
            stations: stations.collect(),
            thin_acks: spec.thin_acks.clone(),
            no_police: spec.no_police,
            ..Rules::default()
        };
        let leads = scenario.terminals().any(|t| scenario.share_of(t.kind).is_some());
        let group = leads.then(|| ApGroup {
            key: group_key(scenario),
            group: Some(InterfaceConfig::group_named(GROUP)),
            port: DEFAULT_PORT,
        });
        let failed = |error| LabError::Run(format!("sharing at the access point: {error}"));
        let config = ApConfig {
            policy: spec.policy_config(),
            places: places(scenario, -1.0),
            rules,
            group,
            dry_run: spec.starts_s > 0.0,
            ..ApConfig::new(Devices::new(vec![CELL.into()]).map_err(failed)?)
        };
        let handle = topology.ap.namespace.handle()?;
        let (origin, stop) = (Arc::<OnceLock<Instant>>::default(), Arc::<AtomicBool>::default());
        let (ready, is_ready) = channel();
        let work = {
            let (origin, stop, starts) =
                (origin.clone(), stop.clone(), Duration::from_secs_f64(spec.starts_s));
            let scenario = scenario.clone();
            move || {
                handle.enter()?;
                let mut ap = ApLoop::start(config).map_err(failed)?;
                // If the receiver is gone, the run is already over.
                let _ = ready.send(());
                let mut ticks = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    // What a driver would report of a station that moved.
                    if let Some(origin) = origin.get() {
                        ap.place(places(&scenario, origin.elapsed().as_secs_f64()));
                    }
                    ap.step(&stop);
                    let begins = origin.get().map(|origin| *origin + starts);
                    ap.set_dry_run(begins.is_none_or(|begins| Instant::now() < begins) && !starts.is_zero());
                    ticks.push(TickStatus { at: Instant::now(), status: ap.status().clone() });
                }
                Ok(ticks)
            }
        };
        let thread = std::thread::Builder::new().name("ap".into()).spawn(work);
        let thread = thread.map_err(LabError::network("starting the access point's sharing"))?;
        let names = scenario.terminals().enumerate().map(|(n, t)| (id(n), t.name())).collect();
        let run = GateRun { thread: Some(thread), origin, stop, names };
        if is_ready.recv().is_err() {
            // The daemon ended before it was ready; its result has the reason.
            return run.finish().and(Err(LabError::Run("the access point's sharing did not start".into())));
        }
        Ok(run)
    }

    /// Sets the scenario's time zero.
    pub(super) fn begin(&self, origin: Instant) {
        // Set only once.
        let _ = self.origin.set(origin);
    }

    /// Stops the daemon, and removes the gate.
    pub(super) fn finish(mut self) -> Result<GateResult, LabError> {
        self.stop.store(true, Ordering::Relaxed);
        let joined =
            self.thread.take().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok(GateResult {
            ticks: joined.transpose()?.unwrap_or_default(),
            names: std::mem::take(&mut self.names),
        })
    }
}

/// The terminals' cells and radios at a time of the scenario, seconds.
fn places(scenario: &Scenario, at_s: f64) -> HashMap<StationId, StationLocation> {
    let place = |(number, terminal): (usize, yuzuri_scenario::Terminal<'_>)| {
        let is_second = scenario.is_in_second_cell(terminal.kind, at_s);
        let radio = Some(radio_of(terminal.kind.phy_in(is_second)));
        (
            StationId(terminal_mac(number as u16)),
            StationLocation { radio, channel: Channel(u32::from(is_second)) },
        )
    };
    scenario.terminals().enumerate().map(place).collect()
}

impl Drop for GateRun {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the message has already been printed.
            let _ = thread.join();
        }
    }
}

impl GateResult {
    /// The results for a span of scenario time, seconds.
    pub(super) fn record(&self, origin: Instant, [from_s, to_s]: [f64; 2]) -> GateRecord {
        let at = |seconds: f64| origin + Duration::from_secs_f64(seconds);
        let counted = self.ticks.iter().filter(|tick| tick.at > at(from_s) && tick.at <= at(to_s));
        let flows = counted.flat_map(|tick| &tick.status.stations).flat_map(|station| &station.flows);
        let bounds: Vec<f64> = flows.filter_map(|flow| flow.bound_bytes).map(f64::from).collect();
        let last = self.ticks.iter().rfind(|tick| tick.at <= at(to_s)).map(|tick| tick.status.clone());
        let status = last.unwrap_or_default();
        let summary = status.summary.as_ref();
        GateRecord {
            ticks: self.ticks.len() as u64,
            phase: summary.map(|summary| summary.phase),
            senders: summary.map_or(0, |summary| summary.senders),
            members: status.stations.iter().filter(|s| s.membership == MembershipState::Member).count()
                as u16,
            capacity_mbps: summary.map_or(0.0, |summary| summary.capacity_bps as f64 / 1e6),
            lowered: status.segments.lowered,
            thinned: status.segments.thinned,
            marked: status.segments.marked,
            dropped: status.segments.dropped,
            failed: status.segments.failed,
            unknown_handshake: status.segments.unknown_handshake,
            bound_mean_bytes: (!bounds.is_empty()).then(|| bounds.iter().sum::<f64>() / bounds.len() as f64),
        }
    }

    /// The problems, each once.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut problems: Vec<&String> = self.ticks.iter().flat_map(|tick| &tick.status.problems).collect();
        problems.sort();
        problems.dedup();
        problems.into_iter().map(|problem| format!("access point: {problem}")).collect()
    }

    /// Every tick, with a line for each upload.
    pub(super) fn csv(&self, origin: Instant) -> String {
        let mut text = String::from(
            "time_s,phase,members,senders,capacity_bps,queue_us,paced,wire_bps,terminal,rate_bps,share_bps,alone_bps,srtt_us,\
             bound_bytes,advertised_bytes,offered_bytes,rule\n",
        );
        let number = |value: Option<u64>| value.map_or(String::new(), |v| v.to_string());
        for TickStatus { at, status } in &self.ticks {
            let time_s = match at.checked_duration_since(origin) {
                Some(after) => after.as_secs_f64(),
                None => -origin.duration_since(*at).as_secs_f64(),
            };
            let summary = status.summary.as_ref();
            let head = format!("{time_s:.3}{},{}", summary_cells(summary), summary.map_or(0, |s| s.wire_bps));
            for station in &status.stations {
                let known = self.names.iter().find(|(id, _)| id.to_string() == station.station);
                let name = known.map_or(station.station.as_str(), |(_, name)| name);
                for flow in &station.flows {
                    let _ = writeln!(
                        text,
                        "{head},{name},{},{},{},{},{},{},{},{}",
                        station.rate_bps,
                        number(station.share_bps),
                        station.alone_bps,
                        station.srtt_us,
                        number(flow.bound_bytes.map(u64::from)),
                        flow.advertised_bytes,
                        flow.offered_bytes,
                        flow.rule
                    );
                }
            }
        }
        text
    }
}
