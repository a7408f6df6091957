//! Progress on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use yuzuri_identify::batch::{Entry, Plan, Watch};

/// A bar with files, bytes and the time left.
pub struct Screen {
    bar: ProgressBar,
    files: u64,
    done: AtomicU64,
}

impl Screen {
    /// The progress bar for a plan. Nothing is shown if `quiet` is set, or if standard error is not
    /// a terminal.
    pub fn new(plan: &Plan, quiet: bool) -> Screen {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(5) };
        let known =
            plan.bytes() > 0 && plan.entries.iter().all(|entry| entry.bytes > 0 || entry.folder.is_some());
        let length = known.then(|| plan.bytes());
        let bar = ProgressBar::with_draw_target(length, target);
        let template = if known {
            "{msg} {wide_bar} {bytes} of {total_bytes}, {eta} left"
        } else {
            "{msg} {spinner} {bytes} in {elapsed}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        let screen = Screen { bar, files: plan.entries.len() as u64, done: AtomicU64::new(0) };
        screen.show(0);
        screen
    }

    fn show(&self, done: u64) {
        self.bar.set_message(match self.files {
            1 => "reading".to_owned(),
            files => format!("{done} of {files} files"),
        });
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Prints a line above the bar.
    pub fn line(&self, text: &str) {
        self.bar.suspend(|| yuzuri_exit::note!("{text}"));
    }
}

impl Watch for Screen {
    fn bytes(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    fn done(&self, _: &Entry) {
        self.show(self.done.fetch_add(1, Ordering::Relaxed) + 1);
    }
}
