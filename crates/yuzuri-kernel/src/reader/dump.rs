//! Flows that only a dump reports: silent ones, and those whose close was lost.

use super::Reader;
use super::owners::{Search, Undecided};
use crate::dump::{DumpResult, HeldOpen};
use crate::sampled;
use std::sync::Arc;
use yuzuri_trace::{Event, Flow, FlowId, Item, Place};

/// The state of the dump.
#[derive(PartialEq, Eq)]
pub(super) enum Awaited {
    No,
    /// For the current filter.
    First,
    /// A second one, after the owners of some flows became known.
    Again,
}

impl Reader {
    /// A dump for the current filter begins.
    pub(crate) fn expect_dump(&mut self) {
        self.dump_state = Awaited::First;
        self.closed.clear();
    }

    /// Records were lost before those processed from now on.
    pub(crate) fn expect_losses(&mut self) {
        self.lossy = true;
    }

    /// A dump in progress covers everything that was lost.
    pub(crate) fn expect_no_more_losses(&mut self) {
        self.lossy = false;
    }

    /// Whether a dump is in progress.
    pub(crate) fn awaits_dump(&self) -> bool {
        self.dump_state != Awaited::No
    }

    /// The flows held to be open.
    pub(crate) fn held_open(&self) -> Vec<HeldOpen> {
        let held = |flow: &Flow| HeldOpen {
            id: flow.id,
            netns: Some(flow.netns),
            lacks_inode: flow.owner.is_none() && flow.inode == 0,
        };
        let named = self.flows.values().map(|flow| held(flow));
        let unnamed = self.unnamed.iter().map(|id| HeldOpen { id: *id, netns: None, lacks_inode: false });
        let undecided = self.undecided.values().map(|undecided| held(&undecided.flow));
        named.chain(unnamed).chain(undecided.filter(|flow| flow.lacks_inode)).collect()
    }

    /// Processes connections that were accepted after their last segment: their owners are searched
    /// for now.
    fn note_accepted(&mut self, accepted: &[(FlowId, u64)]) {
        for (id, inode) in accepted {
            let flow = self.flows.get_mut(id).map(Arc::make_mut);
            let flow = flow.or_else(|| Some(&mut self.undecided.get_mut(id)?.flow));
            if let Some(flow) = flow.filter(|flow| flow.inode == 0) {
                flow.inode = *inode;
                self.searches.entry(*id).or_insert(Search { tries: 0, next_ns: 0 });
            }
        }
    }

    /// Closes the flows that a dump found closed, unless their close was read meanwhile.
    fn close_gone(&mut self, gone: &[FlowId], mono_ns: u64, out: &mut Vec<Item>) -> u64 {
        let place = Place::named(sampled::PLACE);
        let mut records = 0;
        for id in gone {
            // A closed flow that the filter has not selected is not reported.
            self.undecided.remove(id);
            let was_open = self.flows.remove(id).is_some() | self.unnamed.remove(id);
            if was_open {
                self.searches.remove(id);
                self.owners_known.remove(id);
                self.awaiting_record.remove(id);
                out.push(Item::Event(Event::close_not_seen(*id, mono_ns, place)));
                records += 1;
            }
        }
        records
    }

    /// Whether another dump is worthwhile because owners were found; it is expected from now on.
    pub(crate) fn needs_dump(&mut self, now_ns: u64) -> bool {
        if self.awaiting_record.is_empty() || self.dump_state != Awaited::No || now_ns < self.show_due_ns {
            return false;
        }
        // Flows that the dump does not find have closed.
        let awaiting_record = std::mem::take(&mut self.awaiting_record);
        let asks = awaiting_record.iter().any(|id| !self.flows.contains_key(id));
        if asks {
            self.dump_state = Awaited::Again;
        }
        asks
    }

    /// Adds the flows that a dump found and no hook has reported, as records of the time
    /// `mono_ns`, up to which all hook records have been processed: so each flow's records stay in
    /// order. Returns the number of records.
    pub(crate) fn add_unrecorded(
        &mut self,
        dump_result: DumpResult,
        mono_ns: u64,
        out: &mut Vec<Item>,
    ) -> u64 {
        let needs_owner = self.by_owner.needs_owner();
        let mut records = self.close_gone(&dump_result.gone, mono_ns, out);
        self.note_accepted(&dump_result.accepted);
        for (mut flow, event) in dump_result.flows {
            if self.flows.contains_key(&flow.id) || self.closed.contains(&flow.id) {
                continue;
            }
            flow.owner = self.owners_known.remove(&flow.id);
            // A second dump does not find flows whose owner is still worth a search.
            let searched = flow.owner.is_none() && flow.inode != 0 && self.dump_state != Awaited::Again;
            if searched {
                self.searches.entry(flow.id).or_insert(Search { tries: 0, next_ns: 0 });
            }
            match &flow.owner {
                None if needs_owner => {
                    if searched {
                        self.undecided.entry(flow.id).or_insert(Undecided { flow, is_unrecorded: true });
                    }
                    continue;
                }
                Some(_) if !self.by_owner.matches(&flow, |_, _| true) => continue,
                Some(owner) if needs_owner => self.found_owners.push((flow.id, owner.clone())),
                _ => {}
            }
            let flow = Arc::new(flow);
            self.unnamed.remove(&flow.id);
            self.flows.insert(flow.id, flow.clone());
            out.push(Item::Flow(flow));
            out.push(Item::Event(Event { mono_ns, ..event }));
            records += 2;
        }
        self.dump_state = Awaited::No;
        self.closed.clear();
        records
    }
}
