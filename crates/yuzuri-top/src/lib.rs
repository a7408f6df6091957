//! The terminal screen: a sortable table of flows, one flow's chart, events as they come.
//!
//! [`run`] owns the terminal until the user quits; it only reads the [`LiveModel`], which another thread fills. What
//! the user asks of the source (filter, density, a replay's position) goes through a [`Control`]: each call is made
//! on the thread of [`run`] and holds the screen up until it returns.
//!
//! Three layers, so that all but the last can be tested without a terminal: the state machine (what is shown,
//! what a key does), the drawing (state into a grid of cells) and the terminal itself.

mod app;
mod chart_view;
mod clock;
mod draw;
mod edit;
mod keys;
mod look;
mod series;
mod terminal;
mod theme;

#[cfg(test)]
mod tests;

use app::{Action, App};
use clock::Clock;
use parking_lot::Mutex;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use terminal::{Input, Screen};
use theme::Theme;
use yuzuri_view::{Control, LiveModel};

/// Why the screen could not be shown, or ended before the user quit.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// Standard output goes to a file, a pipe or nowhere.
    #[error(
        "the terminal screen needs a terminal, but standard output is not one: use `yuzuri watch --json` for a \
         file or pipe, or `yuzuri watch --web` for a browser"
    )]
    NotATerminal,
    /// `TERM=dumb`: the terminal cannot place the cursor.
    #[error(
        "the terminal screen needs a terminal with cursor control, but TERM is 'dumb': set TERM to your \
         terminal's name, or use `yuzuri watch --json` or `yuzuri watch --web`"
    )]
    DumbTerminal,
    /// There is no way to read keys.
    #[error(
        "the terminal screen cannot read keys, since neither standard input nor /dev/tty is a terminal: {0}"
    )]
    NoKeys(#[source] std::io::Error),
    /// The terminal went away (window closed, connection lost).
    #[error("the terminal is no longer available: {0}")]
    Lost(#[source] std::io::Error),
    /// The terminal refused to be set up.
    #[error(
        "cannot set up the terminal for the screen: {0}; `yuzuri watch --web` shows the same in a browser"
    )]
    SetUp(#[source] std::io::Error),
    /// Another thread of the program panicked; its message was printed after the screen was left.
    #[error("another part of the program failed (its message is above), so the screen was closed")]
    Panicked,
}

/// How often the screen is drawn anew when no key is pressed.
const FRAME: Duration = Duration::from_millis(100);

/// Shows the screen until the user quits or `stop` is set (the caller's handler for SIGTERM and SIGHUP sets it).
///
/// The terminal is given back as it was on every way out: quitting, `stop`, an error, a panic in this thread or
/// another, Ctrl-Z for as long as the program is suspended. The terminal is raw meanwhile, so Ctrl-C arrives as a
/// key and quits; a SIGINT sent from elsewhere is the caller's.
///
/// The model is locked for as long as it takes to copy what one frame shows, ten times a second and after each
/// key; sorting and drawing happen without the lock.
///
/// # Errors
/// [`TopError::NotATerminal`], [`TopError::DumbTerminal`], [`TopError::NoKeys`] and [`TopError::SetUp`] before
/// anything is drawn; [`TopError::Lost`] when the terminal goes away; [`TopError::Panicked`] when another thread
/// panics.
pub fn run(model: Arc<Mutex<LiveModel>>, control: &dyn Control, stop: &AtomicBool) -> Result<(), TopError> {
    if !std::io::stdout().is_terminal() {
        return Err(TopError::NotATerminal);
    }
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return Err(TopError::DumbTerminal);
    }
    let input = Input::open().map_err(TopError::NoKeys)?;
    let mut screen = Screen::enter().map_err(TopError::SetUp)?;
    // Dropped before the screen: an answer of the terminal that is still under way is taken while it is raw.
    let mut input = input;
    let theme = Theme::from_env();
    if theme.wants_background() {
        input.ask_background().map_err(TopError::SetUp)?;
    }
    let mut app = App::new(theme, Clock::Local);
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
            }
            due = Instant::now();
        }
        if let Some(background) = input.background() {
            app.theme = app.theme.on(background);
            due = Instant::now();
        }
    }
    Ok(())
}
