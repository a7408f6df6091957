//! Which flows a filter selects, and changes of filter at run time.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Pair, Running, Watched, child, events, flows};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use yuzuri_kernel::{Options, Watch};
use yuzuri_testnet::{Net, Side, eventually};
use yuzuri_trace::{Density, Flow, FlowId, Item};

/// See [`child::be_one`].
#[test]
fn child() {
    child::be_one();
}

/// Sets a filter, makes every pair produce records, and returns the pairs whose records appeared
/// (by their near end).
fn chosen(watched: &mut Watched, net: &Net, terms: &str, pairs: &[&Pair], expected: &[usize]) -> Vec<usize> {
    let filter = format!("netns:{} {terms}", net.name(Side::A)).parse().unwrap();
    watched.monitor.set(&filter, Density::EveryAck).unwrap();
    let from = watched.items.len();
    let given = |items: &[Item]| -> Vec<usize> {
        let setting =
            items[from..].iter().position(|i| matches!(i, Item::Setting(_))).map_or(0, |at| from + at);
        // Records from before the change may still be in the ring buffer.
        let since_ns = match &items[setting] {
            Item::Setting(setting) => setting.mono_ns,
            _ => 0,
        };
        let ids: BTreeSet<FlowId> =
            events(&items[from..]).iter().filter(|e| e.mono_ns > since_ns).map(|e| e.flow).collect();
        let of = |pair: &Pair| common::flow_id(items, pair.near_addr()).is_some_and(|id| ids.contains(&id));
        (0..pairs.len()).filter(|n| of(pairs[*n])).collect()
    };
    pairs.iter().for_each(|pair| pair.ping());
    watched.read();
    // Once the expected records show the second round, all records of the first are older than the
    // reader's pause.
    pairs.iter().for_each(|pair| pair.ping());
    eventually(|| {
        let items = watched.read();
        expected.iter().all(|n| given(items).contains(n))
    });
    given(&watched.items)
}

/// A connection over IPv4 between IPv6 sockets.
fn mapped(net: &Net) -> Pair {
    let listener = net.inside(Side::B, || TcpListener::bind("[::]:0").unwrap());
    let IpAddr::V4(v4) = net.v4(Side::B) else { unreachable!() };
    let to = SocketAddr::new(v4.to_ipv6_mapped().into(), listener.local_addr().unwrap().port());
    let near = net.inside(Side::A, || TcpStream::connect(to).unwrap());
    Pair { near, far: common::accept(&listener).0 }
}

fn port(address: std::io::Result<SocketAddr>) -> u16 {
    address.unwrap().port()
}

#[test]
fn ports_addresses_and_namespaces_choose_while_flows_run() {
    let Some(net) = Net::or_skip("ports_addresses_and_namespaces_choose") else { return };
    let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
    let v4 = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    let v6 = Pair::new(&net, Side::A, net.v6(Side::B), "cubic");
    let mapped = mapped(&net);
    let pairs = [&v4, &v6, &mapped];
    // The remote port of each pair; local ports differ, too.
    let [p4, p6, pm] = pairs.map(|pair| port(pair.near.peer_addr()));
    let l4 = v4.near_addr().port();
    for (terms, expected) in [
        (String::new(), vec![0, 1, 2]),
        (format!("port:{p4}"), vec![0]),
        (format!("port:{l4}"), vec![0]),
        (format!("rport:{p4} rport:{pm}"), vec![0, 2]),
        (format!("lport:{l4}"), vec![0]),
        (format!("lport:{p4}"), vec![]),
        ("addr:10.77.0.0/24".into(), vec![0, 2]),
        ("raddr:10.77.0.2".into(), vec![0, 2]),
        ("laddr:10.77.0.2".into(), vec![]),
        ("raddr:::ffff:10.77.0.2".into(), vec![0, 2]),
        ("addr:::ffff:10.77.0.0/120".into(), vec![0, 2]),
        ("addr:fd77::/64".into(), vec![1]),
        ("laddr:fd77::1 ".into(), vec![1]),
        ("addr:fd78::/64".into(), vec![]),
        ("addr:::/0".into(), vec![0, 1, 2]),
        (format!("raddr:fd77::2 port:{p6}"), vec![1]),
        (format!("raddr:fd77::2 port:{p4}"), vec![]),
        (format!("port:{p4} port:{p6} addr:10.0.0.0/8 addr:fd77::2"), vec![0, 1]),
    ] {
        let given = chosen(&mut watched, &net, &terms, &pairs, &expected);
        assert_eq!(given, expected, "filter '{terms}'");
    }
    // If a change were missing, the items would show only one.
    let settings = watched.items.iter().filter(|i| matches!(i, Item::Setting(_))).count();
    assert_eq!(settings, 18);
    // The other namespace: the far ends.
    let filter = format!("netns:{}", net.inode(Side::B)).parse().unwrap();
    watched.monitor.set(&filter, Density::EveryAck).unwrap();
    v4.send(1000);
    let far = v4.far.local_addr().unwrap();
    watched.until("the far end", |items| {
        flows(items).iter().any(|f| f.local == far && f.netns == net.inode(Side::B))
    });
    assert_eq!(watched.finish_whole().account.lost_by_reason().len() as u64, 0);
}

#[test]
fn a_density_changes_while_flows_run() {
    let Some(net) = Net::or_skip("a_density_changes_while_flows_run") else { return };
    let hour = Density::Interval { ns: 3_600_000_000_000 };
    let mut watched = Watched::of(&net, Side::A, hour);
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    let count = |items: &[Item]| events(items).len();
    for _ in 0..50 {
        pair.exchange();
    }
    watched.until("the opening", |items| count(items) > 0);
    let before = count(&watched.items);
    assert!(before < 10, "one in an hour: {before}");
    let filter = watched.monitor.filter().clone();
    watched.monitor.set(&filter, Density::EveryAck).unwrap();
    for _ in 0..50 {
        pair.exchange();
    }
    // Each byte came back in its own segment; the kernel may skip a run on a busy machine.
    watched.until("a record at every ACK", |items| count(items) >= before + 45);
    let seen = watched.finish_whole();
    assert!(seen.account.thinned() >= 40, "{}", seen.account);
    let acks: u64 = seen.of(pair.near_addr()).iter().map(|e| u64::from(e.counts.acks)).sum();
    assert!(acks >= 90, "{acks} with those that were thinned");
}

/// The owner of the flow from (or at) this port, once it is known.
fn owner_of(watched: &mut Watched, what: &str, is_it: impl Fn(&Flow) -> bool) -> Flow {
    let mut found = None;
    watched.until(what, |items| {
        let flow = flows(items).into_iter().rev().find(|f| is_it(f) && f.owner.is_some());
        found = flow.cloned();
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn processes_are_chosen_by_id_and_name_and_owners_of_accepted_connections_are_found() {
    let Some(net) = Net::or_skip("processes_are_chosen_by_id_and_name") else { return };
    let filter = format!("netns:{} netns:{}", net.name(Side::A), net.name(Side::B));
    let mut all = Watched::start(&filter, Density::EveryAck);
    let say = |mut stream: &TcpStream| std::io::Write::write_all(&mut stream, &[1]).unwrap();
    // Another process accepts our connection: /proc names it.
    let (server, at) = child::listening(&net, Side::B);
    let to = SocketAddr::new(net.v4(Side::B), at);
    let near = net.inside(Side::A, || TcpStream::connect(to).unwrap());
    // Between its opening and accept() it has no file: a later segment shows it.
    let accepted = owner_of(&mut all, "the accepting process", |f| {
        say(&near);
        f.local == to
    });
    assert_eq!(accepted.owner.as_ref().map(|o| o.pid), Some(server.0.id()));
    assert_eq!(accepted.owner.as_ref().map(|o| o.name.clone()), Some(child::name()));

    // Another process opens a connection that we accept: the kernel names it, by the process' name
    // and not the thread's.
    let listener = net.inside(Side::B, || TcpListener::bind(SocketAddr::new(net.v4(Side::B), 0)).unwrap());
    let to = listener.local_addr().unwrap();
    let client: Running = child::connecting(&net, Side::A, to, None);
    let (far, from) = common::accept(&listener);
    let opened = owner_of(&mut all, "the opening process", |f| f.local == from);
    assert_eq!(opened.owner.as_ref().map(|o| o.pid), Some(client.0.id()));
    assert_eq!(opened.owner.as_ref().map(|o| o.name.clone()), Some(child::name()));

    // Selected by their known properties; the owner of an accepted connection was not known when it
    // opened.
    for (terms, is_it) in
        [(format!("pid:{}", client.0.id()), from), (format!("pid:{}", server.0.id()), accepted.local)]
    {
        let mut one = Watched::start(&format!("{filter} {terms}"), Density::EveryAck);
        one.until(&terms, |items| {
            say(&near);
            say(&far);
            flows(items).iter().any(|f| f.local == is_it) && !events(items).is_empty()
        });
        assert!(flows(&one.items).iter().all(|f| f.local == is_it), "{terms}: {:?}", flows(&one.items));
        one.finish_whole();
    }
    let mut named = Watched::start(&format!("{filter} name:{}", child::name()), Density::EveryAck);
    named.until("all by name", |items| {
        say(&near);
        say(&far);
        [from, accepted.local].iter().all(|local| flows(items).iter().any(|f| f.local == *local))
    });
    let mut other = Watched::start(&format!("{filter} name:no-such-process"), Density::EveryAck);
    for _ in 0..20 {
        say(&near);
        say(&far);
        other.read();
    }
    assert!(events(&other.finish_whole().items).is_empty());
    named.finish_whole();
    all.finish_whole();
}

/// A control group (version 2) with one below it; removed when dropped.
struct Group(PathBuf, String);

impl Group {
    fn new() -> Result<Group, String> {
        let mount = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .into_iter()
            .find(|mount| PathBuf::from(mount).join("cgroup.controllers").exists())
            .ok_or("no version 2 control groups are mounted")?;
        let name = format!("yuzuri-test-{}", std::process::id());
        let folder = PathBuf::from(mount).join(&name);
        std::fs::create_dir_all(folder.join("below")).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Group(folder, name))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The group of a killed process becomes empty a moment later.
        eventually(|| std::fs::remove_dir(self.0.join("below")).is_ok());
        eventually(|| std::fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn control_groups_choose_with_all_below_them() {
    const TEST: &str = "control_groups_choose_with_all_below_them";
    let Some(net) = Net::or_skip(TEST) else { return };
    let group = match Group::new() {
        Ok(group) => group,
        Err(why) => return println!("{TEST}: skipped: {why}"),
    };
    let name = &group.1;
    let filter = |path: &str| format!("netns:{} cgroup:{path}", net.name(Side::A));
    let mut top = Watched::start(&filter(&format!("/{name}")), Density::EveryAck);
    let mut below = Watched::start(&filter(&format!("/{name}/below")), Density::EveryAck);
    let listener = net.inside(Side::B, || TcpListener::bind(SocketAddr::new(net.v4(Side::B), 0)).unwrap());
    let to = listener.local_addr().unwrap();
    let _in_top = child::connecting(&net, Side::A, to, Some(&group.0));
    let (_far_top, in_top) = common::accept(&listener);
    let _in_below = child::connecting(&net, Side::A, to, Some(&group.0.join("below")));
    let (_far_below, in_below) = common::accept(&listener);
    let _outside = child::connecting(&net, Side::A, to, None);
    let (_far_outside, outside) = common::accept(&listener);
    let has = |items: &[Item], local: SocketAddr| flows(items).iter().any(|f| f.local == local);
    top.until("both", |items| has(items, in_top) && has(items, in_below));
    below.until("the one below", |items| has(items, in_below));
    let (top, below) = (top.finish_whole(), below.finish_whole());
    assert!(!has(&top.items, outside) && !has(&below.items, outside) && !has(&below.items, in_top));
    use std::os::unix::fs::MetadataExt;
    let id = std::fs::metadata(group.0.join("below")).unwrap().ino();
    assert!(below.flows().iter().all(|f| f.cgroup == id), "{:?}", below.flows());
}

#[test]
fn a_filter_that_names_nothing_is_refused_and_the_old_one_stays() {
    let Some(net) = Net::or_skip("a_filter_that_names_nothing_is_refused") else { return };
    let start = |filter: &str| {
        let options = Options { filter: filter.parse().unwrap(), ..Options::default() };
        yuzuri_kernel::Monitor::start(&options).map(|_| ()).unwrap_err().to_string()
    };
    assert!(start("netns:no-such-namespace").contains("no-such-namespace"));
    assert!(start("cgroup:/no/such/group").contains("no/such/group"));
    let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
    let before = watched.monitor.filter().clone();
    let wrong = "netns:no-such-namespace".parse().unwrap();
    assert!(watched.monitor.set(&wrong, Density::default()).is_err());
    assert_eq!(watched.monitor.filter(), &before);
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    watched.until("the flow", |items| common::flow_id(items, pair.near_addr()).is_some());
    watched.finish_whole();
}
