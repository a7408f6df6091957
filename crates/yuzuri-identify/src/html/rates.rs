//! Throughput and round-trip time over time, of one flow, and of several on one axis.

use super::svg::{OTHER, REPLAYED, SEEN};
use crate::report::FlowReport;
use plotters::prelude::*;
use std::fmt::Write as _;
use yuzuri_infer::window_trace::{Round, WindowTrace};
use yuzuri_plot::{DrawError, ceiling_without_spikes, escaped, frame, hex, short, svg};

const SIZE: (u32, u32) = (940, 330);
/// Maximum number of points of a line.
const MAX_POINTS: usize = 120;
/// Flows that share an axis, and their colours (of Okabe and Ito's).
const MAX_FLOWS: usize = 6;
const COLOURS: [RGBColor; MAX_FLOWS] =
    [SEEN, REPLAYED, OTHER, RGBColor(204, 121, 167), RGBColor(86, 180, 233), RGBColor(230, 159, 0)];

/// Measurements over time: a time in nanoseconds, and a value.
type Points = Vec<(i64, f64)>;

/// Groups of rounds that become one point.
fn groups(rounds: &[Round]) -> impl Iterator<Item = &[Round]> {
    rounds.chunks(rounds.len().div_ceil(MAX_POINTS).max(1))
}

/// Acknowledged data, Mbit/s.
fn throughput(trace: &WindowTrace) -> Points {
    let point = |group: &[Round]| {
        let (first, last) = (group.first()?, group.last()?);
        let ns = last.end_ns - first.start_ns;
        let segments: f64 = group.iter().map(|round| f64::from(round.acked)).sum();
        let bits = segments * f64::from(trace.mss_bytes) * 8.0;
        (ns > 0).then(|| (first.start_ns + ns / 2, bits * 1e3 / ns as f64))
    };
    groups(&trace.rounds).filter_map(point).collect()
}

/// Least, mean and greatest round-trip time, milliseconds.
fn rtts(trace: &WindowTrace) -> [Points; 3] {
    let mut all = [Points::new(), Points::new(), Points::new()];
    for group in groups(&trace.rounds) {
        let measured = || group.iter().filter(|round| round.rtt_mean_us > 0);
        let count = measured().count();
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        if count == 0 {
            continue;
        }
        let at = first.start_ns + (last.end_ns - first.start_ns) / 2;
        let ms = |us: u32| f64::from(us) / 1e3;
        let mean = measured().map(|round| ms(round.rtt_mean_us)).sum::<f64>() / count as f64;
        let least = measured().map(|round| ms(round.rtt_min_us)).fold(f64::INFINITY, f64::min);
        let most = measured().map(|round| ms(round.rtt_max_us)).fold(0.0, f64::max);
        for (points, value) in all.iter_mut().zip([least, mean, most]) {
            points.push((at, value));
        }
    }
    all
}

fn top<'a>(all: impl Iterator<Item = &'a Points>) -> f64 {
    ceiling_without_spikes(all.flatten().map(|(_, value)| *value).collect())
}

/// Lines over time, one chart below the other with the same time.
struct Lane<'a> {
    words: &'a str,
    lines: Vec<(&'a Points, RGBColor)>,
}

fn lanes(words: &str, lanes: &[Lane<'_>], from_ns: i64, to_ns: i64) -> Result<String, DrawError> {
    let end_s = ((to_ns - from_ns) as f64 / 1e9).max(1e-3);
    svg(SIZE, words, None, |area| {
        for (n, (area, lane)) in area.split_evenly((lanes.len(), 1)).iter().zip(lanes).enumerate() {
            let top = top(lane.lines.iter().map(|(points, _)| *points));
            let is_last = n + 1 == lanes.len();
            let mut chart = ChartBuilder::on(area)
                .margin(6)
                .margin_right(16)
                .x_label_area_size(if is_last { 40 } else { 24 })
                .y_label_area_size(62)
                .build_cartesian_2d(0.0..end_s, 0.0..top)?;
            frame(&mut chart, if is_last { "time, s" } else { "" }, lane.words, &short, (10, 4))?;
            for (points, colour) in &lane.lines {
                let line = points.iter().map(|(ns, value)| ((ns - from_ns) as f64 / 1e9, value.min(top)));
                chart.draw_series(LineSeries::new(line, colour.stroke_width(1)))?;
            }
        }
        Ok(())
    })
}

/// Lines with a colour each.
fn coloured(all: &[Points]) -> Vec<(&Points, RGBColor)> {
    all.iter().zip(COLOURS).collect()
}

/// A flow's throughput and round-trip time.
pub(super) fn section(trace: &WindowTrace) -> Result<String, DrawError> {
    let (Some(first), Some(last)) = (trace.rounds.first(), trace.rounds.last()) else {
        return Ok(String::new());
    };
    let rate = throughput(trace);
    let [least, mean, most] = rtts(trace);
    let all = [
        Lane { words: "Mbit/s", lines: vec![(&rate, SEEN)] },
        Lane { words: "RTT, ms", lines: vec![(&most, REPLAYED), (&mean, SEEN), (&least, OTHER)] },
    ];
    let picture = lanes("Throughput and round-trip time over time", &all, first.start_ns, last.end_ns)?;
    Ok(format!(
        "<figure data-lanes=\"rates\">{picture}<figcaption>Throughput, and round-trip time: <span class=\"key algorithm\">greatest</span> \
         <span class=\"key seen\">mean</span> <span class=\"key other\">least</span>.</figcaption></figure>"
    ))
}

/// Throughput and round-trip time of the flows of a file with the most data, on one axis; nothing
/// for a single flow.
pub(super) fn together(file: &str, flows: &[FlowReport]) -> Result<String, DrawError> {
    let moved = |flow: &&FlowReport| flow.verdict.window_trace.acked_bytes;
    let mut largest: Vec<&FlowReport> =
        flows.iter().filter(|flow| !flow.verdict.window_trace.rounds.is_empty()).collect();
    largest.sort_by_key(|flow| std::cmp::Reverse(moved(flow)));
    let left_out = largest.len().saturating_sub(MAX_FLOWS);
    largest.truncate(MAX_FLOWS);
    if largest.len() < 2 {
        return Ok(String::new());
    }
    let traces: Vec<&WindowTrace> = largest.iter().map(|flow| &flow.verdict.window_trace).collect();
    let rounds = || traces.iter().flat_map(|trace| &trace.rounds);
    let from_ns = rounds().map(|round| round.start_ns).min().unwrap_or(0);
    let to_ns = rounds().map(|round| round.end_ns).max().unwrap_or(0);
    let rates: Vec<Points> = traces.iter().map(|trace| throughput(trace)).collect();
    let mean = |trace: &&WindowTrace| {
        let [_, mean, _] = rtts(trace);
        mean
    };
    let means: Vec<Points> = traces.iter().map(mean).collect();
    let all = [
        Lane { words: "Mbit/s", lines: coloured(&rates) },
        Lane { words: "mean RTT, ms", lines: coloured(&means) },
    ];
    let picture = lanes("Throughput and round-trip time of several flows", &all, from_ns, to_ns)?;
    let mut text = format!("<figure>{picture}<figcaption>{}, the flows on one axis:", escaped(file));
    for (flow, colour) in largest.iter().zip(COLOURS) {
        let name = flow.ends().map_or_else(|| "a flow".to_owned(), |(from, to)| format!("{from} → {to}"));
        let hex = hex(colour);
        let _ = write!(text, " <span class=\"key\" style=\"--key:{hex}\">{}</span>", escaped(&name));
    }
    if left_out > 0 {
        let _ = write!(text, " and {left_out} more");
    }
    text += ".</figcaption></figure>";
    Ok(text)
}
