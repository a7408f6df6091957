//! The driver: one thread that moves frames between the hosts' TAP devices and the models of radio
//! and wire, each frame at its time.
//!
//! Model time is `CLOCK_MONOTONIC` since the driver's start. Each delivery has a nominal time;
//! [`Lateness`] records how much later the frame was written. In virtual time the same thread runs
//! unchanged in the guest.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

mod captures;
mod cells;
mod forward;
mod frame;
mod lateness;
mod poller;
mod queues;
mod station_map;

pub use captures::CaptureConfig;
pub use forward::Forwarding;
pub use frame::{FRAME_BYTES, Frame};
pub use lateness::Lateness;
pub use queues::QueueTrace;

use crate::LabError;
use crate::net::{Tap, Taps};
use captures::Captures;
use cells::{Cells, FrameDestination};
use nix::errno::Errno;
use poller::Poller;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use yuzuri_netmodel::radio::{CellAccount, CellConfig};
use yuzuri_netmodel::wire::{Direction, Wire, WireAccount, WireConfig};
use yuzuri_netmodel::{Arrival, ConfigError, Time};

/// The configuration of the driver.
#[derive(Debug, Clone)]
pub struct DriverConfig {
    /// The radio cell; its stations are the terminals in order.
    pub cell: CellConfig,
    /// A second one, on another channel, with the same terminals as stations.
    pub second_cell: Option<CellConfig>,
    /// The terminals that are in the second cell at the start, or when they associate.
    pub in_second_cell: Vec<u16>,
    /// The path between access point and server.
    pub wire: WireConfig,
    /// The addresses for forwarding at the access point.
    pub forwarding: Forwarding,
    /// Random seed.
    pub seed: u64,
    /// Terminals that are not associated at the start.
    pub absent: Vec<u16>,
    /// Sampling interval of the queues.
    pub queue_interval: Duration,
    /// Packet captures at the terminals and at the server.
    pub captures: Option<CaptureConfig>,
}

/// A change during the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A terminal associates.
    Join(u16),
    /// A terminal leaves; the packets queued for it are lost.
    Leave(u16),
    /// A terminal that left associates in the other cell.
    JoinOther(u16),
    /// Takes a snapshot of the accounts, to compute differences between two times.
    Snapshot,
}

/// The accounts at one time.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The account of the radio cell; its stations are the terminals in order.
    pub cell: CellAccount,
    /// The same for the second cell.
    pub second_cell: Option<CellAccount>,
    /// The account of the wire.
    pub wire: WireAccount,
    /// The time of the snapshot.
    pub at: Time,
}

/// The results of the driver.
#[derive(Debug, Clone)]
pub struct DriverReport {
    /// Whether the driver kept up.
    pub lateness: Lateness,
    /// The requested snapshots, and one at the end.
    pub snapshots: Vec<Snapshot>,
    /// The queue lengths over time.
    pub queues: QueueTrace,
    /// Duration of the run.
    pub elapsed: Duration,
    /// CPU time of the driver's thread. Most of it is kernel time, because received packets are
    /// processed on it.
    pub cpu: Duration,
}

/// A running driver.
#[derive(Debug)]
pub struct Driver {
    thread: Option<JoinHandle<Result<DriverReport, LabError>>>,
    stop: Arc<AtomicBool>,
    changes: Sender<(Time, Change)>,
    started: Instant,
}

impl Driver {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the models reject the configuration, or if the thread cannot be created.
    pub fn start(config: DriverConfig, taps: Taps) -> Result<Driver, LabError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (changes, changes_coming) = channel();
        let (ready, is_ready) = channel();
        let started = Instant::now();
        let seen = stop.clone();
        let body = move || {
            // Create the models here, because frames belong to this thread's pool.
            match Machine::new(&config, &taps, started) {
                Ok(machine) => {
                    let _ = ready.send(Ok(()));
                    machine.run(&seen, &changes_coming)
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                    Err(LabError::Stopped)
                }
            }
        };
        let thread = std::thread::Builder::new().name("yuzuri-driver".into()).spawn(body);
        let thread = thread.map_err(LabError::network("starting the driver's thread"))?;
        let driver = Driver { thread: Some(thread), stop, changes, started };
        match is_ready.recv() {
            Ok(Ok(())) => Ok(driver),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(LabError::Run("the driver ended while starting".into())),
        }
    }

    /// Time zero of the models.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Schedules a change.
    pub fn change(&self, at: Instant, change: Change) {
        let at = at.saturating_duration_since(self.started);
        // If the driver has ended, `finish` reports it.
        let _ = self.changes.send((Time::from_nanos(at.as_nanos() as u64), change));
    }

    /// Whether the thread is still running.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops the thread and returns its results.
    ///
    /// # Errors
    /// The error that ended the thread early, if any.
    pub fn finish(mut self) -> Result<DriverReport, LabError> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Err(LabError::Stopped),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Maximum number of frames read from one device before the models and other devices are served.
const MAX_FRAMES_PER_READ: usize = 16;

/// Interrupt coalescing: how long a received frame may wait for others, so that a host is
/// interrupted once for all of them, as with real network adapters. An interrupt costs more than a
/// packet.
const INTERRUPT_DELAY: Duration = Duration::from_micros(250);

/// A TAP device, identified by its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    Terminal(u16),
    ApCell,
    ApWire,
    Server,
}

struct Machine<'a> {
    taps: &'a Taps,
    ports: Vec<Port>,
    poller: Poller,
    cells: Cells,
    in_second_cell: Vec<u16>,
    wire: Wire<Frame>,
    forwarding: Forwarding,
    from_cells: Vec<(Time, FrameDestination, Frame)>,
    from_wire: Vec<Arrival<Frame, Direction>>,
    started: Instant,
    lateness: Lateness,
    queues: QueueTrace,
    next_sample: Time,
    planned: Vec<(Time, Change)>,
    snapshots: Vec<Snapshot>,
    captures: Option<Captures>,
}

impl<'a> Machine<'a> {
    fn new(config: &DriverConfig, taps: &'a Taps, started: Instant) -> Result<Machine<'a>, LabError> {
        let refused = |what: &str, why: &ConfigError| LabError::Run(format!("{what}: {why}"));
        let cells = Cells::new(config)?;
        let wire = Wire::behind_cell(&config.wire, config.seed).map_err(|e| refused("the wire", &e))?;
        let mut ports: Vec<Port> = (0..taps.terminals.len() as u16).map(Port::Terminal).collect();
        let mut columns: Vec<String> = (0..taps.terminals.len()).map(|n| format!("terminal {n}")).collect();
        ports.extend([Port::ApCell, Port::ApWire, Port::Server]);
        columns.extend(["ap", "wire up", "wire down"].map(String::from));
        let poller = Poller::new(ports.iter().map(|port| tap_of(taps, *port)))
            .map_err(LabError::network("watching the TAP devices"))?;
        let interval_ns = config.queue_interval.as_nanos() as u64;
        Ok(Machine {
            taps,
            ports,
            poller,
            cells,
            in_second_cell: config.in_second_cell.clone(),
            wire,
            forwarding: config.forwarding.clone(),
            from_cells: Vec::new(),
            from_wire: Vec::new(),
            started,
            lateness: Lateness::default(),
            queues: QueueTrace { columns, interval_ns, packets: Vec::new() },
            next_sample: Time::ZERO,
            planned: Vec::new(),
            snapshots: Vec::new(),
            captures: config.captures.as_ref().map(Captures::start).transpose()?,
        })
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.started.elapsed().as_nanos() as u64)
    }

    fn run(
        mut self,
        stop: &AtomicBool,
        changes: &Receiver<(Time, Change)>,
    ) -> Result<DriverReport, LabError> {
        // By default the kernel may extend each wait by 50 µs to coalesce wake-ups.
        let _ = nix::sys::prctl::set_timerslack(1);
        set_real_time_priority();
        let mut ready = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            self.plan(changes);
            self.advance();
            let wait = self.next().map_or(Duration::MAX, |next| next - self.now().min(next));
            self.poller.wait(wait, &mut ready).map_err(LabError::network("waiting for frames"))?;
            for at in ready.drain(..) {
                if let Some(port) = self.ports.get(at).copied() {
                    self.read_frames(port)?;
                }
            }
        }
        let now = self.now();
        self.run_models(now);
        self.snapshot(now);
        if let Some(captures) = self.captures {
            captures.finish()?;
        }
        Ok(DriverReport {
            lateness: self.lateness,
            snapshots: self.snapshots,
            queues: self.queues,
            elapsed: self.started.elapsed(),
            cpu: thread_cpu(),
        })
    }

    fn plan(&mut self, changes: &Receiver<(Time, Change)>) {
        let before = self.planned.len();
        self.planned.extend(changes.try_iter());
        if self.planned.len() != before {
            // Sorted in descending order: the next change is last.
            self.planned.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        }
    }

    /// The next deadline if no frame arrives. There is always one, because the queues are sampled.
    /// Nothing observes the models between deliveries, so that they may be advanced late.
    fn next(&self) -> Option<Time> {
        let planned = self.planned.last().map(|(at, _)| *at);
        let arrival = self.next_arrival().map(|at| at + INTERRUPT_DELAY);
        [arrival, planned, Some(self.next_sample)].into_iter().flatten().min()
    }

    /// Processes what is due.
    fn advance(&mut self) {
        let now = self.now();
        while let Some((at, change)) = self.planned.pop_if(|(at, _)| *at <= now) {
            self.run_models(at);
            match change {
                Change::Join(terminal) => self.cells.join(terminal, self.first_cell(terminal), at),
                Change::JoinOther(terminal) => self.cells.join(terminal, 1 - self.first_cell(terminal), at),
                Change::Leave(terminal) => self.cells.leave(terminal, at),
                Change::Snapshot => self.snapshot(at),
            }
        }
        while self.next_sample <= now {
            self.run_models(self.next_sample);
            self.sample();
            self.next_sample += Duration::from_nanos(self.queues.interval_ns);
        }
        self.run_models(now);
    }

    fn first_cell(&self, terminal: u16) -> usize {
        usize::from(self.in_second_cell.contains(&terminal))
    }

    /// Advances the models up to and including `to`, delivery by delivery, so that packets
    /// forwarded between the models keep their nominal times.
    fn run_models(&mut self, to: Time) {
        let mut before = Time::ZERO;
        while let Some(at) = self.next_arrival().map(|at| at.max(before)).filter(|at| *at <= to) {
            self.step(at);
            before = at;
        }
        self.step(to);
    }

    fn next_arrival(&self) -> Option<Time> {
        self.cells.next_arrival().into_iter().chain(self.wire.next_arrival()).min()
    }

    fn step(&mut self, to: Time) {
        self.cells.advance(to, &mut self.from_cells);
        let mut arrivals = std::mem::take(&mut self.from_cells);
        for (at, reached, mut packet) in arrivals.drain(..) {
            match reached {
                FrameDestination::Ap if self.forwarding.to_server(&mut packet) => {
                    self.wire.send(at, Direction::Up, packet)
                }
                FrameDestination::Ap => self.deliver(Port::ApCell, at, &packet),
                FrameDestination::Terminal(terminal) => self.deliver(Port::Terminal(terminal), at, &packet),
            }
        }
        self.from_cells = arrivals;
        self.wire.advance(to, &mut self.from_wire);
        let mut arrivals = std::mem::take(&mut self.from_wire);
        for Arrival { at, at_node, mut packet, .. } in arrivals.drain(..) {
            match at_node {
                Direction::Up => self.deliver(Port::Server, at, &packet),
                Direction::Down => match self.forwarding.to_terminal(&mut packet) {
                    Some(terminal) => self.cells.send_to(to, terminal, packet),
                    None => self.deliver(Port::ApWire, at, &packet),
                },
            }
        }
        self.from_wire = arrivals;
    }

    fn deliver(&mut self, port: Port, at: Time, frame: &Frame) {
        let now = self.now();
        self.lateness.count((now - at.min(now)).as_nanos() as u64);
        if let Some(captures) = &mut self.captures {
            captures.note(port, now, frame);
        }
        if tap_of(self.taps, port).write(frame.bytes()).is_err() {
            self.lateness.refused += 1;
        }
    }

    /// Reads frames that a host has sent, at most [`MAX_FRAMES_PER_READ`].
    fn read_frames(&mut self, port: Port) -> Result<(), LabError> {
        for _ in 0..MAX_FRAMES_PER_READ {
            let mut frame = Frame::from_pool();
            match frame.fill(|room| tap_of(self.taps, port).read(room)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(errno @ (Errno::EIO | Errno::EBADFD)) => {
                    return Err(LabError::network("reading a frame: the TAP device is down")(errno));
                }
                Err(errno) => return Err(LabError::network("reading a frame from a TAP device")(errno)),
            }
            let now = self.now();
            self.run_models(now);
            if let Some(captures) = &mut self.captures {
                captures.note(port, now, &frame);
            }
            match port {
                Port::Terminal(terminal) => self.cells.send(now, terminal, frame),
                Port::ApCell => self.cells.send_from_host(now, frame),
                Port::ApWire => self.wire.send(now, Direction::Up, frame),
                Port::Server => self.wire.send(now, Direction::Down, frame),
            }
        }
        Ok(())
    }

    fn snapshot(&mut self, at: Time) {
        let mut accounts = self.cells.accounts().into_iter();
        // There is at least one cell.
        let Some(cell) = accounts.next() else { return };
        let (second_cell, wire) = (accounts.next(), self.wire.account().clone());
        self.snapshots.push(Snapshot { cell, second_cell, wire, at });
    }

    fn sample(&mut self) {
        let wire = self.wire.account();
        let stations = (0..self.taps.terminals.len() as u16).map(|terminal| self.cells.queued_at(terminal));
        let rest = [self.cells.queued_at_ap(), wire.up.queued, wire.down.queued];
        self.queues.packets.extend(stations.chain(rest).map(|packets| packets as u32));
    }
}

fn tap_of(taps: &Taps, port: Port) -> &Tap {
    match port {
        Port::Terminal(station) => &taps.terminals[usize::from(station)],
        Port::ApCell => &taps.ap_cell,
        Port::ApWire => &taps.ap_wire,
        Port::Server => &taps.server,
    }
}

/// Gives the thread real-time priority, so that it runs before ordinary threads whenever a frame or
/// a deadline is due. Without the privilege the driver still runs, and lateness is measured in
/// either case.
fn set_real_time_priority() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter outlives the call; 0 is the calling thread.
    let _ = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const priority)
    };
}

fn thread_cpu() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(Duration::ZERO, |t| Duration::new(t.tv_sec() as u64, t.tv_nsec() as u32))
}
