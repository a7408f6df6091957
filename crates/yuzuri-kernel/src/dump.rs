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
const MAX_TRIES: u32 = 3;

/// What to look for.
#[derive(Debug)]
struct DumpRequest {
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

/// The result of a dump.
#[derive(Default)]
pub(crate) struct DumpResult {
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
pub(crate) struct DumpWorker {
    worker: Worker<DumpRequest, DumpResult>,
    /// The number of the latest request.
    number: u32,
    /// The next request, which is sent when the worker is free.
    next: Option<DumpRequest>,
}

impl DumpWorker {
    /// # Errors
    /// If the system has no room for a thread.
    pub(crate) fn new() -> std::io::Result<DumpWorker> {
        let worker = Worker::new("yuzuri-dump", |request: DumpRequest, cancellation: &Cancellation| {
            dump_flows(&request, cancellation)
        })?;
        Ok(DumpWorker { worker, number: 0, next: None })
    }

    /// Requests a new dump; one in progress is discarded.
    pub(crate) fn request_flows(&mut self, filter: &Filter) {
        self.request_all(filter, Vec::new());
    }

    /// The same, and reports which of these flows have closed.
    pub(crate) fn request_all(&mut self, filter: &Filter, held_open: Vec<HeldOpen>) {
        self.request(filter, held_open, true);
    }

    /// Only reports which of these flows have closed, and which were accepted.
    pub(crate) fn request_closed(&mut self, filter: &Filter, held_open: Vec<HeldOpen>) {
        self.request(filter, held_open, false);
    }

    fn request(&mut self, filter: &Filter, held_open: Vec<HeldOpen>, lists_flows: bool) {
        self.number = self.number.wrapping_add(1);
        let filter = filter.clone();
        self.next = Some(DumpRequest { number: self.number, filter, held_open, lists_flows });
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
    pub(crate) fn take(&mut self) -> Option<DumpResult> {
        let result = self.worker.take();
        self.send();
        result.filter(|result| result.number == self.number)
    }

    /// As [`DumpWorker::take`], waiting at most this long.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Option<DumpResult> {
        let result = if self.worker.is_free() { None } else { self.worker.wait(timeout) };
        self.send();
        result.filter(|result| result.number == self.number)
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

fn dump_flows(request: &DumpRequest, cancellation: &Cancellation) -> DumpResult {
    let started_ns = clock::mono_ns();
    let mut result = DumpResult { number: request.number, ..DumpResult::default() };
    let mut listed = ListedSockets::default();
    // A group that was removed since the filter was set selects nothing.
    if let Ok(scope) = Scope::new(&request.filter) {
        let place = Place::named(sampled::PLACE);
        for namespace in namespaces(&request.filter) {
            if cancellation.is_cancelled() {
                listed.all_listed = false;
                break;
            }
            // A namespace may end at any moment, and without CAP_SYS_ADMIN those of others are
            // inaccessible: the session records that.
            let Some(sockets) = sockets_in(&namespace, !request.held_open.is_empty()) else {
                listed.all_listed = false;
                continue;
            };
            listed.add(namespace.number, &sockets);
            if !request.lists_flows {
                continue;
            }
            for socket in sockets {
                let flow = sampled::identity(&socket, namespace.number, namespace.name.as_deref());
                // A connection that is being opened will be seen by hooks.
                if is_synchronized(socket.state) && scope.may_match(&flow) {
                    result.flows.push((flow, sampled::sample(&socket, clock::mono_ns(), place)));
                }
            }
        }
    }
    let held_open = || request.held_open.iter();
    result.gone = held_open().filter(|flow| listed.has_closed(flow)).map(|flow| flow.id).collect();
    let waiting = held_open().filter(|flow| flow.lacks_inode);
    result.accepted = waiting.filter_map(|flow| Some((flow.id, listed.inode(flow.id)?))).collect();
    result.mono_ns = clock::mono_ns();
    result.took_ns = result.mono_ns.saturating_sub(started_ns);
    result
}

/// The existing sockets, as far as they were listed.
struct ListedSockets {
    namespaces: HashSet<u32>,
    /// The inode numbers by cookie; 0 if the connection is not accepted yet.
    inodes: HashMap<u64, u64>,
    all_listed: bool,
}

impl Default for ListedSockets {
    fn default() -> ListedSockets {
        ListedSockets { namespaces: HashSet::new(), inodes: HashMap::new(), all_listed: true }
    }
}

impl ListedSockets {
    fn add(&mut self, namespace: u32, sockets: &[Socket]) {
        self.namespaces.insert(namespace);
        self.inodes.extend(sockets.iter().map(|socket| (socket.cookie, socket.inode)));
    }

    /// The inode number of the flow's socket, if the connection is accepted.
    fn inode(&self, id: FlowId) -> Option<u64> {
        self.inodes.get(&id.0).copied().filter(|inode| *inode != 0)
    }

    /// Whether the flow has certainly closed. Nothing is known about namespaces that could not be
    /// listed.
    fn has_closed(&self, flow: &HeldOpen) -> bool {
        let examined = flow
            .netns
            .map_or(self.all_listed && !self.namespaces.is_empty(), |s| self.namespaces.contains(&s));
        examined && !self.inodes.contains_key(&flow.id.0)
    }
}

/// The namespaces named by a filter, or all.
fn namespaces(filter: &Filter) -> Vec<netns::NetNamespace> {
    let mut namespaces = netns::all();
    if !filter.netns.is_empty() {
        let wanted: HashSet<u32> = filter.netns.iter().filter_map(|name| netns::inode(name).ok()).collect();
        namespaces.retain(|namespace| wanted.contains(&namespace.number));
    }
    namespaces
}

/// `is_complete`: every socket that exists throughout the call must be listed.
fn sockets_in(namespace: &netns::NetNamespace, is_complete: bool) -> Option<Vec<Socket>> {
    // The socket stays in the namespace where it was opened. Our own namespace needs no privilege
    // to enter.
    let mut diag =
        if netns::is_own(namespace.number) { Diag::open().ok()? } else { netns::diag_in(namespace).ok()? };
    let mut sockets = Vec::new();
    for _ in 0..MAX_TRIES {
        sockets.clear();
        if !diag.dump_of_flows(&mut sockets).ok()? {
            break;
        }
    }
    if is_complete {
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
