//! From records to items: identities, owners, places.

use crate::abi::{self, RECORD_FLOW, Record};
use crate::places::Symbols;
use crate::{decode, netns, owners};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use yuzuri_trace::{Flow, FlowId, Item, Kind, Owner};

const TEND_NS: u64 = 100_000_000;

/// A flow whose owner user space still looks for.
struct Search {
    tries: u32,
    next_ns: u64,
}

/// Turns records into items, with what only user space knows.
pub(crate) struct Reader {
    flows: HashMap<FlowId, Arc<Flow>>,
    /// Flows that the filter cannot decide before it knows their owner.
    undecided: HashMap<FlowId, Flow>,
    searches: HashMap<FlowId, Search>,
    netns_names: HashMap<u32, String>,
    symbols: Option<Symbols>,
    symbols_coming: Option<Receiver<Result<Symbols, String>>>,
    stacks: HashMap<u32, Box<[u64]>>,
    tend_due_ns: u64,
}

impl Reader {
    /// `symbols_coming` will bring the kernel's symbols.
    pub(crate) fn new(symbols_coming: Receiver<Result<Symbols, String>>) -> Reader {
        Reader {
            flows: HashMap::new(),
            undecided: HashMap::new(),
            searches: HashMap::new(),
            netns_names: netns::names(),
            symbols: None,
            symbols_coming: Some(symbols_coming),
            stacks: HashMap::new(),
            tend_due_ns: 0,
        }
    }

    /// After a change of filter every flow is met again.
    pub(crate) fn forget_undecided(&mut self) {
        self.undecided.clear();
    }

    /// Takes a record. `read_stack` gives the addresses of a stack by its number.
    pub(crate) fn take(
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
        if record.kind > abi::RECORD_CLOSE {
            return;
        }
        let has_stack = matches!(record.kind, abi::RECORD_STATE | abi::RECORD_RETRANSMIT);
        let event = if has_stack && record.stack != abi::NO_STACK {
            self.wait_for_symbols();
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

    /// The first event that needs a place waits for the symbols: tens of milliseconds, once.
    fn wait_for_symbols(&mut self) {
        if let Some(coming) = self.symbols_coming.take() {
            self.symbols = coming.recv().ok().and_then(Result::ok);
        }
    }

    fn meet(&mut self, identity: decode::Identity, out: &mut Vec<Item>) {
        let mut flow = identity.flow;
        if let Some(known) = self.flows.get(&flow.id) {
            flow.owner = flow.owner.or_else(|| known.owner.clone());
        }
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
            self.undecided.insert(flow.id, flow);
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
                        }
                    }
                }
            }
        }
    }
}
