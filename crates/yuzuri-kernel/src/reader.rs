//! Converts records to items: identities, owners, places.

mod dump;
mod owners;

use crate::abi::{self, RECORD_FLOW, Record, event_record};
use crate::clock::KernelClock;
use crate::owners::Owners;
use crate::places::{Symbols, SymbolsError};
use crate::{decode, netns};
use dump::Awaited;
use owners::{Search, Undecided};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use yuzuri_trace::{Filter, Flow, FlowId, Item, Kind, Owner};

/// Records held until the symbols are loaded, about 10 MiB: a tenth of a second at the maximum rate
/// of two CPUs.
const MAX_HELD: usize = 64 * 1024;

/// Whether a stack determines the record's place.
fn has_stack(record: &event_record) -> bool {
    matches!(record.kind, abi::RECORD_STATE | abi::RECORD_RETRANSMIT | abi::RECORD_MARK)
        && record.stack != abi::NO_STACK
}

/// Converts records to items, with information known only to user space.
pub(crate) struct Reader {
    flows: HashMap<FlowId, Arc<Flow>>,
    /// Flows that the filter cannot decide before it knows their owner.
    undecided: HashMap<FlowId, Undecided>,
    /// Owners of flows not seen yet: those known under the previous filter, and those that the
    /// filter selects by them.
    owners_known: HashMap<FlowId, Owner>,
    searches: HashMap<FlowId, Search>,
    owners: Owners,
    clock: KernelClock,
    /// Owners that the kernel's programs wait for.
    found_owners: Vec<(FlowId, Owner)>,
    /// Only the filter's terms for owners.
    by_owner: Filter,
    dump_state: Awaited,
    /// Flows selected after their owner was found, and not seen by a hook since.
    awaiting_record: HashSet<FlowId>,
    /// When a dump that reports them is due.
    show_due_ns: u64,
    /// Silent flows whose owner was never found.
    owners_missing: u64,
    /// Flows that closed during a dump, which may still report them.
    closed: HashSet<FlowId>,
    /// Records were lost, and no dump since then has reported their flows.
    lossy: bool,
    /// Flows with events since then whose identity was lost.
    unnamed: HashSet<FlowId>,
    netns_names: HashMap<u32, String>,
    symbols: Option<Symbols>,
    symbols_coming: Option<Receiver<Result<Symbols, SymbolsError>>>,
    stacks: HashMap<u32, Box<[u64]>>,
    /// Records from the first that needs the symbols, while these are being loaded.
    held: Vec<(u16, Record)>,
    search_due_ns: u64,
}

impl Reader {
    /// `symbols_coming` will deliver the kernel's symbols.
    pub(crate) fn new(
        symbols_coming: Receiver<Result<Symbols, SymbolsError>>,
        owners: Owners,
        clock: KernelClock,
        filter: &Filter,
    ) -> Reader {
        Reader {
            flows: HashMap::new(),
            undecided: HashMap::new(),
            owners_known: HashMap::new(),
            searches: HashMap::new(),
            owners,
            clock,
            found_owners: Vec::new(),
            by_owner: owner_terms(filter),
            dump_state: Awaited::No,
            awaiting_record: HashSet::new(),
            show_due_ns: 0,
            owners_missing: 0,
            closed: HashSet::new(),
            lossy: false,
            unnamed: HashSet::new(),
            netns_names: netns::names(),
            symbols: None,
            symbols_coming: Some(symbols_coming),
            stacks: HashMap::new(),
            held: Vec::new(),
            search_due_ns: 0,
        }
    }

    /// After a change of filter every flow is announced again, or never: the close of an excluded
    /// flow is not reported.
    pub(crate) fn forget(&mut self, filter: &Filter) {
        self.by_owner = owner_terms(filter);
        self.found_owners.clear();
        self.awaiting_record.clear();
        self.undecided.clear();
        self.searches.clear();
        self.unnamed.clear();
        let known = self.flows.drain();
        self.owners_known = known.filter_map(|(id, flow)| Some((id, flow.owner.clone()?))).collect();
    }

    /// The number of flows tracked in any way, except owners of previous flows.
    pub(crate) fn known_flows(&self) -> usize {
        self.flows.len() + self.undecided.len() + self.searches.len()
    }

    /// Processes a record. `read_stack` returns the addresses of a stack by its number.
    pub(crate) fn take(
        &mut self,
        cpu: u16,
        record: &Record,
        read_stack: impl Fn(u32) -> Box<[u64]>,
        out: &mut Vec<Item>,
    ) {
        // Reading continues while the symbols are loaded, or the ring buffers would overflow.
        let waits = !self.held.is_empty() || has_stack(record.event());
        if waits && !self.have_symbols(self.held.len() >= MAX_HELD) {
            self.held.push((cpu, *record));
            return;
        }
        self.release(false, &read_stack, out);
        self.decode(cpu, record, read_stack, out);
    }

    /// Releases the records held for the symbols, if these are loaded; `wait` waits for them.
    pub(crate) fn release(
        &mut self,
        wait: bool,
        read_stack: impl Fn(u32) -> Box<[u64]>,
        out: &mut Vec<Item>,
    ) {
        if self.held.is_empty() || !self.have_symbols(wait) {
            return;
        }
        for (cpu, record) in std::mem::take(&mut self.held) {
            self.decode(cpu, &record, &read_stack, out);
        }
    }

    fn decode(
        &mut self,
        cpu: u16,
        record: &Record,
        read_stack: impl FnOnce(u32) -> Box<[u64]>,
        out: &mut Vec<Item>,
    ) {
        if record.event().kind == RECORD_FLOW {
            self.add_identity(decode::identity(record.flow()), out);
            return;
        }
        let record = record.event();
        if record.kind > abi::RECORD_CLOSE && record.kind != abi::RECORD_MARK {
            return;
        }
        let mut event = if has_stack(record) {
            let stack = self.stacks.entry(record.stack).or_insert_with(|| read_stack(record.stack));
            let frames = self.symbols.as_ref().map(|s| s.frames(stack)).unwrap_or_default();
            decode::event(record, cpu, &frames)
        } else {
            decode::event(record, cpu, &[])
        };
        event.mono_ns = self.clock.ours(event.mono_ns);
        if event.kind == Kind::Close {
            self.flows.remove(&event.flow);
            self.searches.remove(&event.flow);
            self.owners_known.remove(&event.flow);
            self.unnamed.remove(&event.flow);
            self.awaiting_record.remove(&event.flow);
            if self.dump_state != Awaited::No || self.lossy {
                self.closed.insert(event.flow);
            }
        } else if self.lossy && !self.flows.contains_key(&event.flow) && !self.closed.contains(&event.flow) {
            self.unnamed.insert(event.flow);
        }
        out.push(Item::Event(event));
    }

    /// Whether the symbols are loaded, or known to be unavailable.
    fn have_symbols(&mut self, wait: bool) -> bool {
        let Some(coming) = &self.symbols_coming else { return true };
        let came =
            if wait { coming.recv().map_err(|_| TryRecvError::Disconnected) } else { coming.try_recv() };
        if matches!(came, Err(TryRecvError::Empty)) {
            return false;
        }
        self.symbols = came.ok().and_then(Result::ok);
        self.symbols_coming = None;
        true
    }

    fn add_identity(&mut self, identity: decode::Identity, out: &mut Vec<Item>) {
        let mut flow = identity.flow;
        if let Some(known) = self.flows.get(&flow.id) {
            flow.owner = flow.owner.or_else(|| known.owner.clone());
        }
        flow.owner = flow.owner.or_else(|| self.owners_known.remove(&flow.id));
        if !self.netns_names.contains_key(&flow.netns) {
            self.netns_names = netns::names();
            // Remember namespaces without a name, so that they are not looked up for each flow.
            self.netns_names.entry(flow.netns).or_default();
        }
        flow.netns_name = self.netns_names.get(&flow.netns).filter(|name| !name.is_empty()).cloned();
        if flow.owner.is_none() && flow.inode != 0 {
            self.searches.insert(flow.id, Search { tries: 0, next_ns: 0 });
        }
        if identity.undecided {
            match flow.owner {
                Some(owner) => self.found_owners.push((flow.id, owner)),
                // A connection that is not accepted yet is announced again with its first segment
                // after `accept()`; if there is none, a dump reports its inode.
                None => drop(self.undecided.insert(flow.id, Undecided { flow, is_unrecorded: false })),
            }
            return;
        }
        self.undecided.remove(&flow.id);
        self.unnamed.remove(&flow.id);
        let flow = Arc::new(flow);
        self.flows.insert(flow.id, flow.clone());
        out.push(Item::Flow(flow));
    }

    /// Whether records wait for the symbols.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }
}

fn owner_terms(filter: &Filter) -> Filter {
    Filter { pids: filter.pids.clone(), names: filter.names.clone(), ..Filter::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::owners::SEARCH_INTERVAL_NS;
    use super::*;
    use crate::abi::{event_record, flow_record};
    use crate::dump::DumpResult;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Instant;
    use yuzuri_trace::Event;

    fn identity(cookie: u64) -> Record {
        Record { flow: flow_record { cookie, inode: 100 + cookie, kind: RECORD_FLOW, ..Default::default() } }
    }

    fn ack(cookie: u64, mono_ns: u64) -> Record {
        Record { event: event_record { cookie, mono_ns, kind: abi::RECORD_ACK, ..Default::default() } }
    }

    fn owner(id: u64) -> Owner {
        Owner { pid: id as u32, name: format!("process{id}") }
    }

    /// A reader whose searches wait for a message each, and the number of searches begun.
    fn slow(filter: &str) -> (Reader, std::sync::mpsc::Sender<()>, Arc<AtomicUsize>) {
        let (go, gate) = channel::<()>();
        let begun = Arc::new(AtomicUsize::new(0));
        let counter = begun.clone();
        let owners = Owners::found_by(move |wanted, given| {
            counter.fetch_add(1, Ordering::SeqCst);
            while gate.try_recv() == Err(TryRecvError::Empty) && !given.is_cancelled() {
                std::thread::yield_now();
            }
            wanted.into_iter().map(|inode| (inode, owner(inode - 100))).collect()
        });
        let no_symbols = channel().1;
        (Reader::new(no_symbols, owners.unwrap(), KernelClock::SAME, &filter.parse().unwrap()), go, begun)
    }

    fn no_stack(_: u32) -> Box<[u64]> {
        Box::default()
    }

    fn named(out: &[Item], id: u64) -> bool {
        let is =
            |item: &Item| matches!(item, Item::Flow(f) if f.id == FlowId(id) && f.owner == Some(owner(id)));
        out.iter().any(is)
    }

    fn search_until(reader: &mut Reader, out: &mut Vec<Item>, holds: impl Fn(&Reader, &[Item]) -> bool) {
        let until = Instant::now() + std::time::Duration::from_secs(20);
        while !holds(reader, out) {
            assert!(Instant::now() < until, "{out:?}");
            reader.search_owners(u64::MAX, out);
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_search_that_hangs_delays_nothing_and_is_the_only_one() {
        let (mut reader, go, begun) = slow("");
        let mut out = Vec::new();
        // Each flow needs a search, and one is due at each tending.
        for n in 1..=1000 {
            reader.take(0, &identity(n), no_stack, &mut out);
            reader.take(0, &ack(n, n), no_stack, &mut out);
            reader.search_owners(n * SEARCH_INTERVAL_NS, &mut out);
        }
        assert_eq!(out.len(), 2000, "everything was taken while the search hung");
        assert!(begun.load(Ordering::SeqCst) <= 1);
        go.send(()).unwrap();
        search_until(&mut reader, &mut out, |_, out| named(out, 1));
        assert!(!named(&out, 1000), "it came after the search had begun");
        go.send(()).unwrap();
        search_until(&mut reader, &mut out, |_, out| (1..=1000).all(|n| named(out, n)));
        assert!(begun.load(Ordering::SeqCst) <= 2);
        // Dropping the reader during a search ends the search.
        reader.take(0, &identity(1001), no_stack, &mut out);
        reader.search_owners(u64::MAX, &mut out);
        drop(reader);
    }

    fn dump_result(ids: &[u64]) -> DumpResult {
        let flow = |id: &u64| Flow { id: FlowId(*id), inode: 100 + id, ..Flow::default() };
        let sample = |id: &u64| Event { flow: FlowId(*id), mono_ns: 5, ..Event::default() };
        let flows = ids.iter().map(|id| (flow(id), sample(id))).collect();
        DumpResult { number: 1, mono_ns: 5, flows, ..DumpResult::default() }
    }

    #[test]
    fn a_dump_skips_flows_that_sent_or_closed_meanwhile() {
        let (mut reader, _go, _) = slow("");
        let mut out = Vec::new();
        reader.expect_dump();
        reader.take(0, &identity(1), no_stack, &mut out);
        reader.take(0, &identity(2), no_stack, &mut out);
        let close = event_record { cookie: 2, kind: abi::RECORD_CLOSE, ..Default::default() };
        reader.take(0, &Record { event: close }, no_stack, &mut out);
        out.clear();
        assert_eq!(reader.add_unrecorded(dump_result(&[1, 2, 3]), 9, &mut out), 2);
        let [Item::Flow(flow), Item::Event(event)] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!((flow.id, event.flow, event.mono_ns), (FlowId(3), FlowId(3), 9));
        assert!(!reader.needs_dump(u64::MAX));
    }

    #[test]
    fn flows_that_a_dump_does_not_list_are_closed_once() {
        let (mut reader, _go, _) = slow("");
        let mut out = Vec::new();
        reader.expect_losses();
        for n in 1..=3 {
            reader.take(0, &identity(n), no_stack, &mut out);
        }
        // The identity of 4 was lost.
        reader.take(0, &ack(4, 1), no_stack, &mut out);
        let mut held: Vec<u64> = reader.held_open().iter().map(|flow| flow.id.0).collect();
        held.sort_unstable();
        assert_eq!(held, [1, 2, 3, 4]);
        reader.expect_dump();
        reader.expect_no_more_losses();
        // The close of 2 is read during the dump; 3 exists; 5 is new.
        let close = event_record { cookie: 2, kind: abi::RECORD_CLOSE, ..Default::default() };
        reader.take(0, &Record { event: close }, no_stack, &mut out);
        reader.take(0, &identity(5), no_stack, &mut out);
        out.clear();
        let gone = [1, 2, 4].map(FlowId).to_vec();
        assert_eq!(reader.add_unrecorded(DumpResult { gone, ..dump_result(&[3]) }, 9, &mut out), 2);
        let closed: Vec<_> = out
            .iter()
            .map(|item| match item {
                Item::Event(e) => (e.flow.0, e.kind, e.reason, e.mono_ns, e.has_snapshot()),
                other => panic!("{other:?}"),
            })
            .collect();
        let close = |id| (id, Kind::Close, yuzuri_trace::Reason::CloseNotSeen, 9, false);
        assert_eq!(closed, [close(1), close(4)]);
        assert_eq!(reader.known_flows(), 2 + reader.searches.len());
    }

    /// No hook reports `accept()`, and no segment need follow it.
    #[test]
    fn a_dump_finds_the_owners_of_connections_accepted_after_their_last_segment() {
        for (filter, undecided) in [("", 0), ("pid:7", 1)] {
            let (mut reader, go, _) = slow(filter);
            let mut out = Vec::new();
            for cookie in [7, 8] {
                let flow = flow_record { cookie, kind: RECORD_FLOW, undecided, ..Default::default() };
                reader.take(0, &Record { flow }, no_stack, &mut out);
            }
            assert!(!reader.is_searching());
            assert!(reader.held_open().iter().all(|flow| flow.lacks_inode), "{filter}");
            assert_eq!(reader.held_open().len(), 2);
            // 8 was closed before anybody accepted it.
            let (accepted, gone) = (vec![(FlowId(7), 107)], vec![FlowId(8)]);
            let closes =
                reader.add_unrecorded(DumpResult { accepted, gone, ..dump_result(&[]) }, 9, &mut out);
            assert_eq!(closes, u64::from(undecided == 0));
            reader.search_owners(1, &mut out);
            go.send(()).unwrap();
            if undecided == 0 {
                search_until(&mut reader, &mut out, |_, out| named(out, 7));
                assert_eq!(reader.known_flows(), 1);
            } else {
                search_until(&mut reader, &mut out, |reader, _| !reader.found_owners.is_empty());
                assert_eq!(reader.take_owners(), [(FlowId(7), owner(7))]);
                assert!(reader.needs_dump(u64::MAX));
                assert_eq!(reader.known_flows(), 0);
            }
        }
    }

    #[test]
    fn a_filter_for_owners_counts_again_once_they_are_known() {
        let (mut reader, go, begun) = slow("pid:3 pid:4");
        let mut out = Vec::new();
        reader.expect_dump();
        assert_eq!(reader.add_unrecorded(dump_result(&[3, 5]), 9, &mut out), 0);
        reader.search_owners(1, &mut out);
        go.send(()).unwrap();
        search_until(&mut reader, &mut out, |reader, _| !reader.awaiting_record.is_empty());
        assert!(reader.needs_dump(1));
        // The programs receive both owners: they know how to use them.
        let mut found_owners = reader.take_owners();
        found_owners.sort_by_key(|(id, _)| *id);
        assert_eq!(found_owners, [(FlowId(3), owner(3)), (FlowId(5), owner(5))]);
        assert_eq!(reader.add_unrecorded(dump_result(&[3, 5, 7]), 19, &mut out), 2);
        assert!(named(&out, 3), "{out:?}");
        // Nothing is searched for again.
        assert!(!reader.needs_dump(u64::MAX));
        reader.search_owners(u64::MAX, &mut out);
        assert_eq!((begun.load(Ordering::SeqCst), reader.known_flows()), (1, 1));
    }
}
