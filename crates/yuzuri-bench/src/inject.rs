//! Injects more ACKs than two cores can send: pure ACKs that match established connections enter
//! the receive path of the network stack, as if a network card delivered them. Everything from
//! there is real: socket lookup, `tcp_rcv_established`, the tracepoint, the monitor.

#![expect(unsafe_code, reason = "calls of libbpf")]

use crate::cpu;
use crate::programs::PassProgram;
use anyhow::{Context, ensure};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use yuzuri_capture::checksum;
use yuzuri_testnet::{Net, Side};

/// Idle connections from A to B, and for each a frame that B accepts as an ACK from A.
pub struct Injector {
    program: PassProgram,
    frames: Vec<Vec<u8>>,
    interface: u32,
    _ends: Vec<(TcpStream, TcpStream)>,
}

/// Minimum and maximum number of back-to-back frames of one connection; the kernel needs a
/// millisecond to start a batch.
const MIN_BURST: u32 = 1000;
const MAX_BURST: u64 = 10_000;

impl Injector {
    /// Opens the connections.
    pub fn new(net: &Net, connections: usize) -> anyhow::Result<Injector> {
        // Without timestamps the same frame stays a valid ACK.
        for side in [Side::A, Side::B] {
            let mut command = net.command(side, "sysctl");
            let done = command.args(["-qw", "net.ipv4.tcp_timestamps=0"]).status().context("sysctl")?;
            ensure!(done.success(), "disabling TCP timestamps failed");
        }
        let listener = net.inside(Side::B, || TcpListener::bind((net.v4(Side::B), 0)))?;
        let to = listener.local_addr()?;
        let mut ends = Vec::new();
        for _ in 0..connections {
            let client = net.inside(Side::A, || TcpStream::connect(to)).context("connecting")?;
            ends.push((client, listener.accept().context("accepting")?.0));
        }
        let (interface, mac) = net.inside(Side::B, || interface_of(net.v4(Side::B)))?;
        let frames = ends.iter().map(|(_, server)| ack_for(server, mac)).collect::<anyhow::Result<_>>()?;
        Ok(Injector { program: PassProgram::load()?, frames, interface, _ends: ends })
    }

    /// Injects `per_second` ACKs per second for `time`, from one thread on each CPU, and returns
    /// the number injected. A machine that is too slow falls behind and then catches up.
    pub fn run(&self, net: &Net, per_second: u64, time: Duration) -> anyhow::Result<u64> {
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
        let share = per_second / cpus as u64;
        let inject_on_cpu = |at: usize| {
            net.inside(Side::B, || {
                cpu::pin(at)?;
                self.run_one(at, share, time)
            })
        };
        let inject_on_cpu = &inject_on_cpu;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..cpus).map(|at| scope.spawn(move || inject_on_cpu(at))).collect();
            let mut total = 0;
            for thread in threads {
                total += thread.join().map_err(|_| anyhow::anyhow!("an injecting thread panicked"))??;
            }
            Ok(total)
        })
    }

    fn run_one(&self, at: usize, per_second: u64, time: Duration) -> anyhow::Result<u64> {
        let started = Instant::now();
        let (mut done, mut next) = (0, at);
        loop {
            let elapsed = started.elapsed().min(time);
            let due = (elapsed.as_secs_f64() * per_second as f64) as u64 - done;
            if due >= u64::from(MIN_BURST) || elapsed == time {
                let count = due.min(MAX_BURST);
                let frame = &self.frames[next % self.frames.len()];
                self.program.inject(frame, self.interface, count as u32)?;
                done += count;
                next += 1;
            }
            if elapsed == time {
                return Ok(done);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// Index and MAC address of the interface with this address.
fn interface_of(address: IpAddr) -> anyhow::Result<(u32, [u8; 6])> {
    let all: Vec<_> = nix::ifaddrs::getifaddrs().context("listing the interfaces")?.collect();
    let has = |a: &nix::ifaddrs::InterfaceAddress| {
        let v4 = a.address.as_ref().and_then(|s| s.as_sockaddr_in().map(|s| IpAddr::from(s.ip())));
        v4 == Some(address)
    };
    let name =
        &all.iter().find(|a| has(a)).with_context(|| format!("no interface has {address}"))?.interface_name;
    let link = (all.iter().filter(|a| &a.interface_name == name))
        .find_map(|a| a.address.as_ref()?.as_link_addr().copied())
        .with_context(|| format!("{name} has no hardware address"))?;
    let mac = link.addr().with_context(|| format!("{name} has no hardware address"))?;
    Ok((link.ifindex() as u32, mac))
}

/// Sequence numbers of an idle socket: SND.NXT and RCV.NXT.
fn sequence_numbers(stream: &TcpStream) -> anyhow::Result<(u32, u32)> {
    // Constants of uapi/linux/tcp.h that libc lacks.
    const TCP_REPAIR: i32 = 19;
    const TCP_REPAIR_QUEUE: i32 = 20;
    const TCP_QUEUE_SEQ: i32 = 21;
    const REPAIR_ON: i32 = 1;
    /// Leave repair mode without sending a window probe.
    const REPAIR_OFF_NO_WP: i32 = -1;
    const RECEIVE_QUEUE: i32 = 1;
    const SEND_QUEUE: i32 = 2;
    let fd = stream.as_raw_fd();
    let set = |option: i32, value: i32| {
        // SAFETY: the value is an i32 that outlives the call.
        let result = unsafe {
            libc::setsockopt(
                fd,
                libc::IPPROTO_TCP,
                option,
                (&raw const value).cast(),
                size_of::<i32>() as u32,
            )
        };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    let get = || {
        let (mut value, mut size) = (0u32, size_of::<u32>() as u32);
        // SAFETY: the kernel writes at most `size` bytes into `value`.
        let result = unsafe {
            libc::getsockopt(fd, libc::IPPROTO_TCP, TCP_QUEUE_SEQ, (&raw mut value).cast(), &mut size)
        };
        if result == 0 { Ok(value) } else { Err(std::io::Error::last_os_error()) }
    };
    set(TCP_REPAIR, REPAIR_ON).context("entering repair mode")?;
    let read = || -> std::io::Result<(u32, u32)> {
        set(TCP_REPAIR_QUEUE, SEND_QUEUE)?;
        let snd_nxt = get()?;
        set(TCP_REPAIR_QUEUE, RECEIVE_QUEUE)?;
        Ok((snd_nxt, get()?))
    };
    let numbers = read();
    set(TCP_REPAIR, REPAIR_OFF_NO_WP).context("leaving repair mode")?;
    numbers.context("reading sequence numbers")
}

/// An Ethernet frame with a pure ACK that matches the idle socket.
fn ack_for(socket: &TcpStream, mac: [u8; 6]) -> anyhow::Result<Vec<u8>> {
    let (SocketAddr::V4(local), SocketAddr::V4(remote)) = (socket.local_addr()?, socket.peer_addr()?) else {
        anyhow::bail!("an IPv4 connection was expected");
    };
    let (snd_nxt, rcv_nxt) = sequence_numbers(socket)?;
    let addresses = [remote.ip().octets(), local.ip().octets()].concat();
    let mut tcp = Vec::new();
    tcp.extend(remote.port().to_be_bytes());
    tcp.extend(local.port().to_be_bytes());
    tcp.extend(rcv_nxt.to_be_bytes());
    tcp.extend(snd_nxt.to_be_bytes());
    const HEADER_WORDS: u8 = 5;
    const ACK: u8 = 0x10;
    tcp.extend([HEADER_WORDS << 4, ACK]);
    tcp.extend([0xff, 0xff, 0, 0, 0, 0]);
    let pseudo = [&addresses[..], &[0, 6, 0, tcp.len() as u8]].concat();
    let checksum = checksum::of(&[&pseudo, &tcp]);
    tcp[16..18].copy_from_slice(&checksum);
    let mut ip = vec![0x45, 0, 0, 20 + tcp.len() as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip.extend(addresses);
    let checksum = checksum::of(&[&ip]);
    ip[10..12].copy_from_slice(&checksum);
    let mut frame = mac.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1, 8, 0]);
    frame.extend(ip);
    frame.extend(tcp);
    Ok(frame)
}
