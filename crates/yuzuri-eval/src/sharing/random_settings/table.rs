//! The tables of random settings.

use super::figures::LONG_MS;
use super::queue_delays::QUEUE_LOCATIONS;
use super::{CLASSES, Figures, Outcome, outsiders, queue_by_state};
use std::fmt::Write as _;
use yuzuri_stats::quantile;

/// The number of worst settings that are printed.
const WORST: usize = 10;

/// A table by class, and the settings with the worst results.
pub fn tables(seed: u64, outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "\n### {} random settings, seed {seed}\n\n\
         `yuzuri` (balanced) beside CUBIC. A setting is lost if the total, Jain's index, the queue, the time of 1 MB or the equal part beside\n\
         outsiders is worse by more than a tenth; won if none is, and the total, the index or the queue is better by as much.\n\
         CUBIC in brackets. Times of 1 MB and of exchanges are medians over all terminals of the class.\n\n\
         | class | settings | won | lost | Jain mean | p10 | below 0.8 | total over CUBIC p5 | median | queue median, ms | p90 | \
         equal part beside outsiders, median | below 0.8 | 1 MB, s | exchange, ms |\n|---|{}\n",
        outcomes.len(),
        "---|".repeat(14)
    );
    for class in CLASSES {
        let of: Vec<&Outcome> = outcomes.iter().filter(|o| o.classes.contains(&class)).collect();
        if !of.is_empty() {
            let _ = writeln!(text, "| {class} | {} |", row(&of));
        }
    }
    text += &at_each_moment(outcomes);
    text += &outsiders::table(outcomes);
    text += &long_queues(outcomes);
    text += &queue_by_state::table(outcomes);
    let mut worst: Vec<(f64, String, &Outcome)> = outcomes
        .iter()
        .map(|outcome| {
            let (harm, why) = outcome.harm();
            (harm, why, outcome)
        })
        .collect();
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    let _ = writeln!(
        text,
        "\nThe {WORST} with the greatest harm, and the fractions of time in each state of the group:\n\n\
         | setting | harm | start-up | wide | doubt | description |\n|---|---|---|---|---|---|"
    );
    for (_, why, outcome) in worst.iter().take(WORST) {
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let time_in_state = outcome.time_in_state;
        let _ = writeln!(
            text,
            "| {} | {why} | {} | {} | {} | {} |",
            outcome.number,
            percent(time_in_state.start_up),
            percent(time_in_state.wide),
            percent(time_in_state.doubt),
            outcome.description
        );
    }
    text
}

/// Jain's index of each rate relative to the rate alone at each moment. The index in the other
/// tables uses the initial radios and wire.
fn at_each_moment(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "\nJain's index on rate over rate alone at each moment, by what each radio and the wire carry then (CUBIC, oracle):\n\n\
         | class | mean | p10 | below 0.8 |\n|---|---|---|---|\n",
    );
    for class in ["no outsiders", "outsiders", "radios change", "the wire changes"] {
        let of: Vec<&Outcome> = outcomes.iter().filter(|o| o.classes.contains(&class)).collect();
        if of.is_empty() {
            continue;
        }
        let each: [fn(&Outcome) -> &Figures; 3] = [|o| &o.shared, |o| &o.cubic, |o| &o.oracle];
        let each = each.map(|figures| of.iter().map(|o| figures(o).jain_now).collect::<Vec<f64>>());
        let three = |value: &dyn Fn(&[f64]) -> String| {
            let [ours, cubic, oracle] = [0, 1, 2].map(|number: usize| value(&each[number]));
            format!("{ours} ({cubic}, {oracle})")
        };
        let mean = three(&|of| format!("{:.3}", of.iter().sum::<f64>() / of.len() as f64));
        let tenth = three(&|of| format!("{:.2}", quantile(of, 0.1)));
        let below = three(&|of| of.iter().filter(|index| **index < 0.8).count().to_string());
        let _ = writeln!(text, "| {class} | {mean} | {tenth} | {below} |");
    }
    text
}

/// Settings with long queues, by the place where members wait longest, and whether a better result
/// was possible.
fn long_queues(outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "\nSettings with a queue of more than {LONG_MS:.0} ms, by where members' packets wait longest; medians, ms. The oracle knows each member's possible rate:\n\n\
         | where | settings | with outsiders | with downloads | wide | queue | CUBIC | oracle |\n|---|{}\n",
        "---|".repeat(7)
    );
    let long = |o: &&Outcome| o.shared.queue_ms > LONG_MS;
    for place in QUEUE_LOCATIONS {
        let of: Vec<&Outcome> =
            outcomes.iter().filter(long).filter(|o| o.queue_delays.place() == place).collect();
        let median = |value: &dyn Fn(&Outcome) -> f64| {
            let values: Vec<f64> = of.iter().map(|o| value(o)).collect();
            if values.is_empty() { "-".to_owned() } else { format!("{:.0}", quantile(&values, 0.5)) }
        };
        let in_class = |class| of.iter().filter(|o| o.classes.contains(&class)).count();
        let _ = writeln!(
            text,
            "| {place} | {} | {} | {} | {} % | {} | {} | {} |",
            of.len(),
            in_class("outsiders"),
            in_class("downloads"),
            median(&|o| o.time_in_state.wide * 100.0),
            median(&|o| o.shared.queue_ms),
            median(&|o| o.cubic.queue_ms),
            median(&|o| o.oracle.queue_ms),
        );
    }
    text
}

fn row(of: &[&Outcome]) -> String {
    let values = |value: &dyn Fn(&Outcome) -> f64| of.iter().map(|o| value(o)).collect::<Vec<f64>>();
    let both = |ours: f64, cubic: f64, digits: usize| format!("{ours:.digits$} ({cubic:.digits$})");
    let (jain, before) = (values(&|o| o.shared.jain), values(&|o| o.cubic.jain));
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let below = |of: &[f64]| of.iter().filter(|value| **value < 0.8).count();
    let ratio = values(&|o| o.total_ratio());
    let (queue, queue_before) = (values(&|o| o.shared.queue_ms), values(&|o| o.cubic.queue_ms));
    let inside: Vec<f64> = of.iter().filter_map(|o| o.shared.inside).collect();
    let inside_before: Vec<f64> = of.iter().filter_map(|o| o.cubic.inside).collect();
    let all = |of_one: &dyn Fn(&Outcome) -> Vec<f64>| of.iter().flat_map(|o| of_one(o)).collect::<Vec<f64>>();
    let (upload, upload_before) = (all(&|o| o.shared.uploads_s.clone()), all(&|o| o.cubic.uploads_s.clone()));
    let (wait, wait_before) =
        (all(&|o| o.shared.exchanges_ms.clone()), all(&|o| o.cubic.exchanges_ms.clone()));
    // Without such terminals there is no figure.
    let or_none = |of: &[f64], text: String| if of.is_empty() { "-".to_owned() } else { text };
    [
        of.len().to_string(),
        of.iter().filter(|o| o.wins()).count().to_string(),
        of.iter().filter(|o| o.loses()).count().to_string(),
        both(mean(&jain), mean(&before), 3),
        both(quantile(&jain, 0.1), quantile(&before, 0.1), 2),
        format!("{} ({})", below(&jain), below(&before)),
        format!("{:.3}", quantile(&ratio, 0.05)),
        format!("{:.3}", quantile(&ratio, 0.5)),
        both(quantile(&queue, 0.5), quantile(&queue_before, 0.5), 0),
        both(quantile(&queue, 0.9), quantile(&queue_before, 0.9), 0),
        or_none(&inside, both(quantile(&inside, 0.5), quantile(&inside_before, 0.5), 2)),
        or_none(&inside, format!("{} ({})", below(&inside), below(&inside_before))),
        or_none(&upload, both(quantile(&upload, 0.5), quantile(&upload_before, 0.5), 1)),
        or_none(&wait, both(quantile(&wait, 0.5), quantile(&wait_before, 0.5), 0)),
    ]
    .join(" | ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Distribution;
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// A small number of random settings gives the same plausible figures twice.
    #[test]
    fn a_small_draw_of_settings_is_reproducible() {
        let outcomes = |jobs| {
            let run = super::super::run(Distribution::Cell, 5, 3, jobs, &AtomicBool::new(false), &|_, _| {});
            run.unwrap().unwrap()
        };
        let first = outcomes(1);
        assert_eq!(tables(5, &first), tables(5, &outcomes(2)));
        for outcome in &first {
            for figures in [&outcome.shared, &outcome.cubic] {
                assert!(figures.total_mbps > 0.0);
                assert!((0.0..=1.0 + 1e-9).contains(&figures.jain));
                assert!((0.0..=1.0 + 1e-9).contains(&figures.jain_now));
                assert!(figures.queue_ms.is_finite());
                assert_eq!(figures.inside.is_some(), outcome.classes.contains(&"outsiders"));
            }
        }
    }
}
