//! Real transfers through a forwarding access point: they stay at their bound, and are unbounded
//! without one and soon after the process that bounded them is killed.
#![allow(clippy::unwrap_used, missing_docs)]
#![expect(unsafe_code, reason = "the number of programs at a device, which no library here queries")]

mod loaded;

use libbpf_rs::libbpf_sys::{BPF_TCX_EGRESS, BPF_TCX_INGRESS, bpf_attach_type, bpf_prog_query_opts};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use yuzuri_gate::{AttachMode, ConnectionState, FlowKey, FlowSeen, Gate, GateError, Options, RttPart};
use yuzuri_testnet::{AccessPoint, Host, eventually};

const STATION: Host = Host::Station(0);
/// The wire: 20 Mbit/s, and a queue of 120 ms at that rate.
const RATE_MBIT: u32 = 20;
const QUEUE_BYTES: u32 = 300_000;
/// The data of 16 ms at the wire's rate, bytes.
const BOUND: u32 = 40_000;
/// More than any bound of these tests allows, and less than the queue takes.
const PLAIN: u32 = 120_000;
const LASTS: Duration = Duration::from_millis(1500);

/// The window that a socket was advertised, bytes (`tcpi_snd_wnd` of `TCP_INFO`).
fn advertised(socket: &TcpStream) -> u32 {
    let info = yuzuri_kernel::own::info(socket.as_fd()).unwrap();
    u32::from_ne_bytes(info[228..232].try_into().unwrap())
}

/// An unlimited upload of the station.
struct Upload {
    near: TcpStream,
    far: TcpStream,
    key: FlowKey,
    stop: AtomicBool,
    received: AtomicU64,
}

impl Upload {
    fn open(net: &AccessPoint, to: IpAddr) -> Upload {
        let listener = net.inside(Host::Server, || TcpListener::bind(SocketAddr::new(to, 0)).unwrap());
        let server = listener.local_addr().unwrap();
        let near = net.inside(STATION, || TcpStream::connect(server).unwrap());
        // Independent of the host's default: BBR would not fill the queue again once it is
        // released.
        socket2::SockRef::from(&near).set_tcp_congestion(b"cubic").unwrap();
        let (far, station) = listener.accept().unwrap();
        let key = FlowKey::new(station, server).unwrap();
        Upload { near, far, key, stop: AtomicBool::new(false), received: AtomicU64::new(0) }
    }

    /// Sends while `f` runs.
    fn during<T>(&self, f: impl FnOnce() -> T) -> T {
        // Also when an assertion fails: the scope waits for its threads.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        std::thread::scope(|scope| {
            let _stop = Stop(&self.stop);
            scope.spawn(|| {
                while !self.stop.load(Ordering::Relaxed) {
                    (&self.near).write_all(&[7; 16384]).unwrap();
                }
                self.near.shutdown(Shutdown::Write).unwrap();
            });
            scope.spawn(|| {
                let mut buffer = vec![0; 65536];
                while let Ok(length @ 1..) = (&self.far).read(&mut buffer) {
                    assert!(buffer[..length].iter().all(|b| *b == 7), "what arrived is not what was sent");
                    self.received.fetch_add(length as u64, Ordering::Relaxed);
                }
            });
            f()
        })
    }
}

fn load(test: &str, tcx: bool) -> Option<Gate> {
    loaded::gate(test, &Options { tcx, ..Options::default() })
}

fn seen(gate: &Gate, key: FlowKey) -> FlowSeen {
    gate.flows()
        .unwrap()
        .into_iter()
        .find(|flow| flow.key == key)
        .unwrap_or_else(|| panic!("{key} is not known"))
}

fn checksum_errors(net: &AccessPoint) -> u64 {
    net.hosts().map(|host| net.counter(host, "InCsumErrors")).sum()
}

fn held_at_its_bound(test: &str, to: fn(&AccessPoint) -> IpAddr, device: &str, tcx: bool) {
    let Some(net) = AccessPoint::or_skip(test, 1) else { return };
    let Some(mut gate) = load(test, tcx) else { return };
    net.shape(RATE_MBIT, QUEUE_BYTES).unwrap();
    let mode = net.inside(Host::AccessPoint, || gate.attach(device)).unwrap();
    if !tcx {
        assert_eq!(mode, AttachMode::Clsact);
    }
    let upload = Upload::open(&net, to(&net));
    let parts = upload.during(|| {
        let in_flight = |gate: &Gate| seen(gate, upload.key).in_flight_bytes;
        assert!(eventually(|| in_flight(&gate) > PLAIN), "the transfer does not fill the wire's queue");
        assert_eq!(seen(&gate, upload.key).lowered, 0);
        let full = seen(&gate, upload.key).wire;
        assert!(eventually(|| seen(&gate, upload.key).wire.since(&full).samples > 20));
        let before = seen(&gate, upload.key);
        let plain = before.wire.since(&full);
        let unit = 1 << before.scale;
        assert_eq!(before.state, ConnectionState::Established);

        let bounded = |gate: &mut Gate| gate.bound(&[(upload.key, BOUND)], LASTS).unwrap();
        let reached = eventually(|| {
            bounded(&mut gate);
            // The window advertised before must be used up.
            seen(&gate, upload.key).advertised_bytes <= BOUND + unit
        });
        assert!(reached, "the bound of {BOUND} bytes is not reached: {:?}", seen(&gate, upload.key));
        // From now on it never exceeds the bound, as long as the bound lasts.
        let start = seen(&gate, upload.key);
        let received = upload.received.load(Ordering::Relaxed);
        let mut was_larger = false;
        while upload.received.load(Ordering::Relaxed) < received + 4_000_000 {
            bounded(&mut gate);
            let now = seen(&gate, upload.key);
            assert!(now.in_flight_bytes <= BOUND + unit, "{} bytes in flight", now.in_flight_bytes);
            // An ACK that a later one overtook has a larger window up to the same right edge, since
            // the edge never moves left. The next ACK has a smaller one again.
            let is_larger = now.advertised_bytes > BOUND + unit;
            assert!(!is_larger || !was_larger, "advertised {}", now.advertised_bytes);
            was_larger = is_larger;
            std::thread::sleep(Duration::from_millis(5));
        }
        let end = seen(&gate, upload.key);
        assert!(end.lowered > start.lowered);
        assert!(end.acked_bytes - start.acked_bytes > 3_500_000, "{start:?}\n{end:?}");
        assert!(end.up_bytes >= end.acked_bytes);
        // Its window is the limit, and it is never silent for long.
        let is_full = eventually(|| {
            bounded(&mut gate);
            seen(&gate, upload.key).room_bytes.unwrap() < BOUND / 2
        });
        assert!(is_full, "{end:?}");
        assert!(end.offered_bytes > end.advertised_bytes);
        assert_eq!(Some(end.mac), mac_of(&net));

        gate.release(&upload.key);
        assert!(eventually(|| in_flight(&gate) > PLAIN), "released, and still bounded");
        (plain, end.wire.since(&start.wire), end.air.since(&start.air))
    });
    let (plain, held, air): (RttPart, RttPart, RttPart) = parts;
    let ms = |part: RttPart| part.mean_us().map(|us| us as f64 / 1e3);
    println!("{test}: wire {:?} -> {:?} ms, air {:?} ms", ms(plain), ms(held), ms(air));
    assert!(held.samples > 20 && air.samples > 20, "{held:?} {air:?}");
    assert!(held.mean_us() < plain.mean_us(), "the queue on the wire did not become shorter");
    assert_eq!(checksum_errors(&net), 0);
    assert!(gate.counts().unwrap().lowered > 0);
    assert_eq!(gate.counts().unwrap().failed, 0);

    // Nothing is left at the device.
    drop(gate);
    assert!(eventually(|| programs_at(&net, device) == 0));
}

/// The station's hardware address.
fn mac_of(net: &AccessPoint) -> Option<[u8; 6]> {
    net.inside(STATION, || {
        let mut all = nix::ifaddrs::getifaddrs().unwrap().filter(|a| a.interface_name == "eth0");
        all.find_map(|a| a.address?.as_link_addr()?.addr())
    })
}

/// The gate's programs at a device of the access point, as `bpftool net` would show them.
fn programs_at(net: &AccessPoint, device: &str) -> usize {
    let filters = ["ingress", "egress"].map(|side| {
        let shown =
            net.command(Host::AccessPoint, "tc").args(["filter", "show", "dev", device, side]).output();
        String::from_utf8_lossy(&shown.unwrap().stdout).matches("id ").count()
    });
    let links = net.inside(Host::AccessPoint, || {
        let index = nix::net::if_::if_nametoindex(device).unwrap();
        [BPF_TCX_INGRESS, BPF_TCX_EGRESS].map(|side| tcx_programs(index, side))
    });
    filters.into_iter().chain(links).sum()
}

/// The programs at one side of a device of the calling thread's namespace; none before Linux 6.6.
/// Another test's device may have the same index in its own namespace.
fn tcx_programs(index: u32, side: bpf_attach_type) -> usize {
    let size = std::mem::size_of::<bpf_prog_query_opts>() as _;
    let mut query = bpf_prog_query_opts { sz: size, ..Default::default() };
    // SAFETY: without room for identifiers, the kernel writes only their number into `query`.
    let failed = unsafe { bpf_prog_query_opts(index as i32, side, &mut query) };
    // SAFETY: both names of the field are of the same type.
    if failed < 0 { 0 } else { unsafe { query.__bindgen_anon_1.count as usize } }
}

#[test]
fn a_transfer_stays_at_its_bound() {
    held_at_its_bound("a_transfer_stays_at_its_bound", |net| net.v4(Host::Server), "s0", true);
}

#[test]
fn an_ipv6_transfer_stays_at_its_bound_with_clsact_on_the_bridge() {
    let test = "an_ipv6_transfer_stays_at_its_bound_with_clsact_on_the_bridge";
    held_at_its_bound(test, |net| net.v6(Host::Server), "br0", false);
}

const NETNS: &str = "YUZURI_TEST_GATE_NETNS";
const TCX: &str = "YUZURI_TEST_GATE_TCX";

/// Not a test: the test below starts and kills it. It bounds every connection at `s0`.
#[test]
fn hold_a_gate() {
    let (Ok(netns), Ok(tcx)) = (std::env::var(NETNS), std::env::var(TCX)) else { return };
    nix::sched::setns(std::fs::File::open(netns).unwrap(), nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
    let mut gate = Gate::load(&Options { tcx: tcx == "true", ..Options::default() }).unwrap();
    gate.attach("s0").unwrap();
    gate.bound_others(BOUND, LASTS).unwrap();
    println!("holding");
    loop {
        let flows: Vec<_> = gate.flows().unwrap().into_iter().map(|flow| (flow.key, BOUND)).collect();
        gate.bound(&flows, LASTS).unwrap();
        gate.bound_others(BOUND, LASTS).unwrap();
        std::thread::sleep(Duration::from_millis(500));
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How a gate attaches to a device on this kernel: by tcx from Linux 6.6 on.
fn default_attach_mode() -> AttachMode {
    if yuzuri_kernel::kernel_version() >= (6, 6) { AttachMode::Tcx } else { AttachMode::Clsact }
}

fn plain_after_a_kill(test: &str, tcx: bool, rounds: u32) {
    if tcx && default_attach_mode() != AttachMode::Tcx {
        return println!("{test}: skipped: tcx needs Linux 6.6");
    }
    let Some(net) = AccessPoint::or_skip(test, 1) else { return };
    if load(test, tcx).is_none() {
        return;
    }
    net.shape(RATE_MBIT, QUEUE_BYTES).unwrap();
    // Otherwise a connection starts with the previous one's metrics.
    net.set(STATION, "net.ipv4.tcp_no_metrics_save", "1").unwrap();
    let mut slowest = Duration::ZERO;
    for round in 1..=rounds {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hold_a_gate", "--nocapture"]).stdout(Stdio::piped());
        command.env(NETNS, format!("/run/netns/{}", net.name(Host::AccessPoint))).env(TCX, tcx.to_string());
        let mut holder = Running(command.spawn().unwrap());
        let mut lines = BufReader::new(holder.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("holding")), "the child holds no gate");
        // The child knows a connection whose beginning it saw.
        let upload = Upload::open(&net, net.v4(Host::Server));
        upload.during(|| {
            let received = || upload.received.load(Ordering::Relaxed);
            let start = received();
            // A new connection is bounded from its beginning, except for the window of its SYN-ACK,
            // 64 kB, whose right edge must not move left either.
            while received() < start + 3_000_000 {
                let now = advertised(&upload.near);
                let most = if received() < start + 500_000 { 70_000 } else { BOUND + 1024 };
                assert!(now <= most, "round {round}: advertised {now} bytes");
                std::thread::sleep(Duration::from_millis(2));
            }
            holder.0.kill().unwrap();
            let killed = Instant::now();
            holder.0.wait().unwrap();
            // On a stalled machine, as soon as this much more was received after these 2 s.
            let (limit, or_with) = (Duration::from_secs(2), 500_000);
            let mut due = None;
            while advertised(&upload.near) <= BOUND + 1024 {
                let late = killed.elapsed() > limit;
                let now = received();
                let more = now - *due.get_or_insert(now);
                if late {
                    assert!(more < or_with, "round {round}: bounded {limit:?} after the kill");
                } else {
                    due = None;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            slowest = slowest.max(killed.elapsed());
            if tcx {
                assert!(eventually(|| programs_at(&net, "s0") == 0), "round {round}: something is left");
            }
        });
    }
    println!("{test}: {rounds} kills, plain after {slowest:?} at most");
    assert_eq!(checksum_errors(&net), 0);
    if !tcx {
        // The next gate replaces the programs of a killed one, and removes them when it ends.
        assert_eq!(programs_at(&net, "s0"), 2);
        let mut gate = load(test, tcx).unwrap();
        net.inside(Host::AccessPoint, || gate.attach("s0")).unwrap();
        assert_eq!(programs_at(&net, "s0"), 2);
        drop(gate);
        assert_eq!(programs_at(&net, "s0"), 0);
    }
    let name = if tcx { "kill -9 of a gate" } else { "kill -9 of a gate under a kernel before 6.6 (clsact)" };
    yuzuri_testnet::attack(name, rounds.into(), "kills", "transfers are unbounded within 2 s");
}

#[test]
fn a_transfer_is_plain_soon_after_a_kill() {
    plain_after_a_kill("a_transfer_is_plain_soon_after_a_kill", true, rounds().unwrap_or(3));
}

/// How many kills, if not the usual number.
fn rounds() -> Option<u32> {
    std::env::var("YUZURI_KILL_ROUNDS").ok().and_then(|n| n.parse().ok())
}

#[test]
fn a_transfer_is_plain_soon_after_a_kill_with_clsact() {
    plain_after_a_kill("a_transfer_is_plain_soon_after_a_kill_with_clsact", false, rounds().unwrap_or(2));
}

/// In a namespace of its own: nothing is left at this one's devices.
#[test]
fn the_kernel_shows_how_it_attaches_the_gate() {
    let test = "the_kernel_shows_how_it_attaches_the_gate";
    for (tcx, mode) in [(true, default_attach_mode()), (false, AttachMode::Clsact)] {
        let Some(gate) = load(test, tcx) else { return };
        let before = (0..3).map(|index| tcx_programs(index, BPF_TCX_INGRESS)).collect::<Vec<_>>();
        assert_eq!(gate.try_attach().unwrap(), mode);
        assert_eq!(gate.devices().count(), 0);
        assert_eq!((0..3).map(|index| tcx_programs(index, BPF_TCX_INGRESS)).collect::<Vec<_>>(), before);
    }
}

#[test]
fn devices_that_do_not_support_the_gate_are_named() {
    let test = "devices_that_do_not_support_the_gate_are_named";
    let Some(net) = AccessPoint::or_skip(test, 0) else { return };
    let Some(mut gate) = load(test, true) else { return };
    let missing = net.inside(Host::AccessPoint, || gate.attach("nothing")).unwrap_err();
    assert!(matches!(missing, GateError::NoDevice(_)), "{missing}");
    let loopback = net.inside(Host::AccessPoint, || gate.attach("lo")).unwrap_err();
    assert!(matches!(loopback, GateError::NotEthernet { hardware: 772, .. }), "{loopback}");
    let mode = default_attach_mode();
    assert_eq!(net.inside(Host::AccessPoint, || gate.attach("br0").unwrap()), mode);
    assert_eq!(gate.devices().collect::<Vec<_>>(), [("br0", mode)]);
    gate.detach("br0");
    assert_eq!(programs_at(&net, "br0"), 0);
}
