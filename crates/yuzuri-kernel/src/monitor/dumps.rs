//! When the monitor takes a dump, and how it processes the result.

use super::Monitor;
use crate::{clock, owners};
use std::time::Instant;
use yuzuri_trace::Item;

/// While records are lost, the interval at which a dump checks which flows have closed.
const SWEEP_NS: u64 = 5_000_000_000;
/// Otherwise, the shortest interval between two dumps.
pub(super) const MIN_RECHECK_NS: u64 = 10_000_000_000;
/// With many sockets the interval is longer: this many times the duration of a dump.
const RECHECK_INTERVAL: u64 = 1000;

impl Monitor {
    /// Adds the result of a dump once all records up to its time are read: a flow with an earlier
    /// event must first be known by its own record.
    pub(super) fn add_unrecorded_flows(&mut self, until_ns: u64, out: &mut Vec<Item>) {
        if !self.reader.is_holding()
            && let Some(dump_result) = self.dump_result.take_if(|dump_result| dump_result.mono_ns <= until_ns)
        {
            let wait_ns = dump_result.took_ns.saturating_mul(RECHECK_INTERVAL).max(MIN_RECHECK_NS);
            self.recheck_due_ns = dump_result.mono_ns.saturating_add(wait_ns);
            self.sampled += self.reader.add_unrecorded(dump_result, until_ns, out);
        }
        if self.reader.needs_dump(until_ns) {
            self.dump_worker.request_flows(&self.filter);
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

    /// Requests a dump if records were lost since the last: a close may have been among them.
    pub(super) fn sweep(&mut self, now_ns: u64) {
        let lost = self.lost();
        if lost == self.swept_lost || now_ns < self.sweep_due_ns || self.awaits_any_dump() {
            return;
        }
        self.swept_lost = lost;
        self.sweep_due_ns = now_ns.saturating_add(SWEEP_NS);
        self.reader.expect_dump();
        self.reader.expect_no_more_losses();
        self.dump_worker.request_all(&self.filter, self.reader.held_open());
    }

    /// Looks for closed flows if the last dump was long ago: a kernel that skips a run of our
    /// program does not always count it. After losses, `sweep` does it.
    pub(super) fn recheck(&mut self, now_ns: u64) {
        if now_ns >= self.recheck_due_ns && self.lost() == self.swept_lost && !self.awaits_any_dump() {
            self.reader.expect_dump();
            self.dump_worker.request_closed(&self.filter, self.reader.held_open());
        }
    }

    /// Whether a dump is in progress.
    pub(super) fn awaits_any_dump(&self) -> bool {
        self.reader.awaits_dump() || self.dump_result.is_some() || self.dump_worker.is_due()
    }

    /// The end: waits for lookups in progress.
    pub(super) fn conclude(&mut self, out: &mut Vec<Item>) {
        let until = Instant::now() + owners::LAST_WAIT;
        self.wait_for_dump(until);
        self.add_unrecorded_flows(clock::mono_ns(), out);
        self.sweep(u64::MAX);
        self.wait_for_dump(until);
        self.add_unrecorded_flows(clock::mono_ns(), out);
        self.reader.conclude(until, out);
        self.add_unrecorded_flows(clock::mono_ns(), out);
        // Now that owners are known, a filter for them may select more.
        self.wait_for_dump(until);
        self.add_unrecorded_flows(clock::mono_ns(), out);
    }

    fn wait_for_dump(&mut self, until: Instant) {
        while self.dump_result.is_none() && self.dump_worker.is_due() && Instant::now() < until {
            self.dump_result = self.dump_worker.wait(until.saturating_duration_since(Instant::now()));
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
            monitor.known_flows() == 2 && !monitor.reader.awaits_dump()
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
        assert_eq!(monitor.known_flows(), 0);
        assert!(monitor.recheck_due_ns > clock::mono_ns(), "the next one is due later");
    }
}
