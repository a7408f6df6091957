//! Shared by the monitor's tests: a monitor that is read until something is seen, connections with
//! a chosen congestion control, and the kernel's own `TCP_INFO`.
#![allow(clippy::unwrap_used, missing_docs, dead_code)]

pub mod child;
pub mod options;
pub mod tcp_info;
pub mod timens;
pub mod tracefs;

use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::Duration;
use yuzuri_kernel::{Monitor, Options, Watch};
use yuzuri_testnet::{Net, Side, eventually};
use yuzuri_trace::{Account, Density, Event, Flow, FlowId, Item, Kind, LossReason, Reason};

/// A monitor and its items so far.
pub struct Watched {
    pub monitor: Box<Monitor>,
    pub items: Vec<Item>,
}

impl Watched {
    pub fn start(filter: &str, density: Density) -> Watched {
        Watched::with_ring(filter, density, None)
    }

    /// Restricted to one namespace.
    pub fn of(net: &Net, side: Side, density: Density) -> Watched {
        Watched::start(&format!("netns:{}", net.name(side)), density)
    }

    pub fn with_ring(filter: &str, density: Density, ring_bytes: Option<usize>) -> Watched {
        let options = Options { filter: filter.parse().unwrap(), density, ring_bytes };
        let monitor = Monitor::start(&options).unwrap_or_else(|error| panic!("{error}"));
        Watched { monitor: Box::new(monitor), items: Vec::new() }
    }

    pub fn read(&mut self) -> &[Item] {
        self.monitor.read(&mut self.items);
        &self.items
    }

    /// Reads until the items satisfy `shown`; fails with `what` after a time limit.
    pub fn until(&mut self, what: &str, mut shown: impl FnMut(&[Item]) -> bool) {
        let seen = eventually(|| shown(self.read()));
        assert!(seen, "never seen: {what}; seen: {:#?}", self.items);
    }

    /// Ends it, and checks that the account closes on every CPU.
    pub fn finish(self) -> Seen {
        let Watched { monitor, mut items } = self;
        let account = monitor.finish(&mut items);
        for cpu in &account.cpus {
            assert_eq!(cpu.seen, cpu.kept + cpu.lost_total(), "{cpu:?}");
        }
        Seen { items, account }
    }

    /// Ends it, and checks that nothing was lost except runs that the kernel itself skipped,
    /// because the CPU was already running the program, for any flow ([`Seen::nested`]), and, with
    /// a filter for processes, events from before they were known.
    pub fn finish_whole(self) -> Seen {
        let needs_owner = self.monitor.filter().needs_owner();
        let seen = self.finish();
        let unknown = if needs_owner { seen.lost_for(LossReason::OwnerUnknown) } else { 0 };
        assert_eq!(seen.account.lost(), seen.nested() + unknown, "{}", seen.account);
        seen
    }
}

/// Everything that a monitor returned.
pub struct Seen {
    pub items: Vec<Item>,
    pub account: Account,
}

impl Seen {
    /// How often the kernel skipped one of the programs, for any flow of the machine.
    pub fn nested(&self) -> u64 {
        self.lost_for(LossReason::Nested)
    }

    pub fn lost_for(&self, reason: LossReason) -> u64 {
        let lost = self.account.lost_by_reason();
        lost.iter().find(|(other, _)| *other == reason).map_or(0, |(_, n)| *n)
    }

    pub fn flows(&self) -> Vec<&Flow> {
        flows(&self.items)
    }

    pub fn events(&self) -> Vec<&Event> {
        events(&self.items)
    }

    /// The events of the flow with this local address.
    pub fn of(&self, local: SocketAddr) -> Vec<&Event> {
        let id = self.id(local);
        self.events().into_iter().filter(|e| e.flow == id).collect()
    }

    pub fn id(&self, local: SocketAddr) -> FlowId {
        flow_id(&self.items, local).unwrap_or_else(|| panic!("no flow from {local} in {:?}", self.flows()))
    }
}

pub fn flows(items: &[Item]) -> Vec<&Flow> {
    items.iter().filter_map(|i| if let Item::Flow(flow) = i { Some(flow.as_ref()) } else { None }).collect()
}

pub fn events(items: &[Item]) -> Vec<&Event> {
    items.iter().filter_map(|i| if let Item::Event(event) = i { Some(event) } else { None }).collect()
}

pub fn flow_id(items: &[Item], local: SocketAddr) -> Option<FlowId> {
    flows(items).into_iter().find(|f| f.local == local).map(|f| f.id)
}

/// Segments retransmitted, by reason. One event may cover several segments: the kernel retransmits
/// a whole `sk_buff`.
///
/// # Errors
/// Names a record that shows a retransmission which had no event.
pub fn retransmitted(events: &[&Event]) -> Result<Vec<(Reason, u64)>, String> {
    let mut totals = std::collections::HashMap::new();
    let mut by_reason: Vec<(Reason, u64)> = Vec::new();
    for event in events {
        let before = totals.insert(event.flow, event.snapshot.total_retrans).unwrap_or(0);
        let segments = u64::from(event.snapshot.total_retrans - before);
        if event.kind != Kind::Retransmit {
            if segments > 0 {
                return Err(format!("a retransmission without its event: {event:?}"));
            }
            continue;
        }
        match by_reason.iter_mut().find(|(reason, _)| *reason == event.reason) {
            Some((_, sum)) => *sum += segments,
            None => by_reason.push((event.reason, segments)),
        }
    }
    Ok(by_reason)
}

pub fn of_reason(counts: &[(Reason, u64)], reason: Reason) -> u64 {
    counts.iter().find(|(r, _)| *r == reason).map_or(0, |(_, n)| *n)
}

/// A connection from one side to the other.
pub struct Pair {
    /// The end that opened it.
    pub near: TcpStream,
    pub far: TcpStream,
}

impl Pair {
    /// Two ends of a connection.
    pub fn of(near: TcpStream, far: TcpStream) -> Pair {
        // No test waits indefinitely.
        for stream in [&near, &far] {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.set_nodelay(true).unwrap();
        }
        Pair { near, far }
    }

    pub fn new(net: &Net, from: Side, to: IpAddr, control: &str) -> Pair {
        Pair::with(net, from, to, control, |_| {})
    }

    /// `prepare` is called with each of the two sockets before the connection is made: connections
    /// inherit the listener's options.
    pub fn with(net: &Net, from: Side, to: IpAddr, control: &str, prepare: impl Fn(&Socket) + Sync) -> Pair {
        let make = || {
            let socket =
                Socket::new(Domain::for_address(SocketAddr::new(to, 0)), Type::STREAM, Some(Protocol::TCP));
            let socket = socket.unwrap();
            socket.set_tcp_congestion(control.as_bytes()).unwrap();
            prepare(&socket);
            socket
        };
        let listener: TcpListener = net.inside(from.other(), || {
            let socket = make();
            socket.bind(&SocketAddr::new(to, 0).into()).unwrap();
            socket.listen(8).unwrap();
            socket.into()
        });
        let address = listener.local_addr().unwrap();
        let near: TcpStream = net.inside(from, || {
            let socket = make();
            socket.connect_timeout(&address.into(), Duration::from_secs(20)).unwrap();
            socket.into()
        });
        Pair::of(near, accept(&listener).0)
    }

    /// Sends bytes from the near end to the far end, and returns when the far end has read them and
    /// the near end has their acknowledgement.
    pub fn send(&self, bytes: usize) {
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_exactly(&self.far, bytes));
            (&self.near).write_all(&vec![7; bytes]).unwrap();
            reader.join().unwrap();
        });
        self.settle();
    }

    /// Waits until the near end has nothing in flight.
    pub fn settle(&self) {
        let idle = || {
            let info = tcp_info::read(&self.near);
            info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0
        };
        assert!(eventually(idle), "{:?}", tcp_info::read(&self.near));
    }

    /// The far end sends one byte; its arrival makes the near end record its state before it.
    pub fn ping(&self) {
        (&self.far).write_all(&[1]).unwrap();
        read_exactly(&self.near, 1);
    }

    /// One byte to the far end and one back, which acknowledges it.
    pub fn exchange(&self) {
        (&self.near).write_all(&[1]).unwrap();
        read_exactly(&self.far, 1);
        self.ping();
    }

    pub fn near_addr(&self) -> SocketAddr {
        let address = self.near.local_addr().unwrap();
        SocketAddr::new(address.ip().to_canonical(), address.port())
    }

    /// Both ends close in order, the near one first, and wait for each other.
    pub fn close(self) {
        self.near.shutdown(Shutdown::Write).unwrap();
        assert_eq!((&self.far).read(&mut [0; 16]).unwrap(), 0);
        self.far.shutdown(Shutdown::Write).unwrap();
        while (&self.near).read(&mut [0; 16]).unwrap() > 0 {}
    }
}

/// Fills the queue of the near end's device: its bucket lets 10 kB pass at once, and then a full
/// segment each 0.75 s.
pub fn fill_slow_device(net: &Net, pair: &Pair) {
    net.shape_kbit(Side::A, 16, 100_000).unwrap();
    pair.near.set_nonblocking(true).unwrap();
    while (&pair.near).write(&[7; 64 * 1024]).is_ok() {}
    pair.near.set_nonblocking(false).unwrap();
    let memory = || options::send_memory(&pair.near);
    assert!(eventually(|| memory().alloc > 1000), "{:?}", memory());
}

pub fn read_exactly(mut from: &TcpStream, bytes: usize) {
    let mut left = bytes;
    let mut buffer = vec![0; 65536];
    while left > 0 {
        let most = left.min(buffer.len());
        let got = from.read(&mut buffer[..most]).unwrap();
        assert!(got > 0, "the connection ended {left} bytes early");
        left -= got;
    }
}

/// The result of a comparison with the kernel's own figures.
pub enum Outcome<T> {
    Exact(T),
    /// The difference, and how many runs of our programs the kernel skipped and counted meanwhile.
    Differs {
        how: String,
        skipped: u64,
    },
}

/// Makes a comparison that must match exactly. It is repeated only if the kernel itself may have
/// skipped runs of our programs: it counted some, or shields a process (`yuzuri_kernel::shielded`).
/// Otherwise the first difference is a bug; a bug would appear in every attempt.
///
/// An attempt returns `None` if the test is skipped.
pub fn exactly<T>(test: &str, mut attempt: impl FnMut() -> Option<Outcome<T>>) -> Option<T> {
    const MAX_TRIES: usize = 12;
    let shielded = yuzuri_kernel::shielded::shielded();
    let mut differences = Vec::new();
    while differences.len() < MAX_TRIES {
        match attempt()? {
            Outcome::Exact(result) => return Some(result),
            Outcome::Differs { how, skipped } => {
                assert!(skipped > 0 || !shielded.is_empty(), "{test}: {how}");
                let why = format!("{skipped} runs skipped, shielded: {shielded:?}");
                println!("{test}: once more ({why}): {}", how.lines().next().unwrap_or_default());
                differences.push(how);
            }
        }
    }
    panic!("{test}: never exact in {MAX_TRIES} tries: {}", differences.join("\n"));
}

/// Runs a test's cases in parallel: they mostly wait.
pub fn side_by_side<T: Send>(cases: impl IntoIterator<Item = T>, run: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        let run = &run;
        for case in cases {
            scope.spawn(move || run(case));
        }
    });
}

/// Accepts, with a time limit.
pub fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    listener.set_nonblocking(true).unwrap();
    let mut accepted = None;
    eventually(|| {
        let result = listener.accept();
        let comes = result.is_ok();
        accepted = Some(result);
        comes
    });
    let (stream, from) = accepted.unwrap().unwrap_or_else(|error| panic!("accepting a connection: {error}"));
    stream.set_nonblocking(false).unwrap();
    (stream, from)
}

/// A child process that does not outlive the test.
pub struct Running(pub Child);

impl Running {
    pub fn spawn(command: &mut Command) -> Running {
        Running(command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a program is installed; prints a note if not.
pub fn has(test: &str, program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
        .unwrap_or(false);
    if !found {
        println!("{test}: skipped: {program} is not installed (make setup installs it)");
    }
    found
}
