//! Searches for owners that the kernel does not know.

use super::Reader;
use std::sync::Arc;
use std::time::Instant;
use yuzuri_trace::{Flow, FlowId, Item, Owner};

pub(super) const SEARCH_INTERVAL_NS: u64 = 100_000_000;
/// A flow with events before its owner was known, and none since, is reported after this time.
const RECORD_TIMEOUT_NS: u64 = 1_000_000_000;
/// How often a flow's owner is searched for again, at growing intervals: about half a minute in
/// all.
const MAX_TRIES: u32 = 8;

/// A flow whose owner user space is still searching for.
pub(super) struct Search {
    pub(super) tries: u32,
    pub(super) next_ns: u64,
}

/// A flow whose owner the filter needs.
pub(super) struct Undecided {
    pub(super) flow: Flow,
    /// Only the dump reported it.
    pub(super) is_unrecorded: bool,
}

impl Reader {
    /// Silent flows that the filter might have selected: their owners could not be found.
    pub(crate) fn owners_missing(&self) -> u64 {
        self.owners_missing
    }

    /// The owners that the kernel's programs wait for, each returned once.
    pub(crate) fn take_owners(&mut self) -> Vec<(FlowId, Owner)> {
        std::mem::take(&mut self.found_owners)
    }

    /// Whether a search is in progress, or a flow had none yet.
    pub(crate) fn is_searching(&self) -> bool {
        !self.owners.is_free() || self.searches.values().any(|search| search.tries == 0)
    }

    /// Searches for owners that the kernel does not know.
    pub(crate) fn search_owners(&mut self, now_ns: u64, out: &mut Vec<Item>) {
        if let Some(found) = self.owners.take() {
            self.name_owners(found, now_ns, out);
        }
        if !self.searches.is_empty() && now_ns >= self.search_due_ns {
            self.search_due_ns = now_ns.saturating_add(SEARCH_INTERVAL_NS);
            self.look_for_owners(now_ns);
        }
    }

    /// The end: one more search for all unknown owners, and its result if it arrives in time.
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
        let missing = self.undecided.drain().filter(|(_, undecided)| undecided.is_unrecorded).count();
        self.owners_missing += missing as u64;
    }

    fn look_for_owners(&mut self, now_ns: u64) {
        let inode = |id: &FlowId| {
            let known = self.flows.get(id).map(|flow| flow.inode);
            known.or_else(|| Some(self.undecided.get(id)?.flow.inode))
        };
        // Flows that closed unseen, or are excluded, are not searched for.
        self.searches.retain(|id, _| inode(id).is_some());
        let due = self.searches.iter().filter(|(_, search)| search.next_ns <= now_ns);
        self.owners.look_for(due.filter_map(|(id, _)| Some((*id, inode(id)?))));
    }

    fn name_owners(&mut self, found: Vec<(FlowId, Option<Owner>)>, now_ns: u64, out: &mut Vec<Item>) {
        for (id, owner) in found {
            // The flow closed meanwhile, or the filter changed.
            let Some(search) = self.searches.get_mut(&id) else { continue };
            let Some(owner) = owner else {
                // The socket is between accept() and the process' next use, or its process is
                // hidden from us.
                search.tries += 1;
                search.next_ns = now_ns.saturating_add(SEARCH_INTERVAL_NS << search.tries.min(6));
                if search.tries > MAX_TRIES {
                    self.searches.remove(&id);
                    let missing = self.undecided.remove(&id).is_some_and(|undecided| undecided.is_unrecorded);
                    self.owners_missing += u64::from(missing);
                }
                continue;
            };
            self.searches.remove(&id);
            if let Some(flow) = self.flows.get_mut(&id) {
                *flow = Arc::new(Flow { owner: Some(owner.clone()), ..flow.as_ref().clone() });
                out.push(Item::Flow(flow.clone()));
            }
            if let Some(Undecided { mut flow, is_unrecorded }) = self.undecided.remove(&id) {
                self.found_owners.push((id, owner.clone()));
                flow.owner = Some(owner.clone());
                if self.by_owner.matches(&flow, |_, _| true) {
                    // The dump's information is old by now; if the flow has another event, a hook
                    // reports it.
                    let due_ns = if is_unrecorded { 0 } else { now_ns.saturating_add(RECORD_TIMEOUT_NS) };
                    self.show_due_ns =
                        if self.awaiting_record.is_empty() { due_ns } else { self.show_due_ns.min(due_ns) };
                    self.owners_known.insert(id, owner);
                    self.awaiting_record.insert(id);
                }
            }
        }
    }
}
