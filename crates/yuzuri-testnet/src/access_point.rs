//! Stations behind an access point that forwards with the kernel's own means: a bridge towards
//! them, a wire with a shaped rate towards the server.

use crate::{eventually, feed, in_namespace, run};
use anyhow::{anyhow, bail};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A host of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// The station of this number, from 0: 10.77.0.10 and up, fd77::10 and up.
    Station(u8),
    /// 10.77.0.1 and fd77::1 towards the stations, 10.78.0.1 and fd78::1 on the wire.
    AccessPoint,
    /// 10.78.0.2, fd78::2
    Server,
}

/// The namespaces of stations, access point and server, removed on drop. The stations' devices at
/// the access point are `s0`, `s1`, ..., ports of the bridge `br0`; the wire's is `wan`.
/// Segmentation and checksums are made in software and checked by every receiver, as on a wire.
#[derive(Debug)]
pub struct AccessPoint {
    base: String,
    stations: u8,
}

impl AccessPoint {
    /// Creates it with this many stations.
    ///
    /// # Errors
    /// If it cannot be made, with the reason: it needs root.
    pub fn new(stations: u8) -> anyhow::Result<AccessPoint> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !nix::unistd::geteuid().is_root() {
            bail!("network namespaces need root");
        }
        let base = format!("yz{}-ap{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let net = AccessPoint { base, stations };
        for host in net.hosts() {
            run("ip", &format!("netns add {}", net.name(host)))?;
        }
        let ap = net.name(Host::AccessPoint);
        let server = net.name(Host::Server);
        feed(
            Command::new("ip").args(["-n", &ap, "-batch", "-"]),
            "link add br0 type bridge\nlink set lo up\n",
        )?;
        run("ip", &format!("link add wan netns {ap} type veth peer name wan netns {server}"))?;
        let mut ports = String::new();
        for n in 0..stations {
            let station = net.name(Host::Station(n));
            run("ip", &format!("link add s{n} netns {ap} type veth peer name eth0 netns {station}"))?;
            ports += &format!("link set s{n} master br0\nlink set s{n} up\n");
            net.raw_device(Host::AccessPoint, &format!("s{n}"))?;
        }
        net.raw_device(Host::AccessPoint, "wan")?;
        let addresses = "addr add 10.77.0.1/24 dev br0\naddr add fd77::1/64 dev br0 nodad\nlink set br0 up\n\
                         addr add 10.78.0.1/24 dev wan\naddr add fd78::1/64 dev wan nodad\nlink set wan up\n";
        feed(Command::new("ip").args(["-n", &ap, "-batch", "-"]), &(ports + addresses))?;
        for name in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            net.set(Host::AccessPoint, name, "1")?;
        }
        for n in 0..stations {
            net.end(Host::Station(n), "eth0", 77, 10 + u16::from(n))?;
        }
        net.end(Host::Server, "wan", 78, 2)?;
        net.wait()?;
        Ok(net)
    }

    /// As [`AccessPoint::new`]; on failure prints that the test is skipped and why.
    pub fn or_skip(test: &str, stations: u8) -> Option<AccessPoint> {
        AccessPoint::new(stations).map_err(|why| println!("{test}: skipped: {why}")).ok()
    }

    /// All hosts.
    pub fn hosts(&self) -> impl Iterator<Item = Host> + use<> {
        (0..self.stations).map(Host::Station).chain([Host::AccessPoint, Host::Server])
    }

    /// The name of a host's namespace.
    pub fn name(&self, host: Host) -> String {
        match host {
            Host::Station(n) => format!("{}s{n}", self.base),
            Host::AccessPoint => format!("{}a", self.base),
            Host::Server => format!("{}b", self.base),
        }
    }

    /// The IPv4 address of a host; of the access point that towards the stations.
    pub fn v4(&self, host: Host) -> IpAddr {
        match host {
            Host::Station(n) => IpAddr::from([10, 77, 0, 10 + n]),
            Host::AccessPoint => IpAddr::from([10, 77, 0, 1]),
            Host::Server => IpAddr::from([10, 78, 0, 2]),
        }
    }

    /// The IPv6 address of a host; of the access point that towards the stations.
    pub fn v6(&self, host: Host) -> IpAddr {
        let (net, number) = match host {
            // Numbers are written in decimal digits in both families.
            Host::Station(n) => {
                (0xfd77, u16::from_str_radix(&(10 + u16::from(n)).to_string(), 16).unwrap_or(0x10))
            }
            Host::AccessPoint => (0xfd77, 1),
            Host::Server => (0xfd78, 2),
        };
        IpAddr::from([net, 0, 0, 0, 0, 0, 0, number])
    }

    /// Limits the rate of the wire towards the server: a token bucket of `rate_mbit` with a queue
    /// of `limit_bytes`.
    ///
    /// # Errors
    /// If `tc` fails, with its message.
    pub fn shape(&self, rate_mbit: u32, limit_bytes: u32) -> anyhow::Result<()> {
        let tbf = format!("tbf rate {rate_mbit}mbit burst {} limit {limit_bytes}", crate::Net::BURST_BYTES);
        run("tc", &format!("-n {} qdisc replace dev wan root {tbf}", self.name(Host::AccessPoint)))
    }

    /// Sets a kernel parameter (`net.ipv4.tcp_ecn`) of a host's namespace.
    ///
    /// # Errors
    /// If the kernel refuses, with the reason.
    pub fn set(&self, host: Host, name: &str, value: &str) -> anyhow::Result<()> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        self.inside(host, || std::fs::write(&path, value)).map_err(|e| anyhow!("{path} = {value}: {e}"))
    }

    /// A TCP or IP counter of a host, as [`crate::Net::counter`] names it.
    pub fn counter(&self, host: Host, name: &str) -> u64 {
        self.inside(host, || crate::counter(name))
    }

    /// Runs a closure on a thread inside a host's namespace; sockets that it creates remain there.
    ///
    /// # Panics
    /// If the closure panics or the namespace is gone.
    pub fn inside<T: Send>(&self, host: Host, f: impl FnOnce() -> T + Send) -> T {
        in_namespace(&self.name(host), f)
    }

    /// A command that runs inside a host's namespace.
    pub fn command(&self, host: Host, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(host), program]);
        command
    }

    /// No offloads: packets are as on a wire, and every receiver checks their sums.
    fn raw_device(&self, host: Host, device: &str) -> anyhow::Result<()> {
        let name = self.name(host);
        run("ip", &format!("netns exec {name} ethtool -K {device} tso off gso off gro off tx off rx off"))
    }

    fn end(&self, host: Host, device: &str, net: u16, number: u16) -> anyhow::Result<()> {
        let name = self.name(host);
        let lines = format!(
            "link set lo up\naddr add 10.{net}.0.{number}/24 dev {device}\n\
             addr add fd{net}::{number}/64 dev {device} nodad\nlink set {device} up\n\
             route add default via 10.{net}.0.1\nroute add ::/0 via fd{net}::1\n"
        );
        feed(Command::new("ip").args(["-n", &name, "-batch", "-"]), &lines)?;
        self.raw_device(host, device)
    }

    /// New links drop their first packets until neighbours are resolved and ports forward. A
    /// refused connection shows that both directions work.
    fn wait(&self) -> anyhow::Result<()> {
        for station in (0..self.stations).map(Host::Station) {
            for to in [self.v4(Host::Server), self.v6(Host::Server)] {
                let refused = || {
                    let tried =
                        TcpStream::connect_timeout(&SocketAddr::new(to, 1), Duration::from_millis(50));
                    tried.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused)
                };
                if !self.inside(station, || eventually(refused)) {
                    bail!("{to} cannot be reached from {station:?}");
                }
            }
        }
        Ok(())
    }
}

impl Drop for AccessPoint {
    fn drop(&mut self) {
        for host in self.hosts() {
            let _ = run("ip", &format!("netns del {}", self.name(host)));
        }
    }
}
