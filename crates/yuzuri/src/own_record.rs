//! `yuzuri send --record`: the connections of this program alone, asked for their variables every 10 ms, which needs no privilege anywhere.
//! Whatever happens to the recording, the transfer goes on.

use crate::transfer::Voice;
use crate::watch::sinks::{For, Sink, Sinks};
use anyhow::anyhow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use yuzuri_kernel::own::Own;
use yuzuri_kernel::{Poller, Watch};
use yuzuri_trace::recording::{RecordError, Writer};
use yuzuri_trace::{Density, Item};
use yuzuri_transfer::{Shown, WarningKind};
use yuzuri_view::text;

/// What was seen is handed on so often: to wake another thread at each look costs more than the look.
const HAND_ON: Duration = Duration::from_millis(50);

/// A recording beside a transfer.
pub struct OwnRecord {
    own: Own,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl OwnRecord {
    /// Begins the file. `None` where that cannot be: it has been said then.
    pub fn start(path: &Path, overwrite: bool, voice: Voice) -> Option<OwnRecord> {
        OwnRecord::try_start(path, overwrite, voice)
            .map_err(|error| voice.warn(WarningKind::Recording, &format!("not recorded: {error}")))
            .ok()
    }

    fn try_start(path: &Path, overwrite: bool, voice: Voice) -> anyhow::Result<OwnRecord> {
        let own = Own::default();
        let poller = Poller::of_own(own.clone(), Density::default())?;
        let writer = Writer::create(path, poller.session(), overwrite)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().spawn(move || {
            let mut sinks = Sinks::default();
            sinks.add(File { writer, voice, failed: false, missed: 0 }, For::Recording);
            look(poller, &sinks, &stopped);
            sinks.finish()
        })?;
        Ok(OwnRecord { own, stop, thread })
    }

    /// Takes each connection in.
    pub fn shown(&self) -> Shown {
        let own = self.own.clone();
        Shown::new(move |connection| own.add(connection.socket))
    }

    /// Ends the file; whether it holds all it should. What is wrong with it has been said then.
    pub fn finish(self, voice: Voice) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        // A fault in there is no reason to take the transfer's result away with it.
        let ended = self.thread.join().unwrap_or_else(|_| Err(anyhow!("the recorder broke down")));
        ended.map_err(|error| voice.say(&error.to_string())).is_ok()
    }
}

/// Looks until it is stopped.
fn look(mut poller: Poller, sinks: &Sinks, stop: &AtomicBool) {
    let mut items = Vec::new();
    let mut hand_on = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        poller.read(&mut items);
        if hand_on.elapsed() >= HAND_ON && !items.is_empty() {
            hand_on = Instant::now();
            sinks.give(&Arc::new(std::mem::take(&mut items)));
        }
        std::thread::sleep(poller.rest());
    }
    let account = Box::new(poller).finish(&mut items);
    sinks.conclude(items, account);
}

/// The file. Where it cannot be written that is said once; it is tried again, and what it lacks is counted.
struct File {
    writer: Writer,
    voice: Voice,
    failed: bool,
    /// Events that it never got, because writing was too slow.
    missed: u64,
}

impl File {
    fn note(&mut self, result: Result<(), RecordError>) {
        if let Err(error) = result
            && !std::mem::replace(&mut self.failed, true)
        {
            self.voice.warn(WarningKind::Recording, &format!("{error}; the transfer goes on"));
        }
    }
}

impl Sink for File {
    fn take(&mut self, items: &[Item]) -> anyhow::Result<()> {
        let result = self.writer.write(items, Instant::now());
        self.note(result);
        Ok(())
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        let result = self.writer.flush_due(Instant::now());
        self.note(result);
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.writer.lost()
    }

    fn settle(&mut self) {
        self.writer.settle();
    }

    fn missed(&mut self, events: u64) {
        self.missed = events;
    }

    fn finish(self: Box<Self>) -> anyhow::Result<()> {
        let File { writer, voice, failed, missed } = *self;
        let path = writer.path().to_owned();
        let summary = writer.finish();
        // The last rows are written here: they may be the first that find no room.
        if let (Some(error), false) = (&summary.failed, failed) {
            voice.warn(WarningKind::Recording, &error.to_string());
        }
        let (rows, bytes) = (text::count(summary.rows), text::bytes(summary.bytes as f64));
        voice.say(&format!("recorded {rows} rows, {bytes}: {}", path.display()));
        let lacks = summary.lost + missed;
        if lacks > 0 || summary.failed.is_some() {
            anyhow::bail!("that recording is readable but lacks {lacks} records");
        }
        Ok(())
    }
}
