//! What a user could do instead of sharing, in random settings.

use super::draw::Drawn;
use super::figures::{Figures, sharing};
use serde::Serialize;
use std::fmt::Write as _;
use yuzuri_netmodel::queue::{FqCodelConfig, QueueConfig};
use yuzuri_sim::cc::{Algorithm, Bounds};
use yuzuri_sim::{FixedBounds, MSS_BYTES, NoBounds, Scenario, ScenarioError, Steer};
use yuzuri_stats::quantile;

/// The mechanism on the terminals that take part and at the access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alternative {
    /// Nothing: CUBIC.
    Cubic,
    /// BBR version 1 on the terminals.
    Bbr,
    /// CUBIC paced by fq on the terminals.
    Paced,
    /// A constant window limit: an equal share of the wire's initial rate times the minimum RTT.
    StaticLimit,
    /// FQ-CoDel with airtime fairness at the access point.
    FqCodel,
    /// Sharing.
    Yuzuri,
    /// Sharing, behind FQ-CoDel with airtime fairness.
    YuzuriAndFqCodel,
}

impl Alternative {
    /// All, in the order of the tables.
    pub const ALL: [Alternative; 7] = [
        Alternative::Cubic,
        Alternative::Bbr,
        Alternative::Paced,
        Alternative::StaticLimit,
        Alternative::FqCodel,
        Alternative::Yuzuri,
        Alternative::YuzuriAndFqCodel,
    ];

    fn name(self) -> &'static str {
        match self {
            Alternative::Cubic => "CUBIC, nothing set up",
            Alternative::Bbr => "BBR on the terminals",
            Alternative::Paced => "CUBIC paced by fq",
            Alternative::StaticLimit => "static limits: the wire's rate over the terminals",
            Alternative::FqCodel => "FQ-CoDel with airtime fairness at the access point",
            Alternative::Yuzuri => "Yuzuri on the terminals",
            Alternative::YuzuriAndFqCodel => "both",
        }
    }

    /// Runs the alternative in a setting.
    ///
    /// # Errors
    /// None for drawn settings.
    fn figures(self, drawn: &Drawn) -> Result<Figures, ScenarioError> {
        let member_count = drawn.phys.len() - drawn.outsider_count;
        let mut scenario = drawn.scenario.clone();
        for terminal in &mut scenario.terminals[..member_count] {
            match self {
                Alternative::Bbr => terminal.sender.algorithm = Algorithm::Bbr,
                Alternative::Paced => terminal.sender.paced_by_fq = true,
                _ => {}
            }
        }
        if matches!(self, Alternative::FqCodel | Alternative::YuzuriAndFqCodel)
            && let Some(cell) = &mut scenario.cell
        {
            cell.ap.queue = QueueConfig::FqCodel(FqCodelConfig::default());
            cell.ap.airtime_fairness = true;
        }
        let mut steer: Box<dyn Steer> = match self {
            Alternative::Yuzuri | Alternative::YuzuriAndFqCodel => Box::new(sharing(drawn)),
            Alternative::StaticLimit => Box::new(FixedBounds(static_bounds(&scenario, member_count))),
            _ => Box::new(NoBounds),
        };
        Figures::of(drawn, &scenario, &mut *steer)
    }
}

fn static_bounds(scenario: &Scenario, member_count: usize) -> Vec<Bounds> {
    let rate_bps = scenario.wire.up.rate_bps.unwrap_or(0) / scenario.terminals.len() as u64;
    let least_us = scenario.wire.up.delay_us + scenario.wire.down.delay_us;
    let terminals = scenario.terminals[..member_count].iter();
    terminals
        .map(|terminal| {
            let bytes = rate_bps / 8 * (least_us + terminal.extra_rtt_us) / 1_000_000;
            Bounds { upper: Some((bytes / u64::from(MSS_BYTES)).max(2) as u32), ..Bounds::default() }
        })
        .collect()
}

/// A setting, and the results of each alternative.
#[derive(Serialize)]
pub struct Compared {
    number: u64,
    description: String,
    classes: Vec<&'static str>,
    figures: Vec<(Alternative, Figures)>,
}

impl Compared {
    /// Runs a setting with each alternative.
    ///
    /// # Errors
    /// None for settings that are drawn.
    pub fn of(drawn: Drawn) -> Result<Compared, ScenarioError> {
        let figures = Alternative::ALL.into_iter().map(|one| Ok((one, one.figures(&drawn)?)));
        let figures = figures.collect::<Result<_, ScenarioError>>()?;
        Ok(Compared { number: drawn.number, description: drawn.description, classes: drawn.classes, figures })
    }
}

/// A table for each class.
pub fn tables(seed: u64, compared: &[Compared]) -> String {
    let mut text = format!(
        "\n### What a user would do instead: {} random settings, seed {seed}\n\n\
         Total over CUBIC's; Jain's index among those that upload from beginning to end, on rate over rate alone; time above the least RTT.\n",
        compared.len()
    );
    for class in super::CLASSES {
        let of: Vec<&Compared> = compared.iter().filter(|one| one.classes.contains(&class)).collect();
        if of.is_empty() {
            continue;
        }
        let _ = writeln!(
            text,
            "\n**{class}** ({} settings)\n\n| | total over CUBIC, p5 | median | Jain mean | p10 | queue median, ms | p90 | 1 MB, s |\n|---|---|---|---|---|---|---|---|",
            of.len()
        );
        for (place, alternative) in Alternative::ALL.into_iter().enumerate() {
            let pairs_with_first = of.iter().map(|one| [&one.figures[place].1, &one.figures[0].1]);
            let _ = writeln!(text, "| {} | {} |", alternative.name(), columns(pairs_with_first));
        }
    }
    text
}

/// Table columns: total relative to the first contender's (5th percentile and median), Jain's index
/// (mean and 10th percentile), queue in ms (median and 90th percentile), and median time of 1 MB in
/// seconds. Each item has a contender's figures and those of the first contender.
pub fn columns<'a>(settings: impl Iterator<Item = [&'a Figures; 2]>) -> String {
    let settings: Vec<[&Figures; 2]> = settings.collect();
    let of = |number: fn(&[&Figures; 2]) -> f64| settings.iter().map(number).collect::<Vec<f64>>();
    let ratios = of(|[one, first]| one.total_mbps / first.total_mbps.max(1e-9));
    let (jain, queue) = (of(|[one, _]| one.jain), of(|[one, _]| one.queue_ms));
    let uploads: Vec<f64> = settings.iter().flat_map(|[one, _]| one.uploads_s.iter().copied()).collect();
    let upload = if uploads.is_empty() { "-".into() } else { format!("{:.1}", quantile(&uploads, 0.5)) };
    format!(
        "{:.2} | {:.2} | {:.3} | {:.2} | {:.0} | {:.0} | {upload}",
        quantile(&ratios, 0.05),
        quantile(&ratios, 0.5),
        jain.iter().sum::<f64>() / jain.len().max(1) as f64,
        quantile(&jain, 0.1),
        quantile(&queue, 0.5),
        quantile(&queue, 0.9),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sharing::random_settings::draw;

    #[test]
    fn every_alternative_does_something_else() {
        // Several terminals behind a FIFO, so that every alternative has an effect.
        let drawn = (0..)
            .map(|number| draw::setting(5, number))
            .find(|d| d.phys.len() > 4 && d.outsider_count == 0 && !d.classes.contains(&"managed queues"))
            .unwrap();
        let compared = Compared::of(drawn).unwrap();
        for (place, (one, figures)) in compared.figures.iter().enumerate() {
            assert!(figures.total_mbps > 0.0, "{one:?}");
            for (other, others) in &compared.figures[..place] {
                assert_ne!(figures.total_mbps, others.total_mbps, "{one:?} and {other:?}");
            }
        }
        let text = tables(5, &[compared]);
        assert!(Alternative::ALL.iter().all(|one| text.contains(one.name())), "{text}");
    }
}
