//! Captures what stations receive in real transfers through the gate, packet by packet: every
//! checksum is right, and no right edge is left of an earlier one. The reader shares no code with
//! gate or model. `PACKETS=1000000` sets the number of packets.
#![allow(clippy::unwrap_used, missing_docs)]
#![expect(unsafe_code, reason = "the address of a packet socket, and an option that no library here sets")]

mod loaded;

use socket2::{Domain, SockRef, Socket, Type};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use yuzuri_capture::checksum;
use yuzuri_gate::{Bound, Gate, Options};
use yuzuri_testnet::{AccessPoint, Host};

const LASTS: Duration = Duration::from_millis(1500);
const STATIONS: u8 = 2;
const ETH_P_ALL: u16 = 3;
/// Room of the capture's socket, bytes.
const ROOM: usize = 64 << 20;

/// The state of a connection's direction to the station: scale, last ACK, and last right edge.
#[derive(Default)]
struct DirectionState {
    scale: Option<u8>,
    last: Option<(u32, u32)>,
}

#[derive(Debug, Default)]
struct Found {
    packets: u64,
    sums: u64,
    wrong_sums: u64,
    edges: u64,
    left_edges: u64,
    /// ACKs that a later one had overtaken.
    overtaken: u64,
    connections: u64,
}

/// The checksum of a TCP segment with its pseudo-header.
fn tcp_checksum(addresses: &[u8], tcp: &[u8]) -> [u8; 2] {
    checksum::of(&[addresses, &[0, 6], &(tcp.len() as u16).to_be_bytes(), tcp])
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The window scale among a SYN's options.
fn scale_of(options: &[u8]) -> u8 {
    let mut at = 0;
    while at < options.len() {
        match options[at] {
            0 => break,
            1 => at += 1,
            3 => return options[at + 2].min(14),
            _ => at += usize::from(options[at + 1]).max(2),
        }
    }
    0
}

impl Found {
    /// Processes a frame as received by a station. `directions`: the connections by addresses and
    /// ports.
    fn frame(&mut self, frame: &[u8], directions: &mut HashMap<Vec<u8>, DirectionState>) {
        let (ends, tcp) = match be16(frame, 12) {
            0x0800 => {
                let ip = &frame[14..];
                let header = usize::from(ip[0] & 15) * 4;
                let ip = &ip[..usize::from(be16(ip, 2))];
                if ip[9] != 6 {
                    return;
                }
                self.count(checksum::of(&[&ip[..header]]) == [0, 0]);
                (&ip[12..20], &ip[header..])
            }
            0x86dd => {
                let ip = &frame[14..];
                let ip = &ip[..40 + usize::from(be16(ip, 4))];
                if ip[6] != 6 {
                    return;
                }
                (&ip[8..40], &ip[40..])
            }
            _ => return,
        };
        self.packets += 1;
        self.count(tcp_checksum(ends, tcp) == [0, 0]);
        let flags = tcp[13];
        // Only the stations' servers have this port.
        if be16(tcp, 0) != PORT {
            return;
        }
        let direction = directions.entry([ends, &tcp[..4]].concat()).or_default();
        if flags & 2 != 0 {
            self.connections += 1;
            let options = &tcp[20..usize::from(tcp[12] >> 4) * 4];
            *direction = DirectionState { scale: Some(scale_of(options)), last: None };
            return;
        }
        let Some(scale) = direction.scale.filter(|_| flags & 4 == 0) else { return };
        let ack = be32(tcp, 8);
        let edge = ack.wrapping_add(u32::from(be16(tcp, 14)) << scale);
        if let Some((last_ack, last_edge)) = direction.last {
            if (ack.wrapping_sub(last_ack) as i32) < 0 {
                self.overtaken += 1;
                return;
            }
            self.edges += 1;
            self.left_edges += u64::from((edge.wrapping_sub(last_edge) as i32) < 0);
            if (edge.wrapping_sub(last_edge) as i32) < 0 {
                println!(
                    "right edge moved left by {} bytes (unit {}): flags {flags:#x}, {} bytes newly acknowledged, window {}, {} bytes of TCP",
                    last_edge.wrapping_sub(edge),
                    1_u32 << scale,
                    ack.wrapping_sub(last_ack),
                    u32::from(be16(tcp, 14)) << scale,
                    tcp.len(),
                );
            }
        }
        direction.last = Some((ack, edge));
    }

    fn count(&mut self, is_right: bool) {
        self.sums += 1;
        self.wrong_sums += u64::from(!is_right);
    }
}

const PORT: u16 = 5001;

/// A socket for all packets of a device, in the namespace of the thread.
fn packets_of(device: &str) -> Socket {
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(i32::from(ETH_P_ALL.to_be()).into())).unwrap();
    let index = nix::net::if_::if_nametoindex(device).unwrap();
    // SAFETY: a `sockaddr_ll` of zeros is valid, and it is filled in within its storage.
    let ((), address) = unsafe {
        socket2::SockAddr::try_init(|storage, length| {
            let address = &mut *storage.cast::<libc::sockaddr_ll>();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = ETH_P_ALL.to_be();
            address.sll_ifindex = index as i32;
            *length = size_of::<libc::sockaddr_ll>() as u32;
            Ok(())
        })
    }
    .unwrap();
    socket.bind(&address).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let room = ROOM as libc::c_int;
    // SAFETY: the value is an int that outlives the call.
    unsafe {
        let value = (&raw const room).cast();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, size_of_val(&room) as u32);
    }
    socket
}

/// Uploads of a station, one connection after the other, until `stop`.
fn uploads(net: &AccessPoint, station: u8, to: IpAddr, bytes: usize, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let to = SocketAddr::new(to, PORT);
        let Ok(mut socket) = net.inside(Host::Station(station), || TcpStream::connect(to)) else { continue };
        SockRef::from(&socket).set_tcp_congestion(b"cubic").unwrap();
        let mut left = bytes;
        while left > 0 && !stop.load(Ordering::Relaxed) && socket.write_all(&[7; 16384]).is_ok() {
            left = left.saturating_sub(16384);
        }
    }
}

/// Accepts connections at the server until `stop` is set.
fn receive(listener: &TcpListener, stop: &AtomicBool) {
    listener.set_nonblocking(true).unwrap();
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            let Ok((mut socket, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            socket.set_nonblocking(false).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            scope.spawn(move || {
                let mut buffer = vec![0; 65536];
                while !stop.load(Ordering::Relaxed) {
                    match socket.read(&mut buffer) {
                        Ok(0) => break,
                        Ok(_) => {}
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                        Err(_) => break,
                    }
                }
            });
        }
    });
}

/// Bounds that change all the time: new random ones for each connection, and sometimes none.
fn bound_them(gate: &mut Gate, until: impl Fn() -> bool) {
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    while !until() {
        let mut bounds = Vec::new();
        for flow in gate.flows().unwrap() {
            match draw() % 8 {
                0 => gate.release(&flow.key),
                size => bounds.push((
                    flow.key,
                    Bound { bytes: 6_000 << size.min(5), thin_bytes: 8 * 1448 * (draw() % 2) },
                )),
            }
        }
        gate.bound(&bounds, LASTS).unwrap();
        gate.bound_others(20_000 + draw() % 60_000, LASTS).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn no_checksum_is_wrong_and_no_edge_moves_left_in_captures() {
    let test = "no_checksum_is_wrong_and_no_edge_moves_left_in_captures";
    let wanted: u64 = std::env::var("PACKETS").map_or(30_000, |text| text.parse().unwrap());
    // On several CPUs, packets overtake each other between gate and station, and a capture has
    // another order than the gate.
    let mut one = nix::sched::CpuSet::new();
    let all = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
    one.set((0..nix::sched::CpuSet::count()).find(|cpu| all.is_set(*cpu).unwrap()).unwrap()).unwrap();
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &one).unwrap();
    let Some(net) = AccessPoint::or_skip(test, STATIONS) else { return };
    let Some(mut gate) = loaded::gate(test, &Options::default()) else { return };
    // A short queue: segments are lost, too.
    net.shape(400, 60_000).unwrap();
    net.inside(Host::AccessPoint, || gate.attach("br0")).unwrap();
    let listener = net.inside(Host::Server, || TcpListener::bind((IpAddr::from([0; 16]), PORT)).unwrap());
    let captures: Vec<Socket> =
        (0..STATIONS).map(|n| net.inside(Host::Station(n), || packets_of("eth0"))).collect();

    let (stop, captured) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let found: Vec<Found> = std::thread::scope(|scope| {
        scope.spawn(|| receive(&listener, &stop));
        for n in 0..STATIONS {
            for (to, bytes) in [(net.v4(Host::Server), 40_000_000), (net.v6(Host::Server), 3_000_000)] {
                let (net, stop) = (&net, &stop);
                scope.spawn(move || uploads(net, n, to, bytes, stop));
            }
        }
        let readers: Vec<_> = captures
            .iter()
            .map(|mut capture| {
                let (stop, captured) = (&stop, &captured);
                scope.spawn(move || {
                    let (mut found, mut directions, mut buffer) =
                        (Found::default(), HashMap::new(), vec![0; 65536]);
                    while !stop.load(Ordering::Relaxed) {
                        if let Ok(length) = capture.read(&mut buffer) {
                            let before = found.packets;
                            found.frame(&buffer[..length], &mut directions);
                            captured.fetch_add(found.packets - before, Ordering::Relaxed);
                        }
                    }
                    found
                })
            })
            .collect();
        // A run that is stuck ends with what it has, and fails below.
        let latest = Duration::from_secs(60 + wanted / 2_000);
        bound_them(&mut gate, || captured.load(Ordering::Relaxed) >= wanted || begun.elapsed() > latest);
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    let sum = |of: fn(&Found) -> u64| found.iter().map(of).sum::<u64>();
    let counts = gate.counts().unwrap();
    println!(
        "{test}: {} packets of {} connections in {:.0} s, {} checksums ({} wrong), {} right edges ({} moved left, {} ACKs overtaken); \
         {} windows lowered, {} ACKs dropped, {} not written",
        sum(|f| f.packets),
        sum(|f| f.connections),
        begun.elapsed().as_secs_f64(),
        sum(|f| f.sums),
        sum(|f| f.wrong_sums),
        sum(|f| f.edges),
        sum(|f| f.left_edges),
        sum(|f| f.overtaken),
        counts.lowered,
        counts.thinned,
        counts.failed,
    );
    assert!(sum(|f| f.packets) >= wanted, "{found:?}");
    assert!(counts.lowered > wanted / 20 && sum(|f| f.edges) > wanted / 20, "{counts:?} {found:?}");
    assert_eq!((sum(|f| f.wrong_sums), sum(|f| f.left_edges)), (0, 0), "{found:?}");
}

/// The reader detects a wrong byte, and an edge that moves left.
#[test]
fn the_reader_finds_wrong_checksums_and_edges() {
    let frame = |flags: u8, ack: u32, window: u16| {
        let mut tcp = vec![0; 20];
        tcp[..2].copy_from_slice(&PORT.to_be_bytes());
        tcp[8..12].copy_from_slice(&ack.to_be_bytes());
        (tcp[12], tcp[13]) = (if flags & 2 != 0 { 6 << 4 } else { 5 << 4 }, flags);
        tcp[14..16].copy_from_slice(&window.to_be_bytes());
        if flags & 2 != 0 {
            tcp.extend([1, 3, 3, 7]);
        }
        let mut ip =
            vec![0x45, 0, 0, 20 + tcp.len() as u8, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let of_tcp = tcp_checksum(&ip[12..20], &tcp);
        tcp[16..18].copy_from_slice(&of_tcp);
        let of_ip = checksum::of(&[&ip]);
        ip[10..12].copy_from_slice(&of_ip);
        [vec![0; 12], vec![8, 0], ip, tcp, vec![0; 6]].concat()
    };
    let (mut found, mut directions) = (Found::default(), HashMap::new());
    let frames = [frame(18, 1000, 60_000), frame(16, 1000, 100), frame(16, 2000, 95), frame(16, 1500, 1)];
    frames.iter().for_each(|frame| found.frame(frame, &mut directions));
    assert_eq!((found.sums, found.wrong_sums, found.edges, found.left_edges), (8, 0, 1, 0), "{found:?}");
    found.frame(&frame(16, 2000, 94), &mut directions);
    assert_eq!((found.edges, found.left_edges), (2, 1), "{found:?}");
    for at in [20, 45] {
        let mut damaged = frame(16, 3000, 100);
        damaged[at] ^= 1;
        found.frame(&damaged, &mut directions);
    }
    assert_eq!((found.wrong_sums, found.left_edges), (2, 1), "{found:?}");
}
