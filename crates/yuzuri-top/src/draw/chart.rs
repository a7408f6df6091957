//! The chart of one flow: cwnd on the left axis, throughput on the right, ssthresh dashed. Below:
//! states and marks as letters, a separate plot of RTT and one of the peer's window and unsent data
//! (on a low screen one of them), time axis, and the values at the cursor.

use super::plot::{self, Plot, Stroke};
use super::{LineWriter, fit, windows};
use crate::app::App;
use crate::clock;
use crate::frame_data::{FrameData, Line};
use crate::series::{Range, Series};
use crate::theme::letter;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use yuzuri_stats::counted;
use yuzuri_trace::{CaState, Snapshot};
use yuzuri_view::text;

/// Cells of an axis: five for its labels, one for its line.
pub(crate) const AXIS: u16 = 6;

/// The layout.
struct Parts {
    details: Option<u16>,
    legend: u16,
    main: Rect,
    states: u16,
    limits: Option<u16>,
    marks: Option<u16>,
    windows: Option<Rect>,
    rtt: Option<Rect>,
    times: u16,
    reading: u16,
}

/// Rows of plots from which the windows and RTT have a plot each.
const MIN_ROWS_FOR_BOTH: u16 = 24;

fn parts(area: Rect, prefers_windows: bool) -> Parts {
    let mut y = area.y + 1;
    let mut row = || {
        y += 1;
        y - 1
    };
    let details = (area.height >= 14).then(&mut row);
    let legend = row();
    let top = row();
    let with_marks = area.height >= 12;
    // The plots share the height that states, marks, times and cursor values leave.
    let with_limits = area.height >= 16;
    let below = 3 + u16::from(with_marks) + u16::from(with_limits);
    let plots = area.bottom().saturating_sub(top + below).max(3);
    let lower_rows = (plots / 4).clamp(1, 8).max(if plots >= 6 { 2 } else { 1 });
    let has_both = plots >= MIN_ROWS_FOR_BOTH;
    let wanted = plots - lower_rows * if has_both { 2 } else { 1 };
    // The row count puts axis labels exactly at halves or quarters; the lowest plot gets the
    // remaining rows.
    let step = if wanted > 8 { 4 } else { 2 };
    let main_rows = wanted.saturating_sub(1) / step * step + 1;
    let inner = Rect { x: area.x + AXIS, width: area.width - 2 * AXIS, ..area };
    let states = top + main_rows;
    let limits = with_limits.then_some(states + 1);
    let marks = with_marks.then_some(states + 1 + u16::from(with_limits));
    let lower_top = states + 1 + u16::from(with_marks) + u16::from(with_limits);
    let lower = Rect { y: lower_top, height: plots - main_rows, ..inner };
    let (windows, rtt) = if has_both {
        let below = Rect { y: lower.y + lower_rows, height: lower.height - lower_rows, ..lower };
        (Some(Rect { height: lower_rows, ..lower }), Some(below))
    } else if prefers_windows {
        (Some(lower), None)
    } else {
        (None, Some(lower))
    };
    Parts {
        details,
        legend,
        main: Rect { y: top, height: main_rows, ..inner },
        states,
        limits,
        marks,
        windows,
        rtt,
        times: lower.bottom(),
        reading: lower.bottom() + 1,
    }
}

/// Draws the chart of the chosen flow.
pub(crate) fn draw(area: Rect, buffer: &mut Buffer, app: &mut App) {
    let parts = parts(area, app.chart.prefers_windows);
    app.chart.columns = parts.main.width.into();
    let app = &*app;
    let (Some(frame_data), Some(line)) = (&app.frame_data, app.chosen_line()) else {
        LineWriter::new(buffer, area, area.y + 1)
            .skip(2)
            .put("This flow is no longer in the table (Esc: back).", app.theme.dim());
        return;
    };
    title(LineWriter::new(buffer, area, area.y), app, frame_data, line);
    if let Some(y) = parts.details {
        details(LineWriter::new(buffer, area, y), app, line);
    }
    let end_ns = line.closed_ns.unwrap_or(frame_data.now_ns);
    let from_ns = app.chart.left_ns(frame_data.now_ns);
    let series = Series::new(&app.chart.buckets, from_ns, app.chart.column_ns(), app.chart.columns, end_ns);
    main_plot(parts.main, parts.legend, area, buffer, app, &series);
    states(&parts, area, buffer, app, &series);
    if let Some(lane) = parts.windows {
        windows::draw(lane, area, buffer, app, &series);
    }
    if let Some(lane) = parts.rtt {
        rtt_plot(lane, area, buffer, app, &series, line);
    }
    times(parts.times, parts.main, buffer, app, frame_data, &series);
    let cursor = app.chart.cursor_ns.and_then(|at| series.column_of(at));
    if let Some(column) = cursor {
        let states = Rect { y: parts.states, height: 1, ..parts.main };
        for lane in [Some(parts.main), Some(states), parts.windows, parts.rtt].into_iter().flatten() {
            plot::cursor(lane, buffer, column);
        }
    }
    reading(LineWriter::new(buffer, area, parts.reading), app, frame_data, &series, cursor);
}

fn title(mut pen: LineWriter, app: &App, frame_data: &FrameData, line: &Line) {
    let theme = app.theme;
    let flow = &line.flow;
    match line.live_state() {
        Some(state) => pen.put_right(&format!("{:>8}", state.name()), theme.state(state)),
        None => pen.put_right(" CLOSED ", theme.badge()),
    }
    pen.put(&flow.local.to_string(), theme.strong()).put(" → ", Style::new());
    pen.put(&flow.remote.to_string(), theme.strong()).skip(2);
    if !flow.congestion_control.is_empty() {
        pen.put(&flow.congestion_control, Style::new()).skip(2);
    }
    pen.put_whole(&line.process(), Style::new());
    pen.skip(2);
    let until = line.closed_ns.unwrap_or(frame_data.now_ns);
    pen.put_whole(&format!("seen for {}", whole_seconds(until.saturating_sub(line.first_ns))), theme.dim());
    let others = app.shares_with(line);
    if others > 0 {
        let others = counted(others, "flow");
        pen.skip(2).put_whole(&format!("shares its bottleneck with {others}"), theme.strong());
    }
    if let Some(name) = &flow.netns_name {
        pen.skip(2).put_whole(&format!("netns {name}"), theme.dim());
    }
}

fn whole_seconds(ns: u64) -> String {
    clock::span(ns / 1_000_000_000 * 1_000_000_000)
}

/// "-": unknown.
fn known_bytes(bytes: Option<u32>) -> String {
    bytes.map_or("-".into(), |bytes| text::bytes(bytes.into()))
}

/// The current values, each in a fixed width, so that nothing moves.
fn details(mut pen: LineWriter, app: &App, line: &Line) {
    let s = &line.last.snapshot;
    let rtt = |us: Option<u32>| us.map_or("-".into(), |us| text::time_us(us.into()));
    let bits = |bps: u64| match bps {
        0 => "-".into(),
        u64::MAX => "none".into(),
        bps => text::rate(bps as f64),
    };
    let figures = [
        ("min rtt", format!("{:>7}", rtt(s.measured_min_rtt_us()))),
        ("in flight", format!("{:>5}", text::count(s.in_flight().into()))),
        ("lost", format!("{:>4}", text::count(s.lost_out.into()))),
        ("retr", format!("{:>5}", text::count(s.total_retrans.into()))),
        ("delivery", format!("{:>11}", bits(s.delivery_rate_bps))),
        ("mss", format!("{:>5}", s.mss)),
        ("pacing", format!("{:>11}", bits(s.pacing_rate_bps))),
        ("peer window", format!("{:>7}", known_bytes(s.known_snd_wnd_bytes()))),
        ("unsent", format!("{:>7}", known_bytes(s.known_notsent_bytes()))),
        ("rttvar", format!("{:>7}", text::time_us(s.rttvar_us.into()))),
        ("sacked", format!("{:>4}", text::count(s.sacked_out.into()))),
        ("reordering", format!("{:>3}", s.reordering)),
    ];
    for (name, value) in figures {
        if name.len() + 1 + value.len() > pen.room() {
            break;
        }
        pen.put(name, app.theme.dim()).skip(1).put(&value, Style::new()).skip(2);
    }
}

/// Largest value of all ranges.
fn most(ranges: &[Option<Range>]) -> f64 {
    f64::from(ranges.iter().flatten().map(|r| r.max).max().unwrap_or(0))
}

/// Draws a line through ranges; each column connects to the end of the previous one.
pub(super) fn thin_line(plot: &mut Plot, ranges: &[Option<Range>], top: f64) {
    let mut before: Option<u32> = None;
    for (dot, range) in ranges.iter().enumerate() {
        if let Some(range) = range {
            let from = before.unwrap_or(range.last);
            let (low, high) = (range.min.min(from), range.max.max(from));
            // Stop one dot short: the previous column has a dot there.
            let (low, high) = match from {
                from if from < range.min => (range.min.min(from + 1), high),
                from if from > range.max => (low, range.max.max(from - 1)),
                _ => (low, high),
            };
            plot.dots(dot, f64::from(low) / top, f64::from(high) / top, Stroke::Thin);
        }
        before = range.map(|r| r.last);
    }
}

fn main_plot(main: Rect, legend_y: u16, area: Rect, buffer: &mut Buffer, app: &App, series: &Series) {
    let theme = app.theme;
    let cwnd_most = most(&series.cwnd);
    let ssthresh_most = f64::from(series.ssthresh.iter().flatten().copied().max().unwrap_or(0));
    // An ssthresh far above cwnd would flatten the cwnd curve; the legend shows its value instead.
    let shows_ssthresh = ssthresh_most > 0.0 && ssthresh_most <= 2.0 * cwnd_most.max(5.0);
    let top = plot::round_up(if shows_ssthresh { cwnd_most.max(ssthresh_most) } else { cwnd_most }.max(4.0));
    let rate_most = series.rate_bps.iter().flatten().copied().fold(0.0, f64::max) / 1e6;
    let rate_top = plot::round_up(rate_most.max(0.001));

    let mut plot = Plot::new(main.width.into(), main.height.into());
    // Numbered from the clock's zero, so that the dashes move with the plot.
    let first = series.from_ns / (series.column_ns / 2).max(1);
    for (dot, value) in series.ssthresh.iter().enumerate() {
        if let Some(value) = value
            && shows_ssthresh
            && (first + dot as u64).is_multiple_of(2)
        {
            let share = f64::from(*value) / top;
            plot.dots(dot, share, share, Stroke::Dashed);
        }
    }
    let shares: Vec<Option<f64>> =
        series.rate_bps.iter().map(|r| r.map(|bps| bps / 1e6 / rate_top)).collect();
    plot.thick_line(&shares);
    thin_line(&mut plot, &series.cwnd, top);
    plot.draw(main, buffer, theme.cwnd(), theme.ssthresh(), theme.rate());
    axis(main, area, buffer, top, theme.cwnd(), false);
    axis(main, area, buffer, rate_top, theme.rate(), true);

    let mut pen = LineWriter::new(buffer, area, legend_y);
    let span = format!("{} in view", clock::span(app.chart.span_ns()));
    pen.put_right(&format!("{:>6}", "Mbit/s"), theme.rate());
    pen.put(&format!("{:>5} ", "segm."), theme.cwnd());
    pen.put("⠤⠤ cwnd", theme.cwnd()).skip(2).put("▄▄ throughput", theme.rate()).skip(2);
    if shows_ssthresh {
        pen.put_whole("⠄⠄ ssthresh", theme.ssthresh());
    } else if ssthresh_most > 0.0 {
        pen.put_whole(&format!("ssthresh {}↑", text::count(ssthresh_most as u64)), theme.ssthresh());
    } else {
        pen.put_whole("no ssthresh", theme.dim());
    }
    let state = if app.chart.to_ns.is_some() { "past: 0 for now" } else { "" };
    let room = pen.room();
    if room >= span.len() + 2 {
        pen.put_right(&span, theme.dim());
        if !state.is_empty() && pen.room() >= state.len() + 2 {
            pen.put_right(state, theme.strong());
        }
    }
}

/// Draws an axis with labels at top and bottom, and in between if there is room.
pub(super) fn axis(plot: Rect, area: Rect, buffer: &mut Buffer, top: f64, style: Style, right: bool) {
    let x = if right { plot.right() } else { plot.x - 1 };
    let rows = plot.height;
    let parts =
        [4, 2].into_iter().find(|parts| (rows - 1).is_multiple_of(*parts) && rows > *parts).unwrap_or(1);
    for row in 0..rows {
        buffer[(x, plot.y + row)].set_char('│').set_style(style);
    }
    for part in 0..=parts {
        if rows == 1 && part == 0 {
            continue;
        }
        let share = f64::from(part) / f64::from(parts);
        let y = plot.y + ((1.0 - share) * f64::from(rows - 1)).round() as u16;
        let value = top * share;
        let figure = fit(&plot::tick(value), 5);
        if right {
            buffer[(x, y)].set_char('├').set_style(style);
            buffer.set_stringn(x + 1, y, &figure, usize::from(area.right() - x - 1), style);
        } else {
            buffer[(x, y)].set_char('┤').set_style(style);
            buffer.set_stringn(x - 5, y, format!("{figure:>5}"), 5, style);
        }
    }
}

fn label(buffer: &mut Buffer, area: Rect, y: u16, name: &str, style: Style) {
    buffer.set_stringn(area.x, y, format!("{name:>5}"), 5, style);
}

fn states(parts: &Parts, area: Rect, buffer: &mut Buffer, app: &App, series: &Series) {
    let theme = app.theme;
    label(buffer, area, parts.states, "state", theme.dim());
    for (column, state) in series.state.iter().enumerate() {
        if let Some(state) = state {
            let style = if *state == CaState::Open { theme.dim() } else { theme.state(*state) };
            buffer[(parts.main.x + column as u16, parts.states)].set_char(letter(*state)).set_style(style);
        }
    }
    if let Some(y) = parts.limits {
        label(buffer, area, y, "limit", theme.dim());
        limits(Rect { y, height: 1, ..parts.main }, buffer, app, series);
    }
    let Some(y) = parts.marks else { return };
    label(buffer, area, y, "marks", theme.dim());
    for (column, mark) in series.mark.iter().enumerate() {
        if let Some(mark) = mark {
            let style = match mark {
                'T' => theme.warning(),
                'r' => theme.rate(),
                _ => Style::new(),
            };
            buffer[(parts.main.x + column as u16, y)].set_char(*mark).set_style(style);
        }
    }
}

/// Draws each limit as a word, if it fits, and a line for its duration.
fn limits(row: Rect, buffer: &mut Buffer, app: &App, series: &Series) {
    let mut column = 0;
    for run in series.limit.chunk_by(|a, b| a == b) {
        if let Some(limit) = run[0] {
            let line = std::iter::repeat('─');
            for (n, c) in yuzuri_view::short(limit).chars().chain(line).take(run.len()).enumerate() {
                let x = row.x + (column + n) as u16;
                buffer[(x, row.y)].set_char(c).set_style(app.theme.limit(limit));
            }
        }
        column += run.len();
    }
}

fn rtt_plot(lane: Rect, area: Rect, buffer: &mut Buffer, app: &App, series: &Series, line: &Line) {
    let theme = app.theme;
    let top_ms = plot::round_up((most(&series.srtt_us) / 1000.0).max(0.01));
    let top_us = top_ms * 1000.0;
    let mut plot = Plot::new(lane.width.into(), lane.height.into());
    if let Some(min) = line.last.snapshot.measured_min_rtt_us() {
        let first = series.from_ns / (series.column_ns / 2).max(1);
        for dot in 0..series.srtt_us.len() {
            if series.srtt_us[dot].is_some() && (first + dot as u64).is_multiple_of(2) {
                let share = f64::from(min) / top_us;
                plot.dots(dot, share, share, Stroke::Dashed);
            }
        }
    }
    thin_line(&mut plot, &series.srtt_us, top_us);
    plot.draw(lane, buffer, theme.rtt(), theme.dim(), Style::new());
    axis(lane, area, buffer, top_ms, theme.rtt(), false);
    for row in 0..lane.height {
        buffer[(lane.right(), lane.y + row)].set_char('│').set_style(theme.rtt());
    }
    for (row, word) in (0..lane.height).zip(["srtt", "ms"]) {
        buffer.set_stringn(lane.right() + 1, lane.y + row, word, 5, theme.rtt());
    }
}

/// The time axis: labels at round times, which move with the plot.
fn times(y: u16, inner: Rect, buffer: &mut Buffer, app: &App, frame_data: &FrameData, series: &Series) {
    const STEPS_MS: [u64; 14] = [
        100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000,
    ];
    let room_ns = series.column_ns * 15;
    let step_ms = STEPS_MS.into_iter().find(|ms| ms * 1_000_000 >= room_ns).unwrap_or(3_600_000);
    let step_ns = (step_ms * 1_000_000) as i64;
    let first = frame_data.unix_ns(series.from_ns);
    let mut at = first.div_euclid(step_ns) * step_ns;
    let last = first + (series.column_ns * u64::from(inner.width)) as i64;
    while at < last {
        let column = (at - first).div_euclid(series.column_ns as i64);
        if column >= 0 {
            let x = inner.x + column as u16;
            let mut label = format!("│{}", app.clock.seconds(at));
            if step_ms < 1000 {
                label = format!("{label}.{}", at.rem_euclid(1_000_000_000) / 100_000_000);
            }
            if x as usize + super::width(&label) <= inner.right() as usize {
                buffer.set_stringn(x, y, label, usize::from(inner.right() - x), app.theme.dim());
            }
        }
        at += step_ns;
    }
}

/// The values at the cursor, or of the newest column if there is no cursor.
fn reading(mut pen: LineWriter, app: &App, frame_data: &FrameData, series: &Series, cursor: Option<usize>) {
    let theme = app.theme;
    let newest = || series.bucket.iter().rposition(Option::is_some);
    let Some(column) = cursor.or_else(newest) else {
        pen.put("no records in this interval", theme.dim());
        return;
    };
    let at_ns = series.from_ns + column as u64 * series.column_ns;
    match cursor {
        Some(_) => {
            pen.put("▸ ", theme.strong()).put(&app.clock.millis(frame_data.unix_ns(at_ns)), theme.strong())
        }
        None => pen.put("  newest", theme.dim()),
    };
    pen.skip(2);
    let Some(bucket) = series.bucket[column] else {
        pen.put("the flow did not exist", theme.dim());
        return;
    };
    let join = |dots: &[Option<Range>]| {
        dots.iter().flatten().copied().reduce(|a, b| Range {
            min: a.min.min(b.min),
            max: a.max.max(b.max),
            last: b.last,
        })
    };
    let dots = column * 2..column * 2 + 2;
    let cwnd = join(&series.cwnd[dots.clone()]);
    let srtt = join(&series.srtt_us[dots]);
    let state = series.state[column].unwrap_or_default();
    let ssthresh = match bucket.ssthresh {
        Snapshot::SSTHRESH_INFINITE.. => "-".into(),
        n => text::count(n.into()),
    };
    let extent = |range: Range, unit: &dyn Fn(u32) -> String| {
        if range.min == range.max {
            String::new()
        } else {
            format!(" ({}–{})", unit(range.min), unit(range.max))
        }
    };
    let segments = |n: u32| text::count(n.into());
    let time = |us: u32| text::time_us(us.into());
    let cwnd = cwnd.map_or("-".into(), |r| format!("{}{}", segments(r.last), extent(r, &segments)));
    let srtt = srtt.map_or("-".into(), |r| time(r.last));
    let rate = series.rate_bps[column].map_or("-".into(), text::rate);
    let mut figures = vec![
        ("cwnd", format!("{cwnd:<4}"), theme.cwnd()),
        ("", format!("{rate:>11}"), theme.rate()),
        ("srtt", format!("{srtt:>7}"), theme.rtt()),
        ("ssthresh", format!("{ssthresh:<4}"), theme.ssthresh()),
        ("", state.name().to_owned(), theme.state(state)),
        ("in flight", segments(bucket.in_flight), Style::new()),
    ];
    if let Some(limit) = series.limit[column] {
        figures.push(("limit", limit.name().to_owned(), theme.limit(limit)));
    }
    figures.push(("peer window", known_bytes(bucket.known_snd_wnd_bytes()), theme.peer_window()));
    figures.push(("unsent", known_bytes(bucket.known_notsent_bytes()), theme.unsent()));
    if bucket.retransmits > 0 {
        figures.push(("retransmitted", bucket.retransmits.to_string(), Style::new()));
    }
    let marks: Vec<&str> =
        bucket.marks.words().filter(|word| *word != "sampled" && *word != "ssthresh").collect();
    if !marks.is_empty() {
        figures.push(("", marks.join(" "), theme.dim()));
    }
    for (name, value, style) in figures {
        let gap = usize::from(!name.is_empty());
        if super::width(name) + gap + super::width(&value) > pen.room() {
            break;
        }
        pen.put(name, theme.dim()).skip(gap as u16).put(&value, style).skip(2);
    }
}
