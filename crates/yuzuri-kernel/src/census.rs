//! Flows that are silent: no hook tells of a connection on which nothing happens, so `sock_diag` is asked once for all
//! that there are, when watching begins and when the filter changes. And once more after records were lost: the close of
//! a flow may have been among them, and so may the only word of one that is open. A thread of its own asks: with many
//! sockets and namespaces it takes longer than the rings may wait.

use crate::diag::{Diag, Socket};
use crate::sampled::Scope;
use crate::worker::{Given, Worker};
use crate::{clock, netns, sampled};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
use yuzuri_trace::{Event, Filter, Flow, FlowId, Hook, HookState, Place};

/// A dump is asked for again this many times where sockets came or went meanwhile: one may be missing in it.
const TRIES: u32 = 3;

/// Which flows are looked for.
#[derive(Debug)]
struct Order {
    number: u32,
    filter: Filter,
    /// Flows that are held open, with their namespaces where these are known.
    held_open: Vec<HeldOpen>,
}

/// A flow that is held open, with its namespace where that is known.
pub(crate) type HeldOpen = (FlowId, Option<u32>);

/// The flows that there were.
pub(crate) struct Counted {
    /// Of the order.
    pub(crate) number: u32,
    /// When the last of them was looked at, `CLOCK_MONOTONIC`, nanoseconds.
    pub(crate) mono_ns: u64,
    /// Established flows that the filter chooses, or would if they had the right owner: none has one here.
    pub(crate) flows: Vec<(Flow, Event)>,
    /// Of the flows that were held open, those that the kernel does not have any more.
    pub(crate) gone: Vec<FlowId>,
}

/// Asks for all flows that there are, once for each order.
pub(crate) struct Census {
    worker: Worker<Order, Counted>,
    /// The latest order.
    number: u32,
    /// What to ask for once the job is free.
    next: Option<(Filter, Vec<HeldOpen>)>,
}

impl Census {
    /// # Errors
    /// Where the system has no room for a thread.
    pub(crate) fn new() -> std::io::Result<Census> {
        let worker = Worker::new("yuzuri-census", |order: Order, given: &Given| count(&order, given))?;
        Ok(Census { worker, number: 0, next: None })
    }

    /// Orders a new count; one that is under way no longer counts.
    pub(crate) fn order(&mut self, filter: &Filter) {
        self.order_with(filter, Vec::new());
    }

    /// The same, and which of these flows are gone.
    pub(crate) fn order_with(&mut self, filter: &Filter, held_open: Vec<HeldOpen>) {
        self.number = self.number.wrapping_add(1);
        self.next = Some((filter.clone(), held_open));
        self.send();
    }

    fn send(&mut self) {
        if self.worker.is_free()
            && let Some((filter, held_open)) = self.next.take()
        {
            let _ = self.worker.send(Order { number: self.number, filter, held_open });
        }
    }

    /// Whether the latest order is still to be answered.
    pub(crate) fn is_due(&self) -> bool {
        self.next.is_some() || !self.worker.is_free()
    }

    /// The answer to the latest order, once.
    pub(crate) fn take(&mut self) -> Option<Counted> {
        let counted = self.worker.take();
        self.send();
        counted.filter(|counted| counted.number == self.number)
    }

    /// As [`Census::take`], waiting for it at most this long.
    pub(crate) fn wait(&mut self, most: Duration) -> Option<Counted> {
        let counted = if self.worker.is_free() { None } else { self.worker.wait(most) };
        self.send();
        counted.filter(|counted| counted.number == self.number)
    }
}

/// What the session says of it.
pub(crate) fn hook() -> Hook {
    let state = match netns::enter(Path::new("/proc/thread-self/ns/net"), || ()) {
        Ok(()) => HookState::Used,
        Err(why) => HookState::Missing {
            why: why.to_string(),
            instead: "silent flows of our own network namespace only".into(),
        },
    };
    let tells =
        "flows that are silent, at the start and at each change of filter; flows that are gone, after losses";
    Hook { name: "sock_diag".into(), tells: tells.into(), state }
}

fn count(order: &Order, given: &Given) -> Counted {
    let mut counted = Counted { number: order.number, mono_ns: 0, flows: Vec::new(), gone: Vec::new() };
    let mut there = There::default();
    // A group that has gone since the filter was set chooses nothing.
    if let Ok(scope) = Scope::new(&order.filter) {
        let place = Place::named(sampled::PLACE);
        for space in spaces(&order.filter) {
            if given.up() {
                there.all_looked_at = false;
                break;
            }
            // A namespace may end at any moment, and without CAP_SYS_ADMIN others' are closed to us: the session says so.
            let Some(sockets) = sockets_in(&space, !order.held_open.is_empty()) else {
                there.all_looked_at = false;
                continue;
            };
            there.add(space.number, &sockets);
            for socket in sockets {
                let flow = sampled::identity(&socket, space.number, space.name.as_deref());
                // A connection that is being opened tells of itself.
                if socket.is_synchronized() && scope.may_choose(&flow) {
                    counted.flows.push((flow, sampled::sample(&socket, clock::mono_ns(), place)));
                }
            }
        }
    }
    counted.gone = order.held_open.iter().filter(|flow| there.lacks(**flow)).map(|(id, _)| *id).collect();
    counted.mono_ns = clock::mono_ns();
    counted
}

/// Which sockets there are, as far as was looked.
struct There {
    spaces: HashSet<u32>,
    cookies: HashSet<u64>,
    all_looked_at: bool,
}

impl Default for There {
    fn default() -> There {
        There { spaces: HashSet::new(), cookies: HashSet::new(), all_looked_at: true }
    }
}

impl There {
    fn add(&mut self, space: u32, sockets: &[Socket]) {
        self.spaces.insert(space);
        self.cookies.extend(sockets.iter().map(|socket| socket.cookie));
    }

    /// Whether the flow is surely gone: nothing is said of namespaces that could not be looked at.
    fn lacks(&self, (id, space): HeldOpen) -> bool {
        let looked =
            space.map_or(self.all_looked_at && !self.spaces.is_empty(), |s| self.spaces.contains(&s));
        looked && !self.cookies.contains(&id.0)
    }
}

/// The namespaces that a filter names, or all.
fn spaces(filter: &Filter) -> Vec<netns::Space> {
    let mut spaces = netns::all();
    if !filter.netns.is_empty() {
        let wanted: HashSet<u32> = filter.netns.iter().filter_map(|name| netns::inode(name).ok()).collect();
        spaces.retain(|space| wanted.contains(&space.number));
    }
    spaces
}

/// `surely`: no socket may be missing that there was all the time.
fn sockets_in(space: &netns::Space, surely: bool) -> Option<Vec<Socket>> {
    // The socket stays in the namespace where it was made. Our own needs no right to enter it.
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
        // A dump is given piece by piece. Where a socket of the same hash chain goes between two pieces, the kernel skips
        // another one, without a word. Such an accident does not happen twice to the same socket.
        diag.dump_of_flows(&mut sockets).ok()?;
    }
    // Twice in it, one is where the list changed under the dump.
    let mut met = HashSet::new();
    sockets.retain(|socket| met.insert(socket.cookie));
    Some(sockets)
}
