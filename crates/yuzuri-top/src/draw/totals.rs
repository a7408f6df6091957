//! The table of totals, and the graph of the sum of all flows.

use super::plot::{self, Plot};
use super::{LineWriter, fit, fit_middle, width};
use crate::app::App;
use crate::totals::{Total, TotalsBy, sum};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use yuzuri_view::{short, text};

/// Title and width of the columns after the name.
const COLUMNS: [(&str, u16); 6] =
    [("flows", 5), ("rate", 11), ("cwnd", 6), ("srtt", 7), ("retr", 6), ("limit", 6)];
const MARGIN: u16 = 2;

/// The least height of the graph, with its title.
pub(crate) const GRAPH_ROWS: u16 = 6;

fn cells(total: &Total) -> [String; COLUMNS.len()] {
    [
        total.flows.to_string(),
        text::rate(total.rate_bps),
        text::count(total.cwnd),
        total.srtt_us.map_or("-".into(), |us| text::time_us(us.into())),
        text::count(total.retransmits),
        total.limit.map_or("-", short).into(),
    ]
}

/// Draws the groups' totals, and the sum of all below them.
pub(crate) fn draw(area: Rect, buffer: &mut Buffer, app: &mut App, by: TotalsBy) {
    let totals = app.totals_by(by);
    let rows = area.height.saturating_sub(2);
    app.scroll_totals(totals.len(), rows.into());
    let name_cells = (area.width - MARGIN).saturating_sub(COLUMNS.iter().map(|(_, w)| w + 1).sum());
    let base = app.theme.strong().add_modifier(Modifier::UNDERLINED);
    buffer.set_style(Rect { height: 1, ..area }, base);
    buffer.set_stringn(area.x + MARGIN, area.y, fit(by.label(), name_cells.into()), name_cells.into(), base);
    let mut x = area.x + MARGIN + name_cells + 1;
    for (title, cells) in COLUMNS {
        buffer.set_stringn(x + cells - width(title) as u16, area.y, title, cells.into(), base);
        x += cells + 1;
    }
    let mut row = |y: u16, total: &Total, style: Style, theme: crate::theme::Theme| {
        let interface = total.name.parse().ok().and_then(|ip| app.interfaces.get(&ip));
        let name = match interface {
            Some(interface) if by == TotalsBy::Local => format!("{} ({interface})", total.name),
            _ => total.name.clone(),
        };
        buffer.set_stringn(
            area.x + MARGIN,
            y,
            fit_middle(&name, name_cells.into()),
            name_cells.into(),
            style,
        );
        let mut x = area.x + MARGIN + name_cells + 1;
        for (n, (text, (_, cells))) in self::cells(total).iter().zip(COLUMNS).enumerate() {
            let style = match n {
                1 => theme.rate(),
                2 => theme.cwnd(),
                5 => total.limit.map_or(theme.dim(), |limit| theme.limit(limit)),
                _ => Style::new(),
            };
            let text = fit(text, cells.into());
            buffer.set_stringn(x + cells - width(&text) as u16, y, &text, cells.into(), style);
            x += cells + 1;
        }
    };
    for (n, total) in totals.iter().enumerate().skip(app.totals_top).take(rows.into()) {
        let y = area.y + 1 + (n - app.totals_top) as u16;
        row(y, total, Style::new(), app.theme);
    }
    let all = sum(format!("sum of {}", yuzuri_stats::counted(totals.len(), "group")), app.lines());
    row(area.bottom() - 1, &all, app.theme.strong(), app.theme);
    if !totals.is_empty() {
        let y = area.y + 1 + (app.totals_at - app.totals_top) as u16;
        buffer.set_stringn(area.x, y, "▸", 1, app.theme.strong());
        buffer.set_style(Rect { y, height: 1, ..area }, app.theme.chosen());
    }
}

/// Draws the sum of the rates of all flows since the screen was opened, in the space left by the
/// table.
pub(crate) fn graph(area: Rect, buffer: &mut Buffer, app: &App) {
    let theme = app.theme;
    let columns = usize::from(area.width.saturating_sub(8));
    let seen: Vec<f64> = app.sum_bps.iter().rev().take(columns).map(|bps| f64::from(*bps)).rev().collect();
    let most = seen.iter().copied().fold(0.0, f64::max) / 1e6;
    let top = plot::round_up(most.max(0.001));
    let mut pen = LineWriter::new(buffer, area, area.y);
    let now = seen.last().copied().unwrap_or(0.0);
    pen.skip(MARGIN).put("sum of all flows ", theme.strong()).put(&text::rate(now), theme.rate());
    let span_s = seen.len().saturating_sub(1) as f64 * App::SUM_NS as f64 / 1e9;
    pen.put_right(&format!("{span_s:.0} s, up to {}", text::rate(most * 1e6)), theme.dim());
    let lane = Rect { x: area.x + 7, y: area.y + 1, width: columns as u16, height: area.height - 1 };
    let mut plot = Plot::new(columns, lane.height.into());
    // The newest at the right edge.
    let mut shares = vec![None; columns - seen.len()];
    shares.extend(seen.iter().map(|bps| Some(bps / 1e6 / top)));
    plot.thick_line(&shares);
    plot.draw(lane, buffer, theme.cwnd(), theme.ssthresh(), theme.rate());
    for (share, y) in [(1.0, lane.y), (0.0, lane.bottom() - 1)] {
        let figure = fit(&plot::tick(top * share), 5);
        buffer.set_stringn(area.x, y, format!("{figure:>5}┤"), 6, theme.rate());
    }
    let unit = "Mbit/s";
    if lane.height > 2 {
        buffer.set_stringn(area.x, lane.y + 1, unit, 6, theme.dim());
    }
}
