//! The loop that reads a source and distributes its items.

use crate::recycled::RecycledBatches;
use crate::{Requests, Sinks};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_kernel::Watch;
use yuzuri_trace::{Account, Item};

/// Reads a source while `goes_on` returns true, then drains it. After each read, `take` may take
/// the items gathered so far, and `read_interval` waits until the source is due again (or does
/// other work meanwhile). Returns the items that were not taken, with the closing account last, and
/// that account.
pub fn drive(
    mut watch: Box<dyn Watch>,
    mut goes_on: impl FnMut() -> bool,
    mut take: impl FnMut(&mut Vec<Item>),
    mut rest: impl FnMut(&mut dyn Watch),
) -> (Vec<Item>, Account) {
    let mut items = Vec::new();
    while goes_on() {
        watch.read(&mut items);
        take(&mut items);
        rest(watch.as_mut());
    }
    let account = watch.finish(&mut items);
    (items, account)
}

/// Batches of this size do not wait for others: then a wake-up costs little per item, and a sink
/// needs its share of the time to keep up.
const MAX_GATHERED: usize = 1024;

/// The interval at which the running account is reported.
const REPORT_EVERY: Duration = Duration::from_secs(1);

type ReportAccount<'a> = dyn FnMut(&Account) + Send + 'a;

/// The reading loop with sinks.
pub struct Pump<'a> {
    sinks: &'a Sinks,
    stop: &'a AtomicBool,
    requests: Option<Requests>,
    time: Option<Duration>,
    gather: Duration,
    report_account: Option<Box<ReportAccount<'a>>>,
}

impl<'a> Pump<'a> {
    /// Reads until `stop` is set or a sink fails.
    pub fn new(sinks: &'a Sinks, stop: &'a AtomicBool) -> Pump<'a> {
        Pump { sinks, stop, requests: None, time: None, gather: Duration::ZERO, report_account: None }
    }

    /// Limits how long the loop reads.
    pub fn for_time(self, time: Option<Duration>) -> Pump<'a> {
        Pump { time, ..self }
    }

    /// Serves the requests of a [`Remote`](crate::Remote).
    pub fn with_requests(self, requests: Requests) -> Pump<'a> {
        Pump { requests: Some(requests), ..self }
    }

    /// Sets the least time between two batches: waking another thread at each read may cost more
    /// than the read itself. Batches of 1,024 items and more do not wait.
    pub fn gathering(self, gather: Duration) -> Pump<'a> {
        Pump { gather, ..self }
    }

    /// Reports the running account once a second.
    pub fn reporting(self, report_account: impl FnMut(&Account) + Send + 'a) -> Pump<'a> {
        Pump { report_account: Some(Box::new(report_account)), ..self }
    }

    /// Reads the source to its end. Returns the account that every sink received.
    pub fn run(self, watch: Box<dyn Watch>) -> Account {
        let Pump { sinks, stop, requests, time, gather, mut report_account } = self;
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let goes_on = || {
            !stop.load(Ordering::Relaxed)
                && !sinks.failed()
                && until.is_none_or(|until| Instant::now() < until)
        };
        let (mut passed_on, mut recycled) = (None::<Instant>, RecycledBatches::default());
        let take = |items: &mut Vec<Item>| {
            let is_due = items.len() >= MAX_GATHERED || passed_on.is_none_or(|at| at.elapsed() >= gather);
            if is_due && !items.is_empty() {
                passed_on = Some(Instant::now());
                recycled.pass_on(items, |batch| sinks.give(batch));
            }
        };
        let mut next_report = Instant::now();
        let rest = |watch: &mut dyn Watch| {
            if let Some(report_account) = &mut report_account
                && Instant::now() >= next_report
            {
                next_report = Instant::now() + REPORT_EVERY;
                report_account(&sinks.with_losses(watch.account()));
            }
            let left = until.map_or(gather, |until| until.saturating_duration_since(Instant::now()));
            match &requests {
                Some(requests) => requests.read_interval(watch, gather.min(left)),
                None => watch.wait(gather.min(left)),
            }
        };
        let (items, account) = drive(watch, goes_on, take, rest);
        sinks.conclude(items, account)
    }
}
