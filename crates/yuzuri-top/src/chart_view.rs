//! The time range of the chart: zoom, pan, cursor.

use yuzuri_view::Bucket;

/// The chart's time range, and the data in it.
#[derive(Debug)]
pub(crate) struct ChartView {
    /// Index into [`SPANS_S`].
    zoom: usize,
    /// Right edge; `None` follows the current time.
    pub(crate) to_ns: Option<u64>,
    /// Position of the cursor, if it is shown.
    pub(crate) cursor_ns: Option<u64>,
    /// Number of plot columns when it was last drawn.
    pub(crate) columns: usize,
    /// A screen too low for both shows the peer's window and unsent data instead of RTT.
    pub(crate) prefers_windows: bool,
    /// The flow's history, starting somewhat before the left edge.
    pub(crate) buckets: Vec<Bucket>,
    /// Time at which the flow was first seen.
    pub(crate) first_ns: u64,
}

/// Zoom levels, seconds. The model keeps 70 minutes.
const SPANS_S: [u64; 12] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 4200];
const SPAN_AT_FIRST: usize = 4;

impl ChartView {
    pub(crate) fn new() -> ChartView {
        ChartView {
            zoom: SPAN_AT_FIRST,
            to_ns: None,
            cursor_ns: None,
            columns: 80,
            prefers_windows: false,
            buckets: Vec::new(),
            first_ns: 0,
        }
    }

    /// Halves the time range (approximately).
    pub(crate) fn zoom_in(&mut self, now: u64) {
        self.zoom(self.zoom.saturating_sub(1), now);
    }

    /// Doubles the time range (approximately).
    pub(crate) fn zoom_out(&mut self, now: u64) {
        self.zoom((self.zoom + 1).min(SPANS_S.len() - 1), now);
    }

    /// The time range, nanoseconds.
    pub(crate) fn span_ns(&self) -> u64 {
        SPANS_S[self.zoom] * 1_000_000_000
    }

    /// Width of a column, nanoseconds; even, so that a dot column is exactly half of it.
    pub(crate) fn column_ns(&self) -> u64 {
        (self.span_ns() / self.columns.max(1) as u64).max(2) / 2 * 2
    }

    /// Left edge, aligned to columns, so that the plot scrolls by whole columns and does not
    /// flicker.
    pub(crate) fn left_ns(&self, now_ns: u64) -> u64 {
        let column = self.column_ns();
        let last = self.to_ns.unwrap_or(now_ns) / column;
        (last + 1).saturating_sub(self.columns as u64) * column
    }

    /// Zooms around the cursor if it is on the screen.
    fn zoom(&mut self, zoom: usize, now: u64) {
        let before = self.left_ns(now);
        let at = self.cursor_ns.and_then(|c| c.checked_sub(before)).filter(|c| *c <= self.span_ns());
        let share = at.map(|at| at as f64 / self.span_ns() as f64);
        self.zoom = zoom;
        if let (Some(share), Some(cursor)) = (share, self.cursor_ns) {
            let after_cursor = (self.span_ns() as f64 * (1.0 - share)) as u64;
            let to = cursor.saturating_add(after_cursor);
            self.to_ns = (to < now).then_some(to);
        }
    }

    pub(crate) fn pan(&mut self, by_ns: i64, now: u64) {
        let to = self.to_ns.unwrap_or(now).saturating_add_signed(by_ns);
        // Keep at least a quarter of the plot filled when panning back.
        let to = to.max(self.first_ns.saturating_add(self.span_ns() / 4).min(now));
        self.to_ns = (to < now).then_some(to);
    }

    pub(crate) fn move_cursor(&mut self, by_ns: i64, now: u64) {
        let from = self.left_ns(now);
        let last = (from + self.column_ns() * self.columns.saturating_sub(1) as u64).min(now);
        let at = match self.cursor_ns {
            Some(at) => at.saturating_add_signed(by_ns).clamp(self.first_ns.min(now), now),
            None => last.saturating_add_signed(by_ns.min(0)),
        };
        self.cursor_ns = Some(at);
        // Pan when the cursor moves past an edge.
        if at < from {
            self.pan(-((from - at).max(self.span_ns() / 4) as i64), now);
        } else if at > last.saturating_add(self.column_ns()) {
            self.pan((at - last).max(self.span_ns() / 4) as i64, now);
        }
    }
}
