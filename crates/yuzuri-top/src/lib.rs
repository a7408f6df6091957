//! The terminal screen: a sortable table of flows, one flow's chart, events as they come.
//!
//! [`run`] owns the terminal until the user quits. It only reads the [`LiveModel`], which another
//! thread fills. User requests to the source (filter, density, replay position) go through a
//! [`Control`]: each call runs on the thread of [`run`] and blocks the screen until it returns.
//!
//! There are three layers, and all but the last can be tested without a terminal: the state machine
//! (view state and key handling), drawing (state to a grid of cells) and the terminal.
//!
//! ```no_run
//! use parking_lot::Mutex;
//! use std::sync::Arc;
//! use std::sync::atomic::AtomicBool;
//! use yuzuri_top::ThemeChoice;
//! use yuzuri_trace::{Item, Session};
//! use yuzuri_view::{Limits, LiveModel, NoControl};
//!
//! fn show(session: Arc<Session>, items: impl Iterator<Item = Item> + Send + 'static) -> Result<(), yuzuri_top::TopError> {
//!     let model = Arc::new(Mutex::new(LiveModel::new(session, Limits::default())));
//!     let feed = model.clone();
//!     std::thread::spawn(move || items.for_each(|item| feed.lock().apply(&item)));
//!     yuzuri_top::run(model, &NoControl, ThemeChoice::Auto, &AtomicBool::new(false))
//! }
//! ```

mod app;
mod bottlenecks;
mod chart_view;
mod clock;
mod draw;
mod edit;
mod frame_data;
mod keys;
mod names;
mod series;
mod terminal;
mod theme;
mod totals;

#[cfg(test)]
mod tests;

use app::{Action, App};
use bottlenecks::Bottlenecks;
use clock::Clock;
use parking_lot::Mutex;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use terminal::{Input, Screen};
use theme::Theme;
pub use theme::ThemeChoice;
use yuzuri_view::{Control, LiveModel};

/// Why the screen could not start, or ended before the user quit.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// Standard output is not a terminal.
    #[error(
        "the terminal screen needs a terminal, but standard output is not one: use `yuzuri watch --json` for a \
         file or pipe, or `yuzuri watch --web` for a browser"
    )]
    NotATerminal,
    /// `TERM=dumb`: the terminal has no cursor control.
    #[error(
        "the terminal screen needs a terminal with cursor control, but TERM is 'dumb': set TERM to your \
         terminal's name, or use `yuzuri watch --json` or `yuzuri watch --web`"
    )]
    DumbTerminal,
    /// Neither standard input nor `/dev/tty` can deliver keys.
    #[error(
        "the terminal screen cannot read keys, since neither standard input nor /dev/tty is a terminal: {0}"
    )]
    NoKeys(#[source] std::io::Error),
    /// The terminal disappeared (window closed, connection lost).
    #[error("the terminal is no longer available: {0}")]
    Lost(#[source] std::io::Error),
    /// The terminal could not be set up.
    #[error(
        "cannot set up the terminal for the screen: {0}; `yuzuri watch --web` shows the same in a browser"
    )]
    SetUp(#[source] std::io::Error),
    /// Another thread panicked; its message was printed after the screen was closed.
    #[error("another part of the program failed (its message is above), so the screen was closed")]
    Panicked,
}

/// Redraw interval without key presses.
const FRAME: Duration = Duration::from_millis(100);

/// How many columns the terminal has.
pub fn terminal_columns() -> Option<u16> {
    ratatui::crossterm::terminal::size().ok().map(|(columns, _)| columns)
}

/// Shows the screen until the user quits or `stop` is set (by the caller's handler for SIGTERM and
/// SIGHUP).
///
/// The terminal is restored on every exit path: quit, `stop`, an error, a panic in this or another
/// thread, and during suspension by Ctrl-Z. The terminal is in raw mode, so Ctrl-C arrives as a key
/// and quits. The caller handles a SIGINT from elsewhere.
///
/// The model is locked while the data of one frame is copied, ten times per second and after each
/// key. Sorting and drawing do not hold the lock.
///
/// # Errors
/// [`TopError::NotATerminal`], [`TopError::DumbTerminal`], [`TopError::NoKeys`] and
/// [`TopError::SetUp`] before anything is drawn; [`TopError::Lost`] if the terminal disappears;
/// [`TopError::Panicked`] if another thread panics.
pub fn run(
    model: Arc<Mutex<LiveModel>>,
    control: &dyn Control,
    theme: ThemeChoice,
    stop: &AtomicBool,
) -> Result<(), TopError> {
    if !std::io::stdout().is_terminal() {
        return Err(TopError::NotATerminal);
    }
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return Err(TopError::DumbTerminal);
    }
    let input = Input::open().map_err(TopError::NoKeys)?;
    let mut screen = Screen::enter().map_err(TopError::SetUp)?;
    // Dropped before the screen, so that a late answer of the terminal is read while it is in raw
    // mode.
    let mut input = input;
    let choice = theme;
    let theme = Theme::from_env(choice);
    if matches!(choice, ThemeChoice::Dark | ThemeChoice::Light) {
        // crossterm respects NO_COLOR as well.
        ratatui::crossterm::style::force_color_output(true);
    }
    if choice == ThemeChoice::Auto && theme.wants_background() {
        input.ask_background().map_err(TopError::SetUp)?;
    }
    let mut app = App::new(theme, Clock::Local);
    app.look_up = names::look_up;
    app.bottlenecks = Some(Bottlenecks::start());
    if control.replay().is_none() {
        // A recording may be of another machine.
        app.interfaces = totals::interfaces();
    }
    let start = Instant::now();
    let mut due = start;
    while !stop.load(Ordering::Relaxed) {
        if screen.another_thread_panicked() {
            return Err(TopError::Panicked);
        }
        let now = Instant::now();
        if now >= due {
            app.refresh(&model, control, now - start);
            screen
                .draw(|frame| draw::draw(frame.area(), frame.buffer_mut(), &mut app))
                .map_err(TopError::Lost)?;
            due = now + FRAME;
        }
        for key in input.keys(due.saturating_duration_since(Instant::now())).map_err(TopError::Lost)? {
            match app.key(key, control, start.elapsed()) {
                Action::None => {}
                Action::Quit => return Ok(()),
                Action::Suspend => screen.suspend().map_err(TopError::Lost)?,
                Action::Clear => screen.clear().map_err(TopError::Lost)?,
                Action::Mouse(on) => screen.set_mouse(on).map_err(TopError::Lost)?,
            }
            due = Instant::now();
        }
        for mouse in input.mouse() {
            app.mouse(mouse, start.elapsed());
            due = Instant::now();
        }
        if let Some(background) = input.background() {
            app.theme = app.theme.on(background);
            due = Instant::now();
        }
    }
    Ok(())
}
