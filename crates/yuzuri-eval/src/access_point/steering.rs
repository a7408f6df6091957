//! Simulates stations that move between two radios of one access point: two cells on different
//! channels, each with a gate, and one [`Controller`] of the daemon for both; [`ClientSteering`]
//! decides which station should move. The wire is faster than both cells together, or slower than
//! one.
//!
//! Both cells are simulated at the same time, each on its own thread, and synchronise at every
//! tick. A move is simulated in a second run, with the request of the first run. A change of radio
//! is not modelled in detail: the station is absent for half a second.

use super::gate::{Gate, mac, radio_of};
use parking_lot::{Condvar, Mutex};
use std::fmt::Write as _;
use yuzuri_gate::FlowSeen;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::queue::QueueConfig;
use yuzuri_netmodel::radio::Phy;
use yuzuri_policy::{Moment, PolicyConfig};
use yuzuri_share::{
    Candidate, Channel, ClientSteering, Controller, Plan, Request, Rules, StationId, StationLocation,
};
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{
    Observation, ReceiverConfig, Scenario, ScenarioError, Segment, Steer, Terminal, hint_of, path,
    run as simulate,
};

const SECONDS: u64 = 90;
const AWAY_MS: u64 = 500;
/// Rates are means that begin this long after the start, or after a move, seconds.
const SETTLES_S: f64 = 10.0;

/// A station's radio in each cell; `None`: it cannot use that cell.
type Station = [Option<Phy>; 2];

/// A set of stations, all in the first cell at the beginning.
struct Setting {
    name: &'static str,
    stations: Vec<Station>,
    wire_mbps: u64,
}

fn settings() -> Vec<Setting> {
    let n = [Some(Phy::n(20, 1, 7)); 2];
    let ac = [Some(Phy::ac(80, 1, 9)), Some(Phy::n(20, 1, 7))];
    let ax = [Some(Phy::ax(20, 1, 11)); 2];
    let immovable = [Some(Phy::n(20, 1, 7)), None];
    let setting =
        |name, stations: &[Station], wire_mbps| Setting { name, stations: stations.to_vec(), wire_mbps };
    vec![
        setting("2 ac + 2 n", &[ac, ac, n, n], 1000),
        setting("2 ac + 2 n behind 50 Mbit/s", &[ac, ac, n, n], 50),
        setting("4 ax + 2 n", &[ax, ax, ax, ax, n, n], 1000),
        setting("2 ac + 2 n that cannot move", &[ac, ac, immovable, immovable], 1000),
    ]
}

/// The common state of both cells.
struct BothCells {
    controller: Controller,
    steering: ClientSteering,
    stations: Vec<Station>,
    moved: Option<(usize, f64)>,
    seen: [Option<Vec<FlowSeen>>; 2],
    round: u64,
    plan: Plan,
    requests: Vec<(f64, Request)>,
    /// Bytes acknowledged of each station at each tick.
    acked: Vec<(f64, Vec<u64>)>,
}

impl BothCells {
    fn cell_of(&self, station: usize, now_s: f64) -> usize {
        usize::from(self.moved.is_some_and(|(who, at_s)| who == station && now_s >= at_s))
    }

    fn tick(&mut self, now: Time) {
        let now_s = now.as_secs_f64();
        let seen: Vec<FlowSeen> = self.seen.iter_mut().filter_map(Option::take).flatten().collect();
        let acked =
            |n: usize| seen.iter().filter(|flow| flow.mac == mac(n)).map(|flow| flow.acked_bytes).sum();
        self.acked.push((now_s, (0..self.stations.len()).map(acked).collect()));
        let on: Vec<usize> = (0..self.stations.len()).map(|n| self.cell_of(n, now_s)).collect();
        let place = |id: StationId| {
            let number = (0..on.len()).find(|n| mac(*n) == id.0);
            number.map_or(StationLocation::default(), |number| StationLocation {
                radio: self.stations[number][on[number]].map(radio_of),
                channel: Channel(on[number] as u32),
            })
        };
        let now_ns = now.as_nanos();
        self.plan = self.controller.tick(Moment::from_nanos(now_ns), now_ns, &seen, &[], place);
        let air_limits = self.controller.is_limited_by_air();
        let candidates: Vec<Candidate> = (0..on.len())
            .map(|n| Candidate {
                id: StationId(mac(n)),
                on: on[n],
                alone_bps: self.stations[n]
                    .iter()
                    .map(|phy| phy.map(|phy| hint_of(phy).alone_bps as f64))
                    .collect(),
                rate_bps: self.rate_mbps(n, now_s - 0.6, now_s) * 1e6,
            })
            .collect();
        let request = self.steering.tick(std::time::Duration::from_nanos(now_ns), air_limits, &candidates);
        self.requests.extend(request.map(|request| (now_s, request)));
        self.round += 1;
    }

    /// A station's rate between two times, Mbit/s.
    fn rate_mbps(&self, station: usize, from_s: f64, to_s: f64) -> f64 {
        let at = |s: f64| self.acked.iter().rfind(|(at, _)| *at <= s).or(self.acked.first());
        let ends = at(from_s).zip(at(to_s)).filter(|(from, to)| to.0 > from.0);
        ends.map_or(0.0, |(from, to)| {
            to.1[station].saturating_sub(from.1[station]) as f64 * 8.0 / 1e6 / (to.0 - from.0)
        })
    }
}

/// Synchronises the two cells.
struct CellBarrier {
    cells: Mutex<BothCells>,
    both: Condvar,
}

impl CellBarrier {
    /// Waits for the observations of both cells, and returns the plan.
    fn tick(&self, cell: usize, now: Time, seen: Vec<FlowSeen>) -> Plan {
        let mut cells = self.cells.lock();
        let round = cells.round;
        cells.seen[cell] = Some(seen);
        if cells.seen.iter().all(Option::is_some) {
            cells.tick(now);
            self.both.notify_all();
        }
        self.both.wait_while(&mut cells, |cells| cells.round == round);
        cells.plan.clone()
    }
}

/// One cell's gate.
struct Cell<'a> {
    number: usize,
    gate: Gate,
    barrier: &'a CellBarrier,
}

impl Steer for Cell<'_> {
    fn steer(&mut self, now: Time, _terminals: &[Option<Observation>], _bounds: &mut [Bounds]) {
        let plan = self.barrier.tick(self.number, now, self.gate.seen(now));
        self.gate.take(plan);
    }

    fn forwards_up(&mut self, now: Time, terminal: usize, segment: &mut Segment) -> bool {
        self.gate.forwards_up(now, terminal, segment)
    }

    fn forwards_down(&mut self, now: Time, terminal: usize, segment: &mut Segment) -> bool {
        self.gate.forwards_down(now, terminal, segment)
    }
}

/// A cell's scenario: it has all stations; those in the other cell are silent.
fn scenario(setting: &Setting, cell: usize, moved: Option<(usize, f64)>, seed: u64) -> Scenario {
    let phys: Vec<Phy> = setting.stations.iter().map(|s| s[cell].unwrap_or(Phy::n(20, 1, 0))).collect();
    let terminal = |number: usize| {
        let receiver = ReceiverConfig { growing_buffer: true, ..ReceiverConfig::default() };
        let terminal = Terminal { receiver, ..Terminal::uploading() };
        let at_ms = moved.filter(|(who, _)| *who == number).map(|(_, at_s)| (at_s * 1000.0) as u64);
        match (cell, at_ms) {
            (0, Some(at_ms)) => Terminal { stop_ms: Some(at_ms), ..terminal },
            (0, None) => terminal,
            (_, Some(at_ms)) => Terminal { start_ms: at_ms + AWAY_MS, ..terminal },
            (_, None) => Terminal { start_ms: 2 * SECONDS * 1000, ..terminal },
        }
    };
    let wire = path(setting.wire_mbps * 1_000_000, 1000, 20_000);
    let terminals = (0..phys.len()).map(terminal).collect();
    let mut scenario = Scenario::wireless(&phys, wire, terminals, SECONDS * 1000).seeded(seed);
    if let Some(cell) = &mut scenario.cell {
        cell.ap.queue = QueueConfig::drop_tail(400);
    }
    scenario
}

/// Runs both cells.
fn both(setting: &Setting, moved: Option<(usize, f64)>, seed: u64) -> Result<BothCells, ScenarioError> {
    let cells = BothCells {
        controller: Controller::new(PolicyConfig::default(), Rules::default()),
        steering: ClientSteering::default(),
        stations: setting.stations.clone(),
        moved,
        seen: [None, None],
        round: 0,
        plan: Plan::default(),
        requests: Vec::new(),
        acked: Vec::new(),
    };
    let barrier = CellBarrier { cells: Mutex::new(cells), both: Condvar::new() };
    let scenarios = [0, 1].map(|cell| scenario(setting, cell, moved, seed));
    std::thread::scope(|scope| {
        let threads: Vec<_> = scenarios
            .iter()
            .enumerate()
            .map(|(number, scenario)| {
                let mut gate = Gate::new(PolicyConfig::default(), Rules::default(), &[], &[], Vec::new());
                gate.first_port += 30_000 * number as u16;
                let mut cell = Cell { number, gate, barrier: &barrier };
                scope.spawn(move || simulate(scenario, &mut cell).map(|_| ()))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    Ok(barrier.cells.into_inner())
}

/// The rate of each station without a move, or before and after the first one, Mbit/s.
enum Outcome {
    NoMove(Vec<f64>),
    Moved { who: usize, at_s: f64, was: Vec<f64>, is: Vec<f64> },
}

impl Outcome {
    fn of(setting: &Setting, seed: u64) -> Result<Outcome, ScenarioError> {
        let rates = |cells: &BothCells, from_s: f64, to_s: f64| -> Vec<f64> {
            (0..setting.stations.len()).map(|n| cells.rate_mbps(n, from_s, to_s)).collect()
        };
        let before = both(setting, None, seed)?;
        let asked = before.requests.first().and_then(|(at_s, request)| {
            Some(((0..setting.stations.len()).find(|n| StationId(mac(*n)) == request.id)?, *at_s))
        });
        let Some((who, at_s)) = asked else {
            return Ok(Outcome::NoMove(rates(&before, SETTLES_S, SECONDS as f64)));
        };
        let after = both(setting, Some((who, at_s)), seed)?;
        let (was, is) = (rates(&after, SETTLES_S, at_s), rates(&after, at_s + SETTLES_S, SECONDS as f64));
        Ok(Outcome::Moved { who, at_s, was, is })
    }
}

/// The total relative to the previous one, and the minimum over the stations of the same ratio.
fn gain(was: &[f64], is: &[f64]) -> (f64, f64) {
    let least = is.iter().zip(was).map(|(is, was)| is / was).fold(f64::INFINITY, f64::min);
    (is.iter().sum::<f64>() / was.iter().sum::<f64>(), least)
}

/// Runs the settings, and prints the effect of a move on each station.
pub fn run(seed: u64) -> anyhow::Result<()> {
    let mut text = String::from(
        "| stations | asked to move | before, Mbit/s | after, Mbit/s | total | smallest factor of a station |\n|---|---|---|---|---|---|\n",
    );
    for setting in settings() {
        let words = |rates: &[f64]| rates.iter().map(|r| format!("{r:.1}")).collect::<Vec<_>>().join(", ");
        let _ = match Outcome::of(&setting, seed)? {
            Outcome::NoMove(rates) => {
                writeln!(text, "| {} | nobody | {} | | | |", setting.name, words(&rates))
            }
            Outcome::Moved { who, at_s, was, is } => {
                let (total, least) = gain(&was, &is);
                let (was, is, who) = (words(&was), words(&is), who + 1);
                writeln!(
                    text,
                    "| {} | number {who} at {at_s:.1} s | {was} | {is} | {total:.2} | {least:.2} |",
                    setting.name
                )
            }
        };
    }
    print!("{text}");
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn outcome(name: &str) -> Outcome {
        let setting = settings().into_iter().find(|setting| setting.name == name).unwrap();
        Outcome::of(&setting, 1).unwrap()
    }

    /// A slow station leaves the radio of the fast ones: all rates rise, including those of the
    /// stations that stay.
    #[test]
    fn a_move_gains_for_all_where_airtime_is_the_limit() {
        let Outcome::Moved { who, was, is, .. } = outcome("2 ac + 2 n") else { panic!("nobody was asked") };
        let (total, least) = gain(&was, &is);
        assert!(who >= 2 && total > 1.4 && least > 1.1, "{who}: {was:?} {is:?}");
    }

    #[test]
    fn no_station_is_moved_where_the_wire_limits_or_none_can_move() {
        for name in ["2 ac + 2 n behind 50 Mbit/s", "2 ac + 2 n that cannot move"] {
            let Outcome::NoMove(rates) = outcome(name) else { panic!("{name}: somebody was asked") };
            assert!(rates.iter().all(|mbps| *mbps > 1.0), "{rates:?}");
        }
    }
}
