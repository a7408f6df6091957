//! The network of a run on the real kernel: reachability, delays, and that nothing is left behind.
#![allow(clippy::unwrap_used)]

use socket2::{Domain, Socket, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use yuzuri_lab::driver::{Change, Driver, DriverConfig};
use yuzuri_lab::net::{Host, HostSettings, Run, Topology};
use yuzuri_scenario::Document;

/// Long enough for any host; only a failing test waits this long.
const LONG: Duration = Duration::from_secs(20);

struct Lab {
    // In the order in which they must be dropped.
    driver: Driver,
    topology: Topology,
    run: Run,
}

/// Three 802.11g terminals and a path; `None` if this machine cannot run it.
fn lab(test: &str, path: &str, absent: &[u16]) -> Option<Lab> {
    lab_of(test, path, absent, &[])
}

/// The same with a second cell, which has some of the terminals.
fn lab_of(test: &str, path: &str, absent: &[u16], in_second: &[u16]) -> Option<Lab> {
    if !nix::unistd::geteuid().is_root() {
        println!("{test}: skipped: network namespaces need root");
        return None;
    }
    let text = format!(
        "title = \"t\"\nduration_s = 1\n[path]\n{path}\n[[terminal]]\nname = \"t\"\ncount = 3\n\
         phy = {{ standard = \"g\", rate_mbps = 54 }}\n"
    );
    let document = Document::parse(Path::new("t.toml"), text).unwrap();
    let scenario = document.base();
    let run = Run::claim(None).unwrap();
    let mut topology = Topology::build(&run, &vec![HostSettings::default(); 3], &[]).unwrap();
    let config = DriverConfig {
        cell: scenario.cell_config().unwrap(),
        second_cell: (!in_second.is_empty()).then(|| scenario.cell_config().unwrap()),
        in_second_cell: in_second.to_vec(),
        wire: scenario.wire_config(),
        forwarding: topology.forwarding(false),
        seed: 1,
        absent: absent.to_vec(),
        queue_interval: Duration::from_millis(20),
        captures: None,
    };
    let driver = Driver::start(config, topology.taps.take().unwrap()).unwrap();
    Some(Lab { driver, topology, run })
}

fn socket(host: &Host, at: SocketAddr) -> UdpSocket {
    let socket = host.namespace.inside(|| bound(at)).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

/// One socket per address family: a program that another test is just starting may still hold the
/// other family's last socket on the same port.
fn bound(at: SocketAddr) -> UdpSocket {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, None).unwrap();
    if at.is_ipv6() {
        socket.set_only_v6(true).unwrap();
    }
    socket.bind(&at.into()).unwrap();
    socket.into()
}

fn any(v6: bool) -> SocketAddr {
    let ip: IpAddr = if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    SocketAddr::new(ip, 7000)
}

fn received(socket: &UdpSocket) -> String {
    let mut room = [0; 64];
    let (len, _) = socket.recv_from(&mut room).expect("nothing came");
    String::from_utf8_lossy(&room[..len]).into_owned()
}

fn index(host: &Host) -> u32 {
    host.namespace.inside(|| nix::net::if_::if_nametoindex("cell0").unwrap()).unwrap()
}

#[test]
fn terminals_reach_each_other_by_all_addresses() {
    let Some(lab) = lab("terminals_reach_each_other_by_all_addresses", "rtt_ms = 1", &[]) else { return };
    all_reach_each_other(&lab);
    let report = lab.driver.finish().unwrap();
    assert_eq!(report.lateness.refused, 0);
    let account = &report.snapshots.last().unwrap().cell;
    // At least one broadcast and one multicast frame of our own, each delivered to two terminals.
    assert!(account.ap.group.copies >= 4, "{:?}", account.ap.group);
}

/// One of three is in the other cell: the access point bridges both.
#[test]
fn terminals_of_two_cells_reach_each_other() {
    let test = "terminals_of_two_cells_reach_each_other";
    for second in [[0], [1], [2]] {
        let Some(lab) = lab_of(test, "rtt_ms = 1", &[], &second) else { return };
        all_reach_each_other(&lab);
        let report = lab.driver.finish().unwrap();
        assert_eq!(report.lateness.refused, 0);
        let last = report.snapshots.last().unwrap();
        let there = last.second_cell.as_ref().unwrap();
        let sent =
            |terminal: u16| [&last.cell, there].map(|cell| cell.stations[usize::from(terminal)].sent > 0);
        for terminal in 0..3 {
            let is_second = second.contains(&terminal);
            assert_eq!(sent(terminal), [!is_second, is_second], "{terminal} of {second:?}");
        }
    }
}

/// From each kind of host to each other, unicast and group-addressed.
fn all_reach_each_other(lab: &Lab) {
    let hosts = &lab.topology.terminals;
    // A device drops packets until the kernel has noticed that it is up (linkwatch), up to a second
    // later.
    for terminal in 0..hosts.len() {
        lab.topology.reach(terminal, &AtomicBool::new(false)).unwrap();
    }
    for v6 in [false, true] {
        let sockets: Vec<UdpSocket> = hosts.iter().map(|host| socket(host, any(v6))).collect();
        let ap = socket(&lab.topology.ap, any(v6));
        let server = socket(&lab.topology.server, any(v6));
        let of = |host: &Host| SocketAddr::new(if v6 { host.v6.into() } else { host.v4.into() }, 7000);
        // From terminal to terminal, to the access point, to the server and back.
        sockets[0].send_to(b"to a terminal", of(&hosts[1])).unwrap();
        assert_eq!(received(&sockets[1]), "to a terminal");
        sockets[2].send_to(b"to the access point", of(&lab.topology.ap)).unwrap();
        assert_eq!(received(&ap), "to the access point");
        sockets[0].send_to(b"to the server", of(&lab.topology.server)).unwrap();
        assert_eq!(received(&server), "to the server");
        server.send_to(b"back", of(&hosts[2])).unwrap();
        assert_eq!(received(&sockets[2]), "back");
        // From one terminal to all others and the access point.
        let group = if v6 {
            let group = "ff02::4242".parse::<Ipv6Addr>().unwrap();
            for (socket, host) in
                sockets[1..].iter().chain([&ap]).zip(hosts[1..].iter().chain([&lab.topology.ap]))
            {
                socket.join_multicast_v6(&group, index(host)).unwrap();
            }
            SocketAddr::V6(SocketAddrV6::new(group, 7000, 0, index(&hosts[0])))
        } else {
            sockets[0].set_broadcast(true).unwrap();
            let subnet = hosts[0].v4.octets();
            SocketAddr::new(Ipv4Addr::new(subnet[0], subnet[1], subnet[2], 255).into(), 7000)
        };
        sockets[0].send_to(b"to all", group).unwrap();
        for socket in [&sockets[1], &sockets[2], &ap] {
            assert_eq!(received(socket), "to all");
        }
    }
}

#[test]
fn an_echo_takes_at_least_the_path_rtt() {
    let Some(lab) = lab("an_echo_takes_at_least_the_path_rtt", "rtt_ms = 64", &[]) else {
        return;
    };
    lab.topology.reach(0, &AtomicBool::new(false)).unwrap();
    let (terminal, server) = (&lab.topology.terminals[0], &lab.topology.server);
    let (terminal_socket, server_socket) = (socket(terminal, any(false)), socket(server, any(false)));
    for _ in 0..5 {
        let begun = Instant::now();
        terminal_socket.send_to(b"ping", SocketAddr::new(server.v4.into(), 7000)).unwrap();
        assert_eq!(received(&server_socket), "ping");
        server_socket.send_to(b"pong", SocketAddr::new(terminal.v4.into(), 7000)).unwrap();
        assert_eq!(received(&terminal_socket), "pong");
        assert!(begun.elapsed() >= Duration::from_millis(64), "{:?}", begun.elapsed());
    }
}

#[test]
fn the_access_point_is_one_hop() {
    use nix::sys::socket::{setsockopt, sockopt};
    let Some(lab) = lab("the_access_point_is_one_hop", "rtt_ms = 1", &[]) else { return };
    let (terminal, server) = (&lab.topology.terminals[0], &lab.topology.server);
    for v6 in [false, true] {
        let to: IpAddr = if v6 { server.v6.into() } else { server.v4.into() };
        let (terminal_socket, server_socket) = (socket(terminal, any(v6)), socket(server, any(v6)));
        terminal_socket.connect((to, 7000)).unwrap();
        let hops = |hops: i32| {
            if v6 {
                setsockopt(&terminal_socket, sockopt::Ipv6Ttl, &hops).unwrap();
                setsockopt(&terminal_socket, sockopt::Ipv6RecvErr, &true).unwrap();
            } else {
                setsockopt(&terminal_socket, sockopt::Ipv4Ttl, &hops).unwrap();
                setsockopt(&terminal_socket, sockopt::Ipv4RecvErr, &true).unwrap();
            }
        };
        hops(1);
        terminal_socket.send(b"too far").unwrap();
        let refused = terminal_socket.recv(&mut [0; 16]).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::HostUnreachable, "{refused}");
        hops(2);
        terminal_socket.send(b"near").unwrap();
        assert_eq!(received(&server_socket), "near");
    }
}

#[test]
fn an_absent_terminal_receives_nothing_until_it_joins() {
    let Some(lab) = lab("an_absent_terminal_receives_nothing_until_it_joins", "rtt_ms = 1", &[2]) else {
        return;
    };
    let hosts = &lab.topology.terminals;
    let stop = AtomicBool::new(false);
    lab.topology.reach(0, &stop).unwrap();
    let to = SocketAddr::new(lab.topology.server.v4.into(), 7000);
    let server = socket(&lab.topology.server, any(false));
    let absent = socket(&hosts[2], any(false));
    absent.send_to(b"too early", to).unwrap();
    // A later message from another terminal has arrived, so the earlier one is lost.
    socket(&hosts[1], any(false)).send_to(b"there", to).unwrap();
    assert_eq!(received(&server), "there");
    lab.driver.change(Instant::now(), Change::Join(2));
    lab.topology.reach(2, &stop).unwrap();
    absent.send_to(b"in time", to).unwrap();
    assert_eq!(received(&server), "in time");
    lab.driver.change(Instant::now(), Change::Leave(2));
    lab.driver.change(Instant::now(), Change::Snapshot);
    let report = lab.driver.finish().unwrap();
    assert_eq!(report.snapshots.last().unwrap().cell.stations.len(), 3);
    assert!(report.snapshots.last().unwrap().cell.stations[2].sent > 0);
}

#[test]
fn everything_is_removed() {
    let Some(lab) = lab("everything_is_removed", "rtt_ms = 1", &[]) else { return };
    let names: Vec<String> = ["t0", "t1", "t2", "ap", "server"].map(|host| lab.run.namespace(host)).to_vec();
    let there = || names.iter().filter(|name| Path::new("/run/netns").join(name).exists()).count();
    assert_eq!(there(), 5);
    assert!(!yuzuri_lab::net::clean().unwrap().namespaces.iter().any(|name| names.contains(name)));
    assert_eq!(there(), 5, "a live run's namespaces are left alone");
    let Lab { driver, topology, run } = lab;
    drop(driver);
    drop(topology);
    assert_eq!(there(), 0);
    drop(run);
}
