//! Notable events, newest last.

use super::{LineWriter, fit, fit_middle, width};
use crate::app::{App, Events, View};
use crate::frame_data::{Entry, FrameData};
use crate::theme::letter;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use yuzuri_trace::{CaState, Kind, Marks};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Time,
    Flow,
    What,
    Reason,
    Place,
}

fn layout(cells: u16, one_flow: bool) -> Vec<(Column, u16)> {
    let (time, flow, what, reason) = match cells {
        0..76 => (8, 6, 11, 16),
        76..124 => (12, 19, 11, 16),
        124..170 => (12, 46, 25, 16),
        _ => (12, 60, 25, 18),
    };
    let flow = if one_flow { 0 } else { flow };
    let mut columns =
        vec![(Column::Time, time), (Column::Flow, flow), (Column::What, what), (Column::Reason, reason)];
    columns.retain(|(_, width)| *width > 0);
    let taken: u16 = columns.iter().map(|(_, width)| width + 1).sum();
    columns.push((Column::Place, cells.saturating_sub(taken)));
    columns
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Column::Time => "time",
            Column::Flow => "flow",
            Column::What => "event",
            Column::Reason => "reason",
            Column::Place => "place in the kernel",
        }
    }

    fn text(self, entry: &Entry, cells: usize, frame_data: &FrameData, app: &App) -> String {
        let event = &entry.event;
        match self {
            Column::Time if cells < 12 => app.clock.seconds(frame_data.unix_ns(event.mono_ns)),
            Column::Time => app.clock.millis(frame_data.unix_ns(event.mono_ns)),
            Column::Flow => flow(entry, cells),
            Column::What => what(entry, cells),
            Column::Reason if event.reason.name().is_empty() => "-".into(),
            Column::Reason => event.reason.name().into(),
            Column::Place if event.place.name().is_empty() => "-".into(),
            // Kernel functions share prefixes; keep the end of the name.
            Column::Place => fit_middle(event.place.name(), cells),
        }
    }
}

/// The flow, by available width: both ends, the remote end, or the local port.
fn flow(entry: &Entry, cells: usize) -> String {
    let Some(flow) = &entry.flow else { return fit(&format!("id {}", entry.event.flow), cells) };
    match cells {
        0..8 => format!(":{}", flow.local.port()),
        8..40 => fit_middle(&flow.remote.to_string(), cells),
        _ => {
            let end = (cells - 3) / 2;
            let local = fit_middle(&flow.local.to_string(), end);
            format!("{local} → {}", fit_middle(&flow.remote.to_string(), end))
        }
    }
}

fn what(entry: &Entry, cells: usize) -> String {
    let event = &entry.event;
    match event.kind {
        Kind::State if cells < 20 => format!("state {}→{}", letter(event.ca_before), letter(event.ca_state)),
        Kind::State => format!("state {} → {}", event.ca_before.name(), event.ca_state.name()),
        Kind::Sample if event.marks.contains(Marks::DSACK) => "dsack".into(),
        kind => kind.name().into(),
    }
}

fn style(entry: &Entry, app: &App) -> Style {
    let theme = app.theme;
    match entry.event.kind {
        Kind::State => theme.state(entry.event.ca_state),
        Kind::Timeout => theme.state(CaState::Loss),
        Kind::Retransmit => theme.rate(),
        _ => Style::new(),
    }
}

/// Draws the events of all flows, or of the charted one.
pub(crate) fn draw(area: Rect, buffer: &mut Buffer, app: &mut App) {
    let rows = usize::from(area.height.saturating_sub(1));
    app.events_rows = rows.max(1);
    if app.events != Events::Full {
        app.events_back = 0;
    }
    let app = &*app;
    let Some(frame_data) = &app.frame_data else { return };
    let columns = layout(area.width, app.view == View::Chart);
    let mut newest_first = app.events_shown().rev().skip(app.events_back);
    let mut entries: Vec<&Entry> = newest_first.by_ref().take(rows).collect();
    entries.reverse();

    let base = app.theme.strong().add_modifier(Modifier::UNDERLINED);
    buffer.set_style(Rect { height: 1, ..area }, base);
    let mut x = area.x;
    for (column, cells) in &columns {
        buffer.set_stringn(x, area.y, fit(column.title(), (*cells).into()), (*cells).into(), base);
        x += cells + 1;
    }
    let back = match app.events_back {
        0 => String::new(),
        n => format!("{n} newer below"),
    };
    if width(&back) + 20 < columns.last().map_or(0, |(_, cells)| usize::from(*cells)) || app.events_back > 0 {
        LineWriter::new(buffer, area, area.y).put_right(&back, base);
    }
    if entries.is_empty() {
        let why = if app.view == View::Chart {
            "No events of this flow so far, only samples."
        } else if app.find.is_empty() {
            "No events so far, only samples."
        } else {
            "No event matches the search (/ to change)."
        };
        LineWriter::new(buffer, area, area.y + 1).put(why, app.theme.dim());
    }
    for (y, entry) in (area.y + 1..area.bottom()).zip(entries) {
        let mut x = area.x;
        for (column, cells) in &columns {
            let text = fit(&column.text(entry, (*cells).into(), frame_data, app), (*cells).into());
            let style = match column {
                Column::What => style(entry, app),
                Column::Time => app.theme.dim(),
                _ => Style::new(),
            };
            buffer.set_stringn(x, y, text, (*cells).into(), style);
            x += cells + 1;
        }
    }
}
