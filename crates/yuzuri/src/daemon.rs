//! Common code of both daemons' commands: their tasks, their signals, the service manager's
//! protocol, and a status that is refreshed each second.

use clap::{Args, Subcommand};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The tasks of a daemon's command: to run it, or one of `Other`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Tasks<Run: Args, Other: Subcommand> {
    #[command(subcommand)]
    task: Option<Task<Run, Other>>,

    #[command(flatten)]
    run: Run,
}

/// A task named on the command line.
#[derive(Debug, Subcommand)]
pub enum Task<Run: Args, Other: Subcommand> {
    /// Run the daemon until it receives a signal (the default command)
    Run(Box<Run>),
    #[command(flatten)]
    Other(Other),
}

impl<Run: Args, Other: Subcommand> Tasks<Run, Other> {
    /// The named task, or else that of running the daemon.
    pub fn chosen(self) -> Task<Run, Other> {
        self.task.unwrap_or_else(|| Task::Run(Box::new(self.run)))
    }
}

/// Signals to stop and to reload.
pub struct Signals {
    /// Set by SIGINT and SIGTERM.
    pub stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// If the kernel refuses a handler.
    pub fn take() -> std::io::Result<Signals> {
        let signals = Signals { stop: Arc::default(), reload: Arc::default() };
        for signal in [SIGINT, SIGTERM] {
            // A second signal ends the process immediately; the bounds then expire.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, signals.stop.clone())?;
            signal_hook::flag::register(signal, signals.stop.clone())?;
        }
        signal_hook::flag::register(SIGHUP, signals.reload.clone())?;
        Ok(signals)
    }

    /// Whether a signal asked the daemon to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether SIGHUP arrived since the previous call.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }
}

/// Notifies the service manager, if there is one.
pub fn notify(states: &[NotifyState]) {
    // Errors are ignored: without a service manager there is nothing to notify.
    let _ = sd_notify::notify(states);
}

/// The service manager's watchdog, if it requests one.
pub struct Watchdog {
    interval: Option<Duration>,
    notified_at: Instant,
}

impl Watchdog {
    /// Reports to the service manager that the daemon is ready, and reads its watchdog interval.
    pub fn ready() -> Watchdog {
        notify(&[NotifyState::Ready]);
        Watchdog {
            interval: sd_notify::watchdog_enabled().map(|within| within / 2),
            notified_at: Instant::now(),
        }
    }

    /// Notifies the watchdog when half of its interval has passed. Call it in each iteration.
    pub fn notify(&mut self) {
        if self.interval.is_some_and(|each| self.notified_at.elapsed() >= each) {
            self.notified_at = Instant::now();
            notify(&[NotifyState::Watchdog]);
        }
    }
}

/// Prints the result of `text`, once, or each second until Ctrl-C. On a terminal the new text
/// replaces the old if `in_place`.
///
/// # Errors
/// That of `text`, or if standard output cannot be written.
pub fn show(
    watch: bool,
    in_place: bool,
    mut text: impl FnMut() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    const HOME_AND_CLEAR: &str = "\x1b[H\x1b[2J";
    let stop = yuzuri_exit::stop_flag()?;
    loop {
        let text = text()?;
        let mut out = std::io::stdout().lock();
        if watch && in_place && out.is_terminal() {
            out.write_all(HOME_AND_CLEAR.as_bytes())?;
        }
        out.write_all(text.as_bytes())?;
        out.flush()?;
        drop(out);
        let next = Instant::now() + Duration::from_secs(1);
        while watch && !yuzuri_exit::stopped(&stop) && Instant::now() < next {
            std::thread::sleep(Duration::from_millis(50));
        }
        if !watch || yuzuri_exit::stopped(&stop) {
            return Ok(());
        }
    }
}
