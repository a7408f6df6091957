//! `yuzuri send --record`: the connections of this program alone, asked for their variables every 10 ms, which needs no privilege anywhere.

use crate::watch::{pump, recorder::Recorder, sinks::Sinks};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use yuzuri_kernel::own::Own;
use yuzuri_kernel::{Poller, Watch};
use yuzuri_trace::{Density, LossReason};
use yuzuri_transfer::Shown;

/// A recording beside a transfer.
pub struct OwnRecord {
    own: Own,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl OwnRecord {
    /// Begins the file.
    pub fn start(path: &Path, overwrite: bool) -> anyhow::Result<OwnRecord> {
        let own = Own::default();
        let poller = Poller::of_own(own.clone(), Density::default()).map_err(anyhow::Error::msg)?;
        let mut sinks = Sinks::default();
        sinks.add(Recorder::create(path, poller.session(), overwrite)?, LossReason::Recording);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (_nobody, wishes) = channel();
            pump(Box::new(poller), &sinks, &wishes, &stopped, None, false);
            sinks.finish()
        });
        Ok(OwnRecord { own, stop, thread })
    }

    /// Takes each connection in.
    pub fn shown(&self) -> Shown {
        let own = self.own.clone();
        Shown::new(move |connection| own.add(connection.socket))
    }

    /// Ends the file.
    pub fn finish(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
