//! Distributes items. A sink has its own thread behind a bounded queue, so that a slow sink delays
//! neither the reader of the kernel's ring buffers nor the other sinks. Items that do not fit are
//! counted. A sink that never waits, and for which a record costs less than passing it to another
//! thread, runs on the reader's thread.
//!
//! There is one account, made here: the source's, less the records that the recording lost. Every
//! sink receives that account, and it is the one printed at the end. Items that a user interface
//! (page, screen, lines) could not show are not a loss of the observation: that interface counts
//! them separately.

use crate::queue::{Receiver, Sender, queue};
use parking_lot::Mutex;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use yuzuri_trace::{Account, Batch, Item, LossReason};

/// Consumes items.
pub trait Sink: Send + 'static {
    /// Consumes a batch.
    ///
    /// # Errors
    /// An error ends the observation.
    fn take(&mut self, items: &[Item]) -> anyhow::Result<()>;

    /// Called at least every 100 ms.
    ///
    /// # Errors
    /// An error ends the observation.
    fn tick(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Records that a recording could not keep.
    fn lost(&self) -> u64 {
        0
    }

    /// Writes or discards what is buffered: [`Sink::lost`] is final afterwards. The last account
    /// follows.
    fn settle(&mut self) {}

    /// Reports the total number of events that did not fit into the sink's queue and never reached
    /// it.
    fn missed(&mut self, _events: u64) {}

    /// Called once, at the end.
    ///
    /// # Errors
    /// The program's closing error.
    fn finish(self: Box<Self>) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Events that may wait for one sink: a tenth of a second at 600,000 events/s; at most 12 MB of
/// memory.
const MAX_WAITING: usize = 64 * 1024;

/// The purpose of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkPurpose {
    /// Writes a recording. Records that it cannot accept are lost, and counted in the account.
    Recording,
    /// A user interface, by its name.
    View(&'static str),
}

enum Job {
    Items(Batch),
    /// Settle, and answer when done.
    Settle(SyncSender<()>),
}

/// What a worker did not take.
#[derive(Default)]
struct Missing {
    /// Events for which its queue had no room.
    dropped: AtomicU64,
    /// Records that the sink itself lost.
    lost: AtomicU64,
}

impl Missing {
    fn all(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed) + self.lost.load(Ordering::Relaxed)
    }
}

/// A sink with its own thread.
struct Worker {
    what: SinkPurpose,
    queue: Sender<Job>,
    waiting: Arc<AtomicUsize>,
    missing: Arc<Missing>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Worker {
    fn give(&self, batch: &Batch) {
        let waiting = self.waiting.fetch_add(batch.len(), Ordering::Relaxed);
        let batch = if waiting > MAX_WAITING {
            let thinned = without_events(batch);
            self.waiting.fetch_sub(batch.len() - thinned.len(), Ordering::Relaxed);
            self.missing.dropped.fetch_add((batch.len() - thinned.len()) as u64, Ordering::Relaxed);
            thinned
        } else {
            batch.clone()
        };
        // A queue without receiver means that the sink has ended, which `failed` reports.
        self.queue.send(Job::Items(batch));
    }

    fn finish(self) -> anyhow::Result<()> {
        drop(self.queue);
        let ended = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if let (SinkPurpose::View(name), missed @ 1..) = (self.what, self.missing.all()) {
            let _ = writeln!(
                std::io::stderr(),
                "yuzuri: {name} was too slow: it lacks {}",
                yuzuri_view::text::counted(missed, "record")
            );
        }
        ended
    }
}

/// A sink on the reader's thread.
struct Direct {
    sink: Box<dyn Sink>,
    ended: anyhow::Result<()>,
}

impl Direct {
    fn give(&mut self, batch: &Batch) {
        if self.ended.is_ok() {
            self.ended = self.sink.take(batch);
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        self.ended.and_then(|()| self.sink.finish())
    }
}

enum Destination {
    Thread(Worker),
    Direct(Mutex<Direct>),
}

/// All sinks of a run.
#[derive(Default)]
pub struct Sinks {
    destinations: Vec<Destination>,
    flows: AtomicU64,
}

impl Sinks {
    /// Starts a sink on a thread of its own.
    pub fn add(&mut self, sink: impl Sink, what: SinkPurpose) {
        let (queue, jobs) = queue();
        let waiting = Arc::new(AtomicUsize::new(0));
        let missing = Arc::new(Missing::default());
        let (done, counted) = (waiting.clone(), missing.clone());
        let thread = std::thread::spawn(move || serve(Box::new(sink), &jobs, &done, &counted));
        let worker = Worker { what, queue, waiting, missing, thread };
        self.destinations.push(Destination::Thread(worker));
    }

    /// Adds a user interface that takes its items on the reader's thread and misses none. It must
    /// never wait, neither for a file nor for a lock: meanwhile nobody reads the source.
    /// [`Sink::tick`] is not called.
    pub fn add_direct(&mut self, sink: impl Sink) {
        let direct = Direct { sink: Box::new(sink), ended: Ok(()) };
        self.destinations.push(Destination::Direct(Mutex::new(direct)));
    }

    /// Passes a batch to every sink. Accounts in it include what the recording has lost so far.
    pub fn give(&self, batch: &Batch) {
        let lost = self.lost_to_recording();
        if lost > 0 && batch.iter().any(|item| matches!(item, Item::Account(_))) {
            self.distribute(&Arc::new(with_loss(batch, lost)));
        } else {
            self.distribute(batch);
        }
    }

    /// How many flow identities the sinks received; 0: there was no flow.
    pub fn flows(&self) -> u64 {
        self.flows.load(Ordering::Relaxed)
    }

    fn distribute(&self, batch: &Batch) {
        let flows = batch.iter().filter(|item| matches!(item, Item::Flow(_))).count() as u64;
        self.flows.fetch_add(flows, Ordering::Relaxed);
        for destination in &self.destinations {
            match destination {
                Destination::Thread(worker) => worker.give(batch),
                Destination::Direct(direct) => direct.lock().give(batch),
            }
        }
    }

    fn recordings(&self) -> impl Iterator<Item = &Worker> {
        self.destinations.iter().filter_map(|destination| match destination {
            Destination::Thread(worker) if worker.what == SinkPurpose::Recording => Some(worker),
            Destination::Thread(_) | Destination::Direct(_) => None,
        })
    }

    /// Adds what the recording has lost so far to a source's account.
    pub fn with_losses(&self, mut account: Account) -> Account {
        account.lose(LossReason::Recording, self.lost_to_recording());
        account
    }

    fn lost_to_recording(&self) -> u64 {
        self.recordings().map(|worker| worker.missing.all()).sum()
    }

    /// Passes the last items of a source to the sinks, and its closing account last. That account
    /// includes what the recording loses at its own end. Returns the account as every sink received
    /// it.
    pub fn conclude(&self, mut items: Vec<Item>, mut account: Account) -> Account {
        items.pop_if(|last| matches!(last, Item::Account(_)));
        self.give(&Arc::new(items));
        for worker in self.recordings() {
            let (answer, answered) = sync_channel(1);
            if worker.queue.send(Job::Settle(answer)) {
                // An error means that the sink has ended; `finish` reports it.
                let _ = answered.recv();
            }
        }
        account = self.with_losses(account);
        self.distribute(&Arc::new(vec![Item::Account(Arc::new(account.clone()))]));
        account
    }

    /// Whether a sink has ended. Sinks end early only with an error.
    pub fn failed(&self) -> bool {
        self.destinations.iter().any(|destination| match destination {
            Destination::Thread(worker) => worker.thread.is_finished(),
            Destination::Direct(direct) => direct.lock().ended.is_err(),
        })
    }

    /// Lets every sink finish its queue, and returns the first error. Prints the name of each
    /// interface that missed records on standard error.
    pub fn finish(self) -> anyhow::Result<()> {
        let mut result = Ok(());
        for destination in self.destinations {
            let ended = match destination {
                Destination::Thread(worker) => worker.finish(),
                Destination::Direct(direct) => direct.into_inner().finish(),
            };
            result = result.and(ended);
        }
        result
    }
}

/// Identities, accounts and settings are never dropped: they are few, and events mean nothing
/// without them.
fn without_events(batch: &Batch) -> Batch {
    Arc::new(batch.iter().filter(|item| !matches!(item, Item::Event(_))).cloned().collect())
}

fn serve(
    mut sink: Box<dyn Sink>,
    jobs: &Receiver<Job>,
    waiting: &AtomicUsize,
    missing: &Missing,
) -> anyhow::Result<()> {
    loop {
        match jobs.recv_timeout(Duration::from_millis(100)) {
            Ok(Job::Items(batch)) => {
                sink.missed(missing.dropped.load(Ordering::Relaxed));
                sink.take(&batch)?;
                waiting.fetch_sub(batch.len(), Ordering::Relaxed);
            }
            Ok(Job::Settle(answer)) => {
                sink.settle();
                missing.lost.store(sink.lost(), Ordering::Relaxed);
                let _ = answer.send(());
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return sink.finish(),
        }
        sink.tick()?;
        missing.lost.store(sink.lost(), Ordering::Relaxed);
    }
}

/// The batch, with the recording's loss added to its accounts.
fn with_loss(batch: &Batch, lost: u64) -> Vec<Item> {
    let account = |account: &Arc<Account>| {
        let mut account = account.as_ref().clone();
        account.lose(LossReason::Recording, lost);
        Item::Account(Arc::new(account))
    };
    batch.iter().map(|item| if let Item::Account(a) = item { account(a) } else { item.clone() }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::mpsc::{Receiver, sync_channel};
    use yuzuri_trace::{CpuAccount, Event};

    /// Takes each batch only after a signal.
    struct Slow(Receiver<()>, Arc<Mutex<Taken>>);

    #[derive(Default)]
    struct Taken {
        events: u64,
        accounts: Vec<Account>,
        missed: u64,
        settled: bool,
    }

    impl Sink for Slow {
        fn take(&mut self, items: &[Item]) -> anyhow::Result<()> {
            let _ = self.0.recv();
            let mut taken = self.1.lock();
            for item in items {
                match item {
                    Item::Account(account) => taken.accounts.push(account.as_ref().clone()),
                    _ => taken.events += 1,
                }
            }
            Ok(())
        }

        fn settle(&mut self) {
            self.1.lock().settled = true;
        }

        fn missed(&mut self, events: u64) {
            self.1.lock().missed = events;
        }
    }

    /// The account is the same for a stalled recording, a stalled user interface and a sink that
    /// keeps up.
    #[test]
    fn a_slow_recording_is_in_the_account_and_a_slow_view_is_not() {
        let mut sinks = Sinks::default();
        let sinks_of =
            [SinkPurpose::Recording, SinkPurpose::View("the slow one"), SinkPurpose::View("the quick one")];
        let (mut gates, mut all) = (Vec::new(), Vec::new());
        for what in sinks_of {
            let (go, wait) = sync_channel(1000);
            let taken = Arc::new(Mutex::new(Taken::default()));
            sinks.add(Slow(wait, taken.clone()), what);
            gates.push(go);
            all.push(taken);
        }
        // The fast sink never waits.
        drop(gates.pop());
        let events: Batch = Arc::new(vec![Item::Event(Event::default()); MAX_WAITING / 2 + 1]);
        for given in 1..=4 {
            sinks.give(&events);
            while all[2].lock().events < given * events.len() as u64 {
                std::thread::yield_now();
            }
        }
        let seen = 4 * events.len() as u64;
        let cpus = vec![CpuAccount { cpu: Some(0), seen, kept: seen, ..Default::default() }];
        let account = Account { cpus, ..Default::default() };
        for go in &gates {
            (0..20).for_each(|_| go.send(()).unwrap());
        }
        let last = sinks.conclude(vec![Item::Account(Arc::new(account.clone()))], account);
        sinks.finish().unwrap();
        let [recording, slow, quick] = all.as_slice() else { panic!() };
        let (recording, slow, quick) = (recording.lock(), slow.lock(), quick.lock());
        for taken in [&recording, &slow, &quick] {
            assert_eq!(taken.accounts, std::slice::from_ref(&last));
        }
        assert!(recording.settled && !slow.settled);
        assert!(recording.events < seen);
        assert_eq!((last.seen(), last.kept()), (seen, recording.events));
        assert_eq!(last.lost_by_reason(), [(LossReason::Recording, seen - recording.events)]);
        assert_eq!((slow.events + slow.missed, quick.events, quick.missed), (seen, seen, 0));
    }

    /// Takes batches until it fails.
    struct Failing {
        good: usize,
        on: std::thread::ThreadId,
        finished: Arc<AtomicU64>,
    }

    impl Sink for Failing {
        fn take(&mut self, _: &[Item]) -> anyhow::Result<()> {
            assert_eq!(std::thread::current().id(), self.on);
            self.good = self.good.checked_sub(1).ok_or_else(|| anyhow::anyhow!("full"))?;
            Ok(())
        }

        fn finish(self: Box<Self>) -> anyhow::Result<()> {
            self.finished.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn a_direct_sink_runs_on_the_readers_thread_and_its_error_ends_the_observation() {
        for (good, ends_with) in [(2, Some("full")), (3, None)] {
            let finished = Arc::new(AtomicU64::new(0));
            let mut sinks = Sinks::default();
            sinks.add_direct(Failing { good, on: std::thread::current().id(), finished: finished.clone() });
            let batch: Batch = Arc::new(vec![Item::Event(Event::default())]);
            (0..2).for_each(|_| sinks.give(&batch));
            assert!(!sinks.failed());
            sinks.give(&batch);
            assert_eq!(sinks.failed(), ends_with.is_some());
            assert_eq!(sinks.finish().err().map(|error| error.to_string()).as_deref(), ends_with);
            assert_eq!(finished.load(Ordering::Relaxed), u64::from(ends_with.is_none()));
        }
    }
}
