//! Runs the monitor in this process. A separate thread reads it at the rate that the monitor
//! requests.

use crate::cpu;
use anyhow::Context;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;
use yuzuri_kernel::{Monitor, Options, ProgramStats, Watch};
use yuzuri_trace::{Account, Density, Filter};

#[derive(Default)]
struct ReaderState {
    stop: AtomicBool,
    cpu_ns: AtomicU64,
    longest_gap_us: AtomicU64,
}

/// A running monitor and its reader.
pub struct MonitorReader {
    /// None only during shutdown.
    monitor: Arc<Mutex<Option<Box<Monitor>>>>,
    shared: Arc<ReaderState>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl MonitorReader {
    /// Loads and attaches the monitor with the default rings, and starts the reader on CPU `cpu`.
    pub fn start(filter: &Filter, density: Density, cpu: Option<usize>) -> anyhow::Result<MonitorReader> {
        let options = Options { filter: filter.clone(), density, ring_bytes: None };
        let monitor = Arc::new(Mutex::new(Some(Box::new(Monitor::start(&options)?))));
        let shared = Arc::new(ReaderState::default());
        let (shared_monitor, thread_state) = (monitor.clone(), shared.clone());
        let thread = std::thread::spawn(move || read(&shared_monitor, &thread_state, cpu));
        Ok(MonitorReader { monitor, shared, thread: Some(thread) })
    }

    fn with<T>(&self, f: impl FnOnce(&mut Monitor) -> T) -> anyhow::Result<T> {
        let mut monitor = self.monitor.lock();
        monitor.as_deref_mut().map(f).context("the monitor has stopped")
    }

    /// Changes the density and keeps the filter.
    pub fn set(&self, density: Density) -> anyhow::Result<()> {
        self.with(|monitor| {
            let filter = monitor.filter().clone();
            monitor.set(&filter, density).context("changing the density")
        })?
    }

    /// The kernel's statistics of the programs.
    pub fn programs(&self) -> anyhow::Result<Vec<ProgramStats>> {
        self.with(|monitor| monitor.programs())
    }

    /// Counts of events seen, kept and lost.
    pub fn account(&self) -> anyhow::Result<Account> {
        self.with(|monitor| monitor.account())
    }

    /// CPU time of the reader, nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.shared.cpu_ns.load(Ordering::Relaxed)
    }

    /// The longest time between the ends of two reads, microseconds: the interval that the rings
    /// must buffer.
    pub fn longest_gap_us(&self) -> u64 {
        self.shared.longest_gap_us.load(Ordering::Relaxed)
    }

    /// Stops the monitor and returns the final account.
    pub fn finish(mut self) -> anyhow::Result<Account> {
        self.stop()?;
        let monitor = self.monitor.lock().take();
        Ok(monitor.context("the monitor has stopped")?.finish(&mut Vec::new()))
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        match self.thread.take() {
            Some(thread) => thread.join().map_err(|_| anyhow::anyhow!("the reader panicked"))?,
            None => Ok(()),
        }
    }
}

impl Drop for MonitorReader {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

fn read(
    monitor: &Mutex<Option<Box<Monitor>>>,
    shared: &ReaderState,
    cpu: Option<usize>,
) -> anyhow::Result<()> {
    if let Some(cpu) = cpu {
        cpu::pin(cpu)?;
    }
    let (mut items, mut last) = (Vec::new(), Instant::now());
    while !shared.stop.load(Ordering::Relaxed) {
        let sleep = {
            let mut monitor = monitor.lock();
            let Some(monitor) = monitor.as_mut() else { return Ok(()) };
            monitor.read(&mut items);
            monitor.read_interval()
        };
        items.clear();
        shared.longest_gap_us.fetch_max(last.elapsed().as_micros() as u64, Ordering::Relaxed);
        last = Instant::now();
        shared.cpu_ns.store(cpu::thread_ns()?, Ordering::Relaxed);
        std::thread::sleep(sleep);
    }
    Ok(())
}
