//! Random settings: those of `yuzuri-eval sharing random`, where no station runs Yuzuri. Outsiders
//! are stations like all others there. With `--quic` each terminal uses QUIC with a probability of
//! one half: its traffic is not bounded by windows, and starts without HyStart, like quinn.

use super::Args;
use super::contender::Contender;

use super::gate::Gate;
use crate::sharing::{
    CLASSES, Drawn, RandomSettingFigures, columns, drawn, each, shared, watched, write_lines,
};
use serde::Serialize;
use std::fmt::Write as _;
use yuzuri_cca::SlowStartExit;
use yuzuri_netmodel::Random;
use yuzuri_policy::PolicyConfig;
use yuzuri_sim::{NoBounds, ReceiverConfig, ScenarioError, Steer};

/// A stream of random numbers, separate from that of the settings.
const QUIC: u64 = 0x7175_6963;

#[derive(Serialize)]
struct Outcome {
    number: u64,
    description: String,
    classes: Vec<&'static str>,
    figures: Vec<(Contender, RandomSettingFigures)>,
}

/// The terminals that use QUIC. They are drawn from a separate stream, so that a setting is
/// otherwise the same as without QUIC.
fn who_uses_quic(seed: u64, drawn: &Drawn) -> Vec<bool> {
    let mut random = Random::new(drawn.number, seed.wrapping_add(QUIC));
    drawn.phys.iter().map(|_| random.uniform() < 0.5).collect()
}

fn figures(
    contender: Contender,
    drawn: &Drawn,
    quic: &[bool],
) -> Result<RandomSettingFigures, ScenarioError> {
    let mut scenario = drawn.scenario.clone();
    contender.prepare(&mut scenario);
    for (terminal, _) in scenario.terminals.iter_mut().zip(quic).filter(|(_, quic)| **quic) {
        terminal.sender.slow_start_exit = SlowStartExit::Loss;
    }
    let receiver = ReceiverConfig { growing_buffer: true, ..ReceiverConfig::default() };
    scenario.terminals.iter_mut().for_each(|terminal| terminal.receiver = receiver);
    let mut steer: Box<dyn Steer> = match contender.rules() {
        Some(rules) => {
            let config = PolicyConfig::default();
            Box::new(Gate::new(config, rules, &drawn.phys, &scenario.changes, quic.to_vec()))
        }
        None if contender == Contender::Daemon => Box::new(shared(drawn)),
        None => Box::new(NoBounds),
    };
    RandomSettingFigures::of(drawn, &scenario, &mut *steer)
}

/// Draws, runs and prints.
pub fn run(args: &Args, settings: u64, contenders: &[Contender]) -> anyhow::Result<()> {
    let numbers: Vec<u64> = (0..settings).collect();
    let outcomes = watched(args.jobs, |jobs, stop, progress| {
        each(&numbers, jobs, stop, progress, |number| {
            let drawn = Drawn { outsider_count: 0, ..drawn(args.seed, *number) };
            let quic = if args.quic { who_uses_quic(args.seed, &drawn) } else { Vec::new() };
            let figures = contenders.iter().map(|one| Ok((*one, figures(*one, &drawn, &quic)?)));
            let figures = figures.collect::<Result<Vec<_>, ScenarioError>>()?;
            let Drawn { number, description, classes, .. } = drawn;
            Ok(Outcome { number, description, classes, figures })
        })
    })?;
    write_lines(args.json.as_deref(), &outcomes)?;
    print!("{}", tables(args.seed, &outcomes, args.rows));
    Ok(())
}

fn tables(seed: u64, outcomes: &[Outcome], rows: bool) -> String {
    let mut text = format!(
        "\n### {} random settings, seed {seed}\n\n\
         Total over CUBIC's; Jain's index among those that upload from beginning to end, on rate over rate alone; time above the path's.\n\n\
         | class | contender | total over CUBIC, p5 | median | Jain mean | p10 | queue median, ms | p90 | 1 MB, s |\n|---|---|---|---|---|---|---|---|---|\n",
        outcomes.len()
    );
    // Outsiders are ordinary stations here.
    for class in CLASSES.into_iter().filter(|class| !class.contains("outsiders")) {
        let of: Vec<&Outcome> = outcomes.iter().filter(|one| one.classes.contains(&class)).collect();
        let Some(first) = of.first() else { continue };
        for (place, (contender, _)) in first.figures.iter().enumerate() {
            let pairs_with_first = of.iter().map(|one| [&one.figures[place].1, &one.figures[0].1]);
            let (name, count) = (contender.name(), of.len());
            let _ = writeln!(text, "| {class}: {count} | {name} | {} |", columns(pairs_with_first));
        }
    }
    if rows {
        for one in outcomes {
            let _ = writeln!(text, "\n{}: {}", one.number, one.description);
            for (contender, f) in &one.figures {
                let _ = writeln!(
                    text,
                    "  {}: {:.1} Mbit/s, Jain {:.3}, {:.0} ms",
                    contender.name(),
                    f.total_mbps,
                    f.jain,
                    f.queue_ms
                );
            }
        }
    }
    text
}
