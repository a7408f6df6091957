//! The help: keys and letters.

use super::LineWriter;
use crate::app::App;
use crate::series::MARKS;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use yuzuri_limits::Limit;
use yuzuri_trace::{CaState, Filter};

enum Item {
    Head(&'static str),
    Pair(String, String),
    Text(String),
}

fn items() -> Vec<Item> {
    let pair = |key: &str, does: &str| Item::Pair(key.into(), does.into());
    let mut items = vec![
        Item::Head("Everywhere"),
        pair("q, Ctrl-C", "quit"),
        pair("?", "this help"),
        pair("e", "events: below, whole screen, off"),
        pair("/", "find: rows and events that contain all words"),
        pair("f", "filter: which flows are watched"),
        pair("d", "density: samples per flow"),
        pair("p, space", "freeze the screen (watching goes on), or pause a replay"),
        pair("[ ]", "a replay's speed: half, double"),
        pair(", .", "a replay's position: 10 s back, forward"),
        pair("Esc", "back; clears the search"),
        pair("n", "names of remote hosts by DNS (which asks for all of them), or addresses"),
        pair("m", "mouse: click a row, twice for its chart, or a title to sort; off to select text"),
        pair("Ctrl-L", "redraw the screen"),
        pair("Ctrl-Z", "suspend"),
        Item::Head("Table"),
        pair("↑ ↓ j k PgUp PgDn End", "go to a flow; it stays marked when the order changes"),
        pair("Home", "the first row, whichever flow that is"),
        pair("s S, > <", "sort by the next column, reverse; next, previous"),
        pair("Enter", "chart of the flow"),
        pair("t", "totals by process, remote, local, bottleneck; Enter: its flows"),
        pair("x", "pin the flow to the top, or unpin it"),
        Item::Head("Chart"),
        pair("+ -", "zoom"),
        pair("← →", "pan; End or 0 for now"),
        pair("h l, H L", "cursor by one column, by ten; c on and off"),
        pair("w", "lower plot: RTT, or peer's window and unsent data; tall screens: both"),
        pair("↑ ↓", "the flow above, below"),
        Item::Head("States"),
    ];
    for state in CaState::ALL {
        let means = match state {
            CaState::Open => "nothing dubious",
            CaState::Disorder => "duplicate ACKs or SACKs arrive",
            CaState::Cwr => "the window is being reduced, by ECN or the device's own queue",
            CaState::Recovery => "fast retransmission",
            CaState::Loss => "a retransmission timeout",
        };
        items.push(Item::Pair(crate::theme::letter(state).into(), format!("{}: {means}", state.name())));
    }
    items.push(Item::Head("Marks"));
    items.extend(MARKS.map(|(letter, means)| Item::Pair(letter.into(), means.into())));
    items.extend([Item::Head("Limits: what keeps a sender from sending more")]);
    items.extend(Limit::ALL.map(|limit| {
        let short = yuzuri_view::short(limit);
        Item::Pair(short.into(), limit.name().replace('-', " "))
    }));
    items.extend([
        Item::Head("Columns"),
        pair("limit", "what limited the flow for most of the last two seconds; - if it only receives"),
        pair("cwnd, ssthresh, flight", "segments"),
        pair("rate", "acknowledged and received bits per second over the last second"),
        pair("delivery", "the kernel's own estimate (tcpi_delivery_rate)"),
        pair("retr", "segments retransmitted since the connection's start"),
        pair("lost", "segments marked lost now"),
        pair("SAMPLED", "polled, not taken at each event: short-lived states are missed"),
        Item::Head("Filter"),
        Item::Text(Filter::SYNTAX.into()),
    ]);
    items
}

/// Draws the help from its scroll position, in two columns if there is room.
pub(crate) fn draw(area: Rect, buffer: &mut Buffer, app: &mut App) {
    let items = items();
    let two = area.width >= 150;
    let cells = if two { (area.width - 4) / 2 } else { area.width };
    let rows = usize::from(area.height);
    let per_page = if two { rows * 2 } else { rows };
    app.help_most = items.len().saturating_sub(per_page);
    let top = app.help.unwrap_or(0).min(app.help_most);
    let theme = app.theme;
    for (n, item) in items.iter().skip(top).take(per_page).enumerate() {
        let x = area.x + if n >= rows { cells + 4 } else { 0 };
        let column = Rect { x, width: cells.min(area.right() - x), ..area };
        let mut pen = LineWriter::new(buffer, column, area.y + (n % rows) as u16);
        match item {
            Item::Head(text) => {
                pen.put(text, theme.strong());
            }
            Item::Pair(key, does) => {
                let key_cells = if cells >= 76 { 22 } else { 14 };
                pen.skip(2).put(&super::fit(key, key_cells), theme.strong());
                pen = LineWriter::new(
                    buffer,
                    Rect {
                        x: x + 3 + key_cells as u16,
                        width: column.right().saturating_sub(x + 3 + key_cells as u16),
                        ..column
                    },
                    area.y + (n % rows) as u16,
                );
                pen.put(does, Style::new());
            }
            Item::Text(text) => {
                pen.skip(2).put(text, Style::new());
            }
        }
    }
    if app.help_most > top {
        let y = area.bottom() - 1;
        LineWriter::new(buffer, area, y)
            .put_right(&format!(" {} more ↓ ", app.help_most - top), theme.badge());
    }
}
