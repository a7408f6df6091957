//! The time-sequence graph: data sent, acknowledged, selectively acknowledged and retransmitted,
//! and the window's end.

use super::svg::{LOSS, OTHER, REPLAYED, SEEN};
use crate::sequence::{MarkKind, Sequence};
use plotters::prelude::*;
use std::collections::BTreeSet;
use yuzuri_plot::{DrawError, INK, ceiling, frame, short, steps, svg};

const SIZE: (u32, u32) = (940, 420);
/// Pixels of the graph itself, across and up: marks within one of them are drawn once.
const ACROSS: f64 = 860.0;
const UP: f64 = 360.0;
/// A right edge of the window this far above the data sent is not drawn: it would flatten the rest.
const MAX_WINDOW_PART: f64 = 1.6;

/// Columns and rows of a line.
type Pixels = Vec<(u32, u32)>;

/// Vertical strokes, each once: column, lower and upper row.
#[derive(Default)]
struct Strokes(BTreeSet<(u32, u32, u32)>);

impl Strokes {
    fn add(&mut self, column: u32, from: u32, to: u32) {
        self.0.insert((column, from, to));
    }

    /// Strokes that touch in a column are one.
    fn joined(self) -> Vec<(u32, u32, u32)> {
        let mut all: Vec<(u32, u32, u32)> = Vec::new();
        for (column, from, to) in self.0 {
            match all.last_mut() {
                Some((of, _, end)) if *of == column && from <= *end + 1 => *end = (*end).max(to),
                _ => all.push((column, from, to)),
            }
        }
        all
    }
}

/// The figure; empty if no marks were kept. `zooms`: whether the page's script redraws it.
pub(super) fn section(sequence: &Sequence, zooms: bool) -> Result<String, DrawError> {
    let marks = &sequence.marks;
    let (Some(first), Some(last)) = (marks.first(), marks.last()) else { return Ok(String::new()) };
    let sent_to = marks.iter().filter_map(|mark| match mark.what {
        MarkKind::Sent(_, to) | MarkKind::Again(_, to) => Some(to),
        MarkKind::Acknowledged(..) | MarkKind::Selective(..) => None,
    });
    let highest = sent_to.max().unwrap_or(1) as f64;
    let ends = marks.iter().filter_map(|mark| match mark.what {
        MarkKind::Acknowledged(_, end) => end,
        _ => None,
    });
    let window = ends.max().map_or(0.0, |end| end as f64).min(highest * MAX_WINDOW_PART);
    let top = ceiling(highest.max(window) / 1e6);
    let end_s = ((last.time_ns - first.time_ns) as f64 / 1e9).max(1e-3);
    let column = |ns: i64| ((ns - first.time_ns) as f64 / 1e9 / end_s * ACROSS) as u32;
    let row = |bytes: u64| (bytes as f64 / 1e6 / top * UP).min(UP) as u32;
    let (mut sent, mut again, mut selective) = <(Strokes, Strokes, Strokes)>::default();
    // The acknowledged data, and the window's end: the last value of each column.
    let (mut acknowledged, mut window_end) = (Pixels::new(), Pixels::new());
    let put = |line: &mut Pixels, column: u32, row: u32| match line.last_mut() {
        Some((of, at)) if *of == column => *at = row,
        _ => line.push((column, row)),
    };
    for mark in marks {
        let x = column(mark.time_ns);
        match mark.what {
            MarkKind::Sent(from, to) => sent.add(x, row(from), row(to)),
            MarkKind::Again(from, to) => again.add(x, row(from), row(to)),
            MarkKind::Selective(from, to) => selective.add(x, row(from), row(to)),
            MarkKind::Acknowledged(ack, end) => {
                put(&mut acknowledged, x, row(ack));
                if let Some(end) = end.filter(|end| *end as f64 / 1e6 <= top) {
                    put(&mut window_end, x, row(end));
                }
            }
        }
    }
    let picture = svg(SIZE, "Time-sequence graph", None, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .margin_right(16)
            .x_label_area_size(40)
            .y_label_area_size(62)
            .build_cartesian_2d(0.0..end_s, 0.0..top)?;
        frame(&mut chart, "time, s", "MB since the first byte", &short, (10, 8))?;
        let place = |(x, y): (u32, u32)| (f64::from(x) / ACROSS * end_s, f64::from(y) / UP * top);
        for (line, colour) in [(&window_end, OTHER), (&acknowledged, INK)] {
            let points: Vec<(f64, f64)> = line.iter().map(|point| place(*point)).collect();
            chart.draw_series(LineSeries::new(steps(&points), colour.stroke_width(1)))?;
        }
        for (strokes, colour, width) in [(sent, SEEN, 1), (selective, REPLAYED, 1), (again, LOSS, 2)] {
            chart.draw_series(strokes.joined().into_iter().map(|(x, from, to)| {
                // A pixel at least.
                let ends = vec![place((x, from)), place((x, to.max(from + 1)))];
                PathElement::new(ends, colour.stroke_width(width))
            }))?;
        }
        Ok(())
    })?;
    let cut = if sequence.is_cut { " Not all segments are drawn." } else { "" };
    let window =
        if window_end.is_empty() { "" } else { " <span class=\"key other\">end of the window</span>" };
    let magnify = if zooms { "" } else { " To zoom in, write it for xplot (--xplot FOLDER)." };
    Ok(format!(
        "<figure data-lanes=\"sequence\">{picture}<figcaption>Bytes: <span class=\"key seen\">sent</span> \
         <span class=\"key loss\">retransmitted</span> \
         <span class=\"key algorithm\">selectively acknowledged</span>{window}. The grey line is the acknowledged data.{cut}{magnify}</figcaption></figure>"
    ))
}
