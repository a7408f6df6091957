//! Draws the state into a grid of cells.

mod chart;
mod events;
mod help;
mod plot;
mod table;
mod totals;
mod windows;

use crate::app::{App, Events, Input, Purpose, View, density_words, sort_name, speed_words};
use crate::clock;
use crate::frame_data::FrameData;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;
use yuzuri_stats::counted;
use yuzuri_trace::Source;

/// Minimum screen size.
pub(crate) const MIN_SIZE: (u16, u16) = (60, 15);
/// Rows above the table or the chart.
pub(crate) const HEADER: u16 = 3;
pub(crate) use chart::AXIS as CHART_AXIS;
/// Minimum height for showing events below the table or chart; on lower screens events replace it.
const MIN_HEIGHT_WITH_PANEL: u16 = 22;

/// Draws everything.
pub(crate) fn draw(area: Rect, buffer: &mut Buffer, app: &mut App) {
    let theme = app.theme;
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        too_small(area, buffer, app);
    } else {
        header(Rect { height: HEADER, ..area }, buffer, app);
        let body = Rect { y: area.y + HEADER, height: area.height - HEADER - 1, ..area };
        draw_body(body, buffer, app);
        footer(Rect { y: area.bottom() - 1, height: 1, ..area }, buffer, app);
    }
    theme.finish(buffer);
}

fn draw_body(body: Rect, buffer: &mut Buffer, app: &mut App) {
    if app.help.is_some() {
        return help::draw(body, buffer, app);
    }
    let whole = body.height + HEADER + 1;
    if app.events == Events::Full || (app.events == Events::Panel && whole < MIN_HEIGHT_WITH_PANEL) {
        return events::draw(body, buffer, app);
    }
    let mut main = body;
    if app.events == Events::Panel {
        let height = (body.height / 3).clamp(7, 20);
        main.height -= height;
        events::draw(Rect { y: main.bottom(), height, ..body }, buffer, app);
    }
    match app.view {
        View::Table => match app.totals {
            Some(by) => totals::draw(main, buffer, app, by),
            None => table::draw(main, buffer, app),
        },
        View::Chart => chart::draw(main, buffer, app),
    }
}

fn too_small(area: Rect, buffer: &mut Buffer, app: &App) {
    let lines = [
        format!("This screen needs {}x{} cells,", MIN_SIZE.0, MIN_SIZE.1),
        format!("the terminal has {}x{}.", area.width, area.height),
        "Make it larger, or q to quit.".to_owned(),
    ];
    for (y, line) in (area.y..area.bottom()).zip(&lines) {
        buffer.set_stringn(area.x, y, line, area.width.into(), app.theme.strong());
    }
}

/// Writes pieces of text side by side.
pub(crate) struct LineWriter<'a> {
    buffer: &'a mut Buffer,
    x: u16,
    y: u16,
    right: u16,
}

impl<'a> LineWriter<'a> {
    pub(crate) fn new(buffer: &'a mut Buffer, area: Rect, y: u16) -> LineWriter<'a> {
        LineWriter { buffer, x: area.x, y, right: area.right() }
    }

    /// Free cells on the line.
    pub(crate) fn room(&self) -> usize {
        usize::from(self.right.saturating_sub(self.x))
    }

    /// Writes the text, truncated with `…` if it does not fit.
    pub(crate) fn put(&mut self, text: &str, style: Style) -> &mut Self {
        let text = fit(text, self.room());
        (self.x, _) = self.buffer.set_stringn(self.x, self.y, &text, self.room(), style);
        self
    }

    /// Writes the text only if it fits completely.
    pub(crate) fn put_whole(&mut self, text: &str, style: Style) -> bool {
        let fits = width(text) <= self.room();
        if fits {
            self.put(text, style);
        }
        fits
    }

    /// Skips cells.
    pub(crate) fn skip(&mut self, cells: u16) -> &mut Self {
        self.x = (self.x + cells).min(self.right);
        self
    }

    /// Writes the text right-aligned and reserves its space.
    pub(crate) fn put_right(&mut self, text: &str, style: Style) {
        let start = self.right.saturating_sub(width(text) as u16).max(self.x);
        self.buffer.set_stringn(start, self.y, text, usize::from(self.right - start), style);
        self.right = start.saturating_sub(1).max(self.x);
    }
}

/// Display width of a text, cells.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Truncates a text to fit, with `…` at its end. Control characters, which a process name may
/// contain, become `?`.
pub(crate) fn fit(text: &str, cells: usize) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    if width(&clean) <= cells {
        return clean;
    }
    let mut out = String::new();
    let mut used = 0;
    for c in clean.chars() {
        let wide = width(c.encode_utf8(&mut [0; 4]));
        if used + wide + 1 > cells {
            break;
        }
        used += wide;
        out.push(c);
    }
    if cells > 0 {
        out.push('…');
    }
    out
}

/// Truncates a text in its middle: the network prefix and the port of an address are its
/// distinguishing parts.
pub(crate) fn fit_middle(text: &str, cells: usize) -> String {
    let count = text.chars().count();
    if count <= cells || cells < 8 {
        return fit(text, cells);
    }
    let end = (cells - 1) * 3 / 5;
    let begin = cells - 1 - end;
    let head: String = text.chars().take(begin).collect();
    let tail: String = text.chars().skip(count - end).collect();
    format!("{head}…{tail}")
}

fn header(area: Rect, buffer: &mut Buffer, app: &App) {
    let theme = app.theme;
    let Some(frame_data) = &app.frame_data else { return };
    let session = &frame_data.session;

    let mut pen = LineWriter::new(buffer, area, area.y);
    pen.put_right(&app.clock.seconds(frame_data.unix_ns(frame_data.now_ns)), Style::new());
    match app.replay {
        Some(replay) => {
            let sign = if replay.paused { "halted" } else { "▶" };
            let at = clock::position(replay.position_ns);
            let of = clock::position(replay.length_ns);
            pen.put_right(&format!(" REPLAY {sign} {} {at}/{of} ", speed_words(replay.speed)), theme.badge());
        }
        None if app.frozen => pen.put_right(" FROZEN ", theme.badge()),
        None => {}
    }
    if session.source == Source::Sampled {
        pen.put_right(" SAMPLED ", theme.badge());
    }
    pen.put("yuzuri", theme.strong()).skip(2).put(&session.host, Style::new()).skip(2);
    // `uname -rv` is long; show only the release if space is short.
    let release = session.kernel.split_whitespace().next().unwrap_or_default();
    let kernel = if width(&session.kernel) <= pen.room() { &session.kernel } else { release };
    pen.put(kernel, theme.dim());

    let mut pen = LineWriter::new(buffer, area, area.y + 1);
    let closed = frame_data.lines.iter().filter(|line| line.closed_ns.is_some()).count();
    let mut flows = counted(frame_data.lines.len(), "flow");
    if closed > 0 {
        flows = format!("{flows}, {closed} closed");
    }
    // Padded, so that the rest of the line does not move when the text grows.
    pen.put(&format!("{flows:<20}"), theme.strong()).skip(1).put("filter ", theme.dim());
    let filter = if frame_data.filter.is_empty() { "all flows" } else { &frame_data.filter };
    let rest = format!("samples {}", density_words(frame_data.density));
    let room = pen.room().saturating_sub(width(&rest) + 2).max(12);
    pen.put(&fit(filter, room), Style::new()).skip(2);
    pen.put("samples ", theme.dim()).put(&density_words(frame_data.density), Style::new());
    if frame_data.discarded_flows > 0 {
        pen.skip(2).put_whole(&format!("{} older flows discarded", frame_data.discarded_flows), theme.dim());
    }

    account(LineWriter::new(buffer, area, area.y + 2), frame_data, app);
}

/// `seen = kept + lost`, plus the events still in transit if there are any, so that the sum is
/// always correct.
fn account(mut pen: LineWriter, frame_data: &FrameData, app: &App) {
    let theme = app.theme;
    let Some(account) = &frame_data.account else {
        pen.put("no account yet", theme.dim());
        return;
    };
    let (seen, kept, lost) = (account.seen(), account.kept(), account.lost());
    pen.put(&format!("seen {seen} = kept {kept} + "), Style::new());
    if lost == 0 {
        pen.put("lost 0", Style::new());
    } else {
        let reasons: Vec<String> =
            account.lost_by_reason().iter().map(|(reason, n)| format!("{} {n}", reason.name())).collect();
        pen.put(&format!("LOST {lost} ({})", reasons.join(", ")), theme.warning());
    }
    let on_the_way = seen.saturating_sub(kept.saturating_add(lost));
    if on_the_way > 0 {
        pen.put(&format!(" + {on_the_way} on their way"), Style::new());
    }
    if account.thinned() > 0 {
        let merged = yuzuri_view::text::count(account.thinned());
        let long = format!("; {merged} more merged by density");
        if !pen.put_whole(&long, theme.dim()) {
            pen.put_whole(&format!("; {merged} merged"), theme.dim());
        }
    }
}

fn footer(area: Rect, buffer: &mut Buffer, app: &App) {
    let theme = app.theme;
    if let Some(input) = &app.input {
        return draw_input(area, buffer, input, app);
    }
    let mut pen = LineWriter::new(buffer, area, area.y);
    if let Some(message) = &app.message {
        if message.is_error {
            pen.put(" ! ", theme.badge()).skip(1).put(&message.text, theme.warning());
        } else {
            pen.put(&message.text, theme.strong());
        }
        return;
    }
    // Most important keys first; the help lists those that do not fit.
    let mut keys: Vec<(&str, &str)> = vec![("q", "quit"), ("?", "help")];
    if app.help.is_some() {
        keys = vec![("Esc", "back"), ("↑↓", "scroll"), ("q", "quit")];
    } else if app.events == Events::Full {
        keys.extend([("↑↓", "scroll"), ("e", "back"), ("/", "find"), ("End", "newest")]);
    } else {
        match app.view {
            View::Table if app.totals.is_some() => {
                keys.extend([("t", "other totals"), ("Enter", "its flows")])
            }
            View::Table => keys.extend([("Enter", "chart"), ("s", "sort"), ("t", "totals"), ("x", "pin")]),
            View::Chart => keys.extend([("Esc", "back"), ("+-", "zoom"), ("←→", "pan"), ("hl", "cursor")]),
        }
        keys.extend([("e", "events")]);
        match app.replay {
            Some(_) => keys.extend([("p", "halt"), (",.", "seek"), ("[]", "speed")]),
            None => keys.push(("p", "freeze")),
        }
        match app.view {
            View::Table => keys.extend([("/", "find"), ("f", "filter"), ("d", "density")]),
            View::Chart => {
                keys.extend([("↑↓", "other flow"), ("w", "windows"), ("0", "now"), ("c", "cursor off")])
            }
        }
    }
    if app.view == View::Table && app.help.is_none() && app.events != Events::Full {
        let arrow = if app.reverse { "▲" } else { "▼" };
        let mut state = format!("{arrow} {}", sort_name(app.sort));
        if !app.find.is_empty() {
            state = format!("find '{}': {} of {}  {state}", fit(&app.find, 16), app.shown.len(), app.total());
        }
        pen.put_right(&state, theme.strong());
    }
    for (key, does) in keys {
        if width(key) + 1 + width(does) > pen.room() {
            break;
        }
        pen.put(key, theme.strong()).skip(1).put(does, theme.dim()).skip(2);
    }
}

fn draw_input(area: Rect, buffer: &mut Buffer, input: &Input, app: &App) {
    let theme = app.theme;
    let mut pen = LineWriter::new(buffer, area, area.y);
    if input.error.is_none() {
        let state = match input.purpose {
            Purpose::Find => format!("{} of {}", app.shown.len(), app.total()),
            Purpose::Filter => "Enter watch, Esc leave".into(),
        };
        pen.put_right(&state, theme.dim());
    }
    let ask = match input.purpose {
        Purpose::Find => "find: ",
        Purpose::Filter => "filter: ",
    };
    pen.put(ask, theme.strong());
    let (before, under, behind) = input.edit.parts();
    // Scroll long input so that the part before the cursor stays visible.
    let room = pen.room().saturating_sub(1);
    let skip = width(&before).saturating_sub(room * 2 / 3);
    let before: String = before.chars().skip(skip).collect();
    pen.put(&before, Style::new());
    pen.put(&under.unwrap_or(' ').to_string(), theme.chosen());
    let behind = fit(&behind, pen.room());
    pen.put(&behind, Style::new());
    if let Some(error) = &input.error {
        // On the lines above, so that the input stays visible for correction.
        let lines = wrap(error, usize::from(area.width).saturating_sub(4));
        let first = area.y.saturating_sub(lines.len() as u16);
        for (n, line) in lines.iter().enumerate() {
            let y = first + n as u16;
            let whole = Rect { y, height: 1, ..area };
            ratatui::widgets::Widget::render(ratatui::widgets::Clear, whole, buffer);
            let mut pen = LineWriter::new(buffer, area, y);
            pen.put(if n == 0 { " ! " } else { "   " }, theme.badge()).skip(1).put(line, theme.warning());
        }
    }
}

/// Wraps a text at spaces, into at most four lines; the last takes the rest.
fn wrap(text: &str, cells: usize) -> Vec<String> {
    const MAX_LINES: usize = 4;
    let options =
        textwrap::Options::new(cells).break_words(false).word_splitter(textwrap::WordSplitter::NoHyphenation);
    let mut lines: Vec<String> =
        textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect();
    if lines.len() > MAX_LINES {
        let rest = lines.split_off(MAX_LINES - 1);
        lines.push(rest.join(" "));
    }
    lines
}
