//! Random settings, drawn from the distributions that [`draw`] describes, with CUBIC and with the
//! policy.

mod alone;
mod alternatives;
mod draw;
mod figures;
mod oracle;
mod parts;
mod queue_delays;
mod rates;
mod table;

use crate::sharing::contest::each;
use crate::sharing::trace::Traced;
use std::sync::atomic::AtomicBool;
use yuzuri_sim::{ScenarioError, run as run_with};

pub use alternatives::{Compared, columns, tables as alternative_tables};
pub use draw::{Drawn, setting};
pub use figures::{Figures, Outcome, sharing};
pub use table::tables;

/// The classes of the tables, in their order.
pub const CLASSES: [&str; 12] = [
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
];

/// Prints a setting's description, and then its progress.
///
/// # Errors
/// None for the settings that are drawn.
pub fn trace(seed: u64, number: u64) -> Result<(), ScenarioError> {
    let drawn = draw::setting(seed, number);
    println!("{}", drawn.words);
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
    seed: u64,
    settings: u64,
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> anyhow::Result<Option<Vec<Compared>>> {
    let numbers: Vec<u64> = (0..settings).collect();
    each(&numbers, jobs, stop, progress, |number| Compared::of(draw::setting(seed, *number)))
}

/// Runs this many random settings of this seed; `None` if it was stopped.
///
/// # Errors
/// None for the settings that are drawn.
pub fn run(
    seed: u64,
    settings: u64,
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> anyhow::Result<Option<Vec<Outcome>>> {
    let numbers: Vec<u64> = (0..settings).collect();
    each(&numbers, jobs, stop, progress, |number| Outcome::of(draw::setting(seed, *number)))
}
