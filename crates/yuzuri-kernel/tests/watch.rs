//! The monitor on real flows of the real kernel.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use yuzuri_kernel::{Monitor, Options, Watch};
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{CaState, Density, Event, Flow, Item, Kind, Reason, Role};

/// Sends `bytes` from A to B and waits until B has read them all and both are closed.
fn transfer(net: &Net, to: SocketAddr, bytes: usize) {
    let listener = net.inside(Side::B, || TcpListener::bind(to).unwrap());
    let to = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let received = scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
        });
        let mut stream = net.inside(Side::A, || TcpStream::connect(to).unwrap());
        stream.write_all(&vec![7; bytes]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read(&mut [0; 1]);
        assert_eq!(received.join().unwrap(), bytes as u64);
    });
}

fn start(options: &str, density: Density, ring_bytes: Option<usize>) -> Option<Box<Monitor>> {
    let options = Options { filter: options.parse().unwrap(), density, ring_bytes };
    match Monitor::start(&options) {
        Ok(monitor) => Some(Box::new(monitor)),
        Err(error) if !nix::unistd::geteuid().is_root() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn flows(items: &[Item]) -> Vec<&Flow> {
    items.iter().filter_map(|i| if let Item::Flow(flow) = i { Some(flow.as_ref()) } else { None }).collect()
}

fn events(items: &[Item]) -> Vec<&Event> {
    items.iter().filter_map(|i| if let Item::Event(event) = i { Some(event) } else { None }).collect()
}

#[test]
fn a_transfer_is_seen_from_open_to_close_at_both_ends() {
    for v6 in [false, true] {
        let Some(net) = Net::or_skip("a_transfer_is_seen_from_open_to_close") else { return };
        let filter = format!("netns:{} netns:{}", net.name(Side::A), net.name(Side::B));
        let mut monitor = start(&filter, Density::EveryAck, None).unwrap();
        let to = if v6 { net.v6(Side::B) } else { net.v4(Side::B) };
        transfer(&net, SocketAddr::new(to, 0), 3_000_000);
        let mut items = Vec::new();
        monitor.read(&mut items);
        let account = monitor.finish(&mut items);
        let (flows, events) = (flows(&items), events(&items));
        let sender = *flows.iter().find(|f| f.netns == net.inode(Side::A)).unwrap();
        let receiver = *flows.iter().find(|f| f.netns == net.inode(Side::B)).unwrap();
        assert_eq!((sender.local, sender.remote), (receiver.remote, receiver.local));
        assert_eq!(sender.remote.ip(), to);
        assert_eq!((sender.role, receiver.role), (Role::Opened, Role::Accepted));
        assert_eq!(sender.netns_name.as_deref(), Some(net.name(Side::A)));
        assert_eq!(sender.owner.as_ref().map(|o| o.pid), Some(std::process::id()));
        assert!(!sender.congestion_control.is_empty());
        for flow in [sender, receiver] {
            let own: Vec<_> = events.iter().filter(|e| e.flow == flow.id).collect();
            assert_eq!(own.first().map(|e| e.kind), Some(Kind::Open));
            let last = own.last().unwrap();
            assert_eq!((last.kind, last.reason), (Kind::Close, Reason::Closed), "{own:#?}");
            assert!(own.is_sorted_by_key(|e| e.mono_ns), "in order of time");
            let bytes =
                if flow.id == sender.id { last.snapshot.bytes_acked } else { last.snapshot.bytes_received };
            // SYN and FIN may be counted by the kernel with the bytes.
            assert!((3_000_000..=3_000_002).contains(&bytes), "{bytes}");
        }
        let samples = events.iter().filter(|e| e.kind == Kind::Sample);
        assert!(samples.clone().count() > 100);
        assert!(samples.clone().all(|e| e.counts.acks == 1), "one record at every ACK");
        assert_eq!(account.thinned(), 0);
        assert_eq!(account.seen(), account.kept() + account.lost(), "{account}");
        let records = events.len() + flows.len();
        // Owners found later give a flow item without a record.
        assert!(
            account.kept() <= records as u64 && account.kept() + 4 >= records as u64,
            "{account} {records}"
        );
    }
}

#[test]
fn a_shaped_path_shows_states_retransmissions_and_their_places() {
    let Some(net) = Net::or_skip("a_shaped_path_shows_states") else { return };
    net.shape(Side::A, 20, 30_000).unwrap();
    let filter = format!("netns:{}", net.name(Side::A));
    let mut monitor = start(&filter, Density::default(), None).unwrap();
    transfer(&net, SocketAddr::new(net.v4(Side::B), 0), 6_000_000);
    let mut items = Vec::new();
    monitor.read(&mut items);
    let account = monitor.finish(&mut items);
    let events = events(&items);
    assert!(account.thinned() > 0, "{account}");
    let recoveries: Vec<_> = events
        .iter()
        .filter(|e| e.ca_state == CaState::Recovery && e.ca_before != CaState::Recovery)
        .collect();
    assert!(!recoveries.is_empty());
    assert!(recoveries.iter().all(|e| e.reason == Reason::FastRetransmit));
    let places: HashSet<&str> = recoveries.iter().map(|e| e.place.name()).collect();
    assert!(places.iter().all(|p| p.starts_with("tcp_")), "{places:?}");
    let retransmitted = events.iter().filter(|e| e.kind == Kind::Retransmit).count();
    assert!(retransmitted > 0);
}
