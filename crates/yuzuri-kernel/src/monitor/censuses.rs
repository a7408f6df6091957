//! When the monitor takes a census, and how it processes the result.

use super::Monitor;
use crate::{clock, owners};
use std::time::Instant;
use yuzuri_trace::Item;

/// While records are lost, the interval at which a census checks which flows have closed.
const SWEEP_NS: u64 = 5_000_000_000;
/// Otherwise, the shortest interval between two censuses.
pub(super) const MIN_RECHECK_NS: u64 = 10_000_000_000;
/// With many sockets the interval is longer: this many times the duration of a census.
const RECHECK_INTERVAL: u64 = 1000;

impl Monitor {
    /// Adds the result of a census once all records up to its time are read: a flow with an earlier
    /// event must first be known by its own record.
    pub(super) fn add_unrecorded_flows(&mut self, until_ns: u64, out: &mut Vec<Item>) {
        if !self.reader.is_holding()
            && let Some(counted) = self.counted.take_if(|counted| counted.mono_ns <= until_ns)
        {
            let wait_ns = counted.took_ns.saturating_mul(RECHECK_INTERVAL).max(MIN_RECHECK_NS);
            self.recheck_due_ns = counted.mono_ns.saturating_add(wait_ns);
            self.sampled += self.reader.add_unrecorded(counted, until_ns, out);
        }
        if self.reader.asks_for_census(until_ns) {
            self.census.order(&self.filter);
        }
    }

    /// Records for which the ring buffers had no room, or the kernel no memory.
    pub(super) fn lost(&self) -> u64 {
        let lost = |cpu| {
            let counters = self.rings.counters(cpu);
            counters.lost_ring + counters.lost_memory
        };
        (0..self.rings.cpus()).map(lost).sum()
    }

    /// Requests a census if records were lost since the last: a close may have been among them.
    pub(super) fn sweep(&mut self, now_ns: u64) {
        let lost = self.lost();
        if lost == self.swept_lost || now_ns < self.sweep_due_ns || self.counts() {
            return;
        }
        self.swept_lost = lost;
        self.sweep_due_ns = now_ns.saturating_add(SWEEP_NS);
        self.reader.expect_census();
        self.reader.expect_no_more_losses();
        self.census.order_with(&self.filter, self.reader.held_open());
    }

    /// Looks for closed flows if the last census was long ago: a kernel that skips a run of our
    /// program does not always count it. After losses, `sweep` does it.
    pub(super) fn recheck(&mut self, now_ns: u64) {
        if now_ns >= self.recheck_due_ns && self.lost() == self.swept_lost && !self.counts() {
            self.reader.expect_census();
            self.census.order_gone(&self.filter, self.reader.held_open());
        }
    }

    /// Whether a census is in progress.
    pub(super) fn counts(&self) -> bool {
        self.reader.awaits_census() || self.counted.is_some() || self.census.is_due()
    }

    /// The end: waits for lookups in progress.
    pub(super) fn conclude(&mut self, out: &mut Vec<Item>) {
        let until = Instant::now() + owners::LAST_WAIT;
        self.wait_for_census(until);
        self.add_unrecorded_flows(clock::mono_ns(), out);
        self.sweep(u64::MAX);
        self.wait_for_census(until);
        self.add_unrecorded_flows(clock::mono_ns(), out);
        self.reader.conclude(until, out);
        self.add_unrecorded_flows(clock::mono_ns(), out);
        // Now that owners are known, a filter for them may select more.
        self.wait_for_census(until);
        self.add_unrecorded_flows(clock::mono_ns(), out);
    }

    fn wait_for_census(&mut self, until: Instant) {
        while self.counted.is_none() && self.census.is_due() && Instant::now() < until {
            self.counted = self.census.wait(until.saturating_duration_since(Instant::now()));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Watch;
    use crate::monitor::Options;
    use std::net::{TcpListener, TcpStream};
    use yuzuri_testnet::{Net, Side, eventually};
    use yuzuri_trace::{Density, Event, Kind, Reason};

    #[test]
    fn a_close_that_no_program_reported_is_found() {
        let Some(net) = Net::or_skip("a_close_that_no_program_reported_is_found") else { return };
        let filter = format!("netns:{}", net.name(Side::A)).parse().unwrap();
        let options = Options { filter, density: Density::default(), ring_bytes: None };
        let mut monitor = Monitor::start(&options).unwrap_or_else(|error| panic!("{error}"));
        let ends = net.inside(Side::A, || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (near, listener.accept().unwrap().0)
        });
        let mut items = Vec::new();
        let known = eventually(|| {
            monitor.read(&mut items);
            monitor.remembered() == 2 && !monitor.reader.awaits_census()
        });
        assert!(known, "{items:#?}");
        // As if the kernel had skipped all runs.
        monitor.links.clear();
        drop(ends);
        monitor.recheck_due_ns = 0;
        let is_unseen_close = |e: &Event| e.kind == Kind::Close && e.reason == Reason::CloseNotSeen;
        let not_seen = |item: &Item| matches!(item, Item::Event(event) if is_unseen_close(event));
        let closed = eventually(|| {
            monitor.read(&mut items);
            items.iter().filter(|item| not_seen(item)).count() == 2
        });
        assert!(closed, "{items:#?}");
        assert_eq!(monitor.remembered(), 0);
        assert!(monitor.recheck_due_ns > clock::mono_ns(), "the next one is due later");
    }
}
