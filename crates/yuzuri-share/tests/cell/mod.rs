//! A test network: hosts on one link, each in its own network namespace, and a server, with sharing
//! daemons and traffic.

#![allow(clippy::unwrap_used, missing_docs, dead_code)]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use yuzuri_kernel::control::ControlError;
use yuzuri_share::{ControlLoop, KeySource, LoopCommand, ShareConfig, ShareError, Status, StatusCell};

/// Rate limit of each host, Mbit/s. Its queue holds about 60 ms at this rate.
pub const RATE_MBIT: u32 = 20;

/// A server namespace with a bridge, and the hosts attached to it: host N has `eth0` with 10.88.0.N
/// and fd88::N.
pub struct Cell {
    base: String,
    hosts: u32,
}

pub fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Cell {
    /// Returns `None` and prints the reason if namespaces are not available.
    pub fn or_skip(test: &str, hosts: u32) -> Option<Cell> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !nix::unistd::geteuid().is_root() {
            println!("{test}: skipped: network namespaces need root");
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let cell = Cell { base: format!("yzs{}-{number}", std::process::id()), hosts };
        let server = cell.name(0);
        ip(&format!("netns add {server}"));
        ip(&format!("-n {server} link set lo up"));
        cell.add_bridge("br0", "10.88.0.100/24");
        for host in 1..=hosts {
            let name = cell.name(host);
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
            cell.attach(host, "eth0", "br0", &format!("10.88.0.{host}/24"));
            ip(&format!("-n {name} addr add fd88::{host}/64 dev eth0 nodad"));
            cell.shape(host, "eth0", RATE_MBIT);
        }
        Some(cell)
    }

    pub fn add_bridge(&self, bridge: &str, address: &str) {
        let server = self.name(0);
        ip(&format!("-n {server} link add {bridge} type bridge"));
        ip(&format!("-n {server} addr add {address} dev {bridge}"));
        ip(&format!("-n {server} link set {bridge} up"));
    }

    /// Connects a host to a bridge.
    pub fn attach(&self, host: u32, link: &str, bridge: &str, address: &str) {
        let (name, server) = (self.name(host), self.name(0));
        let peer = format!("h{host}{link}");
        ip(&format!("link add {link} netns {name} type veth peer name {peer} netns {server}"));
        ip(&format!("-n {server} link set {peer} master {bridge} up"));
        ip(&format!("-n {name} addr add {address} broadcast + dev {link}"));
        ip(&format!("-n {name} link set {link} up"));
    }

    pub fn shape(&self, host: u32, link: &str, rate_mbit: u32) {
        let name = self.name(host);
        let queue = rate_mbit * 7500;
        let words = format!(
            "-n {name} qdisc replace dev {link} root tbf rate {rate_mbit}mbit burst 10k limit {queue}"
        );
        let output = Command::new("tc").args(words.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "tc {words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The namespace of a host; 0 is the server.
    pub fn name(&self, host: u32) -> String {
        format!("{}h{host}", self.base)
    }

    pub fn without_v6(&self, host: u32) {
        self.set(host, "net/ipv6/conf/all/disable_ipv6", "1");
    }

    pub fn set(&self, host: u32, name: &str, value: &str) {
        self.inside(host, || std::fs::write(format!("/proc/sys/{name}"), value).unwrap());
    }

    /// Runs `f` on a separate thread in a host's namespace.
    pub fn inside<T: Send>(&self, host: u32, f: impl FnOnce() -> T + Send) -> T {
        let name = self.name(host);
        std::thread::scope(|scope| {
            scope
                .spawn(move || {
                    enter(&name);
                    f()
                })
                .join()
                .unwrap()
        })
    }

    pub fn command(&self, host: u32, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(host), program]);
        command
    }

    /// A bulk transfer from a host to the server.
    pub fn traffic(&self, host: u32) -> Traffic {
        self.traffic_to(host, Ipv4Addr::new(10, 88, 0, 100).into())
    }

    pub fn traffic_to(&self, host: u32, to: IpAddr) -> Traffic {
        self.traffic_between(host, 0, to)
    }

    /// A bulk transfer from a host to an address of another.
    pub fn traffic_between(&self, host: u32, other: u32, to: IpAddr) -> Traffic {
        let listener = self.inside(other, || TcpListener::bind(SocketAddr::new(to, 0)).unwrap());
        let address = listener.local_addr().unwrap();
        let near =
            self.inside(host, || TcpStream::connect_timeout(&address, Duration::from_secs(20)).unwrap());
        let far = listener.accept().unwrap().0;
        let received = Arc::new(AtomicU64::new(0));
        let (sending, receiving, count) =
            (near.try_clone().unwrap(), far.try_clone().unwrap(), received.clone());
        let threads = vec![
            std::thread::spawn(move || while (&sending).write_all(&[7; 16384]).is_ok() {}),
            std::thread::spawn(move || {
                let mut buffer = vec![0; 65536];
                while let Ok(length @ 1..) = (&receiving).read(&mut buffer) {
                    count.fetch_add(length as u64, Ordering::Relaxed);
                }
            }),
        ];
        Traffic { near, far, received, threads }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        for host in 0..=self.hosts {
            let _ =
                Command::new("ip").args(["netns", "del", &self.name(host)]).stderr(Stdio::null()).status();
        }
    }
}

fn enter(name: &str) {
    let file = std::fs::File::open(format!("/run/netns/{name}")).unwrap();
    nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
}

/// A bulk transfer; dropping it ends the flow.
pub struct Traffic {
    pub near: TcpStream,
    far: TcpStream,
    pub received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    pub fn control(&self) -> String {
        let bytes = socket2::SockRef::from(&self.near).tcp_congestion().unwrap();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }

    pub fn local(&self) -> SocketAddr {
        self.near.local_addr().unwrap()
    }

    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub fn cwnd(&self) -> u32 {
        let info = yuzuri_kernel::own::info(self.near.as_fd()).unwrap();
        let at = std::mem::offset_of!(libc::tcp_info, tcpi_snd_cwnd);
        u32::from_ne_bytes(info[at..at + 4].try_into().unwrap())
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        // Shut down both ends, so that no data can follow.
        let _ = self.near.shutdown(Shutdown::Both);
        let _ = self.far.shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A unique name, so that tests can run in parallel.
pub fn control_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("yd{}n{}", std::process::id() % 1_000_000, NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub fn keyed(byte: u8) -> ShareConfig {
    // Derive the key: one byte repeated would be rejected as easily guessed.
    let key = yuzuri_policy::Authority::from_bytes([byte; 32]).member(1, 1).unwrap();
    let key = KeySource::Key(yuzuri_policy::Key::from_bytes(*key.secret()));
    ShareConfig { key, control_name: control_name(), ..ShareConfig::default() }
}

/// A sharing daemon on a thread in a host's namespace; dropping it makes it leave the group.
pub struct Instance {
    pub status_cell: StatusCell,
    pub orders: Sender<LoopCommand>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The thread ID.
    tid: i32,
}

impl Instance {
    /// Returns `None` and prints the reason if the kernel does not accept our struct_ops program.
    pub fn or_skip(test: &str, cell: &Cell, host: u32, config: ShareConfig) -> Option<Instance> {
        match Instance::start(cell, host, config) {
            Ok(instance) => Some(instance),
            Err(ShareError::Control(error @ (ControlError::NotPermitted(_) | ControlError::Kernel(_)))) => {
                println!("{test}: skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub fn start(cell: &Cell, host: u32, config: ShareConfig) -> Result<Instance, ShareError> {
        let (name, stop) = (cell.name(host), Arc::new(AtomicBool::new(false)));
        let (sender, started) = channel();
        let stopping = stop.clone();
        let thread = std::thread::spawn(move || {
            enter(&name);
            match ControlLoop::start_with(config, move |event| println!("{name}: {event}")) {
                Ok(mut share) => {
                    let tid = nix::unistd::gettid().as_raw();
                    sender.send(Ok((share.status_cell(), share.orders(), tid))).unwrap();
                    share.run(&stopping).unwrap();
                }
                Err(error) => sender.send(Err(error)).unwrap(),
            }
        });
        let (status_cell, orders, tid) = started.recv().unwrap()?;
        Ok(Instance { status_cell, orders, stop, thread: Some(thread), tid })
    }

    /// The CPU time of its thread.
    pub fn cpu(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.tid)).unwrap();
        Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
    }

    pub fn status(&self) -> Arc<Status> {
        self.status_cell.read()
    }

    /// Waits until `shown` is true for the status. After 20 s the test fails with the message
    /// `what`.
    pub fn until(&self, what: &str, shown: impl Fn(&Status) -> bool) -> Arc<Status> {
        let seen = yuzuri_testnet::eventually(|| shown(&self.status()));
        let status = self.status();
        assert!(seen, "never seen: {what}; the last status: {status:#?}");
        status
    }

    pub fn leave(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.end();
    }
}
