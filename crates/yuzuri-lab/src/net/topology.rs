//! The network of an experiment: terminals and the access point in the cell, the server behind the
//! wire.
//!
//! ```text
//!  terminal 0 ─ cell0 ┐                         ┌ cell0 ─ ap ─ wire0 ┐                 ┌ wire0 ─ server
//!  terminal 1 ─ cell0 ┼─ driver: the radio cell ┘                    └ driver: the wire ┘
//!  ...                ┘
//! ```
//!
//! The access point bridges the cell (the radio model relays between terminals and repeats
//! group-addressed frames) and routes between the cell's subnet and the server's.

use super::{Namespace, Run, Tap, default_control};
use crate::LabError;
use crate::driver::Forwarding;
use std::fmt::Write as _;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_scenario::{Qdisc, ShaperSpec};

/// The name of the devices in the cell.
pub const CELL: &str = "cell0";
const WIRE: &str = "wire0";
/// Queue length of a TAP device, frames: many times what a scheduling delay of 1 ms needs.
const TAP_FRAMES: u32 = 10_000;
const MIN_V6_MTU_BYTES: u32 = 1280;
/// Time limit for the new network to answer.
const REACH_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of one host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostSettings {
    /// `initcwnd` of its routes, segments.
    pub initial_window: Option<u32>,
    /// A locked `cwnd` of its routes, segments: the upper bound of each flow's window
    /// (`snd_cwnd_clamp`).
    pub window: Option<u32>,
    /// `mtu` of its routes, bytes.
    pub mtu_bytes: Option<u32>,
    /// Congestion control of flows that do not choose one; absent: the host's default.
    pub default_control: Option<String>,
}

impl HostSettings {
    /// The minimum MTU of IPv6 is 1280 bytes (RFC 8200, section 5).
    fn route_options(&self, min_mtu_bytes: u32) -> String {
        let mut options = String::new();
        if let Some(window) = self.initial_window {
            let _ = write!(options, " initcwnd {window}");
        }
        if let Some(window) = self.window {
            let _ = write!(options, " cwnd lock {window}");
        }
        if let Some(mtu) = self.mtu_bytes {
            let _ = write!(options, " mtu {}", mtu.max(min_mtu_bytes));
        }
        options
    }
}

/// A host of the experiment.
#[derive(Debug)]
pub struct Host {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
}

/// The network of one run; removed on drop.
#[derive(Debug)]
pub struct Topology {
    /// The terminals, in the scenario's order.
    pub terminals: Vec<Host>,
    /// The access point.
    pub ap: Host,
    /// The server.
    pub server: Host,
    /// The TAP devices, until the driver takes them.
    pub taps: Option<Taps>,
}

/// The TAP devices that the driver holds.
#[derive(Debug)]
pub struct Taps {
    /// The terminals' devices, in order.
    pub terminals: Vec<Tap>,
    /// That of the access point towards the cell.
    pub ap_cell: Tap,
    /// That of the access point towards the wire.
    pub ap_wire: Tap,
    /// That of the server.
    pub server: Tap,
}

/// The MAC address of a terminal (locally administered).
pub const fn terminal_mac(number: u16) -> [u8; 6] {
    let [high, low] = number.to_be_bytes();
    [0x02, 0x79, 0x7a, 0, high, low]
}

/// The terminal with this MAC address; `None` for all other addresses.
pub fn station_of(mac: [u8; 6]) -> Option<u16> {
    let number = u16::from_be_bytes([mac[4], mac[5]]);
    (terminal_mac(number) == mac).then_some(number)
}

const AP_MAC: [u8; 6] = [0x02, 0x79, 0x7a, 1, 0, 1];
const AP_WIRE_MAC: [u8; 6] = [0x02, 0x79, 0x7a, 2, 0, 1];
const SERVER_MAC: [u8; 6] = [0x02, 0x79, 0x7a, 2, 0, 2];

/// Maximum number of terminals: the cell's IPv4 subnet is a /24 with the access point at 1 and
/// terminals from 10.
pub const MAX_TERMINALS: usize = yuzuri_scenario::Scenario::MAX_TERMINALS as usize;

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

const FIRST_TERMINAL: u8 = 10;
/// The server's host number on the wire.
const SERVER: u8 = 2;

/// The addresses of a run. Each run has its own, so that flows of concurrent runs can be
/// distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The run's number.
    pub run: u16,
}

impl Addresses {
    fn cell(self, host: u8) -> (Ipv4Addr, Ipv6Addr) {
        let [high, low] = self.run.to_be_bytes();
        let v6 = Ipv6Addr::new(0xfd77, 0, 0, self.run, 0, 0, 0, host.into());
        (Ipv4Addr::new(10, 64 + high, low, host), v6)
    }

    /// The address of a terminal.
    pub(crate) fn terminal(self, number: usize) -> Ipv4Addr {
        self.cell(FIRST_TERMINAL + number as u8).0
    }

    /// The address of the server.
    pub(crate) fn server(self) -> Ipv4Addr {
        self.wire(SERVER).0
    }

    fn wire(self, host: u8) -> (Ipv4Addr, Ipv6Addr) {
        let [high, low] = self.run.to_be_bytes();
        let v6 = Ipv6Addr::new(0xfd78, 0, 0, self.run, 0, 0, 0, host.into());
        (Ipv4Addr::new(10, 160 + high, low, host), v6)
    }
}

/// The terminal number of an address of any run; `None` for all other hosts.
pub fn terminal_number(address: IpAddr) -> Option<usize> {
    let host = match address {
        IpAddr::V4(v4) => {
            let [ten, high, _, host] = v4.octets();
            (ten == 10 && (64..160).contains(&high)).then_some(host)?
        }
        IpAddr::V6(v6) => {
            let [cell, .., host] = v6.segments();
            (cell == 0xfd77).then(|| u8::try_from(host).ok())??
        }
    };
    host.checked_sub(FIRST_TERMINAL).map(usize::from)
}

impl Topology {
    /// The filter for the sending ends of TCP flows from terminals (`uploads`) or to terminals
    /// (`downloads`).
    pub fn filter(&self, uploads: bool, downloads: bool) -> String {
        let mut terms = Vec::new();
        if uploads {
            terms.push(format!("raddr:{} raddr:{}", self.server.v4, self.server.v6));
        }
        if downloads {
            let cell = Ipv4Addr::from_bits(self.ap.v4.to_bits() & !0xff);
            let cell_v6 = Ipv6Addr::from_bits(self.ap.v6.to_bits() & !0xffff);
            terms.push(format!("raddr:{cell}/24 raddr:{cell_v6}/64"));
        }
        terms.join(" ")
    }

    /// The terminal with this address.
    pub fn terminal_of(&self, address: IpAddr) -> Option<usize> {
        self.terminals
            .iter()
            .position(|host| address == IpAddr::V4(host.v4) || address == IpAddr::V6(host.v6))
    }

    /// Builds the network of a run: one host for each element of `terminals`, with kernel
    /// parameters (`net.ipv4.tcp_ecn`) for all hosts.
    ///
    /// # Errors
    /// Without root or the tools, or if the kernel rejects a setting; everything built so far is
    /// then removed.
    pub fn build(
        run: &Run,
        terminals: &[HostSettings],
        sysctl: &[(String, String)],
    ) -> Result<Topology, LabError> {
        let mut names: Vec<String> = (0..terminals.len()).map(|n| run.namespace(&format!("t{n}"))).collect();
        names.extend([run.namespace("ap"), run.namespace("server")]);
        let mut namespaces = Namespace::create(&names)?;
        let server = namespaces.pop();
        let ap = namespaces.pop();
        let (Some(server), Some(ap)) = (server, ap) else {
            return Err(LabError::Run("the namespaces were not created".into()));
        };
        let addresses = Addresses { run: run.number() };
        let (ap_wire_v4, ap_wire_v6) = addresses.wire(1);
        let host = |namespace, (v4, v6)| Host { namespace, v4, v6 };
        let server = host(server, addresses.wire(SERVER));
        let ap = host(ap, addresses.cell(1));
        let hosts = namespaces.into_iter().enumerate();
        let terminals_there: Vec<Host> =
            hosts.map(|(n, namespace)| host(namespace, addresses.cell(FIRST_TERMINAL + n as u8))).collect();

        let forward = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"].map(|name| (name, "1"));
        let create = |namespace: &Namespace, devices: &[&str], forward: &[(&str, &str)]| {
            namespace.set(QUIET_SYSCTLS.iter().chain(forward).copied())?;
            namespace.set(sysctl.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
            namespace
                .inside(|| devices.iter().map(|name| Tap::create(name)).collect::<Result<Vec<_>, _>>())?
        };
        let mut taps = Vec::new();
        for host in &terminals_there {
            taps.extend(create(&host.namespace, &[CELL], &[])?);
        }
        let [ap_cell, ap_wire]: [Tap; 2] = create(&ap.namespace, &[CELL, WIRE], &forward)?
            .try_into()
            .map_err(|_| LabError::Run("the access point's devices were not created".into()))?;
        let server_tap = create(&server.namespace, &[WIRE], &[])?.pop();
        let server_tap =
            server_tap.ok_or_else(|| LabError::Run("the server's device was not created".into()))?;

        let mut controls: Vec<&str> = terminals.iter().filter_map(|t| t.default_control.as_deref()).collect();
        controls.sort_unstable();
        controls.dedup();
        for control in controls {
            let hosts = terminals_there.iter().zip(terminals);
            let with = hosts.filter(|(_, settings)| settings.default_control.as_deref() == Some(control));
            default_control::set(with.map(|(host, _)| &host.namespace), control)?;
        }
        for (number, (host, settings)) in terminals_there.iter().zip(terminals).enumerate() {
            let (v4, v6) = (settings.route_options(0), settings.route_options(MIN_V6_MTU_BYTES));
            let mut commands = device(CELL, terminal_mac(number as u16), host.v4, host.v6);
            // Associated terminals know the access point's MAC address.
            for (address, mac) in [(IpAddr::from(ap.v4), AP_MAC), (ap.v6.into(), AP_MAC)] {
                commands += &neighbour(CELL, address, mac);
            }
            let _ = write!(
                commands,
                "route add default via {} dev {CELL}{v4}\nroute add default via {} dev {CELL}{v6}\n",
                ap.v4, ap.v6
            );
            host.namespace.configure(&commands)?;
        }
        let mut commands =
            device(CELL, AP_MAC, ap.v4, ap.v6) + &device(WIRE, AP_WIRE_MAC, ap_wire_v4, ap_wire_v6);
        for (number, host) in terminals_there.iter().enumerate() {
            for address in [IpAddr::from(host.v4), host.v6.into()] {
                commands += &neighbour(CELL, address, terminal_mac(number as u16));
            }
        }
        for address in [IpAddr::from(server.v4), server.v6.into()] {
            commands += &neighbour(WIRE, address, SERVER_MAC);
        }
        ap.namespace.configure(&commands)?;
        let mut commands = device(WIRE, SERVER_MAC, server.v4, server.v6);
        for address in [IpAddr::from(ap_wire_v4), ap_wire_v6.into()] {
            commands += &neighbour(WIRE, address, AP_WIRE_MAC);
        }
        for (host, settings) in terminals_there.iter().zip(terminals) {
            // A separate route for each terminal, so that packets to it are subject to the same
            // settings as packets from it.
            let (v4, v6) = (settings.route_options(0), settings.route_options(MIN_V6_MTU_BYTES));
            let _ = write!(
                commands,
                "route add {}/32 via {ap_wire_v4} dev {WIRE}{v4}\nroute add {}/128 via {ap_wire_v6} dev {WIRE}{v6}\n",
                host.v4, host.v6
            );
        }
        server.namespace.configure(&commands)?;
        let taps = Some(Taps { terminals: taps, ap_cell, ap_wire, server: server_tap });
        Ok(Topology { terminals: terminals_there, ap, server, taps })
    }

    /// Sets the queueing discipline of the access point's device towards the wire.
    ///
    /// # Errors
    /// If the kernel does not have it.
    pub fn shape(&self, shaper: &ShaperSpec) -> Result<(), LabError> {
        let kbit = (shaper.rate_mbps * 1000.0).round();
        let commands = match shaper.qdisc {
            Qdisc::Cake => format!("qdisc replace dev {WIRE} root cake bandwidth {kbit}kbit besteffort\n"),
            Qdisc::FqCodel => format!(
                "qdisc replace dev {WIRE} root handle 1: htb default 1\n\
                 class add dev {WIRE} parent 1: classid 1:1 htb rate {kbit}kbit ceil {kbit}kbit\n\
                 qdisc add dev {WIRE} parent 1:1 fq_codel\n"
            ),
        };
        self.ap.namespace.traffic(&commands)
    }

    /// The addresses for forwarding between cell and wire at the access point; `by_host`: its
    /// kernel forwards.
    pub fn forwarding(&self, by_host: bool) -> Forwarding {
        let terminals = self.terminals.iter().enumerate();
        Forwarding {
            by_host,
            ap: (AP_MAC, AP_WIRE_MAC),
            server: (SERVER_MAC, self.server.v4, self.server.v6),
            terminals: terminals.map(|(n, host)| (terminal_mac(n as u16), host.v4, host.v6)).collect(),
        }
    }

    /// Waits until the server answers a terminal through the driver's network over IPv4.
    ///
    /// # Errors
    /// If there is no answer within 30 s, or if `stop` is set.
    pub fn reach(&self, terminal: usize, stop: &AtomicBool) -> Result<(), LabError> {
        let host = &self.terminals[terminal];
        // Port 9 has no listener: a refused connection shows that both directions work.
        let to = SocketAddr::new(self.server.v4.into(), 9);
        let answered = host.namespace.inside(|| {
            let until = Instant::now() + REACH_TIMEOUT;
            while Instant::now() < until && !stop.load(Ordering::Relaxed) {
                let tried = TcpStream::connect_timeout(&to, Duration::from_secs(5));
                if tried.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused) {
                    return true;
                }
            }
            false
        })?;
        match answered {
            true => Ok(()),
            false if stop.load(Ordering::Relaxed) => Err(LabError::Stopped),
            false => Err(LabError::Run(format!(
                "terminal {terminal} cannot reach the server within {} s: the path loses or delays too much",
                REACH_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Opens and closes a connection between a terminal and the server. A locked `cwnd` of a route
    /// bounds a connection only if the kernel already has metrics of the peer, which it creates
    /// when the first connection is closed (`tcp_init_metrics`, `tcp_update_metrics`). Afterwards
    /// both ends have them.
    ///
    /// # Errors
    /// If the connection cannot be established within 30 s, or if `stop` is set.
    pub fn prime_metrics(&self, terminal: usize, stop: &AtomicBool) -> Result<(), LabError> {
        let failed = |e: std::io::Error| {
            LabError::Run(format!(
                "terminal {terminal} cannot open a connection to the server, which its window bound needs: {e}"
            ))
        };
        let listener =
            self.server.namespace.inside(|| TcpListener::bind((self.server.v4, 0)))?.map_err(failed)?;
        let to = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let host = &self.terminals[terminal];
        let over = AtomicBool::new(false);
        let exchange = || -> std::io::Result<()> {
            let socket = TcpStream::connect_timeout(&to, REACH_TIMEOUT)?;
            socket.set_read_timeout(Some(REACH_TIMEOUT))?;
            socket.shutdown(Shutdown::Write)?;
            (&socket).read(&mut [0; 1]).map(drop)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                    if let Ok((mut socket, _)) = listener.accept() {
                        let _ = socket.set_nonblocking(false);
                        let _ = socket.set_read_timeout(Some(REACH_TIMEOUT));
                        // Wait for the peer's FIN, so that ours is the last one.
                        let _ = socket.read(&mut [0; 1]);
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let done = host.namespace.inside(exchange);
            over.store(true, Ordering::Relaxed);
            done
        })?
        .map_err(failed)
    }

    /// Frames that the TAP devices dropped because the driver did not read them in time.
    ///
    /// # Errors
    /// If a namespace cannot be entered.
    pub fn dropped_frames(&self) -> Result<u64, LabError> {
        let mut sum = 0;
        for host in self.terminals.iter().chain([&self.ap, &self.server]) {
            let text = host.namespace.inside(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
            sum += text.map_or(0, |text| dropped(&text));
        }
        Ok(sum)
    }
}

/// The sum of the column `TX drop` of `/proc/net/dev` over our devices.
fn dropped(text: &str) -> u64 {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let ours = lines.filter(|(name, _)| [CELL, WIRE].contains(&name.trim()));
    ours.filter_map(|(_, columns)| columns.split_whitespace().nth(11)?.parse::<u64>().ok()).sum()
}

/// Suppresses all traffic in the cell apart from the experiment's: no router solicitations, no
/// duplicate address detection.
const QUIET_SYSCTLS: [(&str, &str); 5] = [
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.dad_transmits", "0"),
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
    // Terminals answer pings to a group address, as most devices do.
    ("net.ipv4.icmp_echo_ignore_broadcasts", "0"),
];

fn device(name: &str, mac: [u8; 6], v4: Ipv4Addr, v6: Ipv6Addr) -> String {
    format!(
        "link set lo up\nlink set {name} address {} mtu 1500 txqueuelen {TAP_FRAMES}\nlink set {name} up\n\
         addr add {v4}/24 brd + dev {name}\naddr add {v6}/64 dev {name} nodad\n",
        mac_text(mac)
    )
}

fn neighbour(device: &str, address: IpAddr, mac: [u8; 6]) -> String {
    format!("neigh replace {address} lladdr {} nud permanent dev {device}\n", mac_text(mac))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_frames_are_read_from_the_right_column() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
             lo:       0       0    0    0    0     0          0         0        0       0    0    7    0     0       0          0\n \
             cell0:    446       5    0    1    0     0          0         0      516       6    0    3    0     0       0          0\n";
        assert_eq!(dropped(text), 3);
    }

    #[test]
    fn runs_have_distinct_subnets() {
        let (a, b) = (Addresses { run: 0 }, Addresses { run: 19_999 });
        for run in [a, b] {
            let ((v4, v6), (server, _)) = (run.cell(FIRST_TERMINAL + 3), run.wire(2));
            assert_eq!(terminal_number(v4.into()), Some(3));
            assert_eq!(terminal_number(v6.into()), Some(3));
            assert_eq!(terminal_number(server.into()), None);
        }
        assert_eq!(a.cell(1).0.to_string(), "10.64.0.1");
        assert_eq!(b.cell(10).0.to_string(), "10.142.31.10");
        assert_eq!(b.wire(2).0.to_string(), "10.238.31.2");
        assert_eq!(b.wire(2).1.to_string(), "fd78:0:0:4e1f::2");
    }

    #[test]
    fn routes_contain_the_settings() {
        let settings = HostSettings {
            initial_window: Some(3),
            window: Some(50),
            mtu_bytes: Some(1000),
            default_control: None,
        };
        assert_eq!(settings.route_options(0), " initcwnd 3 cwnd lock 50 mtu 1000");
        assert_eq!(settings.route_options(MIN_V6_MTU_BYTES), " initcwnd 3 cwnd lock 50 mtu 1280");
        assert_eq!(HostSettings::default().route_options(0), "");
    }
}
