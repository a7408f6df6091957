//! Tables by group, and the verdicts on the gate's limits.

use super::contender::Contender;
use super::figures::Figures;
use super::setting::{Group, Setting};
use std::fmt::Write as _;
use yuzuri_stats::quantile;

/// A setting and the results of each contender in it.
pub struct Row {
    pub setting: Setting,
    pub figures: Vec<(Contender, Figures)>,
}

impl Row {
    fn of(&self, contender: Contender) -> Option<&Figures> {
        self.figures.iter().find(|(one, _)| *one == contender).map(|(_, figures)| figures)
    }

    /// Total relative to CUBIC's.
    fn ratio(&self, contender: Contender) -> Option<f64> {
        Some(self.of(contender)?.total_mbps / self.of(Contender::Cubic)?.total_mbps)
    }
}

/// One row per contender and group, over the settings of the group.
pub fn summary(rows: &[Row]) -> String {
    let mut text = String::from(
        "| settings | contender | total over CUBIC, median | min | queue median, ms | p90 | Jain median | min | retransmitted, median % | max % |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for group in Group::ALL {
        let of: Vec<&Row> = rows.iter().filter(|row| row.setting.group == group).collect();
        for contender in Contender::ALL {
            let all = |value: &dyn Fn(&Figures) -> f64| -> Vec<f64> {
                of.iter().filter_map(|row| Some(value(row.of(contender)?))).collect()
            };
            let ratios: Vec<f64> = of.iter().filter_map(|row| row.ratio(contender)).collect();
            if ratios.is_empty() {
                continue;
            }
            let (queue, jain, resent) = (all(&|f| f.queue_ms), all(&|f| f.jain), all(&|f| f.resent * 100.0));
            let _ = writeln!(
                text,
                "| {}: {} | {} | {:.3} | {:.3} | {:.0} | {:.0} | {:.3} | {:.3} | {:.2} | {:.2} |",
                group.title(),
                of.len(),
                contender.name(),
                quantile(&ratios, 0.5),
                quantile(&ratios, 0.0),
                quantile(&queue, 0.5),
                quantile(&queue, 0.9),
                quantile(&jain, 0.5),
                quantile(&jain, 0.0),
                quantile(&resent, 0.5),
                quantile(&resent, 1.0),
            );
        }
    }
    text
}

/// One row per setting.
pub fn rows(rows: &[Row]) -> String {
    let mut text = String::new();
    for group in Group::ALL {
        let of = || rows.iter().filter(|row| row.setting.group == group);
        let Some(first) = of().next() else { continue };
        let heads: Vec<&str> = first.figures.iter().map(|(contender, _)| contender.name()).collect();
        let more = match group {
            Group::Half | Group::Weights | Group::Quic => {
                ", share of those that take part or use QUIC; smallest share"
            }
            Group::Call => ", 99th percentile of the call above the path, ms; retransmitted",
            _ => "",
        };
        let _ = writeln!(
            text,
            "\n### {}\n\nTotal in Mbit/s, Jain's index, time above the path's in ms, retransmitted in \
             %{more}.\n\n| setting | {} |\n|---|{}",
            group.title(),
            heads.join(" | "),
            "---|".repeat(heads.len())
        );
        for row in of() {
            let cell = |(_, f): &(Contender, Figures)| {
                let mut cell =
                    format!("{:.1}, {:.3}, {:.0}, {:.2}", f.total_mbps, f.jain, f.queue_ms, f.resent * 100.0);
                cell += &match group {
                    Group::Half | Group::Weights | Group::Quic => {
                        format!(", {:.2}; {:.2}", f.special, f.min_part)
                    }
                    Group::Call => format!(", {:.0}; {:.0}", f.call_ms, f.call_resent),
                    _ => String::new(),
                };
                cell
            };
            let cells: Vec<String> = row.figures.iter().map(cell).collect();
            let _ = writeln!(text, "| {} | {} |", row.setting.name(), cells.join(" | "));
        }
    }
    text
}

type Judge<'a> = &'a dyn Fn(&Row) -> Option<(bool, String)>;

/// The gate's limits, how often it meets them, and the settings in which it does not.
pub fn verdicts(rows: &[Row]) -> String {
    let mut text = String::from("\n### Limits of the gate\n\n");
    let mut limit = |name: &str, judge: Judge| {
        let judged: Vec<(&Row, (bool, String))> =
            rows.iter().filter_map(|row| judge(row).map(|verdict| (row, verdict))).collect();
        let held = judged.iter().filter(|(_, (held, _))| *held).count();
        if judged.is_empty() {
            return;
        }
        let _ = writeln!(text, "- {name}: met in {held} of {} settings", judged.len());
        for (row, (_, why)) in judged.iter().filter(|(_, (held, _))| !held) {
            let _ = writeln!(text, "  - {}: {why}", row.setting.name());
        }
    };
    let gate = Contender::Gate;
    let alike = |row: &Row| row.setting.group == Group::Alike;
    let at_least = |value: f64, least: f64| (value >= least, format!("{value:.3}"));
    limit("equal radios: at least 0.98 of CUBIC's total (802.11g with thinned ACKs: 1.05)", &|row| {
        let (contender, least) =
            if row.setting.is_80211g() { (Contender::Thinned, 1.05) } else { (gate, 0.98) };
        let ratio = row.ratio(contender)?;
        alike(row).then(|| at_least(ratio, least))
    });
    limit("equal radios: mean round-trip time at most 30 ms above the path's", &|row| {
        let queue_ms = row.of(gate)?.queue_ms;
        alike(row).then(|| (queue_ms <= 30.0, format!("{queue_ms:.0} ms above")))
    });
    limit("equal radios: Jain's index at least 0.98", &|row| {
        let jain = row.of(gate)?.jain;
        alike(row).then(|| at_least(jain, 0.98))
    });
    limit("equal radios: below 0.1 % retransmitted", &|row| {
        let resent = row.of(gate)?.resent * 100.0;
        alike(row).then(|| (resent < 0.1, format!("{resent:.2} %")))
    });
    limit("different radios: at least 1.35 times CUBIC's total, Jain's index at least 0.98", &|row| {
        let (ratio, jain) = (row.ratio(gate)?, row.of(gate)?.jain);
        let held = ratio >= 1.35 && jain >= 0.98;
        (row.setting.group == Group::Mixed).then(|| (held, format!("{ratio:.2}, Jain {jain:.3}")))
    });
    limit(
        "different radios behind a slow wire: at least 0.98 of CUBIC's total, 30 ms, Jain's index 0.98",
        &|row| {
            let (ratio, figures) = (row.ratio(gate)?, row.of(gate)?);
            let held = ratio >= 0.98 && figures.queue_ms <= 30.0 && figures.jain >= 0.98;
            let why = format!("{ratio:.2}, {:.0} ms, Jain {:.3}", figures.queue_ms, figures.jain);
            (row.setting.group == Group::MixedWire).then_some((held, why))
        },
    );
    limit("half run Yuzuri: at least 0.93 of an equal share for them", &|row| {
        let special = row.of(gate)?.special;
        (row.setting.group == Group::Half).then(|| at_least(special, 0.93))
    });
    limit(
        "by weights: Jain's index by weight at least 0.98, at least 0.93 of their share for those that take part",
        &|row| {
            let figures = row.of(gate)?;
            let held = figures.jain >= 0.98 && figures.special >= 0.93;
            let why = format!("Jain {:.3}, {:.3} of their share", figures.jain, figures.special);
            (row.setting.group == Group::Weights).then_some((held, why))
        },
    );
    limit("QUIC beside TCP: Jain's index at least 0.95, no station below 0.85 of a share", &|row| {
        let figures = row.of(gate)?;
        let held = figures.jain >= 0.95 && figures.min_part >= 0.85;
        let why = format!("Jain {:.3}, least {:.2}", figures.jain, figures.min_part);
        (row.setting.group == Group::Quic).then_some((held, why))
    });
    limit("a call: 99th percentile at most 40 ms above the path, nothing retransmitted", &|row| {
        let figures = row.of(gate)?;
        let held = figures.call_ms <= 40.0 && figures.call_resent == 0.0;
        let why = format!("{:.0} ms, {:.0} retransmitted", figures.call_ms, figures.call_resent);
        (row.setting.group == Group::Call).then_some((held, why))
    });
    limit("short queues and losses: at least 0.97 of CUBIC's total", &|row| {
        let ratio = row.ratio(gate)?;
        (row.setting.group == Group::Poor).then(|| at_least(ratio, 0.97))
    });
    text
}
