//! The contenders: the mechanisms on the terminals.

use crate::sharing::setting::Setting;
use crate::sharing::trace::Traced;
use yuzuri_netmodel::Time;
use yuzuri_policy::{Objective, PolicyConfig, PolicyName, RadioHint};
use yuzuri_sim::cc::Algorithm;
use yuzuri_sim::{NoBounds, Results, ScenarioError, SenderConfig, Sharing, TrueCapacity, hint_of, run};

/// A contender: a column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contender {
    /// Linux's CUBIC.
    Cubic,
    /// BBR version 1.
    Bbr,
    /// CUBIC paced by fq.
    Paced,
    /// CUBIC under a policy.
    Policy(PolicyName, Objective),
    /// Shares of a capacity that is known.
    Oracle,
}

impl Contender {
    /// All, in the order of the columns.
    pub fn all() -> Vec<Contender> {
        let mut all = vec![Contender::Cubic, Contender::Bbr, Contender::Paced];
        all.push(Contender::Policy(PolicyName::Hayakawa2015, Objective::Balanced));
        all.push(Contender::Policy(PolicyName::Shimada2016, Objective::Balanced));
        all.extend(Objective::ALL.map(|objective| Contender::Policy(PolicyName::Yuzuri, objective)));
        all.push(Contender::Oracle);
        all
    }

    /// The column's heading.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Cubic => "cubic",
            Contender::Bbr => "bbr",
            Contender::Paced => "paced",
            Contender::Policy(PolicyName::Yuzuri, objective) => objective.name(),
            Contender::Policy(policy, _) => policy.name(),
            Contender::Oracle => "oracle",
        }
    }

    /// Runs the contender in a setting.
    ///
    /// # Errors
    /// None for the settings of this program.
    pub fn run(self, setting: &Setting, seed: u64) -> Result<Results, ScenarioError> {
        self.run_as(setting, seed, false)
    }

    /// The same, and prints its progress if there is a policy.
    ///
    /// # Errors
    /// None for the settings of this program.
    pub fn trace(self, setting: &Setting, seed: u64) -> Result<Results, ScenarioError> {
        self.run_as(setting, seed, true)
    }

    fn run_as(self, setting: &Setting, seed: u64, traced: bool) -> Result<Results, ScenarioError> {
        let under = |mut sharing: Sharing| {
            let scenario = setting.scenario(&SenderConfig::default(), seed);
            if traced { run(&scenario, &mut Traced::new(sharing)) } else { run(&scenario, &mut sharing) }
        };
        let plain = SenderConfig::default();
        let begins = Time::from_nanos(setting.sharing_ms * 1_000_000);
        let policy = |name, objective| {
            let config = PolicyConfig { name, objective, ..PolicyConfig::default() };
            Sharing::new(config, &radios(setting)).starting_at(begins)
        };
        match self {
            Contender::Cubic => run(&setting.scenario(&plain, seed), &mut NoBounds),
            Contender::Bbr => {
                let sender = SenderConfig { algorithm: Algorithm::Bbr, ..plain };
                run(&setting.scenario(&sender, seed), &mut NoBounds)
            }
            Contender::Paced => {
                let sender = SenderConfig { paced_by_fq: true, ..plain };
                run(&setting.scenario(&sender, seed), &mut NoBounds)
            }
            Contender::Policy(name, objective) => under(policy(name, objective)),
            Contender::Oracle => {
                let part = fraction_of_alone(setting);
                let alone = alone_bps(setting);
                // Each gets the common fraction of its rate alone on this path.
                let mut radios = radios(setting);
                for (radio, alone) in radios.iter_mut().zip(&alone) {
                    if let Some(radio) = radio {
                        radio.alone_bps = *alone as u64;
                    }
                }
                let config = PolicyConfig { name: PolicyName::Yuzuri, ..PolicyConfig::default() };
                let total_bps = part * alone.iter().sum::<f64>();
                let wire_bps = setting.wire_mbps as f64 * 1e6 * PAYLOAD_OF_WIRE;
                let known = TrueCapacity {
                    capacity_bps: total_bps,
                    air: part * alone.len() as f64,
                    paced: total_bps > 0.99 * wire_bps,
                    wire_bps: 0,
                };
                under(Sharing::new(config, &radios).starting_at(begins).with_capacity(known))
            }
        }
    }
}

fn radios(setting: &Setting) -> Vec<Option<RadioHint>> {
    let member_count = setting.phys.len() - setting.outsider_count;
    setting.phys.iter().enumerate().map(|(n, phy)| (n < member_count).then(|| hint_of(*phy))).collect()
}

/// Part of a wire's rate that is payload: 1448 bytes of 1514.
const PAYLOAD_OF_WIRE: f64 = 1448.0 / 1514.0;

/// The rate that a terminal alone would get on this path, bit/s: limited by its radio or the wire.
pub fn alone_bps(setting: &Setting) -> Vec<f64> {
    let wire_bps = setting.wire_mbps as f64 * 1e6 * PAYLOAD_OF_WIRE;
    setting.phys.iter().map(|phy| (hint_of(*phy).alone_bps as f64).min(wire_bps)).collect()
}

/// The fraction of the rate alone that all terminals can get together: limited by the air or the
/// wire.
pub fn fraction_of_alone(setting: &Setting) -> f64 {
    let wire_bps = setting.wire_mbps as f64 * 1e6 * PAYLOAD_OF_WIRE;
    let alone = alone_bps(setting);
    let air: f64 = alone.iter().zip(&setting.phys).map(|(a, phy)| a / hint_of(*phy).alone_bps as f64).sum();
    (1.0 / air).min(wire_bps / alone.iter().sum::<f64>())
}
