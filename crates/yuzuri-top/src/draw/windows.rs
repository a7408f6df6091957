//! The plot of the peer's receive window (thin) and of the data that the application has written
//! and the kernel has not sent (thick), both in bytes on one axis.
//!
//! A window that stays low, and unsent data above it: the receiver limits the flow. No unsent data
//! below a high window: the application does.

use super::chart::{axis, thin_line};
use super::plot::{self, Plot};
use crate::app::App;
use crate::series::{Range, Series};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use yuzuri_view::Bucket;

/// Labels right of the plot, at most five cells, from the top row.
const LABELS: [&str; 3] = ["⠤ wnd", "▄ uns", "bytes"];

pub(super) fn draw(lane: Rect, area: Rect, buffer: &mut Buffer, app: &App, series: &Series) {
    let theme = app.theme;
    let most = |b: &Bucket| b.known_snd_wnd_bytes().max(b.known_notsent_bytes());
    let most = series.bucket.iter().flatten().filter_map(most).max().unwrap_or(0);
    let top = plot::round_up(f64::from(most.max(1)));
    // Two dots for each column.
    let windows: Vec<Option<Range>> = series
        .bucket
        .iter()
        .flat_map(|bucket| [bucket.as_ref().and_then(Bucket::known_snd_wnd_bytes).map(Range::held); 2])
        .collect();
    let unsent: Vec<Option<f64>> = series
        .bucket
        .iter()
        .map(|bucket| {
            bucket.as_ref().and_then(Bucket::known_notsent_bytes).map(|bytes| f64::from(bytes) / top)
        })
        .collect();
    let mut plot = Plot::new(lane.width.into(), lane.height.into());
    plot.thick_line(&unsent);
    thin_line(&mut plot, &windows, top);
    plot.draw(lane, buffer, theme.peer_window(), Style::new(), theme.unsent());
    axis(lane, area, buffer, top, theme.peer_window(), false);
    for row in 0..lane.height {
        buffer[(lane.right(), lane.y + row)].set_char('│').set_style(theme.peer_window());
    }
    for ((row, word), style) in
        (0..lane.height).zip(LABELS).zip([theme.peer_window(), theme.unsent(), theme.peer_window()])
    {
        buffer.set_stringn(lane.right() + 1, lane.y + row, word, 5, style);
    }
}
