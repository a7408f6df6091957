//! A flow from its opening to its close, for few and many flows and for two densities.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Outcome, Pair, Watched, events, exactly};
use std::collections::HashMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{CaState, Density, Event, FlowId, Item, Kind, Marks, Reason, Role};

fn both(net: &Net) -> String {
    format!("netns:{} netns:{}", net.name(Side::A), net.name(Side::B))
}

fn closed(items: &[Item]) -> usize {
    events(items).iter().filter(|e| e.kind == Kind::Close).count()
}

#[test]
fn a_transfer_is_seen_from_open_to_close_at_both_ends() {
    const TEST: &str = "a_transfer_is_seen_from_open_to_close_at_both_ends";
    for v6 in [false, true] {
        let Some(net) = Net::or_skip(TEST) else { return };
        let mut watched = Watched::start(&both(&net), Density::EveryAck);
        let to = if v6 { net.v6(Side::B) } else { net.v4(Side::B) };
        let pair = Pair::new(&net, Side::A, to, "reno");
        pair.send(3_000_000);
        let (near, far) = (pair.near_addr(), pair.far.local_addr().unwrap());
        pair.close();
        watched.until("both closed", |items| closed(items) == 2);
        assert_eq!(watched.monitor.known_flows(), 0, "closed flows are forgotten");
        let seen = watched.finish_whole();
        let flow = |local| *seen.flows().iter().rev().find(|f| f.local == local).unwrap();
        let (sender, receiver) = (flow(near), flow(far));
        assert_eq!((sender.local, sender.remote), (receiver.remote, receiver.local));
        assert_eq!((sender.netns, receiver.netns), (net.inode(Side::A), net.inode(Side::B)));
        assert_eq!((sender.role, receiver.role), (Role::Opened, Role::Accepted));
        assert_eq!(sender.netns_name.as_deref(), Some(net.name(Side::A)));
        assert_eq!(sender.owner.as_ref().map(|o| o.pid), Some(std::process::id()));
        assert_eq!(sender.congestion_control, "reno");
        for flow in [sender, receiver] {
            let own = seen.of(flow.local);
            assert_eq!(own.first().map(|e| e.kind), Some(Kind::Open));
            let last = own.last().unwrap();
            assert_eq!((last.kind, last.reason), (Kind::Close, Reason::Closed), "{own:#?}");
            assert!(own.is_sorted_by_key(|e| e.mono_ns), "in order of time");
            let bytes = if flow == sender { last.snapshot.bytes_acked } else { last.snapshot.bytes_received };
            // SYN and FIN count as bytes.
            assert!((3_000_000..=3_000_002).contains(&bytes), "{bytes}");
            let samples: Vec<_> = own.iter().filter(|e| e.kind == Kind::Sample).collect();
            assert!(!samples.is_empty());
            if flow == sender {
                assert!(samples.len() > 10);
                assert!(samples.iter().all(|e| e.counts.acks == 1), "one record at every ACK");
            }
        }
        // Segments that only bring data are merged, and counted where they arrived.
        let received = seen.of(far);
        let segments = segments(&received);
        assert!(segments >= 3_000_000 / 65536, "{segments} segments");
        assert_eq!(seen.account.thinned(), merged(&received), "{}", seen.account);
    }
}

/// The kernel releases the port of a reset socket before the hook runs. The flow's identity, which
/// is announced only then because nothing had happened on it before, still has the port, and a
/// filter for that port still selects it.
#[test]
fn a_reset_is_seen_by_the_local_port_although_the_socket_has_given_it_back() {
    const TEST: &str = "a_reset_is_seen_by_the_local_port_although_the_socket_has_given_it_back";
    for v6 in [false, true] {
        let Some(net) = Net::or_skip(TEST) else { return };
        let to = if v6 { net.v6(Side::B) } else { net.v4(Side::B) };
        let pair = Pair::new(&net, Side::A, to, "reno");
        let near = pair.near_addr();
        let filter = format!("netns:{} port:{}", net.name(Side::A), near.port());
        let mut watched = Watched::start(&filter, Density::EveryAck);
        watched.until("the silent flow", |items| common::flow_id(items, near).is_some());
        socket2::SockRef::from(&pair.near).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(pair);
        watched.until("the close", |items| closed(items) == 1);
        let seen = watched.finish_whole();
        assert!(seen.flows().iter().all(|flow| flow.local == near), "{:?}", seen.flows());
        let close = seen.of(near).into_iter().find(|event| event.kind == Kind::Close).unwrap();
        assert_ne!(close.reason, Reason::CloseNotSeen, "{close:?}");
    }
}

/// Segments received, by the records' counts.
fn segments(events: &[&Event]) -> u64 {
    events.iter().map(|e| u64::from(e.counts.acks)).sum()
}

/// Of these, those counted in a record besides its own segment.
fn merged(events: &[&Event]) -> u64 {
    segments(events) - events.iter().filter(|e| e.place.name() == "tcp:tcp_probe").count() as u64
}

/// What neither density may miss.
fn changes(events: &[&Event]) -> Vec<(Kind, Reason, CaState, CaState, u32)> {
    events
        .iter()
        .filter(|e| e.kind != Kind::Sample)
        .map(|e| (e.kind, e.reason, e.ca_before, e.ca_state, e.snapshot.ssthresh))
        .collect()
}

#[test]
fn the_default_density_thins_samples_and_nothing_else() {
    const TEST: &str = "the_default_density_thins_samples_and_nothing_else";
    common::exactly(TEST, || {
        let net = Net::or_skip(TEST)?;
        net.shape(Side::A, 50, 30_000).unwrap();
        // Two monitors on the same flows at the same time.
        let mut every = Watched::of(&net, Side::A, Density::EveryAck);
        let mut thin = Watched::of(&net, Side::A, Density::default());
        let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
        pair.send(1_500_000);
        let near = pair.near_addr();
        pair.close();
        every.until("the close", |items| closed(items) == 1);
        thin.until("the close", |items| closed(items) == 1);
        let (every, thin) = (every.finish_whole(), thin.finish_whole());
        let (all, few) = (every.of(near), thin.of(near));
        assert_eq!(every.account.thinned(), 0);
        assert!(thin.account.thinned() > 0, "{}", thin.account);
        // A sample without a change comes at least a millisecond after the previous record.
        for pair in few.windows(2) {
            if pair[1].kind == Kind::Sample && !pair[1].marks.contains(Marks::SSTHRESH) {
                let distance_ns = pair[1].mono_ns - pair[0].mono_ns;
                assert!(distance_ns >= 1_000_000, "{distance_ns} ns: {pair:?}");
            }
        }
        let ssthreshs = |events: &[&Event]| {
            let mut values: Vec<u32> = events.iter().map(|e| e.snapshot.ssthresh).collect();
            values.dedup();
            values
        };
        let skipped = every.nested() + thin.nested();
        if skipped > 0 {
            return Some(Outcome::Differs { how: format!("{}; {}", every.account, thin.account), skipped });
        }
        // The merged segments in the account match those in the records.
        assert_eq!(thin.account.thinned(), merged(&few));
        // Except for identity records, closes and the like, each segment is in exactly one count.
        Some(if segments(&all) != segments(&few) {
            let how = format!("{} ACKs, {} in the thinned counts", segments(&all), segments(&few));
            Outcome::Differs { how, skipped }
        } else if changes(&all) != changes(&few) || ssthreshs(&all) != ssthreshs(&few) {
            Outcome::Differs { how: format!("{:?}\n{:?}", changes(&all), changes(&few)), skipped }
        } else {
            Outcome::Exact(())
        })
    });
}

#[test]
fn segments_without_new_acks_are_sampled_each_ten_milliseconds() {
    const TEST: &str = "segments_without_new_acks_are_sampled_each_ten_milliseconds";
    let Some(net) = Net::or_skip(TEST) else { return };
    net.shape(Side::A, 50, 30_000).unwrap();
    let mut watched = Watched::of(&net, Side::B, Density::default());
    let pair = Pair::new(&net, Side::A, net.v6(Side::B), "cubic");
    pair.send(3_000_000);
    let far = pair.far.local_addr().unwrap();
    pair.close();
    watched.until("the close", |items| closed(items) == 1);
    let seen = watched.finish_whole();
    let own = seen.of(far);
    // All but the last, which may include the FIN.
    let samples: Vec<_> = own.iter().filter(|e| e.kind == Kind::Sample).collect();
    // 3 MB at 50 Mbit/s take at least half a second.
    assert!(samples.len() >= 10, "{} samples", samples.len());
    for pair in samples[..samples.len() - 1].windows(2) {
        let distance_ns = pair[1].mono_ns - pair[0].mono_ns;
        assert!(distance_ns >= 10_000_000, "{distance_ns} ns: {pair:?}");
    }
    assert_eq!(seen.account.thinned(), merged(&own), "{}", seen.account);
    assert!(own.last().unwrap().snapshot.bytes_received >= 3_000_000);
}

#[test]
fn another_congestion_control_is_an_event() {
    let Some(net) = Net::or_skip("another_congestion_control_is_an_event") else { return };
    // No sample is due: only the change causes the record.
    let hour = Density::Interval { ns: 3_600_000_000_000 };
    let mut watched = Watched::of(&net, Side::A, hour);
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    pair.send(10_000);
    socket2::SockRef::from(&pair.near).set_tcp_congestion(b"reno").unwrap();
    let changed = |items: &[Item]| events(items).iter().any(|e| e.kind == Kind::Control);
    watched.until("the change", |items| {
        pair.ping();
        changed(items)
    });
    let at =
        watched.items.iter().position(|i| matches!(i, Item::Event(e) if e.kind == Kind::Control)).unwrap();
    let named = watched.items[..at].iter().rev().find_map(|i| match i {
        Item::Flow(flow) => Some(flow.congestion_control.clone()),
        _ => None,
    });
    assert_eq!(named.as_deref(), Some("reno"), "the new identity comes before the event");
    let events = events(&watched.items);
    assert_eq!(events.iter().filter(|e| e.kind == Kind::Control).count(), 1);
    watched.finish_whole();
}

#[test]
fn a_reset_connection_ends_as_such() {
    ends_as("a_reset_connection_ends_as_such", Reason::Reset, |_, pair| {
        socket2::SockRef::from(&pair.far).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        let Pair { near, far } = pair;
        drop(far);
        Ok(vec![near])
    });
}

#[test]
fn a_timed_out_connection_ends_as_such() {
    let timeout = std::time::Duration::from_millis(600);
    ends_as("a_timed_out_connection_ends_as_such", Reason::TimedOut, |net, pair| {
        socket2::SockRef::from(&pair.near).set_tcp_user_timeout(Some(timeout)).unwrap();
        let dark = "add table inet dark\nadd chain inet dark in { type filter hook input priority 0 ; policy drop ; }";
        net.firewall(Side::B, dark).map_err(|why| why.to_string())?;
        (&pair.near).write_all(&[1]).unwrap();
        Ok(vec![pair.near, pair.far])
    });
}

/// Checks the last record of a connection that `end` ends. `end` returns what stays open meanwhile,
/// or why this machine cannot do it.
fn ends_as(test: &str, reason: Reason, end: impl Fn(&Net, Pair) -> Result<Vec<TcpStream>, String>) {
    exactly(test, || {
        let net = Net::or_skip(test)?;
        let mut watched = Watched::of(&net, Side::A, Density::default());
        let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
        let local = pair.near_addr();
        let _open = match end(&net, pair) {
            Ok(open) => open,
            Err(why) => {
                println!("{test}: skipped: {why}");
                return None;
            }
        };
        watched.until("the close", |items| closed(items) == 1);
        let seen = watched.finish_whole();
        match seen.of(local).last().unwrap().reason {
            seen_as if seen_as == reason => Some(Outcome::Exact(())),
            // The program's run was skipped; a dump found the flow closed.
            Reason::CloseNotSeen => {
                Some(Outcome::Differs { how: "its close was not seen".into(), skipped: seen.nested() })
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn each_of_many_short_flows_has_an_open_and_a_close_and_leaves_no_state() {
    const CONNECTIONS: usize = 2000;
    let Some(net) = Net::or_skip("each_of_many_short_flows_has_an_open_and_a_close_and_leaves_no_state")
    else {
        return;
    };
    let mut watched = Watched::of(&net, Side::A, Density::default());
    let listener = net.inside(Side::A, || TcpListener::bind("127.0.0.1:0").unwrap());
    let to: SocketAddr = listener.local_addr().unwrap();
    net.inside(Side::A, || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..CONNECTIONS {
                    let (mut stream, _) = listener.accept().unwrap();
                    stream.write_all(&[1; 100]).unwrap();
                }
            });
            for n in 0..CONNECTIONS {
                let mut stream = TcpStream::connect(to).unwrap();
                assert_eq!(std::io::copy(&mut stream, &mut std::io::sink()).unwrap(), 100);
                if n % 50 == 0 {
                    watched.read();
                }
            }
        });
    });
    watched.until("all closed", |items| closed(items) >= 2 * CONNECTIONS - 20);
    let mut by_flow: HashMap<FlowId, (usize, usize)> = HashMap::new();
    for event in events(&watched.items) {
        let counts = by_flow.entry(event.flow).or_default();
        counts.0 += usize::from(event.kind == Kind::Open);
        counts.1 += usize::from(event.kind == Kind::Close);
    }
    let whole = by_flow.values().filter(|counts| **counts == (1, 1)).count();
    assert!(by_flow.values().all(|(opened, closed)| *opened <= 1 && *closed <= 1));
    // A program run skipped by the kernel on a busy machine costs one record.
    assert!(whole >= 2 * CONNECTIONS - 20, "{whole} of {}", 2 * CONNECTIONS);
    let open = by_flow.len() - by_flow.values().filter(|(_, closed)| *closed == 1).count();
    assert!(watched.monitor.known_flows() <= 2 * open, "{} remembered", watched.monitor.known_flows());
    watched.finish_whole();
}
