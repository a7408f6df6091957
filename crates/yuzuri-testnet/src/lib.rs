//! For tests and benchmarks: two network namespaces connected by a path, removed on drop. Every
//! test has its own, so that tests can run in parallel. [`Relay`] adds a path on which a test
//! decides the fate of each packet, [`Path`] one with a rate, a delay, a queue and random losses.

mod access_point;
mod attack;
pub mod heap;
mod pacing;
pub mod packet;
mod path;
mod relay;
pub mod tracefs;

pub use access_point::{AccessPoint, Host};
pub use attack::attack;
pub use heap::CountingAllocator;
pub use pacing::set_max_pacing_rate;
pub use packet::{Packet, Segment};
pub use path::{Path, PathDirection};
pub use relay::{Policy, Relay, Verdict};

use anyhow::{anyhow, bail};
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Opens this many connections to a listener, and transfers 4 kB on each.
///
/// # Panics
/// If a connection fails.
pub fn used_connections(listener: &TcpListener, count: usize) -> Vec<(TcpStream, TcpStream)> {
    let address = listener.local_addr().expect("a bound listener");
    let connect = |_| {
        let near = TcpStream::connect_timeout(&address, Duration::from_secs(20)).expect("connecting");
        (near, listener.accept().expect("accepting").0)
    };
    let mut connections: Vec<_> = (0..count).map(connect).collect();
    let mut buffer = vec![0; 4000];
    for (near, far) in &mut connections {
        near.write_all(&buffer).expect("sending");
        far.read_exact(&mut buffer).expect("receiving");
    }
    connections
}

/// An end of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// 10.77.0.1, fd77::1
    A,
    /// 10.77.0.2, fd77::2
    B,
}

impl Side {
    /// The other end.
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}

/// Two namespaces connected by a veth pair, with loopback, IPv4 and IPv6 up and segmentation
/// offloads disabled (so that packets are as on a wire).
#[derive(Debug)]
pub struct Net {
    names: [String; 2],
}

fn run(program: &str, args: &str) -> anyhow::Result<()> {
    let output = Command::new(program)
        .args(args.split_whitespace())
        .output()
        .map_err(|e| anyhow!("{program} cannot be run: {e} (make setup installs it)"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(anyhow!("{program} {args}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Runs a command that reads its input from standard input.
fn feed(command: &mut Command, orders: &str) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|e| anyhow!("{name} cannot be run: {e} (make setup installs it)"))?;
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(orders.as_bytes()));
    let output = child.wait_with_output().map_err(|e| anyhow!("{name}: {e}"))?;
    match written {
        Some(Ok(())) if output.status.success() => Ok(()),
        _ => Err(anyhow!("{name}: {orders}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Runs a closure on a thread inside a network namespace.
fn in_namespace<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> T {
    let path = format!("/run/netns/{name}");
    std::thread::scope(|scope| {
        let inside = scope.spawn(move || {
            let file = File::open(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
            setns(file, CloneFlags::CLONE_NEWNET).unwrap_or_else(|e| panic!("setns {path}: {e}"));
            f()
        });
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A counter of the namespace that the thread is in; 0 if the kernel does not have it.
fn counter(name: &str) -> u64 {
    let text = ["/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat"]
        .map(|path| std::fs::read_to_string(path).unwrap_or_default())
        .concat();
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).flat_map(|pair| {
        pair[0].split_whitespace().zip(pair[1].split_whitespace()).filter(|(n, _)| *n == name)
    });
    pairs.filter_map(|(_, value)| value.parse::<i64>().ok()).map(|v| v as u64).sum()
}

impl Net {
    /// Creates the path. Without root this fails; the caller then prints *skipped* and the reason.
    ///
    /// # Errors
    /// If the namespaces or the links cannot be created, with the reason.
    pub fn new() -> anyhow::Result<Net> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !nix::unistd::geteuid().is_root() {
            bail!("network namespaces need root");
        }
        let base = format!("yz{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let net = Net { names: [format!("{base}a"), format!("{base}b")] };
        for name in &net.names {
            run("ip", &format!("netns add {name}"))?;
        }
        let [a, b] = &net.names;
        run("ip", &format!("link add va netns {a} type veth peer name vb netns {b}"))?;
        for (name, link, host) in [(a, "va", 1), (b, "vb", 2)] {
            let lines = format!(
                "addr add 10.77.0.{host}/24 dev {link}\naddr add fd77::{host}/64 dev {link} nodad\n\
                 link set {link} up\nlink set lo up\n"
            );
            feed(Command::new("ip").args(["-n", name, "-batch", "-"]), &lines)?;
            run("ip", &format!("netns exec {name} ethtool -K {link} tso off gso off gro off"))?;
        }
        // A new link drops its first packets until neighbours are resolved. A refused connection
        // shows that both directions work.
        for to in [net.v4(Side::B), net.v6(Side::B)] {
            let refused = || {
                let tried = TcpStream::connect_timeout(&SocketAddr::new(to, 1), Duration::from_millis(50));
                tried.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused)
            };
            if !net.inside(Side::A, || eventually(refused)) {
                bail!("{to} cannot be reached through the new link");
            }
        }
        Ok(net)
    }

    /// Same as [`Net::new`]; on failure prints that the test is skipped and why.
    pub fn or_skip(test: &str) -> Option<Net> {
        Net::new().map_err(|why| println!("{test}: skipped: {why}")).ok()
    }

    /// Token bucket size of a shaped side, bytes.
    pub const BURST_BYTES: u32 = 10 * 1024;

    /// Limits the egress rate of a side: a token bucket of `rate_mbit` with a queue of
    /// `limit_bytes`.
    ///
    /// # Errors
    /// If `tc` fails, with its message.
    pub fn shape(&self, side: Side, rate_mbit: u32, limit_bytes: u32) -> anyhow::Result<()> {
        self.shape_kbit(side, rate_mbit * 1000, limit_bytes)
    }

    /// The same for a slow link: a token bucket of `rate_kbit`.
    ///
    /// # Errors
    /// If `tc` fails, with its message.
    pub fn shape_kbit(&self, side: Side, rate_kbit: u32, limit_bytes: u32) -> anyhow::Result<()> {
        let (name, link) = (self.name(side), self.link(side));
        let tbf = format!("tbf rate {rate_kbit}kbit burst {} limit {limit_bytes}", Self::BURST_BYTES);
        run("tc", &format!("-n {name} qdisc replace dev {link} root {tbf}"))
    }

    /// Sets a side's link down or up. While it is down, packets are lost without notice to the
    /// peers.
    ///
    /// # Errors
    /// If `ip` fails, with its message.
    pub fn connect(&self, side: Side, up: bool) -> anyhow::Result<()> {
        let (name, link, word) = (self.name(side), self.link(side), if up { "up" } else { "down" });
        run("ip", &format!("-n {name} link set {link} {word}"))
    }

    /// Drops one in `every` TCP packets that arrive at a side, whatever they carry.
    ///
    /// # Errors
    /// If `nft` fails, with its message.
    pub fn drop_every(&self, side: Side, every: u32) -> anyhow::Result<()> {
        let name = self.name(side);
        run("ip", &format!("netns exec {name} nft add table inet lossy"))?;
        run(
            "ip",
            &format!(
                "netns exec {name} nft add chain inet lossy in {{ type filter hook input priority 0 ; }}"
            ),
        )?;
        run(
            "ip",
            &format!(
                "netns exec {name} nft add rule inet lossy in tcp dport 1-65535 numgen inc mod {every} 0 drop"
            ),
        )
    }

    /// Adds rules to a side's firewall: lines of `nft -f`.
    ///
    /// # Errors
    /// If `nft` fails, with its message.
    pub fn firewall(&self, side: Side, rules: &str) -> anyhow::Result<()> {
        feed(self.command(side, "nft").args(["-f", "-"]), rules)
    }

    /// Sets a kernel parameter (`net.ipv4.tcp_ecn`) of a side's namespace.
    ///
    /// # Errors
    /// If the kernel refuses, with the reason.
    pub fn set(&self, side: Side, name: &str, value: &str) -> anyhow::Result<()> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        self.inside(side, || std::fs::write(&path, value)).map_err(|e| anyhow!("{path} = {value}: {e}"))
    }

    /// A TCP or IP counter of a side, named as in `nstat` but without the protocol prefix
    /// (`RetransSegs`, `TCPTimeouts`); 0 if the kernel does not have it.
    pub fn counter(&self, side: Side, name: &str) -> u64 {
        self.inside(side, || counter(name))
    }

    /// The name of the namespace.
    pub fn name(&self, side: Side) -> &str {
        &self.names[side as usize]
    }

    fn link(&self, side: Side) -> &'static str {
        ["va", "vb"][side as usize]
    }

    /// The IPv4 address of a side.
    pub fn v4(&self, side: Side) -> IpAddr {
        IpAddr::from([10, 77, 0, 1 + side as u8])
    }

    /// The IPv6 address of a side.
    pub fn v6(&self, side: Side) -> IpAddr {
        IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, 1 + side as u16])
    }

    /// The inode number of a side's namespace.
    pub fn inode(&self, side: Side) -> u32 {
        use std::os::unix::fs::MetadataExt;
        let path = format!("/run/netns/{}", self.name(side));
        std::fs::metadata(path).map(|m| m.ino() as u32).unwrap_or_default()
    }

    /// Runs a closure on a separate thread inside a side's namespace; sockets that it creates
    /// remain in that namespace.
    ///
    /// # Panics
    /// If the closure panics or the namespace is gone.
    pub fn inside<T: Send>(&self, side: Side, f: impl FnOnce() -> T + Send) -> T {
        in_namespace(self.name(side), f)
    }

    /// A command that runs inside a side's namespace.
    pub fn command(&self, side: Side, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name(side), program]);
        command
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = run("ip", &format!("netns del {name}"));
        }
    }
}

/// Waits until a condition is true, at most 20 s; returns whether it became true.
pub fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        if holds() {
            return true;
        }
        if std::time::Instant::now() > until {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
