//! The figures of all points: means over the valid repetitions, with confidence intervals.

use crate::run::{CallRecord, Clock, HostRecord, RunRecord};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use yuzuri_scenario::Label;
use yuzuri_scenario::fairness::jain;
use yuzuri_stats::median;

/// A mean with its 95 % confidence interval, and the median.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The median: the middle value, or the mean of the two middle values.
    pub median: f64,
    /// Half the width of the interval (Student's t); `None` for a single value.
    pub half_width: Option<f64>,
    /// The number of values.
    pub n: usize,
}

/// Student's t, two-sided 95 %, for 1 to 30 degrees of freedom.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

impl Estimate {
    /// The estimate from some values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Estimate> {
        let mut values: Vec<f64> = values.into_iter().collect();
        let n = values.len();
        let median = median(&mut values)?;
        let mean = values.iter().sum::<f64>() / n as f64;
        let half_width = (n > 1).then(|| {
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            T_95.get(n - 2).copied().unwrap_or(1.96) * (variance / n as f64).sqrt()
        });
        Some(Estimate { mean, median, half_width, n })
    }

    /// The ends of the interval.
    pub fn range(&self) -> (f64, f64) {
        let half = self.half_width.unwrap_or(0.0);
        (self.mean - half, self.mean + half)
    }
}

/// All repetitions of one point.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Group {
    /// The name of the point.
    pub point: String,
    /// The varied fields with their values.
    pub labels: Vec<Label>,
    /// The kind of terminal that runs alone, if any.
    pub alone: Option<String>,
    /// The number of valid runs.
    pub valid: usize,
    /// The runs that are not valid, with the reason; no figure includes them.
    pub invalid: Vec<String>,
    /// Total throughput, Mbit/s.
    pub throughput_mbps: Option<Estimate>,
    /// Jain's fairness index.
    pub jain: Option<Estimate>,
    /// Jain's index of each terminal's throughput relative to its throughput alone.
    pub jain_weighted: Option<Estimate>,
    /// Mean smoothed round-trip time, ms.
    pub rtt_mean_ms: Option<Estimate>,
    /// 95th percentile of the smoothed round-trip time by time, ms.
    pub rtt_p95_ms: Option<Estimate>,
    /// Retransmitted segments.
    pub retransmissions: Option<Estimate>,
    /// Uplink packets dropped by queues, lost on the path or given up by the radio, percent.
    pub loss_percent: Option<Estimate>,
    /// The lowest rate of a terminal with connections, relative to an equal share.
    pub min_part: Option<Estimate>,
    /// 99th percentile of the one-way delay of calls' frames, ms: to the server, and from it.
    pub call_p99_ms: [Option<Estimate>; 2],
    /// Lost frames of calls, in both directions.
    pub call_lost: Option<Estimate>,
    /// By kind of terminal: Mbit/s per terminal, as the mean of each run.
    pub kinds: BTreeMap<String, Estimate>,
    /// By kind of terminal: the airtime of all its terminals, percent.
    pub airtime_percent: BTreeMap<String, f64>,
    /// The airtime of the access point, percent.
    pub ap_airtime_percent: f64,
    /// The runs.
    #[serde(skip)]
    pub runs: Vec<(PathBuf, RunRecord)>,
    /// The labels in which the results differ, the variant first.
    #[serde(skip)]
    pub distinguishing: Vec<Label>,
}

/// Selects a figure of a point.
pub type FigureOf = fn(&Group) -> Option<Estimate>;

/// The contents of a results folder.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The scenario's title.
    pub title: String,
    /// The versions and hosts of the runs.
    pub made_by: Vec<String>,
    /// The points, those with a terminal alone last.
    pub groups: Vec<Group>,
}

impl Summary {
    /// Summarises finished runs.
    pub fn of(runs: Vec<(PathBuf, RunRecord)>) -> Summary {
        let title = runs.first().map(|(_, r)| r.title.clone()).unwrap_or_default();
        let mut made_by: Vec<String> = runs
            .iter()
            .map(|(_, r)| {
                let (yuzuri, clock) = (&r.yuzuri, r.task.clock.name());
                match r.task.clock {
                    Clock::Simulated => format!("yuzuri {yuzuri}, simulated TCP (no kernel), {clock} time"),
                    Clock::Real | Clock::Virtual => {
                        let HostRecord { kernel, machine, .. } = &r.host;
                        format!("yuzuri {yuzuri}, Linux {kernel} ({machine}), {clock} time")
                    }
                }
            })
            .collect();
        made_by.sort();
        made_by.dedup();
        let mut by_point: BTreeMap<String, Vec<(PathBuf, RunRecord)>> = BTreeMap::new();
        for run in runs {
            by_point.entry(run.1.task.point.clone()).or_default().push(run);
        }
        let alone = ThroughputAlone::of(by_point.values().flatten().map(|(_, r)| r));
        let mut groups: Vec<Group> =
            by_point.into_values().filter_map(|runs| Group::of(runs, &alone)).collect();
        groups.sort_by(|a, b| {
            (a.alone.is_some(), order(a))
                .partial_cmp(&(b.alone.is_some(), order(b)))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let mut summary = Summary { title, made_by, groups };
        summary.find_distinguishing();
        summary
    }

    /// Determines the labels in which the points differ.
    fn find_distinguishing(&mut self) {
        let differs = |field: &str| {
            let of = |group: &Group| group.labels.iter().find(|l| l.field == field).map(|l| l.value.clone());
            let first = self.groups.first().map(of);
            self.groups.iter().any(|group| Some(of(group)) != first)
        };
        let distinguishing: Vec<Vec<Label>> = self
            .groups
            .iter()
            .map(|group| {
                let mut labels: Vec<Label> =
                    group.labels.iter().filter(|label| differs(&label.field)).cloned().collect();
                labels.sort_by_key(|label| label.field != "variant");
                labels
            })
            .collect();
        for (group, distinguishing) in self.groups.iter_mut().zip(distinguishing) {
            group.distinguishing = distinguishing;
        }
    }

    /// The table of all points as CSV.
    pub fn csv(&self) -> String {
        let mut fields: Vec<&str> =
            self.groups.iter().flat_map(|g| g.labels.iter().map(|l| l.field.as_str())).collect();
        fields.sort_unstable();
        fields.dedup();
        let mut kinds: Vec<&str> =
            self.groups.iter().flat_map(|g| g.kinds.keys().map(String::as_str)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let mut text = format!("point,alone,{}", fields.iter().map(|f| format!("{f},")).collect::<String>());
        text += "valid,invalid,throughput_mbps,throughput_ci95,jain,jain_ci95,jain_weighted,jain_weighted_ci95,rtt_mean_ms,rtt_mean_ci95,rtt_p95_ms,retransmissions,loss_percent,ap_airtime_percent";
        for kind in &kinds {
            let _ = write!(text, ",{kind}_mbps,{kind}_airtime_percent");
        }
        text.push('\n');
        for group in &self.groups {
            let _ = write!(text, "{},{}", quoted(&group.point), group.alone.as_deref().unwrap_or_default());
            for field in &fields {
                let label = group.labels.iter().find(|l| l.field == *field);
                let _ = write!(text, ",{}", quoted(label.map_or("", |l| &l.value)));
            }
            let _ = write!(text, ",{},{}", group.valid, group.invalid.len());
            let both = |e: &Option<Estimate>| {
                let half = e.and_then(|e| e.half_width).map_or(String::new(), |h| format!("{h:.4}"));
                format!(",{},{half}", e.map_or(String::new(), |e| format!("{:.4}", e.mean)))
            };
            let one =
                |e: &Option<Estimate>| format!(",{}", e.map_or(String::new(), |e| format!("{:.4}", e.mean)));
            for estimate in [&group.throughput_mbps, &group.jain, &group.jain_weighted, &group.rtt_mean_ms] {
                text += &both(estimate);
            }
            for estimate in [&group.rtt_p95_ms, &group.retransmissions, &group.loss_percent] {
                text += &one(estimate);
            }
            let _ = write!(text, ",{:.3}", group.ap_airtime_percent);
            for kind in &kinds {
                text += &one(&group.kinds.get(*kind).copied());
                text += &group.airtime_percent.get(*kind).map_or(",".to_owned(), |a| format!(",{a:.3}"));
            }
            text.push('\n');
        }
        text
    }

    /// The fields with numeric values.
    pub fn axes(&self) -> Vec<String> {
        let mut axes: Vec<String> = Vec::new();
        for label in self.groups.iter().flat_map(|g| &g.labels) {
            if label.number.is_some() && !axes.contains(&label.field) {
                axes.push(label.field.clone());
            }
        }
        let varied = |field: &String| {
            let mut values: Vec<f64> = self.groups.iter().filter_map(|g| g.number(field)).collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            values.len() > 1
        };
        axes.retain(varied);
        axes
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Sort key: the numeric values, then the name.
fn order(group: &Group) -> (Vec<f64>, &str) {
    (group.labels.iter().map(|l| l.number.unwrap_or(0.0)).collect(), &group.point)
}

/// The throughput of each kind of terminal alone, by the fields that vary outside the terminals.
struct ThroughputAlone(BTreeMap<String, f64>);

impl ThroughputAlone {
    fn key(kind: &str, labels: &[Label]) -> String {
        let outside = labels.iter().filter(|l| l.field != "variant" && !l.field.starts_with("terminal"));
        outside.fold(kind.to_owned(), |key, l| key + "|" + &l.field + "=" + &l.value)
    }

    fn of<'a>(runs: impl Iterator<Item = &'a RunRecord>) -> ThroughputAlone {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for run in runs.filter(|r| r.valid) {
            if let Some(kind) = &run.task.alone {
                let key = ThroughputAlone::key(kind, &run.task.labels);
                values.entry(key).or_default().push(run.totals.throughput_mbps);
            }
        }
        ThroughputAlone(
            values.into_iter().map(|(k, v)| (k, v.iter().sum::<f64>() / v.len() as f64)).collect(),
        )
    }

    /// Jain's index of x_i / alone_i; `None` if one of the kinds never ran alone.
    fn weighted_jain(&self, run: &RunRecord) -> Option<f64> {
        let shares: Option<Vec<f64>> = run
            .terminals
            .iter()
            .map(|t| {
                let alone =
                    self.0.get(&ThroughputAlone::key(&t.kind, &run.task.labels)).filter(|a| **a > 0.0)?;
                Some(t.throughput_mbps / alone)
            })
            .collect();
        jain(shares?)
    }
}

/// The lowest rate relative to an equal share, among terminals with connections.
fn min_part(run: &RunRecord) -> Option<f64> {
    let rates: Vec<f64> = run.terminals.iter().filter(|t| t.flows > 0).map(|t| t.throughput_mbps).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let least = rates.into_iter().min_by(f64::total_cmp)?;
    (mean > 0.0).then(|| least / mean)
}

impl Group {
    fn of(runs: Vec<(PathBuf, RunRecord)>, alone: &ThroughputAlone) -> Option<Group> {
        let first = &runs.first()?.1;
        let (point, labels, alone_kind) =
            (first.task.point.clone(), first.task.labels.clone(), first.task.alone.clone());
        let valid: Vec<&RunRecord> = runs.iter().map(|(_, r)| r).filter(|r| r.valid).collect();
        let invalid = runs.iter().filter(|(_, r)| !r.valid);
        let invalid =
            invalid.map(|(_, r)| format!("seed {}: {}", r.task.seed, r.invalid_because.join("; "))).collect();
        let each = |f: &dyn Fn(&RunRecord) -> Option<f64>| Estimate::of(valid.iter().filter_map(|r| f(r)));
        let mut kinds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut airtime: BTreeMap<String, f64> = BTreeMap::new();
        for run in &valid {
            // One value per run, because the terminals of a run are not independent.
            let mut here: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            for t in &run.terminals {
                here.entry(&t.kind).or_default().push(t.throughput_mbps);
            }
            for (kind, values) in here {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                kinds.entry(kind.to_owned()).or_default().push(mean);
            }
            for t in &run.terminals {
                *airtime.entry(t.kind.clone()).or_default() += t.radio.airtime * 100.0 / valid.len() as f64;
            }
        }
        let loss = |r: &RunRecord| {
            let lost: u64 =
                r.terminals.iter().map(|t| t.radio.queue_drops + t.radio.retry_drops).sum::<u64>()
                    + r.wire_up.lost
                    + r.wire_up.queue_drops;
            let came = r.wire_up.delivered;
            (lost + came > 0).then(|| lost as f64 * 100.0 / (lost + came) as f64)
        };
        Some(Group {
            point,
            labels,
            valid: valid.len(),
            invalid,
            throughput_mbps: each(&|r| Some(r.totals.throughput_mbps)),
            jain: each(&|r| r.totals.jain),
            jain_weighted: if alone_kind.is_none() { each(&|r| alone.weighted_jain(r)) } else { None },
            rtt_mean_ms: each(&|r| r.totals.rtt_mean_ms),
            rtt_p95_ms: each(&|r| r.totals.rtt_p95_ms),
            retransmissions: each(&|r| Some(r.totals.retransmissions as f64)),
            loss_percent: each(&loss),
            min_part: each(&min_part),
            call_p99_ms: [|c: &CallRecord| c.up.p99_ms, |c: &CallRecord| c.down.p99_ms].map(|p99_ms| {
                // The worst of several; no value if too many frames were lost.
                each(&|r| r.calls().map(p99_ms).collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max))
            }),
            call_lost: each(&|r| {
                r.calls().map(|c| (c.up.lost + c.down.lost) as f64).reduce(|one, other| one + other)
            }),
            kinds: kinds.into_iter().filter_map(|(k, v)| Some((k, Estimate::of(v)?))).collect(),
            airtime_percent: airtime,
            ap_airtime_percent: valid.iter().map(|r| r.ap.airtime * 100.0).sum::<f64>()
                / valid.len().max(1) as f64,
            alone: alone_kind,
            runs,
            distinguishing: Vec::new(),
        })
    }

    /// Each valid run as a separate point, by seed, without the throughput of terminals alone.
    pub(super) fn by_seed(&self) -> BTreeMap<u64, Group> {
        let valid = self.runs.iter().filter(|(_, run)| run.valid);
        let alone = ThroughputAlone(BTreeMap::new());
        valid.filter_map(|run| Some((run.1.task.seed, Group::of(vec![run.clone()], &alone)?))).collect()
    }

    /// The value of a field with numeric values.
    pub fn number(&self, field: &str) -> Option<f64> {
        self.labels.iter().find(|l| l.field == field)?.number
    }

    /// A short name that distinguishes the point.
    pub fn name(&self) -> String {
        match self.series("") {
            name if name.is_empty() => self.point.clone(),
            name => name,
        }
    }

    /// The same without one field: the name of a curve over that field.
    pub fn series(&self, field: &str) -> String {
        let others = self.distinguishing.iter().filter(|l| l.field != field);
        let mut parts: Vec<String> = others
            .map(|l| match l.field.rsplit('.').next() {
                Some("variant") | None => l.value.clone(),
                Some(last) => format!("{last} {}", l.value),
            })
            .collect();
        parts.extend(self.alone.as_ref().map(|kind| format!("{kind} alone")));
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn intervals_use_students_t() {
        let estimate = Estimate::of([1.0, 2.0, 3.0]).unwrap();
        assert_eq!((estimate.mean, estimate.median), (2.0, 2.0));
        assert_eq!(Estimate::of([9.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        // t(2) * s / sqrt(3), s = 1.
        assert!((estimate.half_width.unwrap() - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        assert_eq!(Estimate::of([5.0]).unwrap().half_width, None);
        assert_eq!(Estimate::of([]), None);
    }

    #[test]
    fn points_are_named_by_their_distinguishing_labels() {
        let label =
            |field: &str, value: &str| Label { field: field.into(), value: value.into(), number: None };
        let group = |labels: &[Label], alone: Option<&str>| Group {
            point: "point".into(),
            labels: labels.to_vec(),
            alone: alone.map(str::to_owned),
            ..Group::default()
        };
        let named = |groups: Vec<Group>| -> Vec<String> {
            let mut summary = Summary { title: String::new(), made_by: Vec::new(), groups };
            summary.find_distinguishing();
            summary.groups.iter().map(Group::name).collect()
        };
        let (loss, none, cap) =
            (label("path.loss", "0.1"), label("variant", "none"), label("variant", "cap"));
        let (short, long) = (label("path.queue_packets", "50"), label("path.queue_packets", "1000"));
        assert_eq!(named(vec![group(std::slice::from_ref(&loss), None)]), ["point"]);
        assert_eq!(
            named(vec![
                group(&[loss.clone(), short.clone(), none], None),
                group(&[loss.clone(), long, cap], None),
                group(&[loss, short], Some("phone")),
            ]),
            ["none, queue_packets 50", "cap, queue_packets 1000", "queue_packets 50, phone alone"]
        );
    }

    #[test]
    fn labels_of_terminals_do_not_change_the_key_of_runs_alone() {
        let label =
            |field: &str, value: &str| Label { field: field.into(), value: value.into(), number: None };
        let labels =
            [label("path.rate_mbps", "100"), label("variant", "slow-10"), label("terminal.a.window", "5")];
        assert_eq!(ThroughputAlone::key("slow", &labels), ThroughputAlone::key("slow", &labels[..1]));
    }
}
