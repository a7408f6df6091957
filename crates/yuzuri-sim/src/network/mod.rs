//! The event loop: advances cell, wire, senders and receivers in time order.

mod endpoint;
mod measure;
mod schedule;

use crate::cc::Bounds;
use crate::results::Results;
use crate::scenario::{ChangeKind, LocalDrop, Scenario};
use crate::segment::{Kind, Segment};
use crate::sender::LocalQueue;
use crate::steer::{Observation, Steer};
use crate::units::{MICROSECOND, MILLISECOND, after};
use crate::watch::{FlowState, Watch, WatchedAt};
use crate::workload::{Signal, Workload};
pub(crate) use endpoint::Connection;
use measure::Measurements;
use nix::time::{ClockId, clock_gettime};
use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg32;
use schedule::{Event, Schedule};
use std::time::Instant;
use yuzuri_netmodel::queue::QueueConfig;
use yuzuri_netmodel::radio::{Cell, Node, To};
use yuzuri_netmodel::wire::{Direction, Wire};
use yuzuri_netmodel::{Arrival, ConfigError, Time};

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The network model rejects its configuration.
    #[error("the scenario's network model is not valid: {0}")]
    NetworkModel(#[from] ConfigError),
    /// The number of stations differs from the number of terminals.
    #[error("the cell has {stations} stations for {terminals} terminals: give it one per terminal")]
    Stations {
        /// Stations in the cell.
        stations: usize,
        /// Terminals in the scenario.
        terminals: usize,
    },
    /// A number is out of range.
    #[error("{field} is {value}; allowed: {allowed}")]
    Range {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The allowed range.
        allowed: &'static str,
    },
}

/// Runs `scenario` under `steer`.
///
/// # Errors
/// Returns an error if the scenario is inconsistent.
pub fn run(scenario: &Scenario, steer: &mut dyn Steer) -> Result<Results, ScenarioError> {
    let cpu = cpu_seconds();
    let wall = Instant::now();
    let mut network = Network::new(scenario)?;
    network.run(steer);
    Ok(network.results(wall, cpu))
}

/// Like [`run`], observed by `watch`, which cannot change the run. Returns `None` if `watch` ended
/// the run early.
///
/// # Errors
/// Same as [`run`].
pub fn run_watched(
    scenario: &Scenario,
    steer: &mut dyn Steer,
    watch: &mut dyn Watch,
) -> Result<Option<Results>, ScenarioError> {
    let cpu = cpu_seconds();
    let wall = Instant::now();
    let mut network = Network::new(scenario)?;
    network.schedule.add(Time::ZERO, Event::Watch);
    network.watch = Some(watch);
    network.run(steer);
    network.notify_network(WatchedAt::End);
    Ok((!network.ended).then(|| network.results(wall, cpu)))
}

/// CPU time of this thread, seconds.
fn cpu_seconds() -> f64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(f64::NAN, |time| time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

/// Sampling interval of the mean window.
const SAMPLE_INTERVAL_NS: u64 = 10 * MILLISECOND;

struct Network<'a> {
    scenario: &'a Scenario,
    now: Time,
    cell: Option<Cell<Segment>>,
    wire: Wire<Segment>,
    /// Maximum packets in a station's queue, if the queue is limited by packets.
    station_limits: Vec<Option<usize>>,
    connections: Vec<Connection>,
    workloads: Vec<Workload>,
    /// A terminal's connections: the first index, and one past the last.
    ranges: Vec<(usize, usize)>,
    schedule: Schedule,
    bounds: Vec<Bounds>,
    measurements: Measurements,
    from_cell: Vec<Arrival<Segment, Node>>,
    from_wire: Vec<Arrival<Segment, Direction>>,
    events: u64,
    watch: Option<&'a mut dyn Watch>,
    /// The watch has ended the run.
    ended: bool,
}

impl<'a> Network<'a> {
    fn new(scenario: &'a Scenario) -> Result<Network<'a>, ScenarioError> {
        check(scenario)?;
        let cell = scenario.cell.as_ref().map(|config| Cell::new(config, scenario.seed)).transpose()?;
        let station_limits =
            scenario.cell.iter().flat_map(|cell| &cell.stations).map(|s| packet_limit(&s.queue));
        let mut network = Network {
            scenario,
            now: Time::ZERO,
            cell,
            // Same losses as in the laboratory for the same seed.
            wire: Wire::behind_cell(&scenario.wire, scenario.seed)?,
            station_limits: station_limits.collect(),
            connections: Vec::new(),
            workloads: Vec::new(),
            ranges: Vec::new(),
            schedule: Schedule::default(),
            bounds: vec![Bounds::default(); scenario.terminals.len()],
            measurements: Measurements::new(scenario),
            from_cell: Vec::new(),
            from_wire: Vec::new(),
            events: 0,
            watch: None,
            ended: false,
        };
        network.add_terminals();
        Ok(network)
    }

    fn add_terminals(&mut self) {
        let mut random = Pcg32::seed_from_u64(self.scenario.seed ^ 0x7465_726d_696e_616c);
        for (number, terminal) in self.scenario.terminals.iter().enumerate() {
            let first = self.connections.len();
            for upload in Workload::directions(&terminal.traffic) {
                let id = self.connections.len() as u32;
                self.connections.push(Connection::new(id, number, *upload, terminal, random.next_u64()));
            }
            self.ranges.push((first, self.connections.len()));
            let spread = self.scenario.start_spread_ms * MICROSECOND;
            let delay_ns = ((u128::from(random.next_u64()) * u128::from(spread)) >> 64) as u64 * MILLISECOND
                / MICROSECOND;
            let start = Time::from_nanos(terminal.start_ms * MILLISECOND + delay_ns);
            self.workloads.push(Workload::new(terminal, start));
            self.schedule.add(start, Event::Workload(number as u32));
        }
        self.schedule.add(Time::from_nanos(self.scenario.steer_every_ms * MILLISECOND), Event::Steer);
        self.schedule.add(Time::from_nanos(SAMPLE_INTERVAL_NS), Event::Sample);
        self.schedule.add(Time::from_nanos(self.scenario.warm_up_ms * MILLISECOND), Event::WarmUp);
        for (number, change) in self.scenario.changes.iter().enumerate() {
            self.schedule.add(Time::from_nanos(change.at_ms * MILLISECOND), Event::Change(number as u32));
        }
        if let Some(every_ms) = self.scenario.trace_every_ms {
            self.schedule.add(Time::from_nanos(every_ms * MILLISECOND), Event::Trace);
        }
    }

    fn run(&mut self, steer: &mut dyn Steer) {
        let end = Time::from_nanos(self.scenario.duration_ms * MILLISECOND);
        loop {
            let cell = self.cell.as_ref().and_then(Cell::next).unwrap_or(Time::MAX);
            let wire = self.wire.next().unwrap_or(Time::MAX);
            let scheduled = self.schedule.next().unwrap_or(Time::MAX);
            let next = cell.min(wire).min(scheduled);
            if next > end || next == Time::MAX || self.ended {
                break;
            }
            self.now = next;
            self.events += 1;
            if cell <= next {
                self.advance_cell(steer);
            }
            if wire <= next {
                self.advance_wire(steer);
            }
            while let Some(event) = self.schedule.pop_due(self.now) {
                self.handle(event, steer);
            }
        }
        self.now = end;
    }

    fn advance_cell(&mut self, steer: &mut dyn Steer) {
        let Some(cell) = &mut self.cell else { return };
        let mut arrivals = std::mem::take(&mut self.from_cell);
        cell.advance(self.now, &mut arrivals);
        let mut sent = None;
        for mut arrival in arrivals.drain(..) {
            match arrival.at_node {
                Node::Ap => {
                    let terminal = self.connections[arrival.packet.connection as usize].terminal;
                    if steer.forwards_up(self.now, terminal, &mut arrival.packet) {
                        self.wire.send(self.now, Direction::Up, arrival.packet);
                    }
                    if sent != Some(arrival.from) {
                        self.local_queue_shrank(sent);
                        sent = Some(arrival.from);
                    }
                }
                Node::Station(_) => self.deliver(&arrival.packet, true),
            }
        }
        self.local_queue_shrank(sent);
        self.from_cell = arrivals;
    }

    fn advance_wire(&mut self, steer: &mut dyn Steer) {
        let mut arrivals = std::mem::take(&mut self.from_wire);
        self.wire.advance(self.now, &mut arrivals);
        for mut arrival in arrivals.drain(..) {
            match arrival.at_node {
                Direction::Up => self.deliver(&arrival.packet, false),
                Direction::Down => match &mut self.cell {
                    Some(cell) => {
                        let terminal = self.connections[arrival.packet.connection as usize].terminal;
                        if !steer.forwards_down(self.now, terminal, &mut arrival.packet) {
                            continue;
                        }
                        cell.send(
                            self.now,
                            Node::Ap,
                            To::One(Node::Station(terminal as u16)),
                            arrival.packet,
                        );
                    }
                    None => self.deliver(&arrival.packet, true),
                },
            }
        }
        self.from_wire = arrivals;
    }

    /// A station transmitted frames: senders that waited for queue space may continue.
    fn local_queue_shrank(&mut self, station: Option<Node>) {
        let Some(Node::Station(station)) = station else { return };
        let (first, last) = self.ranges[usize::from(station)];
        for connection in first..last {
            if self.connections[connection].upload && self.connections[connection].opened {
                self.transmit(connection);
            }
        }
    }

    fn deliver(&mut self, segment: &Segment, at_terminal: bool) {
        let index = segment.connection as usize;
        let connection = &mut self.connections[index];
        debug_assert_eq!(at_terminal, connection.upload == matches!(segment.kind, Kind::Ack | Kind::SynAck));
        match segment.kind {
            Kind::Ack | Kind::SynAck => {
                connection.sender.on_segment(self.now, segment);
                if let Some(rtt_us) = connection.sender.take_rtt_us() {
                    self.measurements.rtt(connection.terminal, rtt_us);
                }
                self.transmit(index);
                self.notify_sender(index, true);
            }
            Kind::Data | Kind::Syn => {
                let before = connection.receiver.next_expected();
                connection.receiver.on_segment(self.now, segment);
                let advanced = connection.receiver.next_expected() != before;
                self.acknowledge(index);
                if advanced {
                    self.notify_workload(index);
                }
            }
        }
    }

    fn notify_workload(&mut self, index: usize) {
        let connection = &self.connections[index];
        let signal =
            Signal::Received { upload: connection.upload, segments: connection.receiver.next_expected() };
        let terminal = connection.terminal;
        self.run_workload(terminal, signal);
    }

    fn run_workload(&mut self, terminal: usize, signal: Signal) {
        let (first, last) = self.ranges[terminal];
        let wake_at = self.workloads[terminal].handle(self.now, signal, &mut self.connections[first..last]);
        if let Some(at) = wake_at {
            self.schedule.add(at, Event::Workload(terminal as u32));
        }
        for connection in first..last {
            if self.connections[connection].opened {
                self.transmit(connection);
            }
        }
    }

    /// Lets a sender transmit as much as it may.
    fn transmit(&mut self, index: usize) {
        loop {
            let local = self.local_queue(index);
            let connection = &mut self.connections[index];
            let Some(segment) = connection.sender.poll_transmit(self.now, local) else { break };
            let (upload, terminal) = (connection.upload, connection.terminal);
            self.dispatch(upload, terminal, segment);
        }
        let connection = &mut self.connections[index];
        if let Some(at) = connection.sender.next_timer()
            && at < connection.sender_armed
        {
            connection.sender_armed = at;
            self.schedule.add(at, Event::Sender(index as u32));
        }
    }

    fn acknowledge(&mut self, index: usize) {
        let connection = &self.connections[index];
        let (upload, terminal) = (connection.upload, connection.terminal);
        while let Some(ack) = self.connections[index].receiver.poll_transmit(self.now) {
            self.dispatch(!upload, terminal, ack);
        }
        let connection = &mut self.connections[index];
        if let Some(at) = connection.receiver.next_timer()
            && at < connection.receiver_armed
        {
            connection.receiver_armed = at;
            self.schedule.add(at, Event::Receiver(index as u32));
        }
    }

    fn local_queue(&self, index: usize) -> LocalQueue {
        let connection = &self.connections[index];
        let Some(cell) = self.cell.as_ref().filter(|_| connection.upload) else {
            return LocalQueue::default();
        };
        let station = cell.account().stations.get(connection.terminal);
        let queued = station.map_or(0, |station| station.queue.now);
        let limit = self.station_limits[connection.terminal]
            .filter(|_| self.scenario.local_drop == LocalDrop::Notified);
        LocalQueue {
            segments: station.map_or(0, |station| queued + station.in_mac) as u32,
            full: limit.is_some_and(|limit| queued as usize >= limit),
        }
    }

    fn dispatch(&mut self, up: bool, terminal: usize, segment: Segment) {
        if !up {
            let extra = self.scenario.terminals[terminal].extra_rtt_us;
            if extra > 0 {
                let at = after(self.now, extra * MICROSECOND);
                self.schedule.delay(at, segment);
            } else {
                self.wire.send(self.now, Direction::Down, segment);
            }
            return;
        }
        match &mut self.cell {
            Some(cell) => cell.send(self.now, Node::Station(terminal as u16), To::One(Node::Ap), segment),
            None => self.wire.send(self.now, Direction::Up, segment),
        }
    }

    fn handle(&mut self, event: Event, steer: &mut dyn Steer) {
        match event {
            Event::Sender(index) => {
                let connection = &mut self.connections[index as usize];
                if connection.sender_armed > self.now {
                    return;
                }
                connection.sender_armed = Time::MAX;
                connection.sender.on_timer(self.now);
                self.transmit(index as usize);
                self.notify_sender(index as usize, false);
            }
            Event::Receiver(index) => {
                let connection = &mut self.connections[index as usize];
                if connection.receiver_armed > self.now {
                    return;
                }
                connection.receiver_armed = Time::MAX;
                connection.receiver.on_timer(self.now);
                self.acknowledge(index as usize);
            }
            Event::Workload(terminal) => self.run_workload(terminal as usize, Signal::Timer),
            Event::Delayed(segment) => self.wire.send(self.now, Direction::Down, *segment),
            Event::Steer => {
                self.steer(steer);
                self.schedule.add(after(self.now, self.scenario.steer_every_ms * MILLISECOND), Event::Steer);
            }
            Event::Change(number) => self.apply_change(self.scenario.changes[number as usize].what),
            Event::Sample => {
                self.measurements.sample(&self.connections, &self.ranges);
                self.schedule.add(after(self.now, SAMPLE_INTERVAL_NS), Event::Sample);
            }
            Event::Trace => {
                self.measurements.trace(self.now, &self.connections, &self.ranges);
                let every_ms = self.scenario.trace_every_ms.unwrap_or(1000);
                self.schedule.add(after(self.now, every_ms * MILLISECOND), Event::Trace);
            }
            Event::WarmUp => {
                let cell = self.cell.as_ref().map(Cell::account);
                self.measurements.warmed_up(self.now, &self.connections, cell);
                self.workloads.iter_mut().for_each(Workload::warmed_up);
                self.notify_network(WatchedAt::WarmedUp);
            }
            Event::Watch => {
                self.notify_network(WatchedAt::Interval);
                if let Some(watch) = &self.watch {
                    self.schedule.add(after(self.now, watch.interval_ns().max(1)), Event::Watch);
                }
            }
        }
    }

    /// Reports a sender to the watch.
    fn notify_sender(&mut self, index: usize, by_ack: bool) {
        if let Some(watch) = &mut self.watch {
            let Connection { terminal, upload, sender, .. } = &self.connections[index];
            let (connection, terminal, upload) = (index as u32, *terminal, *upload);
            let flow = FlowState { connection, terminal, upload, by_ack, sender };
            watch.sender(self.now, flow);
        }
    }

    /// Reports radio and wire to the watch.
    fn notify_network(&mut self, at: WatchedAt) {
        if let Some(watch) = &mut self.watch {
            let cell = self.cell.as_ref().map(Cell::account);
            self.ended |= watch.network(self.now, at, cell, self.wire.account()).is_break();
        }
    }

    /// Changes were validated before the run.
    fn apply_change(&mut self, change: ChangeKind) {
        let changed = match (change, &mut self.cell) {
            (ChangeKind::Radio { terminal, phy }, Some(cell)) => cell.set_phy(self.now, terminal, phy),
            (ChangeKind::Radio { .. }, None) => Ok(()),
            (ChangeKind::Wire { rate_bps }, _) => self.wire.set_rate(rate_bps),
        };
        debug_assert!(changed.is_ok(), "{changed:?}");
    }

    fn steer(&mut self, steer: &mut dyn Steer) {
        let uploads: Vec<Option<usize>> = self
            .ranges
            .iter()
            .map(|&(first, last)| {
                (first..last).find(|&n| self.connections[n].upload && self.connections[n].opened)
            })
            .collect();
        let seen: Vec<Option<Observation>> = uploads
            .iter()
            .map(|upload| upload.map(|index| self.connections[index].observe(self.local_queue(index))))
            .collect();
        steer.steer(self.now, &seen, &mut self.bounds);
        for (upload, bounds) in uploads.iter().zip(&self.bounds) {
            if let Some(index) = *upload {
                self.connections[index].sender.set_bounds(*bounds);
            }
        }
    }

    fn results(self, wall: Instant, cpu_before: f64) -> Results {
        let cell = self.cell.map(|cell| cell.account().clone());
        let wire = self.wire.account().clone();
        let mut results = self.measurements.finish(self.now, &self.connections, &self.workloads, cell, wire);
        results.events = self.events;
        results.wall_s = wall.elapsed().as_secs_f64();
        results.cpu_s = cpu_seconds() - cpu_before;
        results
    }
}

fn packet_limit(queue: &QueueConfig) -> Option<usize> {
    match queue {
        QueueConfig::DropTail { packets, .. } => packets.map(|packets| packets as usize),
        QueueConfig::Codel(_) | QueueConfig::FqCodel(_) => None,
    }
}

fn check(scenario: &Scenario) -> Result<(), ScenarioError> {
    if let Some(cell) = scenario.cell.as_ref().filter(|cell| cell.stations.len() != scenario.terminals.len())
    {
        return Err(ScenarioError::Stations {
            stations: cell.stations.len(),
            terminals: scenario.terminals.len(),
        });
    }
    let positive = [
        ("duration_ms", scenario.duration_ms),
        ("steer_every_ms", scenario.steer_every_ms),
        ("trace_every_ms", scenario.trace_every_ms.unwrap_or(1)),
    ];
    for (field, value) in positive {
        if value == 0 {
            return Err(ScenarioError::Range { field, value, allowed: "1 or more" });
        }
    }
    for change in &scenario.changes {
        match change.what {
            ChangeKind::Radio { terminal, phy } => {
                phy.check()?;
                let stations = scenario.cell.as_ref().map_or(0, |cell| cell.stations.len());
                if usize::from(terminal) >= stations {
                    let value = terminal.into();
                    return Err(ScenarioError::Range {
                        field: "changes.terminal",
                        value,
                        allowed: "a station",
                    });
                }
            }
            ChangeKind::Wire { rate_bps } if !(1000..=1_000_000_000_000).contains(&rate_bps) => {
                return Err(ScenarioError::Range {
                    field: "changes.rate_bps",
                    value: rate_bps,
                    allowed: "1000 to 10^12",
                });
            }
            ChangeKind::Wire { .. } => {}
        }
    }
    if scenario.warm_up_ms >= scenario.duration_ms {
        return Err(ScenarioError::Range {
            field: "warm_up_ms",
            value: scenario.warm_up_ms,
            allowed: "less than duration_ms",
        });
    }
    Ok(())
}
