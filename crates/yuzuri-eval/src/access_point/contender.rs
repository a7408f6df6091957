//! The mechanism set up at the access point, or on the terminals.

use super::gate::{Gate, mac};
use super::setting::{Group, Setting};
use serde::Serialize;
use yuzuri_gate::Bound;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::queue::{FqCodelConfig, QueueConfig};
use yuzuri_policy::{PolicyConfig, SlowRadio};
use yuzuri_share::{Rules, StationId, StationRule};
use yuzuri_sim::cc::{Algorithm, Bounds};
use yuzuri_sim::{
    NoBounds, Observation, Results, Scenario, ScenarioError, Segment, Sharing, Steer, hint_of, run,
};

/// A contender: a column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// Nothing: CUBIC.
    Cubic,
    /// BBR version 1 on the terminals.
    Bbr,
    /// FQ-CoDel with airtime fairness at the access point.
    FqCodel,
    /// `yuzuri share` on all terminals, or on those that run it.
    Daemon,
    /// `yuzuri ap`.
    Gate,
    /// `yuzuri ap --thin-acks g,n`.
    Thinned,
}

impl Contender {
    /// All, in the order of the columns.
    pub const ALL: [Contender; 6] = [
        Contender::Cubic,
        Contender::Bbr,
        Contender::FqCodel,
        Contender::Daemon,
        Contender::Gate,
        Contender::Thinned,
    ];

    /// The column's heading.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Cubic => "cubic",
            Contender::Bbr => "bbr",
            Contender::FqCodel => "fq-codel",
            Contender::Daemon => "daemon",
            Contender::Gate => "gate",
            Contender::Thinned => "thinned",
        }
    }

    /// Prepares a scenario for it.
    pub fn prepare(self, scenario: &mut Scenario) {
        match self {
            Contender::Bbr => {
                scenario.terminals.iter_mut().for_each(|terminal| terminal.sender.algorithm = Algorithm::Bbr);
            }
            Contender::FqCodel => {
                if let Some(cell) = &mut scenario.cell {
                    cell.ap.queue = QueueConfig::FqCodel(FqCodelConfig::default());
                    cell.ap.airtime_fairness = true;
                }
            }
            _ => {}
        }
    }

    /// The gate's rules; `None`: there is no gate.
    pub fn rules(self) -> Option<Rules> {
        match self {
            Contender::Gate => Some(Rules::default()),
            Contender::Thinned => {
                Some(Rules { thin_acks: vec![SlowRadio::G, SlowRadio::N], ..Rules::default() })
            }
            _ => None,
        }
    }

    /// Runs the contender in a setting.
    ///
    /// # Errors
    /// None for the settings of this program.
    pub fn run(self, setting: &Setting, seed: u64, traced: bool) -> Result<Results, ScenarioError> {
        let mut scenario = setting.scenario(seed);
        self.prepare(&mut scenario);
        let config = PolicyConfig { objective: setting.objective, ..PolicyConfig::default() };
        let terminals = 0..setting.phys.len();
        let is_half = matches!(setting.group, Group::Half | Group::Weights);
        let is_member = |number: usize| !is_half || setting.is_special(number);
        let radio = |number: usize| is_member(number).then(|| hint_of(setting.phys[number]));
        let sharing = || {
            let radios: Vec<_> = terminals.clone().map(radio).collect();
            Sharing::new(config, &radios)
        };
        let gate = |rules| {
            let is_quic = matches!(setting.group, Group::Quic | Group::Call);
            let quic = terminals.clone().map(|number| is_quic && setting.is_special(number)).collect();
            let mut gate = Gate::new(config, rules, &setting.phys, &[], quic);
            gate.traced = traced;
            gate
        };
        let rule = |(number, weight): (usize, &f64)| {
            (StationId(mac(number)), StationRule { weight: *weight, ..StationRule::default() })
        };
        let stations = setting.weights.iter().enumerate().map(rule).collect();
        match self.rules().map(|rules| Rules { stations, ..rules }) {
            Some(rules) if is_half => {
                let sharing = sharing().led_by_access_point().with_weights(setting.weights.clone());
                run(&scenario, &mut LeadingGate { sharing, gate: gate(rules) })
            }
            Some(rules) => run(&scenario, &mut gate(rules)),
            None if self == Contender::Daemon => run(&scenario, &mut sharing()),
            None => run(&scenario, &mut NoBounds),
        }
    }
}

/// Runs a setting with a fixed bound for every upload.
///
/// # Errors
/// None for the settings of this program.
pub fn run_fixed(setting: &Setting, seed: u64, bound: Bound) -> Result<Results, ScenarioError> {
    run(&setting.scenario(seed), &mut Gate::fixed(&setting.phys, bound))
}

/// A gate for terminals some of which share: its daemon is their leader, and they apply their own
/// bounds.
struct LeadingGate {
    sharing: Sharing,
    gate: Gate,
}

impl Steer for LeadingGate {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        self.sharing.steer(now, terminals, bounds);
        self.gate.receive_reports(self.sharing.reports());
        self.gate.steer(now, terminals, bounds);
        if let Some(summary) = self.gate.last_summary() {
            self.sharing.publish(summary);
        }
    }

    fn forwards_up(&mut self, now: Time, terminal: usize, segment: &mut Segment) -> bool {
        self.gate.forwards_up(now, terminal, segment)
    }

    fn forwards_down(&mut self, now: Time, terminal: usize, segment: &mut Segment) -> bool {
        self.gate.forwards_down(now, terminal, segment)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::figures::Figures;
    use super::super::setting::all;
    use super::*;

    fn figures(name: &str, group: Group, contender: Contender) -> Figures {
        let setting = all().into_iter().find(|one| one.name() == name && one.group == group).unwrap();
        Figures::run(contender, &setting, 1).unwrap()
    }

    #[test]
    fn a_gate_keeps_queues_short_without_the_terminals() {
        let of = |contender| figures("4 n, 64 ms", Group::Alike, contender);
        let (cubic, gate) = (of(Contender::Cubic), of(Contender::Gate));
        assert!(cubic.queue_ms > 300.0 && gate.queue_ms < 60.0, "{cubic:?} {gate:?}");
        assert!(gate.total_mbps > 0.95 * cubic.total_mbps && gate.jain > 0.98, "{cubic:?} {gate:?}");
        let again = of(Contender::Gate);
        assert_eq!((again.total_mbps, again.queue_ms), (gate.total_mbps, gate.queue_ms));
    }

    /// A slow station that is ahead at the start must not keep its lead behind a full queue.
    #[test]
    fn different_radios_share_a_wire_of_the_slow_ones_rate() {
        for contender in [Contender::Daemon, Contender::Gate] {
            let of = figures("2 ac + 2 n, 20 ms, 50 Mbit/s/1000", Group::MixedWire, contender);
            assert!(of.queue_ms < 40.0 && of.jain > 0.98 && of.total_mbps > 46.0, "{of:?}");
        }
    }

    /// Without the bucket, QUIC takes the capacity that clamped connections leave.
    #[test]
    fn traffic_without_a_window_is_policed() {
        let name = "4 n, 16 ms, 20 Mbit/s/1000";
        let gate = figures(name, Group::Quic, Contender::Gate);
        let setting = all().into_iter().find(|one| one.name() == name && one.group == Group::Quic).unwrap();
        let rules = Rules { no_police: true, ..Rules::default() };
        let quic = vec![true, true, false, false];
        let mut unpoliced = Gate::new(PolicyConfig::default(), rules, &setting.phys, &[], quic);
        let results = run(&setting.scenario(1), &mut unpoliced).unwrap();
        let rates = results.goodputs();
        assert!(rates[0] + rates[1] > 1.5 * (rates[2] + rates[3]), "{rates:?}");
        assert!((0.8..1.2).contains(&gate.special), "{gate:?}");
    }

    #[test]
    fn acks_are_left_out_on_slow_radios_only() {
        let thinned = |name: &str| {
            let setting = all().into_iter().find(|one| one.name() == name).unwrap();
            let rules = Contender::Thinned.rules().unwrap();
            let mut gate = Gate::new(PolicyConfig::default(), rules, &setting.phys, &[], Vec::new());
            run(&setting.scenario(1), &mut gate).unwrap();
            gate.thinned
        };
        assert!(thinned("4 g, 64 ms") > 1000);
        assert_eq!(thinned("4 ac, 64 ms"), 0);
    }
}
