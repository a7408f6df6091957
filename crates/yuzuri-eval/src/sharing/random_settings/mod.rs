//! Random settings, drawn from the distributions that [`draw`] and [`access`] describe, with CUBIC
//! and with the policy.

mod access;
mod alone;
mod alternatives;
mod draw;
mod figures;
mod oracle;
mod outsiders;
mod queue_by_state;
mod queue_delays;
mod rates;
mod table;

use crate::sharing::comparison::each;
use crate::sharing::trace::Traced;
use std::sync::atomic::AtomicBool;
use yuzuri_sim::{ScenarioError, run as run_with};

pub use alternatives::{Compared, columns, tables as alternative_tables};
pub use draw::{Drawn, setting};
pub use figures::{Figures, Outcome, sharing};
pub use table::tables;

/// The classes of the tables, in their order.
pub const CLASSES: [&str; 17] = [
    "all",
    "no outsiders",
    "outsiders",
    "9 terminals or more",
    "mixed standards",
    "several destinations",
    "newcomers and leavers",
    "radios change",
    "the wire changes",
    "loss",
    "managed queues",
    "downloads",
    "DSL or cable",
    "fibre",
    "mobile",
    "satellite",
    "limited windows",
];

/// A distribution of settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Distribution {
    /// Radio cells of all kinds before one wire: what the policy was developed on
    #[default]
    Cell,
    /// DSL, cable, fibre, mobile and satellite, roaming, outsiders with other congestion control
    /// algorithms: what it was not developed on
    Access,
}

impl Distribution {
    /// Random setting `number` of this seed.
    pub fn setting(self, seed: u64, number: u64) -> Drawn {
        match self {
            Distribution::Cell => draw::setting(seed, number),
            Distribution::Access => access::setting(seed, number),
        }
    }
}

/// Prints a setting's description, and then its progress.
///
/// # Errors
/// None for the settings that are drawn.
pub fn trace(from: Distribution, seed: u64, number: u64) -> Result<(), ScenarioError> {
    let drawn = from.setting(seed, number);
    println!("{}", drawn.description);
    for (terminal, phy) in drawn.scenario.terminals.iter().zip(&drawn.phys) {
        println!("{phy:?}: {:?}", terminal.traffic);
    }
    run_with(&drawn.scenario, &mut Traced::new(sharing(&drawn)))?;
    Ok(())
}

/// Runs this many random settings of this seed with each alternative; `None` if it was stopped.
///
/// # Errors
/// None for the settings that are drawn.
pub fn compare(
    from: Distribution,
    seed: u64,
    settings: u64,
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> anyhow::Result<Option<Vec<Compared>>> {
    let numbers: Vec<u64> = (0..settings).collect();
    each(&numbers, jobs, stop, progress, |number| Compared::of(from.setting(seed, *number)))
}

/// Runs this many random settings of this seed; `None` if it was stopped.
///
/// # Errors
/// None for the settings that are drawn.
pub fn run(
    from: Distribution,
    seed: u64,
    settings: u64,
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> anyhow::Result<Option<Vec<Outcome>>> {
    let numbers: Vec<u64> = (0..settings).collect();
    each(&numbers, jobs, stop, progress, |number| Outcome::of(from.setting(seed, *number)))
}
