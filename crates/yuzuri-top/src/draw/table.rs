//! The table of flows. The terminal width alone (and whether any flow uses IPv6) determines columns
//! and widths, so that nothing moves sideways while values change.

use super::{LineWriter, fit, fit_middle, totals, width};
use crate::app::App;
use crate::frame_data::{Line, SPARKLINE_POINTS};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use yuzuri_view::{SortKey, text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Local,
    Remote,
    Process,
    Control,
    Limit,
    State,
    Cwnd,
    Ssthresh,
    InFlight,
    Srtt,
    MinRtt,
    Rate,
    Delivery,
    Retransmits,
    Lost,
    Sparkline,
}

/// In display order.
const COLUMNS: [Column; 16] = [
    Column::Local,
    Column::Remote,
    Column::Process,
    Column::Control,
    Column::Limit,
    Column::State,
    Column::Cwnd,
    Column::Ssthresh,
    Column::InFlight,
    Column::Srtt,
    Column::MinRtt,
    Column::Rate,
    Column::Delivery,
    Column::Retransmits,
    Column::Lost,
    Column::Sparkline,
];

/// Columns that a wider terminal adds, most important first. The first seven fit the minimum width.
const STEPS: [(Column, u16); 25] = [
    (Column::State, 1),
    (Column::Local, 6),
    (Column::Remote, 17),
    (Column::Cwnd, 5),
    (Column::Srtt, 7),
    (Column::Rate, 11),
    (Column::Retransmits, 5),
    (Column::Remote, 21),
    (Column::Limit, 6),
    (Column::Control, 6),
    (Column::Sparkline, 8),
    (Column::Ssthresh, 8),
    (Column::Process, 11),
    (Column::InFlight, 6),
    (Column::Process, 14),
    (Column::Local, 21),
    (Column::State, 8),
    (Column::Limit, 20),
    (Column::MinRtt, 7),
    (Column::Delivery, 11),
    (Column::Lost, 5),
    (Column::Sparkline, 15),
    (Column::Process, 22),
    (Column::Control, 9),
    (Column::Sparkline, SPARKLINE_POINTS as u16),
];

/// With IPv6: address widths for the remaining space.
const LONG_STEPS: [(Column, u16); 4] =
    [(Column::Remote, 33), (Column::Local, 33), (Column::Remote, 47), (Column::Local, 47)];

/// Space for the row marker before the first column.
const MARGIN: u16 = 2;

fn layout(cells: u16, long_addresses: bool) -> Vec<(Column, u16)> {
    let mut widths = [0u16; COLUMNS.len()];
    let taken = |widths: &[u16]| {
        widths.iter().filter(|w| **w > 0).map(|w| w + 1).sum::<u16>().saturating_sub(1) + MARGIN
    };
    let long = if long_addresses { &LONG_STEPS[..] } else { &[] };
    for (column, wider) in STEPS.iter().chain(long) {
        let mut with = widths;
        with[*column as usize] = *wider;
        if taken(&with) <= cells {
            widths = with;
        }
    }
    COLUMNS.into_iter().zip(widths).filter(|(_, width)| *width > 0).collect()
}

impl Column {
    fn title(self, cells: u16) -> &'static str {
        match self {
            Column::Local if cells < 9 => "local",
            Column::Local => "local address",
            Column::Remote => "remote address",
            Column::Process => "process",
            Column::Control => "cc",
            Column::Limit if cells < 10 => "limit",
            Column::Limit => "limited by",
            Column::State if cells < 5 => "",
            Column::State => "state",
            Column::Cwnd => "cwnd",
            Column::Ssthresh => "ssthresh",
            Column::InFlight => "flight",
            Column::Srtt => "srtt",
            Column::MinRtt => "min rtt",
            Column::Rate => "rate",
            Column::Delivery => "delivery",
            Column::Retransmits => "retr",
            Column::Lost => "lost",
            Column::Sparkline if cells < 12 => "rate",
            Column::Sparkline => "rate, past",
        }
    }

    fn is_number(self) -> bool {
        matches!(
            self,
            Column::Cwnd
                | Column::Ssthresh
                | Column::InFlight
                | Column::Srtt
                | Column::MinRtt
                | Column::Rate
                | Column::Delivery
                | Column::Retransmits
                | Column::Lost
        )
    }

    fn is_sorted_by(self, key: SortKey) -> bool {
        matches!(
            (self, key),
            (Column::Rate, SortKey::Rate)
                | (Column::Cwnd, SortKey::Cwnd)
                | (Column::Srtt, SortKey::Srtt)
                | (Column::Retransmits, SortKey::Retransmits)
                | (Column::Local, SortKey::Address)
                | (Column::Process, SortKey::Process)
                | (Column::Control, SortKey::Control)
        )
    }

    fn text(self, line: &Line, cells: u16) -> String {
        let s = &line.last.snapshot;
        let closed = line.closed_ns.is_some();
        let count = |n: u32| text::count(n.into());
        match self {
            Column::Local if cells < 9 => format!(":{}", line.flow.local.port()),
            Column::Local => fit_middle(&line.flow.local.to_string(), cells.into()),
            Column::Remote => {
                let remote = match &line.remote_name {
                    Some(name) => format!("{name}:{}", line.flow.remote.port()),
                    None => line.flow.remote.to_string(),
                };
                fit_middle(&remote, cells.into())
            }
            Column::Process => line.process(),
            Column::Control => line.flow.congestion_control.clone(),
            Column::Limit => match line.limit {
                None => "-".into(),
                Some((limit, _)) if cells < 10 => yuzuri_view::short(limit).into(),
                Some((limit, _)) => limit.name().into(),
            },
            Column::State if cells < 8 => line.state_letter().to_string(),
            Column::State => line.state_word().into(),
            Column::Cwnd => count(s.cwnd),
            Column::Ssthresh => s.finite_ssthresh().map_or("-".into(), count),
            Column::InFlight if closed => "-".into(),
            Column::InFlight => count(s.in_flight()),
            Column::Srtt => s.measured_srtt_us().map_or("-".into(), |us| text::time_us(us.into())),
            Column::MinRtt => s.measured_min_rtt_us().map_or("-".into(), |us| text::time_us(us.into())),
            Column::Rate if closed => "-".into(),
            Column::Rate => text::rate(line.rate_bps),
            Column::Delivery if closed || s.delivery_rate_bps == 0 => "-".into(),
            Column::Delivery => text::rate(s.delivery_rate_bps as f64),
            Column::Retransmits => count(s.total_retrans),
            Column::Lost if closed => "-".into(),
            Column::Lost => count(s.lost_out),
            Column::Sparkline => sparkline(&line.sparkline_bps, cells.into()),
        }
    }

    fn style(self, line: &Line, app: &App) -> Style {
        let theme = app.theme;
        match (self, line.live_state()) {
            (_, None) => theme.dim(),
            (Column::State, Some(state)) => theme.state(state),
            (Column::Limit, _) => line.limit.map_or(theme.dim(), |(limit, _)| theme.limit(limit)),
            (Column::Cwnd, _) => theme.cwnd(),
            (Column::Rate | Column::Sparkline, _) => theme.rate(),
            (Column::Lost, _) if line.last.snapshot.lost_out > 0 => theme.warning(),
            _ => Style::new(),
        }
    }
}

/// A sparkline, newest at the right. Each flow has its own scale, because the sparkline shows the
/// shape. An idle flow is a low line, not a full one.
fn sparkline(bps: &[f32], cells: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bps = &bps[bps.len().saturating_sub(cells)..];
    let most = bps.iter().copied().fold(0.0f32, f32::max).max(1000.0);
    let bars = bps.iter().map(|v| BARS[((v / most * 7.0).round() as usize).min(7)]);
    std::iter::repeat_n(' ', cells - bps.len()).chain(bars).collect()
}

/// Draws the table.
pub(crate) fn draw(area: Rect, buffer: &mut Buffer, app: &mut App) {
    let columns = layout(area.width, app.long_addresses);
    titles(Rect { height: 1, ..area }, buffer, app, &columns);
    app.titles = sortable(area.x, &columns);
    let mut rows = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let free = rows.height.saturating_sub((app.shown.len() as u16).saturating_add(1));
    if free >= totals::GRAPH_ROWS && app.shown.len() > 1 {
        rows.height -= free;
        totals::graph(Rect { y: rows.bottom(), height: free, ..area }, buffer, app);
    }
    app.scroll_to_marked(rows.height.into());
    let marked = app.marked();
    for (n, line) in app.lines().enumerate().skip(app.table_top).take(rows.height.into()) {
        let y = rows.y + (n - app.table_top) as u16;
        let is_marked = marked == Some(n);
        draw_line(Rect { y, height: 1, ..rows }, buffer, app, line, &columns, is_marked);
    }
    if app.shown.is_empty() {
        let why = if app.total() == 0 {
            "No flow has been seen yet."
        } else {
            "No flow matches the search (/ to change, Esc for all)."
        };
        LineWriter::new(buffer, area, rows.y + 1).skip(MARGIN).put(why, app.theme.dim());
    }
}

/// Positions of the columns by which the table can be sorted.
fn sortable(left: u16, columns: &[(Column, u16)]) -> Vec<(u16, u16, SortKey)> {
    let mut x = left + MARGIN;
    let mut found = Vec::new();
    for (column, cells) in columns {
        let key = SortKey::ALL.into_iter().find(|key| column.is_sorted_by(*key));
        found.extend(key.map(|key| (x, x + cells, key)));
        x += cells + 1;
    }
    found
}

fn titles(area: Rect, buffer: &mut Buffer, app: &App, columns: &[(Column, u16)]) {
    let base = app.theme.strong().add_modifier(Modifier::UNDERLINED);
    buffer.set_style(area, base);
    let mut x = area.x + MARGIN;
    for (column, cells) in columns {
        let title = column.title(*cells);
        let mut shown = title.to_owned();
        if column.is_sorted_by(app.sort) {
            let arrow = if app.reverse { '▲' } else { '▼' };
            shown = if column.is_number() { format!("{arrow}{title}") } else { format!("{title}{arrow}") };
        }
        let shown = fit(&shown, (*cells).into());
        let indent = if column.is_number() { cells - width(&shown) as u16 } else { 0 };
        buffer.set_stringn(x + indent, area.y, &shown, (cells - indent).into(), base);
        x += cells + 1;
    }
}

fn draw_line(
    area: Rect,
    buffer: &mut Buffer,
    app: &App,
    line: &Line,
    columns: &[(Column, u16)],
    is_marked: bool,
) {
    if is_marked {
        buffer.set_stringn(area.x, area.y, "▸", 1, app.theme.strong());
    }
    if app.pinned.contains(&line.id()) {
        buffer.set_stringn(area.x + 1, area.y, "•", 1, app.theme.strong());
    }
    let mut x = area.x + MARGIN;
    for (column, cells) in columns {
        let text = fit(&column.text(line, *cells), (*cells).into());
        let indent = if column.is_number() { cells - width(&text) as u16 } else { 0 };
        buffer.set_stringn(x + indent, area.y, &text, (cells - indent).into(), column.style(line, app));
        x += cells + 1;
    }
    if is_marked {
        buffer.set_style(area, app.theme.chosen());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_has_the_most_needed_columns_and_fits() {
        for cells in 60..400 {
            for long in [false, true] {
                let columns = layout(cells, long);
                let taken = MARGIN + columns.iter().map(|(_, w)| w + 1).sum::<u16>() - 1;
                assert!(taken <= cells, "{cells}: {taken}");
                for needed in [Column::Local, Column::Remote, Column::State, Column::Cwnd, Column::Rate] {
                    assert!(columns.iter().any(|(c, _)| *c == needed), "{cells} lacks {needed:?}");
                }
            }
        }
        assert_eq!(layout(200, false).len(), COLUMNS.len(), "a wide terminal shows all");
    }

    #[test]
    fn a_sparkline_has_its_own_scale() {
        assert_eq!(sparkline(&[0.0, 5e6, 10e6], 5), "  ▁▅█");
        assert_eq!(sparkline(&[0.0; 9], 4), "▁▁▁▁");
    }
}
