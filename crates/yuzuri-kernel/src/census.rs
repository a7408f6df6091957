//! Finds silent flows. No hook sees a connection on which nothing happens, so `sock_diag` lists all
//! flows once when the observation begins and when the filter changes. It lists them again after
//! records were lost: the close of a flow may have been among them, and so may the only record of
//! an open one. Periodically it looks only for flows that have closed, because some kernels skip
//! runs of BPF programs without counting them (`crate::shielded`). This runs on its own thread:
//! with many sockets and namespaces it takes longer than the ring buffers can wait.

use crate::diag::{Diag, Socket};
use crate::sampled::Scope;
use crate::tcp_state::is_synchronized;
use crate::worker::{Cancellation, Worker};
use crate::{clock, netns, sampled};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;
use yuzuri_trace::{Event, Filter, Flow, FlowId, Hook, HookState, Place};

/// How often a dump is repeated if sockets came or went meanwhile: one may be missing in it.
const TRIES: u32 = 3;

/// What to look for.
#[derive(Debug)]
struct CensusRequest {
    number: u32,
    filter: Filter,
    /// Flows held to be open, with their namespaces if these are known.
    held_open: Vec<HeldOpen>,
    /// Whether to list flows; otherwise only those that are gone count.
    lists_flows: bool,
}

/// A flow held to be open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldOpen {
    pub(crate) id: FlowId,
    /// Its network namespace, if that is known.
    pub(crate) netns: Option<u32>,
    /// Whether its socket had no inode when it was last seen: it was not accepted yet.
    pub(crate) lacks_inode: bool,
}

/// The result of a census.
#[derive(Default)]
pub(crate) struct Counted {
    /// The number of its request.
    pub(crate) number: u32,
    /// When the last flow was read, `CLOCK_MONOTONIC`, nanoseconds.
    pub(crate) mono_ns: u64,
    /// Established flows that the filter selects, or would select with the right owner: their
    /// owners are not known here.
    pub(crate) flows: Vec<(Flow, Event)>,
    /// Flows that were held to be open and no longer exist in the kernel.
    pub(crate) gone: Vec<FlowId>,
    /// Flows that lacked an inode, with the inode number that their socket has now. No hook reports
    /// `accept()`.
    pub(crate) accepted: Vec<(FlowId, u64)>,
    /// How long it took, nanoseconds.
    pub(crate) took_ns: u64,
}

/// Lists all existing flows, once for each request.
pub(crate) struct Census {
    worker: Worker<CensusRequest, Counted>,
    /// The number of the latest request.
    number: u32,
    /// The next request, which is sent when the worker is free.
    next: Option<CensusRequest>,
}

impl Census {
    /// # Errors
    /// If the system has no room for a thread.
    pub(crate) fn new() -> std::io::Result<Census> {
        let worker =
            Worker::new("yuzuri-census", |order: CensusRequest, given: &Cancellation| count(&order, given))?;
        Ok(Census { worker, number: 0, next: None })
    }

    /// Requests a new census; one in progress is discarded.
    pub(crate) fn order(&mut self, filter: &Filter) {
        self.order_with(filter, Vec::new());
    }

    /// The same, and reports which of these flows have closed.
    pub(crate) fn order_with(&mut self, filter: &Filter, held_open: Vec<HeldOpen>) {
        self.request(filter, held_open, true);
    }

    /// Only reports which of these flows have closed, and which were accepted.
    pub(crate) fn order_gone(&mut self, filter: &Filter, held_open: Vec<HeldOpen>) {
        self.request(filter, held_open, false);
    }

    fn request(&mut self, filter: &Filter, held_open: Vec<HeldOpen>, lists_flows: bool) {
        self.number = self.number.wrapping_add(1);
        let filter = filter.clone();
        self.next = Some(CensusRequest { number: self.number, filter, held_open, lists_flows });
        self.send();
    }

    fn send(&mut self) {
        if self.worker.is_free()
            && let Some(request) = self.next.take()
        {
            let _ = self.worker.send(request);
        }
    }

    /// Whether the latest request has not been answered yet.
    pub(crate) fn is_due(&self) -> bool {
        self.next.is_some() || !self.worker.is_free()
    }

    /// The answer to the latest request, returned once.
    pub(crate) fn take(&mut self) -> Option<Counted> {
        let counted = self.worker.take();
        self.send();
        counted.filter(|counted| counted.number == self.number)
    }

    /// As [`Census::take`], waiting at most this long.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Option<Counted> {
        let counted = if self.worker.is_free() { None } else { self.worker.wait(timeout) };
        self.send();
        counted.filter(|counted| counted.number == self.number)
    }
}

/// The session's description of it.
pub(crate) fn hook() -> Hook {
    let state = match netns::enter(Path::new("/proc/thread-self/ns/net"), || ()) {
        Ok(()) => HookState::Used,
        Err(why) => HookState::Missing {
            why: why.to_string(),
            instead: "silent flows of our own network namespace only".into(),
        },
    };
    let provides =
        "silent flows, at the start and at each change of filter; periodically, flows that have closed";
    Hook { name: "sock_diag".into(), provides: provides.into(), state }
}

fn count(order: &CensusRequest, given: &Cancellation) -> Counted {
    let started_ns = clock::mono_ns();
    let mut counted = Counted { number: order.number, ..Counted::default() };
    let mut there = ListedSockets::default();
    // A group that was removed since the filter was set selects nothing.
    if let Ok(scope) = Scope::new(&order.filter) {
        let place = Place::named(sampled::PLACE);
        for space in spaces(&order.filter) {
            if given.up() {
                there.all_looked_at = false;
                break;
            }
            // A namespace may end at any moment, and without CAP_SYS_ADMIN those of others are
            // inaccessible: the session records that.
            let Some(sockets) = sockets_in(&space, !order.held_open.is_empty()) else {
                there.all_looked_at = false;
                continue;
            };
            there.add(space.number, &sockets);
            if !order.lists_flows {
                continue;
            }
            for socket in sockets {
                let flow = sampled::identity(&socket, space.number, space.name.as_deref());
                // A connection that is being opened will be seen by hooks.
                if is_synchronized(socket.state) && scope.may_match(&flow) {
                    counted.flows.push((flow, sampled::sample(&socket, clock::mono_ns(), place)));
                }
            }
        }
    }
    let held_open = || order.held_open.iter();
    counted.gone = held_open().filter(|flow| there.lacks(flow)).map(|flow| flow.id).collect();
    let waiting = held_open().filter(|flow| flow.lacks_inode);
    counted.accepted = waiting.filter_map(|flow| Some((flow.id, there.inode(flow.id)?))).collect();
    counted.mono_ns = clock::mono_ns();
    counted.took_ns = counted.mono_ns.saturating_sub(started_ns);
    counted
}

/// The existing sockets, as far as they were listed.
struct ListedSockets {
    spaces: HashSet<u32>,
    /// The inode numbers by cookie; 0 if the connection is not accepted yet.
    inodes: HashMap<u64, u64>,
    all_looked_at: bool,
}

impl Default for ListedSockets {
    fn default() -> ListedSockets {
        ListedSockets { spaces: HashSet::new(), inodes: HashMap::new(), all_looked_at: true }
    }
}

impl ListedSockets {
    fn add(&mut self, space: u32, sockets: &[Socket]) {
        self.spaces.insert(space);
        self.inodes.extend(sockets.iter().map(|socket| (socket.cookie, socket.inode)));
    }

    /// The inode number of the flow's socket, if the connection is accepted.
    fn inode(&self, id: FlowId) -> Option<u64> {
        self.inodes.get(&id.0).copied().filter(|inode| *inode != 0)
    }

    /// Whether the flow has certainly closed. Nothing is known about namespaces that could not be
    /// listed.
    fn lacks(&self, flow: &HeldOpen) -> bool {
        let examined =
            flow.netns.map_or(self.all_looked_at && !self.spaces.is_empty(), |s| self.spaces.contains(&s));
        examined && !self.inodes.contains_key(&flow.id.0)
    }
}

/// The namespaces named by a filter, or all.
fn spaces(filter: &Filter) -> Vec<netns::NetNamespace> {
    let mut spaces = netns::all();
    if !filter.netns.is_empty() {
        let wanted: HashSet<u32> = filter.netns.iter().filter_map(|name| netns::inode(name).ok()).collect();
        spaces.retain(|space| wanted.contains(&space.number));
    }
    spaces
}

/// `surely`: every socket that exists throughout the call must be listed.
fn sockets_in(space: &netns::NetNamespace, surely: bool) -> Option<Vec<Socket>> {
    // The socket stays in the namespace where it was opened. Our own namespace needs no privilege
    // to enter.
    let mut diag =
        if netns::is_own(space.number) { Diag::open().ok()? } else { netns::diag_in(space).ok()? };
    let mut sockets = Vec::new();
    for _ in 0..TRIES {
        sockets.clear();
        if !diag.dump_of_flows(&mut sockets).ok()? {
            break;
        }
    }
    if surely {
        // The kernel returns a dump piece by piece. If a socket of the same hash chain closes
        // between two pieces, the kernel silently skips another one. It is unlikely to skip the
        // same socket twice.
        diag.dump_of_flows(&mut sockets).ok()?;
    }
    // The list changed under the dump, so a socket may be in it twice.
    let mut met = HashSet::new();
    sockets.retain(|socket| met.insert(socket.cookie));
    Some(sockets)
}
