//! Silent flows: no hook sees them, but the monitor reports them.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Pair, Watched, child, events, flow_id, flows};
use std::collections::HashSet;
use std::net::{SocketAddr, TcpListener, TcpStream};
use yuzuri_kernel::Watch;
use yuzuri_testnet::{Net, Side, eventually};
use yuzuri_trace::{CaState, Density, Event, Flow, FlowId, Item, Kind, Marks};

/// See [`child::be_one`].
#[test]
fn child() {
    child::be_one();
}

fn of(items: &[Item], id: FlowId) -> Vec<&Event> {
    events(items).into_iter().filter(|e| e.flow == id).collect()
}

fn shown(items: &[Item], local: SocketAddr) -> Option<FlowId> {
    let id = flow_id(items, local)?;
    (!of(items, id).is_empty()).then_some(id)
}

/// The records that the account counts as kept: identities and events. Owners found in `/proc` are
/// not records.
fn records(items: &[Item]) -> u64 {
    let mut met = std::collections::HashSet::new();
    let is_record = |item: &&Item| match item {
        Item::Event(_) => true,
        Item::Flow(flow) => met.insert((flow.id, flow.congestion_control.clone(), flow.role.name())),
        _ => false,
    };
    items.iter().filter(is_record).count() as u64
}

/// No hook sees `accept()`, and no segment follows it.
#[test]
fn a_connection_that_is_silent_once_accepted_has_its_owner() {
    let Some(net) = Net::or_skip("a_connection_that_is_silent_once_accepted") else { return };
    let listener = net.inside(Side::B, || TcpListener::bind((net.v6(Side::B), 0)).unwrap());
    let to = listener.local_addr().unwrap();
    let mut watched = Watched::of(&net, Side::B, Density::EveryAck);
    // The kernel may skip the programs for some of them.
    let near: Vec<_> = net.inside(Side::A, || (0..5).map(|_| TcpStream::connect(to).unwrap()).collect());
    let waits = |items: &[Item]| {
        let waiting = |f: &&Flow| f.local == to && f.inode == 0 && f.owner.is_none();
        flows(items).into_iter().filter(waiting).map(|f| f.id).collect::<HashSet<FlowId>>()
    };
    watched.until("a connection that nobody has accepted", |items| !waits(items).is_empty());
    let waiting = waits(&watched.items);
    let far: Vec<_> = near.iter().map(|_| common::accept(&listener)).collect();
    let are_owned = |items: &[Item]| {
        let is_own = |f: &&Flow| f.owner.as_ref().is_some_and(|owner| owner.pid == std::process::id());
        let owned: HashSet<FlowId> = flows(items).into_iter().filter(is_own).map(|f| f.id).collect();
        waiting.is_subset(&owned)
    };
    // The next dump is due after 10 s, or after a thousand times what the last one took: on a
    // busy machine, that may be more than one wait.
    let found = (0..3).any(|_| eventually(|| are_owned(watched.read())));
    assert!(found, "{waiting:?}: {:#?}", watched.items);
    assert_eq!(far.len(), 5);
    watched.finish_whole();
}

#[test]
fn idle_connections_appear_over_both_protocols_and_only_once() {
    let Some(net) = Net::or_skip("idle_connections_appear") else { return };
    for to in [net.v4(Side::B), net.v6(Side::B)] {
        let pair = Pair::new(&net, Side::A, to, "reno");
        pair.send(100_000);
        let info = common::tcp_info::read(&pair.near);
        let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
        watched.until("the idle flow", |items| shown(items, pair.near_addr()).is_some());
        let id = flow_id(&watched.items, pair.near_addr()).unwrap();
        let first = *of(&watched.items, id)[0];
        assert!(first.marks.contains(Marks::SAMPLED) && first.place.name() == "sock_diag", "{first:?}");
        assert_eq!(
            (first.kind, first.ca_state, first.ca_before),
            (Kind::Sample, CaState::Open, CaState::Open)
        );
        assert_eq!(first.snapshot.bytes_acked, info.tcpi_bytes_acked);
        assert_eq!(first.snapshot.cwnd, info.tcpi_snd_cwnd);
        let flow = flows(&watched.items).into_iter().find(|f| f.id == id).unwrap();
        assert_eq!((flow.remote, flow.netns), (pair.near.peer_addr().unwrap(), net.inode(Side::A)));
        assert_eq!(flow.netns_name.as_deref(), Some(net.name(Side::A)));
        assert_eq!(flow.congestion_control, "reno");
        watched.until("its owner", |items| {
            flows(items)
                .iter()
                .any(|f| f.id == id && f.owner.as_ref().is_some_and(|o| o.pid == std::process::id()))
        });
        // The same flow becomes active, and keeps its owner.
        pair.ping();
        watched.until("a record of the hook", |items| of(items, id).len() > 1);
        let last = flows(&watched.items).into_iter().rfind(|f| f.id == id).unwrap();
        assert!(last.owner.is_some());
        // A density does not select flows.
        let filter = watched.monitor.filter().clone();
        watched.monitor.set(&filter, Density::default()).unwrap();
        let near = pair.near_addr();
        pair.close();
        watched.until("its close", |items| of(items, id).iter().any(|e| e.kind == Kind::Close));
        assert_eq!(watched.monitor.known_flows(), 0);
        let seen = watched.finish_whole();
        let given = seen.of(near);
        assert_eq!(given.iter().filter(|e| e.marks.contains(Marks::SAMPLED)).count(), 1, "{given:#?}");
        assert!(given.is_sorted_by_key(|e| e.mono_ns), "{given:#?}");
        assert!(given.is_sorted_by_key(|e| e.snapshot.bytes_acked));
        assert_eq!(seen.flows().iter().filter(|f| f.local == near && f.id != id).count(), 0, "one identity");
    }
}

#[test]
fn the_account_holds_with_silent_flows() {
    let Some(net) = Net::or_skip("the_account_holds_with_silent_flows") else { return };
    let pairs: Vec<Pair> = (0..30).map(|_| Pair::new(&net, Side::A, net.v4(Side::B), "cubic")).collect();
    let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
    watched.until("all of them", |items| pairs.iter().all(|p| shown(items, p.near_addr()).is_some()));
    let account = watched.monitor.account();
    let polled = account.cpus.iter().find(|cpu| cpu.cpu.is_none()).unwrap();
    assert_eq!(polled.kept, 60, "an identity and a sample each: {account}");
    let seen = watched.finish_whole();
    assert_eq!(records(&seen.items), seen.account.kept(), "{}", seen.account);
}

#[test]
fn a_filter_chooses_among_silent_flows_and_a_wider_one_shows_more() {
    let Some(net) = Net::or_skip("a_filter_chooses_among_silent_flows") else { return };
    let v4 = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    let v6 = Pair::new(&net, Side::A, net.v6(Side::B), "cubic");
    let (four, six) = (v4.near_addr(), v6.near_addr());
    let netns = format!("netns:{}", net.name(Side::A));
    let mut watched = Watched::start(&format!("{netns} addr:fd77::/64"), Density::EveryAck);
    watched.until("the one that is chosen", |items| shown(items, six).is_some());
    // The far ends are in the other namespace.
    let far = v6.far.local_addr().unwrap();
    for local in [four, far] {
        assert_eq!(flow_id(&watched.items, local), None);
    }
    watched.monitor.set(&netns.parse().unwrap(), Density::EveryAck).unwrap();
    watched.until("the other, too", |items| shown(items, four).is_some());
    let both = format!("{netns} netns:{}", net.inode(Side::B));
    watched.monitor.set(&both.parse().unwrap(), Density::EveryAck).unwrap();
    watched.until("the far end", |items| shown(items, far).is_some());
    let from = watched.items.len();
    watched.monitor.set(&format!("{netns} port:1").parse().unwrap(), Density::EveryAck).unwrap();
    [&v4, &v6].iter().for_each(|pair| pair.ping());
    let seen = watched.finish_whole();
    let setting = seen.items.iter().rposition(|i| matches!(i, Item::Setting(_))).unwrap();
    assert!(setting >= from);
    let since = match &seen.items[setting] {
        Item::Setting(setting) => setting.mono_ns,
        _ => unreachable!(),
    };
    assert!(events(&seen.items[setting..]).iter().all(|e| e.mono_ns <= since), "none is chosen any more");
}

#[test]
fn silent_flows_are_chosen_by_their_process() {
    let Some(net) = Net::or_skip("silent_flows_are_chosen_by_their_process") else { return };
    let (server, at) = child::listening(&net, Side::B);
    let to = SocketAddr::new(net.v4(Side::B), at);
    let near = net.inside(Side::A, || TcpStream::connect(to).unwrap());
    let netns = format!("netns:{} netns:{}", net.name(Side::A), net.name(Side::B));
    let pid = server.0.id();
    let mut watched = Watched::start(&format!("{netns} pid:{pid}"), Density::EveryAck);
    watched.until("the accepted end", |items| shown(items, to).is_some());
    let other = near.local_addr().unwrap();
    assert_eq!(flow_id(&watched.items, other), None, "ours is another process");
    let id = flow_id(&watched.items, to).unwrap();
    // The programs know it: its next segment causes a record.
    std::io::Write::write_all(&mut &near, &[1]).unwrap();
    watched.until("a record of the hook", |items| {
        of(items, id).iter().any(|e| !e.marks.contains(Marks::SAMPLED))
    });
    watched.finish_whole();
}

#[test]
fn a_known_owner_decides_under_a_new_filter() {
    let Some(net) = Net::or_skip("an_owner_that_is_known_already") else { return };
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    let local = pair.near_addr();
    let netns = format!("netns:{}", net.name(Side::A));
    let mut watched = Watched::start(&netns, Density::EveryAck);
    watched.until("its owner", |items| flows(items).iter().any(|f| f.local == local && f.owner.is_some()));
    let filter = format!("{netns} pid:{}", std::process::id()).parse().unwrap();
    watched.monitor.set(&filter, Density::EveryAck).unwrap();
    let at = watched.items.len();
    let mut seen = false;
    assert!(eventually(|| {
        pair.ping();
        let items = &watched.read()[at..];
        let setting =
            items.iter().find_map(|i| if let Item::Setting(s) = i { Some(s.mono_ns) } else { None });
        let hooked = |e: &&Event| !e.marks.contains(Marks::SAMPLED) && Some(e.mono_ns) > setting;
        seen = setting.is_some() && events(items).iter().any(hooked);
        seen
    }));
    watched.finish_whole();
}

#[test]
fn a_silent_flow_that_closes_without_a_record_is_closed() {
    let Some(net) = Net::or_skip("a_silent_flow_that_ends_without_a_word") else { return };
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    let local = pair.near_addr();
    let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
    watched.until("the idle flow", |items| shown(items, local).is_some());
    let id = flow_id(&watched.items, local).unwrap();
    // A reset: no FIN, no incoming segment.
    socket2::SockRef::from(&pair.near).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(pair);
    watched.until("its close", |items| of(items, id).iter().any(|e| e.kind == Kind::Close));
    assert_eq!(watched.monitor.known_flows(), 0);
    watched.finish_whole();
}
