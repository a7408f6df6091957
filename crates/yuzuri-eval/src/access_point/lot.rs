//! Settings by lot: those of `yuzuri-eval sharing lot`, where nobody runs anything. Outsiders are stations like all others there.

use super::Args;
use super::contender::Contender;
use super::figures::quantile;
use super::gate::Gate;
use crate::sharing::{CLASSES, Drawn, LotFigures, drawn, each, shared, watched, write_lines};
use serde::Serialize;
use std::fmt::Write as _;
use yuzuri_policy::PolicyConfig;
use yuzuri_sim::{NoSteer, ReceiverConfig, ScenarioError, Steer, run as simulate};

#[derive(Serialize)]
struct Outcome {
    number: u64,
    words: String,
    classes: Vec<&'static str>,
    figures: Vec<(Contender, LotFigures)>,
}

fn figures(contender: Contender, drawn: &Drawn) -> Result<LotFigures, ScenarioError> {
    let mut scenario = drawn.scenario.clone();
    contender.prepare(&mut scenario);
    let receiver = ReceiverConfig { growing_buffer: true, ..ReceiverConfig::default() };
    scenario.terminals.iter_mut().for_each(|terminal| terminal.receiver = receiver);
    let mut steer: Box<dyn Steer> = match contender.rules() {
        Some(rules) => {
            let config = PolicyConfig::default();
            Box::new(Gate::new(config, rules, &drawn.phys, &scenario.changes, Vec::new()))
        }
        None if contender == Contender::Daemon => Box::new(shared(drawn)),
        None => Box::new(NoSteer),
    };
    Ok(LotFigures::of(drawn, &simulate(&scenario, &mut *steer)?))
}

/// Draws, runs and prints.
pub fn run(args: &Args, settings: u64, contenders: &[Contender]) -> anyhow::Result<()> {
    let numbers: Vec<u64> = (0..settings).collect();
    let outcomes = watched(args.jobs, |jobs, stop, progress| {
        each(&numbers, jobs, stop, progress, |number| {
            let drawn = Drawn { outside: 0, ..drawn(args.seed, *number) };
            let figures = contenders.iter().map(|one| Ok((*one, figures(*one, &drawn)?)));
            let figures = figures.collect::<Result<Vec<_>, ScenarioError>>()?;
            let Drawn { number, words, classes, .. } = drawn;
            Ok(Outcome { number, words, classes, figures })
        })
    })?;
    write_lines(args.json.as_deref(), &outcomes)?;
    print!("{}", tables(args.seed, &outcomes, args.rows));
    Ok(())
}

fn tables(seed: u64, outcomes: &[Outcome], rows: bool) -> String {
    let mut text = format!(
        "\n### {} settings by lot, seed {seed}\n\n\
         Total over CUBIC's; Jain's index among those that upload from beginning to end, on rate over rate alone; time above the path's.\n\n\
         | class | contender | total over CUBIC, p5 | median | Jain mean | p10 | queue median, ms | p90 | 1 MB, s |\n|---|---|---|---|---|---|---|---|---|\n",
        outcomes.len()
    );
    // Outsiders are none here.
    for class in CLASSES.into_iter().filter(|class| !class.contains("outsiders")) {
        let of: Vec<&Outcome> = outcomes.iter().filter(|one| one.classes.contains(&class)).collect();
        let Some(first) = of.first() else { continue };
        for (place, (contender, _)) in first.figures.iter().enumerate() {
            let figures: Vec<&LotFigures> = of.iter().map(|one| &one.figures[place].1).collect();
            let over_first =
                |one: &&Outcome| one.figures[place].1.total_mbps / one.figures[0].1.total_mbps.max(1e-9);
            let ratios: Vec<f64> = of.iter().map(over_first).collect();
            let jain: Vec<f64> = figures.iter().map(|f| f.jain).collect();
            let queue: Vec<f64> = figures.iter().map(|f| f.queue_ms).collect();
            let uploads: Vec<f64> = figures.iter().flat_map(|f| f.uploads_s.iter().copied()).collect();
            let upload =
                if uploads.is_empty() { "-".into() } else { format!("{:.1}", quantile(&uploads, 0.5)) };
            let _ = writeln!(
                text,
                "| {class}: {} | {} | {:.2} | {:.2} | {:.3} | {:.2} | {:.0} | {:.0} | {upload} |",
                of.len(),
                contender.name(),
                quantile(&ratios, 0.05),
                quantile(&ratios, 0.5),
                jain.iter().sum::<f64>() / jain.len() as f64,
                quantile(&jain, 0.1),
                quantile(&queue, 0.5),
                quantile(&queue, 0.9),
            );
        }
    }
    if rows {
        for one in outcomes {
            let _ = writeln!(text, "\n{}: {}", one.number, one.words);
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
