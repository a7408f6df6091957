//! The terminal: takes it over, restores it on every exit path, and detects its loss.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use crate::keys::{ASK_BACKGROUND, Background, MOUSE_OFF, MOUSE_ON, Mouse, Parser};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::KeyEvent;
use ratatui::crossterm::execute;
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write, stdin, stdout};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Key input from standard input if it is a terminal, else from `/dev/tty`.
pub(crate) struct Input {
    tty: Option<File>,
    parser: Parser,
    /// Time of an unanswered background query.
    asked: Option<Instant>,
}

/// Timeout for the rest of an escape sequence: longer than the gap between two packets of one key
/// press on a slow connection, shorter than a user notices after pressing Esc.
const SEQUENCE_TIMEOUT: Duration = Duration::from_millis(40);
/// Timeout for the rest of an answer: its parts must not be taken for keys.
const ANSWER_PART_TIMEOUT: Duration = Duration::from_millis(500);
/// A terminal that has not answered by then does not support the query.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long shutdown waits for an answer in transit; otherwise the shell would read it as typed
/// input.
const LAST_ANSWER: Duration = Duration::from_millis(100);

impl Input {
    pub(crate) fn open() -> io::Result<Input> {
        let tty = match stdin().is_terminal() {
            true => None,
            false => Some(File::open("/dev/tty")?),
        };
        Ok(Input { tty, parser: Parser::default(), asked: None })
    }

    /// Queries the terminal's background. The answer may come at any time, or never.
    pub(crate) fn ask_background(&mut self) -> io::Result<()> {
        let mut out = stdout();
        out.write_all(ASK_BACKGROUND.as_bytes())?;
        self.asked = Some(Instant::now());
        out.flush()
    }

    /// The background, if the terminal has just answered.
    pub(crate) fn background(&mut self) -> Option<Background> {
        let answer = self.parser.take_background()?;
        self.asked = None;
        Some(answer)
    }

    /// The mouse actions since the last call.
    pub(crate) fn mouse(&mut self) -> Vec<Mouse> {
        self.parser.take_mouse()
    }

    fn fd(&self) -> RawFd {
        self.tty.as_ref().map_or_else(|| stdin().as_raw_fd(), AsRawFd::as_raw_fd)
    }

    /// Returns keys that arrive within `wait`, as soon as there are any. A signal (for example on a
    /// resize) may end the wait early, without keys.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn keys(&mut self, wait: Duration) -> io::Result<Vec<KeyEvent>> {
        let mut keys = Vec::new();
        if !self.is_ready(wait)? {
            return Ok(keys);
        }
        self.read(&mut keys)?;
        while self.parser.is_waiting() {
            let rest = if self.parser.is_in_answer() { ANSWER_PART_TIMEOUT } else { SEQUENCE_TIMEOUT };
            if !self.is_ready(rest)? {
                self.parser.give_up(&mut keys);
                break;
            }
            self.read(&mut keys)?;
        }
        Ok(keys)
    }

    fn is_ready(&self, wait: Duration) -> io::Result<bool> {
        let mut poll = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
        // Rounded up: a wait below one millisecond must not become a busy loop.
        let wait_ms = wait.as_micros().div_ceil(1000).min(1000) as libc::c_int;
        // SAFETY: `poll` is one valid pollfd and outlives the call.
        if unsafe { libc::poll(&mut poll, 1, wait_ms) } < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        if poll.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
            return Err(closed_error());
        }
        Ok(poll.revents & libc::POLLIN != 0)
    }

    /// Reads available input. `std::io::stdin` is unsuitable, because its buffer would hide bytes
    /// from `poll`.
    fn read(&mut self, keys: &mut Vec<KeyEvent>) -> io::Result<()> {
        let mut bytes = [0u8; 1024];
        // SAFETY: the buffer is valid for writes of its length during the call.
        let count = unsafe { libc::read(self.fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        match usize::try_from(count) {
            Ok(0) => Err(closed_error()),
            Ok(count) => {
                self.parser.feed(&bytes[..count], keys);
                Ok(())
            }
            Err(_) => {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Ok(()),
                    _ => Err(error),
                }
            }
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // After a panic the terminal has been restored: further input is meant for the shell.
        if std::thread::panicking() || self.asked.is_none_or(|at| at.elapsed() > ANSWER_TIMEOUT) {
            return;
        }
        let until = Instant::now() + LAST_ANSWER;
        while self.background().is_none() && Instant::now() < until {
            if self.keys(until.saturating_duration_since(Instant::now())).is_err() {
                return;
            }
        }
    }
}

fn closed_error() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "it was closed or its connection was lost")
}

/// State shared by the panic hook and the screen.
#[derive(Debug)]
struct Shared {
    /// Whether the terminal is taken over, so that it is restored exactly once.
    taken: AtomicBool,
    /// Another thread has panicked.
    other_thread_panicked: AtomicBool,
}

impl Shared {
    fn take(&self) -> io::Result<()> {
        enable_raw_mode()?;
        self.taken.store(true, Ordering::SeqCst);
        execute!(stdout(), EnterAlternateScreen, Hide, Print(MOUSE_ON))
    }

    /// Restores the terminal. Errors are ignored: the terminal may be gone.
    fn restore(&self) {
        if self.taken.swap(false, Ordering::SeqCst) {
            let _ = execute!(stdout(), Print(MOUSE_OFF), Show, LeaveAlternateScreen);
            let _ = disable_raw_mode();
            let _ = stdout().flush();
        }
    }
}

/// The terminal while it is taken over.
pub(crate) struct Screen {
    /// `None` only during drop.
    terminal: Option<Terminal<CrosstermBackend<BufWriter<Stdout>>>>,
    shared: Arc<Shared>,
}

impl Screen {
    /// Takes over the terminal.
    pub(crate) fn enter() -> io::Result<Screen> {
        let shared =
            Arc::new(Shared { taken: AtomicBool::new(false), other_thread_panicked: AtomicBool::new(false) });
        let for_hook = shared.clone();
        let drawing = std::thread::current().id();
        let before = std::panic::take_hook();
        // The hook remains installed after the screen closes, and then only calls the previous
        // hook.
        std::panic::set_hook(Box::new(move |info| {
            if for_hook.taken.load(Ordering::SeqCst) {
                if std::thread::current().id() != drawing {
                    for_hook.other_thread_panicked.store(true, Ordering::SeqCst);
                }
                // Before the message is printed: on the alternate screen it would be lost.
                for_hook.restore();
            }
            before(info);
        }));
        let terminal = shared.take().and_then(|()| {
            // One write per frame: the standard library would flush on every line.
            let out = BufWriter::with_capacity(64 * 1024, stdout());
            Terminal::new(CrosstermBackend::new(out))
        });
        match terminal {
            Ok(terminal) => Ok(Screen { terminal: Some(terminal), shared }),
            Err(error) => {
                shared.restore();
                Err(error)
            }
        }
    }

    /// Whether another thread panicked (which has restored the terminal).
    pub(crate) fn another_thread_panicked(&self) -> bool {
        self.shared.other_thread_panicked.load(Ordering::SeqCst)
    }

    /// Draws a frame.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> io::Result<()> {
        self.terminal.as_mut().map_or(Ok(()), |terminal| terminal.draw(draw).map(|_| ()))
    }

    /// Has the terminal report the mouse, or leaves it to the terminal.
    pub(crate) fn set_mouse(&mut self, on: bool) -> io::Result<()> {
        execute!(stdout(), Print(if on { MOUSE_ON } else { MOUSE_OFF }))
    }

    /// Invalidates the screen contents, so that the next frame is drawn completely.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.terminal.as_mut().map_or(Ok(()), Terminal::clear)
    }

    /// Restores the terminal, stops the program as Ctrl-Z does, and takes over the terminal again
    /// on `fg`.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.shared.restore();
        // `raise`, not `kill`: this thread must not continue before the stop takes effect;
        // otherwise the terminal would be raw while the shell uses it.
        // SAFETY: raising a signal accesses no memory of this program.
        if unsafe { libc::raise(libc::SIGTSTP) } != 0 {
            let error = io::Error::last_os_error();
            self.shared.take()?;
            return Err(error);
        }
        self.shared.take()?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.shared.restore();
        // If ratatui's drop cannot show the cursor, it prints an error to standard error. If
        // standard error is the lost terminal, printing panics. Drop does nothing once the cursor
        // is visible.
        if let Some(mut terminal) = self.terminal.take()
            && terminal.show_cursor().is_err()
        {
            std::mem::forget(terminal);
        }
    }
}
