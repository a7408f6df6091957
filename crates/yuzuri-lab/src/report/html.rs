//! The HTML report: one self-contained file that needs no network.

use super::compare::quantile_points;
use super::data::{Estimate, FigureOf, Group, Summary};
use super::lines::{self, Line};
use super::plots;
use super::series;
use crate::LabError;
use crate::run::{RECORDING_FILE, RunRecord, SCENARIO_FILE};
use std::fmt::Write as _;
use std::path::Path;
use yuzuri_plot::{DrawError, escaped, limits};
use yuzuri_stats::counted;

/// Maximum number of points shown over time; the folders contain all of them.
const MAX_TIMELINES: usize = 16;
/// Maximum number of points whose distributions share one axis.
const MAX_DISTRIBUTIONS: usize = 8;
/// Maximum number of terminals shown over time.
const MAX_TERMINALS: usize = 8;

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;max-width:980px;margin:2rem auto;padding:0 1rem;color:#222;background:#fafafa}\
h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:2.5rem}h3{font-size:1rem;margin:1.5rem 0 .3rem}\
figure{margin:1rem 0;background:#fff;border:1px solid #ddd;border-radius:6px;padding:.5rem;overflow-x:auto}\
figure svg{max-width:100%;height:auto;display:block;font-family:sans-serif}figcaption{color:#555;font-size:.9rem;padding:.2rem .5rem}\
.scroll{overflow-x:auto;width:max-content;min-width:100%;max-width:calc(100vw - 4rem);position:relative;left:50%;transform:translateX(-50%)}\
table{border-collapse:collapse;font-size:.9rem;background:#fff}\
th,td{border:1px solid #ddd;padding:.25rem .6rem;text-align:right;white-space:nowrap}th{background:#f0f0f0;white-space:normal}\
@media(max-width:1250px){td{white-space:normal}}\
td:first-child,th:first-child{text-align:left}.bad{background:#fbe3d6;border:1px solid #d55e00;padding:.5rem 1rem;border-radius:6px}\
pre{background:#fff;border:1px solid #ddd;padding:.75rem;overflow-x:auto;font-size:.85rem}.small{color:#555;font-size:.9rem}\
.key{white-space:nowrap;margin-right:.8em}.key::before{content:\"\";display:inline-block;width:.8em;height:.8em;margin-right:.3em;\
background:var(--key)}";

fn formatted(estimate: &Option<Estimate>, digits: usize) -> String {
    match estimate {
        None => "–".into(),
        Some(Estimate { mean, half_width: None, .. }) => format!("{mean:.digits$}"),
        Some(Estimate { mean, half_width: Some(half), .. }) => format!("{mean:.digits$} ± {half:.digits$}"),
    }
}

pub(super) struct HtmlReport {
    pub(super) text: String,
}

impl HtmlReport {
    /// A page with its head.
    pub(super) fn with_title(title: &str) -> HtmlReport {
        let title = escaped(title);
        HtmlReport {
            text: format!(
                "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
                 <title>{title}</title><style>{STYLE}{}</style><h1>{title}</h1>\n",
                limits::style(false)
            ),
        }
    }

    pub(super) fn figure(
        &mut self,
        picture: Result<String, DrawError>,
        caption: &str,
    ) -> Result<(), LabError> {
        let picture = picture.map_err(|source| LabError::Plot { caption: caption.into(), source })?;
        let _ =
            writeln!(self.text, "<figure>{picture}<figcaption>{}</figcaption></figure>", escaped(caption));
        Ok(())
    }
}

/// The HTML report of a summary.
pub fn page(summary: &Summary) -> Result<String, LabError> {
    let mut page = HtmlReport::with_title(&summary.title);
    let valid: usize = summary.groups.iter().map(|g| g.valid).sum();
    let runs: Vec<_> = summary.groups.iter().flat_map(|g| &g.runs).collect();
    let sum = |f: &dyn Fn(&crate::run::RunRecord) -> u64| runs.iter().map(|(_, r)| f(r)).sum::<u64>();
    let _ = writeln!(
        page.text,
        "<p>Points: {}. Runs: {}, of them valid: {valid}. The monitor saw {} records = kept {} + lost {}. Late packets: {} of {}.</p>\
         <p class=\"small\">{}</p>",
        summary.groups.len(),
        runs.len(),
        sum(&|r| r.watched.seen),
        sum(&|r| r.watched.kept),
        sum(&|r| r.watched.lost),
        sum(&|r| r.lateness.late),
        sum(&|r| r.lateness.delivered),
        summary.made_by.iter().map(|m| escaped(m)).collect::<Vec<_>>().join("<br>")
    );
    let bad: Vec<String> = summary
        .groups
        .iter()
        .flat_map(|g| g.invalid.iter().map(|why| format!("<li>{}, {}</li>", escaped(&g.point), escaped(why))))
        .collect();
    if !bad.is_empty() {
        let _ = writeln!(
            page.text,
            "<div class=\"bad\"><b>Not valid, and in no mean, interval or curve:</b><ul>{}</ul></div>",
            bad.concat()
        );
    }
    table(&mut page, summary);
    overview(&mut page, summary)?;
    distributions(&mut page, summary)?;
    over_time(&mut page, summary)?;
    if let Some((folder, _)) = runs.first() {
        let path = folder.join(SCENARIO_FILE);
        let text = std::fs::read_to_string(&path).map_err(LabError::file(&path))?;
        let _ = writeln!(page.text, "<h2>The scenario of the first run</h2><pre>{}</pre>", escaped(&text));
    }
    Ok(page.text + "</html>\n")
}

fn table(page: &mut HtmlReport, summary: &Summary) {
    let mut kinds: Vec<&String> = summary.groups.iter().flat_map(|g| g.kinds.keys()).collect();
    kinds.sort();
    kinds.dedup();
    let weighted = summary.groups.iter().any(|g| g.jain_weighted.is_some());
    page.text += "<h2>All points</h2><p class=\"small\">Mean and 95 % confidence interval over the valid repetitions. RTT is the smoothed \
                  round-trip time of the senders, by time. Loss: packets towards the server that a queue dropped, the path lost or the \
                  radio gave up.</p><div class=\"scroll\"><table><tr><th>point<th>runs<th>total Mbit/s<th>Jain";
    if weighted {
        page.text += "<th>Jain of x/alone";
    }
    page.text += "<th>RTT ms<th>RTT p95 ms<th>retrans.<th>loss %";
    for kind in &kinds {
        let _ = write!(page.text, "<th>each {} Mbit/s", escaped(kind));
    }
    for g in &summary.groups {
        let _ = write!(
            page.text,
            "<tr><td>{}<td>{}<td>{}<td>{}",
            escaped(&g.name()),
            g.valid,
            formatted(&g.throughput_mbps, 2),
            formatted(&g.jain, 3)
        );
        if weighted {
            let _ = write!(page.text, "<td>{}", formatted(&g.jain_weighted, 3));
        }
        let _ = write!(
            page.text,
            "<td>{}<td>{}<td>{}<td>{}",
            formatted(&g.rtt_mean_ms, 1),
            formatted(&g.rtt_p95_ms, 1),
            formatted(&g.retransmissions, 0),
            formatted(&g.loss_percent, 2)
        );
        for kind in &kinds {
            let _ = write!(page.text, "<td>{}", formatted(&g.kinds.get(*kind).copied(), 2));
        }
    }
    page.text += "</table></div>";
}

/// Curves over the varied fields, the scatter plot, and airtime.
fn overview(page: &mut HtmlReport, summary: &Summary) -> Result<(), LabError> {
    let together: Vec<&Group> = summary.groups.iter().filter(|g| g.alone.is_none() && g.valid > 0).collect();
    let every: Vec<&Group> = summary.groups.iter().filter(|g| g.valid > 0).collect();
    let axes = summary.axes();
    if !axes.is_empty() {
        page.text += "<h2>Over the varied fields</h2>";
    }
    for axis in &axes {
        for (y_title, top, value) in [
            ("total, Mbit/s", None, (|g| g.throughput_mbps) as FigureOf),
            ("Jain's index", Some(1.05), |g| g.jain.filter(|_| g.alone.is_none())),
            ("mean RTT, ms", None, |g| g.rtt_mean_ms),
        ] {
            let curves = curves(&every, axis, value);
            if curves.iter().any(|c| c.points.len() > 1) {
                page.figure(
                    plots::curves(&curves, axis, y_title, top),
                    &format!("{y_title} over {axis}; bars are 95 % confidence intervals"),
                )?;
            }
        }
        let kinds: Vec<plots::Curve> = kinds_curves(&together, axis);
        if kinds.len() > 1 {
            let caption = format!("Throughput of one terminal of each kind over {axis}");
            page.figure(plots::curves(&kinds, axis, "each, Mbit/s", None), &caption)?;
        }
    }
    if together.iter().any(|g| g.jain.is_some() && g.runs.iter().any(|(_, r)| r.terminals.len() > 1)) {
        page.text += "<h2>Total and fairness</h2>";
        page.figure(
            plots::scatter(&together, false),
            "Total throughput against Jain's index: small points are single runs, large ones means",
        )?;
        if together.iter().any(|g| g.jain_weighted.is_some()) {
            let caption = "The same against Jain's index of each throughput relative to the throughput alone";
            page.figure(plots::scatter(&together, true), caption)?;
        }
    }
    if !every.is_empty() {
        page.text += "<h2>Airtime</h2>";
        let shown = &every[..every.len().min(60)];
        page.figure(
            plots::airtime(shown),
            "Fraction of the time on the channel; the rest is idle or spent on contention",
        )?;
    }
    Ok(())
}

fn curves(groups: &[&Group], axis: &str, value: FigureOf) -> Vec<plots::Curve> {
    let mut curves: Vec<plots::Curve> = Vec::new();
    for group in groups {
        let (Some(x), Some(y)) = (group.number(axis), value(group)) else { continue };
        let name = group.series(axis);
        let name = if name.is_empty() { "all".to_owned() } else { name };
        add(&mut curves, name, x, y);
    }
    curves
}

fn kinds_curves(groups: &[&Group], axis: &str) -> Vec<plots::Curve> {
    let mut curves = Vec::new();
    for group in groups {
        let Some(x) = group.number(axis) else { continue };
        for (kind, y) in &group.kinds {
            let others = group.series(axis);
            let name = if others.is_empty() { kind.clone() } else { format!("{kind}, {others}") };
            add(&mut curves, name, x, *y);
        }
    }
    curves
}

fn add(curves: &mut Vec<plots::Curve>, name: String, x: f64, y: Estimate) {
    let at = curves.iter().position(|c| c.name == name).unwrap_or_else(|| {
        curves.push(plots::Curve { name, points: Vec::new() });
        curves.len() - 1
    });
    let points = &mut curves[at].points;
    points.push((x, y));
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
}

/// The state of a run's sharing daemons, if terminals shared.
fn shares(page: &mut HtmlReport, record: &RunRecord) {
    let shared: Vec<_> = record.terminals.iter().filter_map(|t| Some((t, t.share.as_ref()?))).collect();
    if shared.is_empty() {
        return;
    }
    page.text += "<div class=\"scroll\"><table><tr><th>shares<th>policy<th>leads<th>phase<th>capacity Mbit/s<th>mean upper bound<th>rules, \
                  half seconds<th>messages sent<th>accepted<th>refused<th>bytes sent";
    for (terminal, share) in shared {
        let rules: Vec<String> = share.rules.iter().map(|(rule, count)| format!("{rule} {count}")).collect();
        let _ = write!(
            page.text,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{:.1}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}",
            escaped(&terminal.name),
            share.policy,
            if share.leads { "yes" } else { "" },
            share.phase_word(),
            share.capacity_mbps,
            share.bound_mean.map_or("–".into(), |segments| format!("{segments:.0}")),
            escaped(&rules.join(", ")),
            share.messages_sent,
            share.messages_accepted,
            share.messages_refused,
            share.bytes_sent
        );
    }
    page.text += "</table></div>";
}

/// How the RTT is distributed in the first valid run of each point.
fn distributions(page: &mut HtmlReport, summary: &Summary) -> Result<(), LabError> {
    let mut curves = Vec::new();
    let shown: Vec<&Group> = summary.groups.iter().filter(|g| g.valid > 0).collect();
    for group in shown.iter().take(MAX_DISTRIBUTIONS) {
        let Some((folder, record)) = group.runs.iter().find(|(_, r)| r.valid) else { continue };
        if folder.join(RECORDING_FILE).exists() {
            let points = quantile_points(&series::rtts(folder, record)?);
            curves.push(Line { name: group.name(), points });
        }
    }
    curves.retain(|curve| !curve.points.is_empty());
    if curves.is_empty() {
        return Ok(());
    }
    let more = shown.len().saturating_sub(MAX_DISTRIBUTIONS);
    let more = if more > 0 { format!("; not shown: {}", counted(more, "more point")) } else { String::new() };
    let caption = format!(
        "Distribution of the RTT by time, all terminals together: the first valid run of each point{more}"
    );
    page.figure(lines::distributions(&curves, "smoothed RTT of the senders, ms"), &caption)
}

/// What limited each terminal's flows: the legend of the lanes, with the fraction of the time.
fn limited_by(page: &mut HtmlReport, terminals: &[series::TerminalSeries]) {
    let mut lines = String::new();
    for terminal in terminals.iter().filter(|terminal| !terminal.limits.is_empty()) {
        let times = terminal
            .limits
            .iter()
            .map(|piece| (piece.limit, (piece.to_s - piece.from_s) * (piece.part.1 - piece.part.0)));
        let _ = write!(lines, "<br>{}: {}", escaped(&terminal.name), limits::legend(times));
    }
    if !lines.is_empty() {
        let _ = writeln!(
            page.text,
            "<p class=\"small\">What limited the senders, as <code>yuzuri why</code> reports it; several \
             flows share the lane.{lines}</p>"
        );
    }
}

/// Windows, states, throughput, queues and RTTs of the first valid run of each point.
fn over_time(page: &mut HtmlReport, summary: &Summary) -> Result<(), LabError> {
    page.text += "<h2>Over time</h2><p class=\"small\">The first valid run of each point. The dashed line ends the warm-up. Triangles are \
                  retransmission timeouts.</p>";
    let shown: Vec<&Group> = summary.groups.iter().filter(|g| g.valid > 0).collect();
    for group in shown.iter().take(MAX_TIMELINES) {
        let Some((folder, record)) = group.runs.iter().find(|(_, r)| r.valid) else { continue };
        let _ = writeln!(page.text, "<h3>{}, seed {}</h3>", escaped(&group.name()), record.task.seed);
        if !folder.join(RECORDING_FILE).exists() {
            page.text += "<p>Its recording was removed.</p>";
            continue;
        }
        let mut terminals = series::terminals(Path::new(folder), record)?;
        let more = terminals.len().saturating_sub(MAX_TERMINALS);
        terminals.truncate(MAX_TERMINALS);
        let caption = match more {
            0 => "Window, throughput and congestion state".to_owned(),
            more => format!(
                "Window, throughput and congestion state; the recording has {}",
                counted(more, "more terminal")
            ),
        };
        page.figure(plots::timelines(&terminals, record.from_s, record.to_s), &caption)?;
        limited_by(page, &terminals);
        shares(page, record);
        let queues = series::queues(Path::new(folder), record)?;
        page.figure(plots::queues(&queues, record.to_s), "Queues")?;
        let rtts: Vec<Line> = terminals.into_iter().map(|t| Line { name: t.name, points: t.srtt }).collect();
        page.figure(lines::over_time(&rtts, record.to_s, "ms"), "Smoothed RTT of each terminal")?;
    }
    if shown.len() > MAX_TIMELINES {
        let _ = writeln!(
            page.text,
            "<p>Not shown over time: {}, whose recordings are in the folders.</p>",
            counted(shown.len() - MAX_TIMELINES, "more point")
        );
    }
    Ok(())
}
