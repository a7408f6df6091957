//! Where items go: each sink on a thread of its own behind a bounded queue, so that a slow one neither holds up the
//! reader of the kernel's rings nor its neighbours. What does not fit is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use yuzuri_trace::{Account, Batch, Item, LossReason};

/// Takes items.
pub trait Sink: Send + 'static {
    /// Takes a batch.
    ///
    /// # Errors
    /// One that ends watching.
    fn take(&mut self, items: &[Item]) -> anyhow::Result<()>;

    /// Called at least every 100 ms.
    ///
    /// # Errors
    /// One that ends watching.
    fn tick(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// What the sink itself could not keep.
    fn lost(&self) -> u64 {
        0
    }

    /// Called once, at the end.
    ///
    /// # Errors
    /// The program's closing error.
    fn finish(self: Box<Self>) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Events that may wait for one sink. At 600,000 events/s it is a tenth of a second; in memory 12 MB at most.
const MOST_WAITING: usize = 64 * 1024;

struct Worker {
    queue: Sender<Batch>,
    waiting: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
    thread: JoinHandle<anyhow::Result<()>>,
}

/// All sinks of a run.
#[derive(Default)]
pub struct Sinks {
    workers: Vec<Worker>,
}

impl Sinks {
    /// Starts a sink. `reason` is what its losses are called.
    pub fn add(&mut self, sink: impl Sink, reason: LossReason) {
        let (queue, batches) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let dropped = Arc::new(AtomicU64::new(0));
        let (done, lost) = (waiting.clone(), dropped.clone());
        let thread = std::thread::spawn(move || serve(Box::new(sink), &batches, &done, &lost, reason));
        self.workers.push(Worker { queue, waiting, dropped, thread });
    }

    /// Hands a batch to every sink.
    pub fn give(&self, batch: &Batch) {
        for worker in &self.workers {
            let waiting = worker.waiting.fetch_add(batch.len(), Ordering::Relaxed);
            let batch = if waiting > MOST_WAITING {
                let thinned = without_events(batch);
                worker.waiting.fetch_sub(batch.len() - thinned.len(), Ordering::Relaxed);
                worker.dropped.fetch_add((batch.len() - thinned.len()) as u64, Ordering::Relaxed);
                thinned
            } else {
                batch.clone()
            };
            // A sink that ended is noticed by `failed`.
            let _ = worker.queue.send(batch);
        }
    }

    /// Whether a sink has ended, which it does only with an error.
    pub fn failed(&self) -> bool {
        self.workers.iter().any(|w| w.thread.is_finished())
    }

    /// Lets every sink finish what it has; the first error.
    pub fn finish(self) -> anyhow::Result<()> {
        let mut result = Ok(());
        for worker in self.workers {
            drop(worker.queue);
            let ended = worker.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result = result.and(ended);
        }
        result
    }
}

/// Identities, accounts and settings are few and nothing makes sense without them: they are never dropped.
fn without_events(batch: &Batch) -> Batch {
    Arc::new(batch.iter().filter(|item| !matches!(item, Item::Event(_))).cloned().collect())
}

fn serve(
    mut sink: Box<dyn Sink>,
    batches: &Receiver<Batch>,
    waiting: &AtomicUsize,
    dropped: &AtomicU64,
    reason: LossReason,
) -> anyhow::Result<()> {
    loop {
        match batches.recv_timeout(Duration::from_millis(100)) {
            Ok(batch) => {
                let lost = dropped.load(Ordering::Relaxed) + sink.lost();
                if lost > 0 && batch.iter().any(|item| matches!(item, Item::Account(_))) {
                    sink.take(&with_loss(&batch, reason, lost))?;
                } else {
                    sink.take(&batch)?;
                }
                waiting.fetch_sub(batch.len(), Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return sink.finish(),
        }
        sink.tick()?;
    }
}

/// The batch with its accounts telling what this sink lost, too.
fn with_loss(batch: &Batch, reason: LossReason, lost: u64) -> Vec<Item> {
    let account = |account: &Arc<Account>| {
        let mut account = account.as_ref().clone();
        account.lose(reason, lost);
        Item::Account(Arc::new(account))
    };
    batch.iter().map(|item| if let Item::Account(a) = item { account(a) } else { item.clone() }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::sync_channel;
    use yuzuri_trace::{CpuAccount, Event};

    /// Holds each batch until told to go on.
    struct Slow(Receiver<()>, Arc<Mutex<Vec<Item>>>);

    impl Sink for Slow {
        fn take(&mut self, items: &[Item]) -> anyhow::Result<()> {
            let _ = self.0.recv();
            self.1.lock().unwrap().extend_from_slice(items);
            Ok(())
        }
    }

    #[test]
    fn a_slow_sink_loses_events_and_says_how_many() {
        let (go, wait) = sync_channel(1000);
        let taken = Arc::new(Mutex::new(Vec::new()));
        let mut sinks = Sinks::default();
        sinks.add(Slow(wait, taken.clone()), LossReason::Face);
        let events: Batch = Arc::new(vec![Item::Event(Event::default()); MOST_WAITING / 2 + 1]);
        for _ in 0..4 {
            sinks.give(&events);
        }
        let seen = 4 * events.len() as u64;
        let cpus = vec![CpuAccount { cpu: Some(0), seen, kept: seen, ..Default::default() }];
        sinks.give(&Arc::new(vec![Item::Account(Arc::new(Account { cpus, ..Default::default() }))]));
        for _ in 0..5 {
            go.send(()).unwrap();
        }
        sinks.finish().unwrap();
        let taken = taken.lock().unwrap();
        let events = taken.iter().filter(|i| matches!(i, Item::Event(_))).count() as u64;
        let Some(Item::Account(account)) = taken.last() else { panic!("the account is never dropped") };
        assert!(events < seen);
        assert_eq!((account.seen(), account.kept()), (seen, events));
        assert_eq!(account.lost_by_reason(), [(LossReason::Face, seen - events)]);
    }
}
