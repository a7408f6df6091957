//! Watching without privilege: `sock_diag` is asked again and again, and what changed becomes a record.

use crate::diag::{Diag, Socket};
use crate::{Watch, clock, netns, owners, session};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use yuzuri_trace::{
    Account, CpuAccount, Density, Event, Filter, Flow, FlowId, Hook, HookState, Item, Kind, Marks, Place,
    Reason, Role, Session, Setting, Source,
};

/// The shortest and the default interval.
const SHORTEST: Duration = Duration::from_millis(10);
/// Asking takes at most this part of one CPU's time: with many sockets the interval grows.
const MOST_OF_A_CPU: u32 = 20;
const QUIET_NS: u64 = 1_000_000_000;
const ACCOUNT_NS: u64 = 1_000_000_000;

struct Known {
    flow: Arc<Flow>,
    last: Socket,
    /// When the last record was made.
    record_ns: u64,
    /// The poll it was last seen in.
    round: u64,
    searches: u32,
}

/// `sock_diag` polling at work.
pub struct Poller {
    diags: Vec<(u32, Option<String>, Diag)>,
    session: Arc<Session>,
    filter: Filter,
    /// The filter less its namespaces: these were chosen by the sockets that were opened.
    within: Filter,
    cgroups: HashMap<String, HashSet<u64>>,
    density: Density,
    known: HashMap<FlowId, Known>,
    round: u64,
    rest: Duration,
    kept: u64,
    account_due_ns: u64,
    search_due_ns: u64,
    pending: Vec<Item>,
    place: Place,
}

/// Ids of a control group and all below it.
fn group_ids(path: &str) -> Result<HashSet<u64>, String> {
    use std::os::unix::fs::MetadataExt;
    let top = netns::cgroup_folder(path)?;
    let mut ids = HashSet::new();
    let mut folders = vec![top];
    while let Some(folder) = folders.pop() {
        ids.extend(folder.metadata().map(|m| m.ino()));
        let below = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(below.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    Ok(ids)
}

/// A socket for each namespace that the filter names, or for our own.
fn open(filter: &Filter) -> Result<Vec<(u32, Option<String>, Diag)>, String> {
    let open = || Diag::open().map_err(|e| format!("opening a sock_diag socket: {e}"));
    if filter.netns.is_empty() {
        return Ok(vec![(netns::inode("self").unwrap_or(0), None, open()?)]);
    }
    let within = |name: &String| {
        let number = netns::inode(name)?;
        let named = (name != "self" && name.parse::<u32>().is_err()).then(|| name.clone());
        let diag = netns::inside(name, open)??;
        Ok((number, named, diag))
    };
    filter.netns.iter().map(within).collect()
}

impl Poller {
    /// Begins. `why` says why polling and not events.
    ///
    /// # Errors
    /// Where the filter names what does not exist, or a namespace that may not be entered.
    pub fn start(filter: &Filter, density: Density, why: &str) -> Result<Poller, String> {
        let hooks = vec![
            Hook {
                name: "sock_diag".into(),
                tells: "the connection's variables every 10 ms or so".into(),
                state: HookState::Used,
            },
            Hook {
                name: "BPF tracepoints".into(),
                tells: "each ACK, state change and retransmission".into(),
                state: HookState::Missing {
                    why: why.into(),
                    instead: "differences between polls, marked as sampled".into(),
                },
            },
        ];
        let session = Arc::new(session::describe(Source::Sampled, density, filter, hooks));
        let mut poller = Poller {
            diags: Vec::new(),
            filter: Filter::default(),
            within: Filter::default(),
            cgroups: HashMap::new(),
            density,
            known: HashMap::new(),
            round: 0,
            rest: SHORTEST,
            kept: 0,
            account_due_ns: session.started_mono_ns + ACCOUNT_NS,
            search_due_ns: 0,
            pending: Vec::new(),
            place: Place::named("sock_diag"),
            session,
        };
        poller.choose(filter)?;
        Ok(poller)
    }

    fn choose(&mut self, filter: &Filter) -> Result<(), String> {
        let diags = open(filter)?;
        let groups = filter.cgroups.iter().map(|path| Ok((path.clone(), group_ids(path)?)));
        self.cgroups = groups.collect::<Result<_, String>>()?;
        self.diags = diags;
        self.filter = filter.clone();
        self.within = Filter { netns: Vec::new(), ..filter.clone() };
        self.known.clear();
        self.round = 0;
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Item>) {
        let started = std::time::Instant::now();
        self.round += 1;
        let search = clock::mono_ns() >= self.search_due_ns;
        let mut diags = std::mem::take(&mut self.diags);
        let mut sockets = Vec::new();
        for (netns, name, diag) in &mut diags {
            sockets.clear();
            // A failed or interrupted dump leaves out sockets for one round: none may be taken for closed then.
            let whole = matches!(diag.dump(&mut sockets), Ok(false));
            let now = clock::mono_ns();
            if search {
                self.find_owners(&sockets, out);
            }
            for socket in sockets.drain(..) {
                self.take(socket, *netns, name.as_deref(), now, out);
            }
            if whole {
                self.close_missing(*netns, now, out);
            }
        }
        self.diags = diags;
        if search {
            self.search_due_ns = clock::mono_ns() + 250_000_000;
        }
        let spent = started.elapsed();
        self.rest = self.density.interval().max(SHORTEST).max(spent * MOST_OF_A_CPU).saturating_sub(spent);
    }

    /// Names the processes of new sockets, so that a filter can tell.
    fn find_owners(&mut self, sockets: &[Socket], out: &mut Vec<Item>) {
        let wanting = |s: &&Socket| match self.known.get(&FlowId(s.cookie)) {
            Some(known) => known.flow.owner.is_none() && known.searches < 8,
            None => true,
        };
        let wanted: HashMap<u64, FlowId> = sockets
            .iter()
            .filter(wanting)
            .filter(|s| s.inode != 0)
            .map(|s| (s.inode, FlowId(s.cookie)))
            .collect();
        let found = owners::find(&wanted.keys().copied().collect());
        for (inode, id) in wanted {
            let Some(known) = self.known.get_mut(&id) else { continue };
            known.searches += 1;
            if let Some(owner) = found.get(&inode) {
                let flow = Arc::new(Flow { owner: Some(owner.clone()), ..known.flow.as_ref().clone() });
                known.flow = flow.clone();
                if self.chosen(&flow) {
                    out.push(Item::Flow(flow));
                }
            }
        }
    }

    fn chosen(&self, flow: &Flow) -> bool {
        let in_group = |id: u64, path: &str| self.cgroups.get(path).is_some_and(|group| group.contains(&id));
        self.within.chooses(flow, in_group)
    }

    fn take(&mut self, socket: Socket, netns: u32, netns_name: Option<&str>, now: u64, out: &mut Vec<Item>) {
        let id = FlowId(socket.cookie);
        let round = self.round;
        let (place, marks) = (self.place, sampled(socket.app_limited));
        let mut event = Event {
            mono_ns: now,
            flow: id,
            place,
            marks,
            ca_state: socket.ca_state,
            ca_before: socket.ca_state,
            snapshot: socket.snapshot,
            ..Event::default()
        };
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
            if !self.chosen(&flow) {
                return;
            }
            if changed_control {
                out.push(Item::Flow(flow));
            }
            if let Some(known) = self.known.get_mut(&id) {
                known.record_ns = now;
            }
        } else {
            let flow = Arc::new(Flow {
                id,
                local: socket.local,
                remote: socket.remote,
                netns,
                netns_name: netns_name.map(str::to_owned),
                owner: None,
                cgroup: socket.cgroup,
                congestion_control: socket.control.clone(),
                role: Role::Unknown,
                inode: socket.inode,
            });
            self.search_due_ns = 0;
            self.known
                .insert(id, Known { flow: flow.clone(), last: socket, record_ns: now, round, searches: 0 });
            if !self.chosen(&flow) {
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
            if !self.chosen(&known.flow) {
                continue;
            }
            self.kept += 1;
            out.push(Item::Event(Event {
                mono_ns: now,
                flow: id,
                kind: Kind::Close,
                place: self.place,
                marks: sampled(known.last.app_limited),
                ca_state: known.last.ca_state,
                ca_before: known.last.ca_state,
                snapshot: known.last.snapshot,
                ..Event::default()
            }));
        }
    }
}

fn sampled(app_limited: bool) -> Marks {
    let mut marks = Marks::SAMPLED;
    if app_limited {
        marks.insert(Marks::APP_LIMITED);
    }
    marks
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

    fn set(&mut self, filter: &Filter, density: Density) -> Result<(), String> {
        if *filter != self.filter {
            self.choose(filter)?;
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

    fn rest(&self) -> Duration {
        self.rest
    }

    fn account(&self) -> Account {
        let cpu = CpuAccount { cpu: None, seen: self.kept, kept: self.kept, lost: Vec::new(), thinned: 0 };
        Account { mono_ns: clock::mono_ns(), wall_offset_ns: clock::wall_offset_ns(), cpus: vec![cpu] }
    }

    fn finish(mut self: Box<Self>, out: &mut Vec<Item>) -> Account {
        self.poll(out);
        let account = self.account();
        out.push(Item::Account(Arc::new(account.clone())));
        account
    }
}
