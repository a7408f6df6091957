//! From records to items: identities, owners, places.

use crate::abi::{self, RECORD_FLOW, Record, event_record};
use crate::census::{Counted, HeldOpen};
use crate::clock::KernelClock;
use crate::owners::Owners;
use crate::places::{Symbols, SymbolsError};
use crate::{decode, netns, sampled};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;
use yuzuri_trace::{Event, Filter, Flow, FlowId, Item, Kind, Owner, Place};

const TEND_NS: u64 = 100_000_000;
/// A flow that spoke before its owner was known, and has been silent since, is shown so long after.
const PATIENCE_NS: u64 = 1_000_000_000;
/// A flow's owner is looked for once more often than this, at growing distances: about half a minute in all.
const MAX_TRIES: u32 = 8;

/// Records held until the symbols are there, 8 MiB: a tenth of a second of all that two CPUs can give.
const MAX_HELD: usize = 64 * 1024;

/// A flow whose owner user space still looks for.
struct Search {
    tries: u32,
    next_ns: u64,
}

/// Whether a census is under way.
#[derive(PartialEq, Eq)]
enum Awaited {
    No,
    /// Of the filter in force.
    First,
    /// Once more, because it is known by now whom some of the flows belong to.
    Again,
}

/// A flow whose owner the filter has to know.
struct Undecided {
    flow: Flow,
    /// Nobody but the census told of it.
    silent: bool,
}

/// Whether the record's place is told by a stack.
fn has_stack(record: &event_record) -> bool {
    matches!(record.kind, abi::RECORD_STATE | abi::RECORD_RETRANSMIT | abi::RECORD_NOTE)
        && record.stack != abi::NO_STACK
}

/// Turns records into items, with what only user space knows.
pub(crate) struct Reader {
    flows: HashMap<FlowId, Arc<Flow>>,
    /// Flows that the filter cannot decide before it knows their owner.
    undecided: HashMap<FlowId, Undecided>,
    /// Owners of flows that are not met yet: of those known under the filter before this one, and of those
    /// that the filter chooses by them.
    owners_known: HashMap<FlowId, Owner>,
    searches: HashMap<FlowId, Search>,
    owners: Owners,
    clock: KernelClock,
    /// Owners that the kernel's programs wait for.
    told: Vec<(FlowId, Owner)>,
    /// The owners in the filter, and nothing else of it.
    by_owner: Filter,
    census: Awaited,
    /// Flows whose owner was found and makes them chosen, and which no hook has told of since.
    unshown: HashSet<FlowId>,
    /// When a census is to show them.
    show_due_ns: u64,
    /// Silent flows whose owner was never found.
    owners_missing: u64,
    /// Flows that closed while a census was under way, which may still tell of them.
    closed: HashSet<FlowId>,
    /// Records were lost, and no census since then has told of what was in them.
    lossy: bool,
    /// Flows that spoke since then without an identity, which was lost.
    unnamed: HashSet<FlowId>,
    netns_names: HashMap<u32, String>,
    symbols: Option<Symbols>,
    symbols_coming: Option<Receiver<Result<Symbols, SymbolsError>>>,
    stacks: HashMap<u32, Box<[u64]>>,
    /// Records from the first that needs the symbols on, while these are on their way.
    held: Vec<(u16, Record)>,
    tend_due_ns: u64,
}

impl Reader {
    /// `symbols_coming` will bring the kernel's symbols.
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
            told: Vec::new(),
            by_owner: owner_terms(filter),
            census: Awaited::No,
            unshown: HashSet::new(),
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
            tend_due_ns: 0,
        }
    }

    /// After a change of filter every flow is met again, or never: of one that is left out nobody tells that it closed.
    pub(crate) fn forget(&mut self, filter: &Filter) {
        self.by_owner = owner_terms(filter);
        self.told.clear();
        self.unshown.clear();
        self.undecided.clear();
        self.searches.clear();
        self.unnamed.clear();
        let known = self.flows.drain();
        self.owners_known = known.filter_map(|(id, flow)| Some((id, flow.owner.clone()?))).collect();
    }

    /// How many flows are remembered in any way but for the owners of former ones.
    pub(crate) fn remembered(&self) -> usize {
        self.flows.len() + self.undecided.len() + self.searches.len()
    }

    /// Takes a record. `read_stack` gives the addresses of a stack by its number.
    pub(crate) fn take(
        &mut self,
        cpu: u16,
        record: &Record,
        read_stack: impl Fn(u32) -> Box<[u64]>,
        out: &mut Vec<Item>,
    ) {
        // Reading goes on while the symbols are loaded, or else the rings would overflow.
        let waits = !self.held.is_empty() || has_stack(record.event());
        if waits && !self.have_symbols(self.held.len() >= MAX_HELD) {
            self.held.push((cpu, *record));
            return;
        }
        self.release(false, &read_stack, out);
        self.decode(cpu, record, read_stack, out);
    }

    /// Gives what was held for the symbols, if they have come; `wait` waits for them.
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
            self.meet(decode::identity(record.flow()), out);
            return;
        }
        let record = record.event();
        if record.kind > abi::RECORD_CLOSE && record.kind != abi::RECORD_NOTE {
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
            self.unshown.remove(&event.flow);
            if self.census != Awaited::No || self.lossy {
                self.closed.insert(event.flow);
            }
        } else if self.lossy && !self.flows.contains_key(&event.flow) && !self.closed.contains(&event.flow) {
            self.unnamed.insert(event.flow);
        }
        out.push(Item::Event(event));
    }

    /// Whether the symbols are there, or are known not to come.
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

    fn meet(&mut self, identity: decode::Identity, out: &mut Vec<Item>) {
        let mut flow = identity.flow;
        if let Some(known) = self.flows.get(&flow.id) {
            flow.owner = flow.owner.or_else(|| known.owner.clone());
        }
        flow.owner = flow.owner.or_else(|| self.owners_known.remove(&flow.id));
        if !self.netns_names.contains_key(&flow.netns) {
            self.netns_names = netns::names();
            // Namespaces without a name are not looked for again at each flow.
            self.netns_names.entry(flow.netns).or_default();
        }
        flow.netns_name = self.netns_names.get(&flow.netns).filter(|name| !name.is_empty()).cloned();
        if flow.owner.is_none() && flow.inode != 0 {
            self.searches.insert(flow.id, Search { tries: 0, next_ns: 0 });
        }
        if identity.undecided {
            match flow.owner {
                Some(owner) => self.told.push((flow.id, owner)),
                // One that nobody has accepted yet is announced again when somebody does.
                None if flow.inode == 0 => {}
                None => drop(self.undecided.insert(flow.id, Undecided { flow, silent: false })),
            }
            return;
        }
        self.undecided.remove(&flow.id);
        self.unnamed.remove(&flow.id);
        let flow = Arc::new(flow);
        self.flows.insert(flow.id, flow.clone());
        out.push(Item::Flow(flow));
    }

    /// A census of the filter in force begins.
    pub(crate) fn expect_census(&mut self) {
        self.census = Awaited::First;
        self.closed.clear();
    }

    /// Records were lost before those that are taken from now on.
    pub(crate) fn expect_losses(&mut self) {
        self.lossy = true;
    }

    /// A census under way tells of all that was lost.
    pub(crate) fn expect_no_more_losses(&mut self) {
        self.lossy = false;
    }

    /// Whether a census is under way.
    pub(crate) fn awaits_census(&self) -> bool {
        self.census != Awaited::No
    }

    /// The flows that are held to be open.
    pub(crate) fn held_open(&self) -> Vec<HeldOpen> {
        let named = self.flows.values().map(|flow| (flow.id, Some(flow.netns)));
        named.chain(self.unnamed.iter().map(|id| (*id, None))).collect()
    }

    /// Closes the flows that a census found gone, and whose close was not read in the meantime either.
    fn close_gone(&mut self, gone: &[FlowId], mono_ns: u64, out: &mut Vec<Item>) -> u64 {
        let place = Place::named(sampled::PLACE);
        let mut records = 0;
        for id in gone {
            let was_open = self.flows.remove(id).is_some() | self.unnamed.remove(id);
            if was_open {
                self.searches.remove(id);
                self.owners_known.remove(id);
                self.unshown.remove(id);
                out.push(Item::Event(Event::close_not_seen(*id, mono_ns, place)));
                records += 1;
            }
        }
        records
    }

    /// Whether another census is worth its while, because owners were found; it is expected from now on.
    pub(crate) fn asks_for_census(&mut self, now_ns: u64) -> bool {
        if self.unshown.is_empty() || self.census != Awaited::No || now_ns < self.show_due_ns {
            return false;
        }
        // Those that the census does not find are no more.
        let unshown = std::mem::take(&mut self.unshown);
        let asks = unshown.iter().any(|id| !self.flows.contains_key(id));
        if asks {
            self.census = Awaited::Again;
        }
        asks
    }

    /// Silent flows that the filter might have chosen: nobody could tell whose they are.
    pub(crate) fn owners_missing(&self) -> u64 {
        self.owners_missing
    }

    /// Whether records wait for the symbols.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes in the flows that a census found and no hook has told of, as records of the time `mono_ns`, up to which
    /// all that the hooks told was taken in: so each flow's records stay in order. Returns the number of records.
    pub(crate) fn meet_silent(&mut self, counted: Counted, mono_ns: u64, out: &mut Vec<Item>) -> u64 {
        let needs_owner = self.by_owner.needs_owner();
        let mut records = self.close_gone(&counted.gone, mono_ns, out);
        for (mut flow, event) in counted.flows {
            if self.flows.contains_key(&flow.id) || self.closed.contains(&flow.id) {
                continue;
            }
            flow.owner = self.owners_known.remove(&flow.id);
            // A second census brings no flow whose owner is still worth a search.
            let searched = flow.owner.is_none() && flow.inode != 0 && self.census != Awaited::Again;
            if searched {
                self.searches.entry(flow.id).or_insert(Search { tries: 0, next_ns: 0 });
            }
            match &flow.owner {
                None if needs_owner => {
                    if searched {
                        self.undecided.entry(flow.id).or_insert(Undecided { flow, silent: true });
                    }
                    continue;
                }
                Some(_) if !self.by_owner.chooses(&flow, |_, _| true) => continue,
                Some(owner) if needs_owner => self.told.push((flow.id, owner.clone())),
                _ => {}
            }
            let flow = Arc::new(flow);
            self.unnamed.remove(&flow.id);
            self.flows.insert(flow.id, flow.clone());
            out.push(Item::Flow(flow));
            out.push(Item::Event(Event { mono_ns, ..event }));
            records += 2;
        }
        self.census = Awaited::No;
        self.closed.clear();
        records
    }

    /// The owners that the kernel's programs wait for, each once.
    pub(crate) fn take_told(&mut self) -> Vec<(FlowId, Owner)> {
        std::mem::take(&mut self.told)
    }

    /// Looks for owners that the kernel could not name.
    pub(crate) fn tend(&mut self, now_ns: u64, out: &mut Vec<Item>) {
        if let Some(found) = self.owners.take() {
            self.name_owners(found, now_ns, out);
        }
        if !self.searches.is_empty() && now_ns >= self.tend_due_ns {
            self.tend_due_ns = now_ns.saturating_add(TEND_NS);
            self.look_for_owners(now_ns);
        }
    }

    /// The end: one more search for all owners that are not known, and its outcome if it comes in time.
    pub(crate) fn conclude(&mut self, until: Instant, out: &mut Vec<Item>) {
        for last in [false, true] {
            if last {
                self.look_for_owners(u64::MAX);
            }
            if let Some(found) = self.owners.wait(until.saturating_duration_since(Instant::now())) {
                self.name_owners(found, 0, out);
            }
        }
        self.show_due_ns = 0;
        let missing = self.undecided.drain().filter(|(_, undecided)| undecided.silent).count();
        self.owners_missing += missing as u64;
    }

    fn look_for_owners(&mut self, now_ns: u64) {
        let inode = |id: &FlowId| {
            let known = self.flows.get(id).map(|flow| flow.inode);
            known.or_else(|| Some(self.undecided.get(id)?.flow.inode))
        };
        // What closed unseen, or was left out, is not looked for.
        self.searches.retain(|id, _| inode(id).is_some());
        let due = self.searches.iter().filter(|(_, search)| search.next_ns <= now_ns);
        self.owners.look_for(due.filter_map(|(id, _)| Some((*id, inode(id)?))));
    }

    fn name_owners(&mut self, found: Vec<(FlowId, Option<Owner>)>, now_ns: u64, out: &mut Vec<Item>) {
        for (id, owner) in found {
            // The flow closed meanwhile, or the filter changed.
            let Some(search) = self.searches.get_mut(&id) else { continue };
            let Some(owner) = owner else {
                // A socket between accept() and the process' next look, or one whose process hides from us.
                search.tries += 1;
                search.next_ns = now_ns.saturating_add(TEND_NS << search.tries.min(6));
                if search.tries > MAX_TRIES {
                    self.searches.remove(&id);
                    let missing = self.undecided.remove(&id).is_some_and(|undecided| undecided.silent);
                    self.owners_missing += u64::from(missing);
                }
                continue;
            };
            self.searches.remove(&id);
            if let Some(flow) = self.flows.get_mut(&id) {
                *flow = Arc::new(Flow { owner: Some(owner.clone()), ..flow.as_ref().clone() });
                out.push(Item::Flow(flow.clone()));
            }
            if let Some(Undecided { mut flow, silent }) = self.undecided.remove(&id) {
                self.told.push((id, owner.clone()));
                flow.owner = Some(owner.clone());
                if self.by_owner.chooses(&flow, |_, _| true) {
                    // What the census saw of it is old by now; and one that speaks again is told of by a
                    // hook.
                    let due_ns = if silent { 0 } else { now_ns.saturating_add(PATIENCE_NS) };
                    self.show_due_ns =
                        if self.unshown.is_empty() { due_ns } else { self.show_due_ns.min(due_ns) };
                    self.owners_known.insert(id, owner);
                    self.unshown.insert(id);
                }
            }
        }
    }
}

fn owner_terms(filter: &Filter) -> Filter {
    Filter { pids: filter.pids.clone(), names: filter.names.clone(), ..Filter::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::abi::{event_record, flow_record};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    fn identity(cookie: u64) -> Record {
        Record { flow: flow_record { cookie, inode: 100 + cookie, kind: RECORD_FLOW, ..Default::default() } }
    }

    fn ack(cookie: u64, mono_ns: u64) -> Record {
        Record { event: event_record { cookie, mono_ns, kind: abi::RECORD_ACK, ..Default::default() } }
    }

    fn owner(id: u64) -> Owner {
        Owner { pid: id as u32, name: format!("process{id}") }
    }

    /// A reader whose searches wait for a word each, and how many have begun.
    fn slow(filter: &str) -> (Reader, std::sync::mpsc::Sender<()>, Arc<AtomicUsize>) {
        let (go, gate) = channel::<()>();
        let begun = Arc::new(AtomicUsize::new(0));
        let counter = begun.clone();
        let owners = Owners::found_by(move |wanted, given| {
            counter.fetch_add(1, Ordering::SeqCst);
            while gate.try_recv() == Err(TryRecvError::Empty) && !given.up() {
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

    fn tend_until(reader: &mut Reader, out: &mut Vec<Item>, holds: impl Fn(&Reader, &[Item]) -> bool) {
        let until = Instant::now() + std::time::Duration::from_secs(20);
        while !holds(reader, out) {
            assert!(Instant::now() < until, "{out:?}");
            reader.tend(u64::MAX, out);
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_search_that_hangs_holds_up_nothing_and_is_the_only_one() {
        let (mut reader, go, begun) = slow("");
        let mut out = Vec::new();
        // Each flow wants a search, and at each tending one is due.
        for n in 1..=1000 {
            reader.take(0, &identity(n), no_stack, &mut out);
            reader.take(0, &ack(n, n), no_stack, &mut out);
            reader.tend(n * TEND_NS, &mut out);
        }
        assert_eq!(out.len(), 2000, "everything was taken while the search hung");
        assert!(begun.load(Ordering::SeqCst) <= 1);
        go.send(()).unwrap();
        tend_until(&mut reader, &mut out, |_, out| named(out, 1));
        assert!(!named(&out, 1000), "it came after the search had begun");
        go.send(()).unwrap();
        tend_until(&mut reader, &mut out, |_, out| (1..=1000).all(|n| named(out, n)));
        assert!(begun.load(Ordering::SeqCst) <= 2);
        // Dropped in the middle of a search it ends, too.
        reader.take(0, &identity(1001), no_stack, &mut out);
        reader.tend(u64::MAX, &mut out);
        drop(reader);
    }

    fn counted(ids: &[u64]) -> Counted {
        let flow = |id: &u64| Flow { id: FlowId(*id), inode: 100 + id, ..Flow::default() };
        let sample = |id: &u64| Event { flow: FlowId(*id), mono_ns: 5, ..Event::default() };
        let flows = ids.iter().map(|id| (flow(id), sample(id))).collect();
        Counted { number: 1, mono_ns: 5, flows, gone: Vec::new() }
    }

    #[test]
    fn a_census_tells_of_no_flow_that_spoke_or_closed_meanwhile() {
        let (mut reader, _go, _) = slow("");
        let mut out = Vec::new();
        reader.expect_census();
        reader.take(0, &identity(1), no_stack, &mut out);
        reader.take(0, &identity(2), no_stack, &mut out);
        let close = event_record { cookie: 2, kind: abi::RECORD_CLOSE, ..Default::default() };
        reader.take(0, &Record { event: close }, no_stack, &mut out);
        out.clear();
        assert_eq!(reader.meet_silent(counted(&[1, 2, 3]), 9, &mut out), 2);
        let [Item::Flow(flow), Item::Event(event)] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!((flow.id, event.flow, event.mono_ns), (FlowId(3), FlowId(3), 9));
        assert!(!reader.asks_for_census(u64::MAX));
    }

    #[test]
    fn what_a_census_finds_gone_is_closed_once_and_nothing_else() {
        let (mut reader, _go, _) = slow("");
        let mut out = Vec::new();
        reader.expect_losses();
        for n in 1..=3 {
            reader.take(0, &identity(n), no_stack, &mut out);
        }
        // The identity of 4 was lost.
        reader.take(0, &ack(4, 1), no_stack, &mut out);
        let mut held: Vec<u64> = reader.held_open().iter().map(|(id, _)| id.0).collect();
        held.sort_unstable();
        assert_eq!(held, [1, 2, 3, 4]);
        reader.expect_census();
        reader.expect_no_more_losses();
        // Of 2 the close is read while the census is under way; 3 is there; 5 is new.
        let close = event_record { cookie: 2, kind: abi::RECORD_CLOSE, ..Default::default() };
        reader.take(0, &Record { event: close }, no_stack, &mut out);
        reader.take(0, &identity(5), no_stack, &mut out);
        out.clear();
        let gone = [1, 2, 4].map(FlowId).to_vec();
        assert_eq!(reader.meet_silent(Counted { gone, ..counted(&[3]) }, 9, &mut out), 2);
        let closed: Vec<_> = out
            .iter()
            .map(|item| match item {
                Item::Event(e) => (e.flow.0, e.kind, e.reason, e.mono_ns, e.has_snapshot()),
                other => panic!("{other:?}"),
            })
            .collect();
        let close = |id| (id, Kind::Close, yuzuri_trace::Reason::CloseNotSeen, 9, false);
        assert_eq!(closed, [close(1), close(4)]);
        assert_eq!(reader.remembered(), 2 + reader.searches.len());
    }

    #[test]
    fn a_filter_for_owners_counts_again_once_they_are_known() {
        let (mut reader, go, begun) = slow("pid:3 pid:4");
        let mut out = Vec::new();
        reader.expect_census();
        assert_eq!(reader.meet_silent(counted(&[3, 5]), 9, &mut out), 0);
        reader.tend(1, &mut out);
        go.send(()).unwrap();
        tend_until(&mut reader, &mut out, |reader, _| !reader.unshown.is_empty());
        assert!(reader.asks_for_census(1));
        // The programs are told of both: they know what to make of it.
        let mut told = reader.take_told();
        told.sort_by_key(|(id, _)| *id);
        assert_eq!(told, [(FlowId(3), owner(3)), (FlowId(5), owner(5))]);
        assert_eq!(reader.meet_silent(counted(&[3, 5, 7]), 19, &mut out), 2);
        assert!(named(&out, 3), "{out:?}");
        // That was the end of it: nothing is searched for again.
        assert!(!reader.asks_for_census(u64::MAX));
        reader.tend(u64::MAX, &mut out);
        assert_eq!((begun.load(Ordering::SeqCst), reader.remembered()), (1, 1));
    }
}
