//! From records to items: identities, owners, places.

use crate::abi::{self, RECORD_FLOW, Record, event_record};
use crate::places::Symbols;
use crate::{decode, netns, owners};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use yuzuri_trace::{Flow, FlowId, Item, Kind, Owner};

const TEND_NS: u64 = 100_000_000;

/// Records held until the symbols are there, 8 MiB: a tenth of a second of all that two CPUs can give.
const MOST_HELD: usize = 64 * 1024;

/// A flow whose owner user space still looks for.
struct Search {
    tries: u32,
    next_ns: u64,
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
    undecided: HashMap<FlowId, Flow>,
    /// Owners of the flows that were known under the filter before this one.
    former_owners: HashMap<FlowId, Owner>,
    searches: HashMap<FlowId, Search>,
    netns_names: HashMap<u32, String>,
    symbols: Option<Symbols>,
    symbols_coming: Option<Receiver<Result<Symbols, String>>>,
    stacks: HashMap<u32, Box<[u64]>>,
    /// Records from the first that needs the symbols on, while these are on their way.
    held: Vec<(u16, Record)>,
    tend_due_ns: u64,
}

impl Reader {
    /// `symbols_coming` will bring the kernel's symbols.
    pub(crate) fn new(symbols_coming: Receiver<Result<Symbols, String>>) -> Reader {
        Reader {
            flows: HashMap::new(),
            undecided: HashMap::new(),
            former_owners: HashMap::new(),
            searches: HashMap::new(),
            netns_names: netns::names(),
            symbols: None,
            symbols_coming: Some(symbols_coming),
            stacks: HashMap::new(),
            held: Vec::new(),
            tend_due_ns: 0,
        }
    }

    /// After a change of filter every flow is met again, or never: of one that is left out nobody tells that it closed.
    pub(crate) fn forget(&mut self) {
        self.undecided.clear();
        self.searches.clear();
        let known = self.flows.drain();
        self.former_owners = known.filter_map(|(id, flow)| Some((id, flow.owner.clone()?))).collect();
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
        if waits && !self.have_symbols(self.held.len() >= MOST_HELD) {
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
        let event = if has_stack(record) {
            let stack = self.stacks.entry(record.stack).or_insert_with(|| read_stack(record.stack));
            let frames = self.symbols.as_ref().map(|s| s.frames(stack)).unwrap_or_default();
            decode::event(record, cpu, &frames)
        } else {
            decode::event(record, cpu, &[])
        };
        if event.kind == Kind::Close {
            self.flows.remove(&event.flow);
            self.searches.remove(&event.flow);
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
        flow.owner = flow.owner.or_else(|| self.former_owners.remove(&flow.id));
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
            // One that nobody has accepted yet is announced again when somebody does.
            if flow.inode != 0 {
                self.undecided.insert(flow.id, flow);
            }
            return;
        }
        self.undecided.remove(&flow.id);
        let flow = Arc::new(flow);
        self.flows.insert(flow.id, flow.clone());
        out.push(Item::Flow(flow));
    }

    /// Looks for owners that the kernel could not name. `owned` is told of each owner that a filter waits for.
    pub(crate) fn tend(&mut self, now_ns: u64, out: &mut Vec<Item>, mut owned: impl FnMut(FlowId, &Owner)) {
        if self.searches.is_empty() || now_ns < self.tend_due_ns {
            return;
        }
        self.tend_due_ns = now_ns.saturating_add(TEND_NS);
        let flow_of = |id: &FlowId| self.flows.get(id).map(|f| f.as_ref()).or_else(|| self.undecided.get(id));
        let due: Vec<(FlowId, u64)> = (self.searches.iter())
            .filter(|(_, search)| search.next_ns <= now_ns)
            .filter_map(|(id, _)| Some((*id, flow_of(id)?.inode)))
            .collect();
        if due.is_empty() {
            return;
        }
        let found = owners::find(&due.iter().map(|(_, inode)| *inode).collect::<HashSet<_>>());
        for (id, inode) in due {
            match found.get(&inode) {
                Some(owner) => {
                    self.searches.remove(&id);
                    if let Some(flow) = self.flows.get_mut(&id) {
                        *flow = Arc::new(Flow { owner: Some(owner.clone()), ..flow.as_ref().clone() });
                        out.push(Item::Flow(flow.clone()));
                    }
                    if self.undecided.remove(&id).is_some() {
                        owned(id, owner);
                    }
                }
                None => {
                    // A socket between accept() and the process' next look, or one whose process hides from us.
                    if let Some(search) = self.searches.get_mut(&id) {
                        search.tries += 1;
                        search.next_ns = now_ns.saturating_add(TEND_NS << search.tries.min(6));
                        if search.tries > 8 {
                            self.searches.remove(&id);
                            self.undecided.remove(&id);
                        }
                    }
                }
            }
        }
    }
}
