//! The terminal itself: taken over, given back on every way out, and noticed when it goes away.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use crate::keys::{ASK_BACKGROUND, Background, Parser};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::KeyEvent;
use ratatui::crossterm::execute;
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

/// The keys. Standard input where it is a terminal, else `/dev/tty`.
pub(crate) struct Input {
    tty: Option<File>,
    parser: Parser,
    /// When the terminal was asked for its background, which it has not answered.
    asked: Option<Instant>,
}

/// How long the rest of an escape sequence may take: longer than between two packets of one key press over a slow
/// connection, shorter than a person notices after pressing Esc.
const REST_OF_SEQUENCE: Duration = Duration::from_millis(40);
/// How long the rest of an answer may take: its pieces must not be taken for keys.
const REST_OF_ANSWER: Duration = Duration::from_millis(500);
/// Who has not answered by then will not.
const LATEST_ANSWER: Duration = Duration::from_secs(1);
/// How long the end waits for an answer that is still under way: the shell would take it for typed.
const LAST_ANSWER: Duration = Duration::from_millis(100);

impl Input {
    pub(crate) fn open() -> io::Result<Input> {
        let tty = match stdin().is_terminal() {
            true => None,
            false => Some(File::open("/dev/tty")?),
        };
        Ok(Input { tty, parser: Parser::default(), asked: None })
    }

    /// Asks the terminal for its background. The answer may come at any time, or never.
    pub(crate) fn ask_background(&mut self) -> io::Result<()> {
        let mut out = stdout();
        out.write_all(ASK_BACKGROUND.as_bytes())?;
        self.asked = Some(Instant::now());
        out.flush()
    }

    /// The background, when the terminal has just told it.
    pub(crate) fn background(&mut self) -> Option<Background> {
        let told = self.parser.take_background()?;
        self.asked = None;
        Some(told)
    }

    fn fd(&self) -> RawFd {
        self.tty.as_ref().map_or_else(|| stdin().as_raw_fd(), AsRawFd::as_raw_fd)
    }

    /// Keys that arrive within `wait`; returns at once when there are some. A signal (as at a change of size) may
    /// end the wait early, with no key.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(crate) fn keys(&mut self, wait: Duration) -> io::Result<Vec<KeyEvent>> {
        let mut keys = Vec::new();
        if !self.is_ready(wait)? {
            return Ok(keys);
        }
        self.read(&mut keys)?;
        while self.parser.is_waiting() {
            let rest = if self.parser.is_in_answer() { REST_OF_ANSWER } else { REST_OF_SEQUENCE };
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
        // Rounded up: a wait of less than a millisecond must not become a busy loop.
        let wait_ms = wait.as_micros().div_ceil(1000).min(1000) as libc::c_int;
        // SAFETY: `poll` is one valid pollfd and outlives the call.
        if unsafe { libc::poll(&mut poll, 1, wait_ms) } < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        if poll.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
            return Err(gone());
        }
        Ok(poll.revents & libc::POLLIN != 0)
    }

    /// Reads what there is. Not through `std::io::stdin`, whose buffer would hide bytes from `poll`.
    fn read(&mut self, keys: &mut Vec<KeyEvent>) -> io::Result<()> {
        let mut bytes = [0u8; 1024];
        // SAFETY: the buffer is valid for writes of its length for the time of the call.
        let count = unsafe { libc::read(self.fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        match usize::try_from(count) {
            Ok(0) => Err(gone()),
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
        // After a panic the terminal has been given back: what comes now is typed for the shell.
        if std::thread::panicking() || self.asked.is_none_or(|at| at.elapsed() > LATEST_ANSWER) {
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

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "it was closed or its connection was lost")
}

/// What the panic hook and the screen both know.
#[derive(Debug)]
struct Shared {
    /// Whether the terminal is ours now, so that it is given back exactly once.
    taken: AtomicBool,
    /// A thread other than the screen's panicked meanwhile.
    foreign_panic: AtomicBool,
}

impl Shared {
    fn take(&self) -> io::Result<()> {
        enable_raw_mode()?;
        self.taken.store(true, Ordering::SeqCst);
        execute!(stdout(), EnterAlternateScreen, Hide)
    }

    /// Gives the terminal back. Errors have nowhere to go: the terminal may be gone.
    fn give_back(&self) {
        if self.taken.swap(false, Ordering::SeqCst) {
            let _ = execute!(stdout(), Show, LeaveAlternateScreen);
            let _ = disable_raw_mode();
            let _ = stdout().flush();
        }
    }
}

/// The terminal for as long as it is ours.
pub(crate) struct Screen {
    /// `None` only while being dropped.
    terminal: Option<Terminal<CrosstermBackend<BufWriter<Stdout>>>>,
    shared: Arc<Shared>,
}

impl Screen {
    /// Takes the terminal over.
    pub(crate) fn enter() -> io::Result<Screen> {
        let shared =
            Arc::new(Shared { taken: AtomicBool::new(false), foreign_panic: AtomicBool::new(false) });
        let for_hook = shared.clone();
        let drawing = std::thread::current().id();
        let before = std::panic::take_hook();
        // The hook stays when the screen is left: it then only hands on.
        std::panic::set_hook(Box::new(move |info| {
            if for_hook.taken.load(Ordering::SeqCst) {
                if std::thread::current().id() != drawing {
                    for_hook.foreign_panic.store(true, Ordering::SeqCst);
                }
                // Before the message is printed: on the alternate screen nobody would ever read it.
                for_hook.give_back();
            }
            before(info);
        }));
        let terminal = shared.take().and_then(|()| {
            // One write per frame: the standard library would flush at each line otherwise.
            let out = BufWriter::with_capacity(64 * 1024, stdout());
            Terminal::new(CrosstermBackend::new(out))
        });
        match terminal {
            Ok(terminal) => Ok(Screen { terminal: Some(terminal), shared }),
            Err(error) => {
                shared.give_back();
                Err(error)
            }
        }
    }

    /// Whether a thread other than this one panicked (the terminal has been given back then).
    pub(crate) fn another_thread_panicked(&self) -> bool {
        self.shared.foreign_panic.load(Ordering::SeqCst)
    }

    /// Draws a frame.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> io::Result<()> {
        self.terminal.as_mut().map_or(Ok(()), |terminal| terminal.draw(draw).map(|_| ()))
    }

    /// Forgets what the terminal shows, so that the next frame is drawn whole.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.terminal.as_mut().map_or(Ok(()), Terminal::clear)
    }

    /// Gives the terminal back, stops the program as Ctrl-Z does, and takes it over again on `fg`.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.shared.give_back();
        // `raise` and not `kill`: it is this thread that must not go on before the stop has taken effect, or the
        // terminal would be raw again while the shell has it.
        // SAFETY: raising a signal touches no memory of ours.
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
        self.shared.give_back();
        // When ratatui's own drop cannot show the cursor it prints that to standard error, and where standard
        // error is the lost terminal too, printing panics. It does nothing once the cursor has been shown.
        if let Some(mut terminal) = self.terminal.take()
            && terminal.show_cursor().is_err()
        {
            std::mem::forget(terminal);
        }
    }
}
