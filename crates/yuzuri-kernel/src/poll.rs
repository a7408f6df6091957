//! Observation without privilege: polls the kernel through `sock_diag`, or this process's own
//! sockets through `TCP_INFO`, and converts changes to records.

use crate::diag::{Diag, Socket};
use crate::own::OwnSockets;
use crate::owners::{self, Owners};
use crate::sampled::{self, Scope};
use crate::{Watch, WatchError, clock, netns, session};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use yuzuri_trace::{
    Account, CpuAccount, Density, Event, Filter, Flow, FlowId, Hook, HookState, Item, Kind, Marks, Owner,
    Place, Reason, Session, Setting, Source,
};

/// The shortest and the default interval.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// Polling takes at most this share of one CPU's time: with many sockets the interval grows.
const MAX_OF_A_CPU: u32 = 20;
const QUIET_NS: u64 = 1_000_000_000;
const ACCOUNT_NS: u64 = 1_000_000_000;
/// The interval of owner searches, and their number per socket.
const SEARCH_NS: u64 = 250_000_000;
const MAX_SEARCHES: u32 = 8;

struct PolledFlow {
    flow: Arc<Flow>,
    last: Socket,
    /// When the last record was made.
    record_ns: u64,
    /// The poll that saw it last.
    round: u64,
    searches: u32,
}

/// What a poll reads.
enum PollSource {
    /// The kernel, for all sockets of a namespace.
    Namespace(Diag),
    /// Sockets of this process.
    OwnSockets(OwnSockets),
}

impl PollSource {
    /// Whether the list is complete: a failed or interrupted dump misses sockets for one round, and
    /// none of them may count as closed.
    fn dump(&mut self, out: &mut Vec<Socket>) -> bool {
        match self {
            PollSource::Namespace(diag) => matches!(diag.dump(out), Ok(false)),
            PollSource::OwnSockets(own) => {
                own.dump(out);
                true
            }
        }
    }
}

/// A running poller.
pub struct Poller {
    asked: Vec<(u32, Option<String>, PollSource)>,
    /// Only these sockets are read, whatever the filter is.
    own: Option<OwnSockets>,
    session: Arc<Session>,
    filter: Filter,
    scope: Scope,
    density: Density,
    known: HashMap<FlowId, PolledFlow>,
    owners: Owners,
    round: u64,
    read_interval: Duration,
    kept: u64,
    account_due_ns: u64,
    search_due_ns: u64,
    pending: Vec<Item>,
    place: Place,
}

/// A `sock_diag` socket for each namespace of the filter, or for our own.
fn open(filter: &Filter) -> Result<Vec<(u32, Option<String>, PollSource)>, WatchError> {
    if filter.netns.is_empty() {
        return Ok(vec![(
            netns::inode("self").unwrap_or(0),
            None,
            PollSource::Namespace(netns::diag_named("self")?),
        )]);
    }
    let within = |name: &String| {
        let number = netns::inode(name)?;
        let named = (name != "self" && name.parse::<u32>().is_err()).then(|| name.clone());
        let diag = PollSource::Namespace(netns::diag_named(name)?);
        Ok((number, named, diag))
    };
    filter.netns.iter().map(within).collect()
}

impl Poller {
    /// Starts polling. `why`: the reason for polling instead of events.
    ///
    /// # Errors
    /// If the filter names something that does not exist, or a namespace that may not be entered.
    pub fn start(filter: &Filter, density: Density, why: &str) -> Result<Poller, WatchError> {
        let hooks = vec![
            Hook {
                name: "sock_diag".into(),
                provides: "the connection's variables every 10 ms or so".into(),
                state: HookState::Used,
            },
            Hook {
                name: "BPF tracepoints".into(),
                provides: "each ACK, state change and retransmission".into(),
                state: HookState::Missing {
                    why: why.into(),
                    instead: "differences between polls, marked as sampled".into(),
                },
            },
        ];
        Poller::begin(filter, density, hooks, None)
    }

    /// Starts polling only sockets of this process.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn of_own(own: OwnSockets, density: Density) -> Result<Poller, WatchError> {
        let hooks = vec![Hook {
            name: "TCP_INFO".into(),
            provides: "the variables of this program's own connections every 10 ms or so".into(),
            state: HookState::Used,
        }];
        Poller::begin(&Filter::default(), density, hooks, Some(own))
    }

    fn begin(
        filter: &Filter,
        density: Density,
        hooks: Vec<Hook>,
        own: Option<OwnSockets>,
    ) -> Result<Poller, WatchError> {
        let place = Place::named(if own.is_some() { "TCP_INFO" } else { sampled::PLACE });
        let session = Arc::new(session::describe(Source::Sampled, density, filter, hooks));
        let mut poller = Poller {
            asked: Vec::new(),
            own,
            filter: Filter::default(),
            scope: Scope::default(),
            density,
            known: HashMap::new(),
            owners: Owners::new().map_err(WatchError::Thread)?,
            round: 0,
            read_interval: MIN_INTERVAL,
            kept: 0,
            account_due_ns: session.started_mono_ns + ACCOUNT_NS,
            search_due_ns: 0,
            pending: Vec::new(),
            place,
            session,
        };
        poller.set_filter(filter)?;
        Ok(poller)
    }

    fn set_filter(&mut self, filter: &Filter) -> Result<(), WatchError> {
        let asked = match &self.own {
            Some(own) => vec![(netns::inode("self").unwrap_or(0), None, PollSource::OwnSockets(own.clone()))],
            None => open(filter)?,
        };
        self.scope = Scope::new(filter)?;
        self.asked = asked;
        self.filter = filter.clone();
        self.known.clear();
        self.round = 0;
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Item>) {
        let started = std::time::Instant::now();
        self.round += 1;
        let found = self.owners.take();
        self.name_owners(found, out);
        let mut asked = std::mem::take(&mut self.asked);
        let mut sockets = Vec::new();
        for (netns, name, asked) in &mut asked {
            sockets.clear();
            let whole = asked.dump(&mut sockets);
            let now = clock::mono_ns();
            for socket in sockets.drain(..) {
                self.take(socket, *netns, name.as_deref(), now, out);
            }
            if whole {
                self.close_missing(*netns, now, out);
            }
        }
        self.asked = asked;
        self.look_for_owners();
        let poll_time = started.elapsed();
        self.read_interval =
            self.density.interval().max(MIN_INTERVAL).max(poll_time * MAX_OF_A_CPU).saturating_sub(poll_time);
    }

    /// Begins to search for the processes of new sockets, for the filter.
    fn look_for_owners(&mut self) {
        let now = clock::mono_ns();
        if now < self.search_due_ns || !self.owners.is_free() {
            return;
        }
        self.search_due_ns = now + SEARCH_NS;
        // Before accept() a socket has no inode, and no owner.
        let without_owner = self.known.iter().filter(|(_, known)| {
            known.flow.owner.is_none() && known.last.inode != 0 && known.searches < MAX_SEARCHES
        });
        self.owners.look_for(without_owner.map(|(id, known)| (*id, known.last.inode)));
    }

    /// Processes the result of a search.
    fn name_owners(&mut self, found: Option<Vec<(FlowId, Option<Owner>)>>, out: &mut Vec<Item>) {
        for (id, owner) in found.into_iter().flatten() {
            let Some(known) = self.known.get_mut(&id) else { continue };
            known.searches += 1;
            let Some(owner) = owner else { continue };
            let inode = known.last.inode;
            known.flow = Arc::new(Flow { owner: Some(owner), inode, ..known.flow.as_ref().clone() });
            // A filter for owners selects it only now: the next poll makes a record even if nothing
            // changed.
            known.record_ns = 0;
            let flow = known.flow.clone();
            if self.scope.matches(&flow) {
                out.push(Item::Flow(flow));
            }
        }
    }

    fn take(&mut self, socket: Socket, netns: u32, netns_name: Option<&str>, now: u64, out: &mut Vec<Item>) {
        let id = FlowId(socket.cookie);
        let round = self.round;
        let mut event = sampled::sample(&socket, now, self.place);
        if let Some(known) = self.known.get_mut(&id) {
            known.round = round;
            if known.last == socket && now - known.record_ns < QUIET_NS {
                return;
            }
            event.ca_before = known.last.ca_state;
            let changed_control = known.last.control != socket.control;
            if changed_control {
                known.flow = Arc::new(Flow {
                    congestion_control: socket.control.clone(),
                    ..known.flow.as_ref().clone()
                });
            }
            if known.last.snapshot.ssthresh != socket.snapshot.ssthresh {
                event.marks.insert(Marks::SSTHRESH);
            }
            (event.kind, event.reason) = if changed_control {
                (Kind::Control, Reason::Chosen)
            } else if event.ca_before != event.ca_state {
                (Kind::State, Reason::None)
            } else {
                (Kind::Sample, Reason::None)
            };
            known.last = socket;
            let flow = known.flow.clone();
            if !self.scope.matches(&flow) {
                return;
            }
            if changed_control {
                out.push(Item::Flow(flow));
            }
            if let Some(known) = self.known.get_mut(&id) {
                known.record_ns = now;
            }
        } else {
            let flow = Arc::new(sampled::identity(&socket, netns, netns_name));
            self.search_due_ns = 0;
            self.known.insert(
                id,
                PolledFlow { flow: flow.clone(), last: socket, record_ns: now, round, searches: 0 },
            );
            if !self.scope.matches(&flow) {
                return;
            }
            out.push(Item::Flow(flow));
            if round > 1 {
                event.kind = Kind::Open;
            }
        }
        self.kept += 1;
        out.push(Item::Event(event));
    }

    fn close_missing(&mut self, netns: u32, now: u64, out: &mut Vec<Item>) {
        let round = self.round;
        let gone: Vec<FlowId> = (self.known.iter())
            .filter(|(_, k)| k.round != round && k.flow.netns == netns)
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            let Some(known) = self.known.remove(&id) else { continue };
            if !self.scope.matches(&known.flow) {
                continue;
            }
            self.kept += 1;
            let sample = sampled::sample(&known.last, now, self.place);
            out.push(Item::Event(Event { kind: Kind::Close, ..sample }));
        }
    }
}

impl Watch for Poller {
    fn session(&self) -> &Arc<Session> {
        &self.session
    }

    fn filter(&self) -> &Filter {
        &self.filter
    }

    fn density(&self) -> Density {
        self.density
    }

    fn set(&mut self, filter: &Filter, density: Density) -> Result<(), WatchError> {
        if *filter != self.filter {
            self.set_filter(filter)?;
        }
        self.density = density;
        let setting = Setting { mono_ns: clock::mono_ns(), filter: filter.to_string(), density };
        self.pending.push(Item::Setting(Arc::new(setting)));
        Ok(())
    }

    fn read(&mut self, out: &mut Vec<Item>) {
        out.append(&mut self.pending);
        self.poll(out);
        let now = clock::mono_ns();
        if now >= self.account_due_ns {
            self.account_due_ns = now + ACCOUNT_NS;
            out.push(Item::Account(Arc::new(self.account())));
        }
    }

    fn read_interval(&self) -> Duration {
        self.read_interval
    }

    fn account(&self) -> Account {
        let cpu = CpuAccount { cpu: None, seen: self.kept, kept: self.kept, lost: Vec::new(), thinned: 0 };
        Account { mono_ns: clock::mono_ns(), wall_offset_ns: clock::wall_offset_ns(), cpus: vec![cpu] }
    }

    fn finish(mut self: Box<Self>, out: &mut Vec<Item>) -> Account {
        self.poll(out);
        let found = self.owners.wait(owners::LAST_WAIT);
        self.name_owners(found, out);
        let account = self.account();
        out.push(Item::Account(Arc::new(account.clone())));
        account
    }
}
