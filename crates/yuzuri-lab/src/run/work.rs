//! Runs each terminal's workload on a separate thread inside its namespace.

use super::call::Call;
use super::quic::QuicFlow;
use super::{call, exchange, iperf3, quic};
use crate::LabError;
use crate::net::{Host, Topology};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_kernel::clock;
use yuzuri_scenario::{Direction, WorkloadSpec};
use yuzuri_transfer::{
    Limits, Listener, ReceiveEvent, ReceiveOptions, SendEvent, SendOptions, Shown, Target,
};

/// The port on which receivers listen.
const RECEIVE_PORT: u16 = yuzuri_transfer::DEFAULT_PORT;
/// Delay before a lost connection is reopened.
const RECONNECT_DELAY: Duration = Duration::from_millis(200);
/// How often a waiting worker checks its flag.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(10);

const _: () = assert!(WorkloadSpec::MAX_BUFFER_BYTES == SendOptions::MAX_BUFFER_BYTES);

/// The workload of one terminal.
#[derive(Debug, Clone)]
pub struct Job {
    /// The terminal's number.
    pub terminal: usize,
    /// The workload.
    pub spec: WorkloadSpec,
    /// Congestion control of its senders.
    pub control: Option<String>,
    /// Whether its segments are paced.
    pub paced: bool,
    /// Whether its window bound needs an earlier connection, see [`Topology::prime_metrics`].
    pub prime_metrics: bool,
    /// The callback for its connections.
    pub shown: Option<Shown>,
    /// When it starts.
    pub start: Instant,
}

impl Job {
    /// Whether data goes from the terminal, and whether data goes to it.
    pub fn directions(&self) -> (bool, bool) {
        match &self.spec {
            WorkloadSpec::Bulk { direction, .. } | WorkloadSpec::Iperf3 { direction, .. } => {
                (*direction == Direction::Up, *direction == Direction::Down)
            }
            // For exchanges, the requesting end is monitored: it counts the bytes of both
            // directions.
            WorkloadSpec::Buffers { .. }
            | WorkloadSpec::OnOff { .. }
            | WorkloadSpec::RequestResponse { .. } => (true, false),
            // The monitor sees no UDP.
            WorkloadSpec::Quic {} | WorkloadSpec::Call { .. } | WorkloadSpec::Idle {} => (false, false),
        }
    }
}

/// A buffer that was acknowledged. Times are `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BufferRow {
    /// The terminal.
    pub terminal: usize,
    /// Time of the first write, nanoseconds.
    pub first_write_mono_ns: u64,
    /// Time of the last acknowledgement, nanoseconds.
    pub acked_mono_ns: u64,
    /// Bytes.
    pub bytes: u64,
    /// `bytes` × 8 / (last acknowledgement − first write), bits per second.
    pub throughput_bps: u64,
    /// Rate of the connection during that time, bits per second.
    pub carried_bps: u64,
    /// Congestion window when the last packet was sent, segments.
    pub cwnd: u32,
}

/// The results of a worker.
#[derive(Debug, Clone, Default)]
pub struct WorkerResult {
    /// Problems that did not end the run.
    pub notes: Vec<String>,
    /// The buffers, if the workload records them.
    pub buffers: Vec<BufferRow>,
    /// Times from a request to the end of its response, µs.
    pub exchanges_us: Vec<u64>,
    /// The upload over QUIC, if it is one.
    pub quic: Option<QuicFlow>,
    /// The call, if it is one.
    pub call: Option<Call>,
}

/// Sleeps until `at`; returns false if the flag was set before.
pub(super) fn sleep_until(at: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STOP_CHECK_INTERVAL));
    }
    false
}

/// Checks that the kernel and the machine have what the workloads need, before they start.
///
/// # Errors
/// If a tool or a congestion control is missing, with what to do.
pub fn check_available(topology: &Topology, jobs: &[Job]) -> Result<(), LabError> {
    if jobs.iter().any(|job| matches!(job.spec, WorkloadSpec::Iperf3 { .. })) {
        iperf3::check()?;
    }
    let mut controls: Vec<&str> = jobs.iter().filter_map(|job| job.control.as_deref()).collect();
    controls.sort_unstable();
    controls.dedup();
    for control in controls {
        let tried = topology.server.namespace.inside(|| {
            use nix::sys::socket::{
                AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt::TcpCongestion,
            };
            let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
            setsockopt(&socket, TcpCongestion, &control.into())
        })?;
        if let Err(errno) = tried {
            let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
            return Err(LabError::Run(format!(
                "this kernel does not have congestion control '{control}' ({errno}); it has {}; try `modprobe tcp_{control}`",
                available.unwrap_or_default().trim()
            )));
        }
    }
    Ok(())
}

/// Receives data at a host until the flag is set.
pub fn receive(host: &Host, stop: &AtomicBool) -> Result<(), LabError> {
    host.namespace.enter()?;
    let options = ReceiveOptions {
        port: RECEIVE_PORT,
        max_connections: ReceiveOptions::MAX_CONNECTIONS,
        max_per_peer: ReceiveOptions::MAX_CONNECTIONS,
        idle_timeout: Duration::from_secs(100_000),
        max_bytes: None,
        max_total_bytes: None,
        progress_interval: Duration::from_secs(3600),
        ..ReceiveOptions::default()
    };
    let failed = |e: yuzuri_transfer::ReceiveError| LabError::Run(format!("the receiver: {e}"));
    let listener = Listener::bind(options).map_err(failed)?;
    listener.run(&mut |_: &ReceiveEvent| Ok(()), stop).map(drop).map_err(failed)
}

/// Answers requests at a host until the flag is set.
pub fn answer(host: &Host, stop: &AtomicBool) -> Result<(), LabError> {
    host.namespace.enter()?;
    exchange::serve(stop)
}

/// Runs a workload until its flag is set.
pub fn work(topology: &Topology, job: &Job, stop: &AtomicBool) -> Result<WorkerResult, LabError> {
    let mut worker_result = WorkerResult::default();
    if !sleep_until(job.start, stop) {
        return Ok(worker_result);
    }
    if job.prime_metrics {
        topology.prime_metrics(job.terminal, stop)?;
    }
    let terminal = &topology.terminals[job.terminal];
    let (from, to) = match job.spec {
        WorkloadSpec::Bulk { direction: Direction::Down, .. } => (&topology.server, terminal),
        _ => (terminal, &topology.server),
    };
    from.namespace.enter()?;
    let address = IpAddr::V4(to.v4);
    match &job.spec {
        WorkloadSpec::Idle {} => {}
        WorkloadSpec::Bulk { connections, .. } => {
            let options = SendOptions { connections: *connections, ..send_options(job, address) };
            send_with_retries(&options, job, stop, &mut worker_result, false);
        }
        WorkloadSpec::Buffers { bytes, wait_ack, count } => {
            let mut options =
                SendOptions { buffer_bytes: *bytes, wait_ack: *wait_ack, ..send_options(job, address) };
            options.limits.buffers = *count;
            send_with_retries(&options, job, stop, &mut worker_result, true);
        }
        WorkloadSpec::OnOff { on_s, off_s } => {
            let mut options = send_options(job, address);
            options.limits.time = Some(Duration::from_secs_f64(*on_s));
            let mut next = Instant::now();
            while sleep_until(next, stop) {
                send_once(&options, job, stop, &mut worker_result, false);
                next = Instant::now() + Duration::from_secs_f64(*off_s);
            }
        }
        WorkloadSpec::RequestResponse { request_bytes, response_bytes, think_ms } => {
            let sizes = (*request_bytes, *response_bytes);
            let think = Duration::from_secs_f64(think_ms / 1000.0);
            while !stop.load(Ordering::Relaxed) {
                let done = exchange::request(
                    address,
                    sizes,
                    think,
                    stop,
                    &mut worker_result.exchanges_us,
                    |socket| set_control(socket, job.control.as_deref()),
                );
                if let Err(error) = done {
                    worker_result.notes.push(format!("terminal {}: {error}", job.terminal));
                    sleep_until(Instant::now() + RECONNECT_DELAY, stop);
                }
            }
        }
        WorkloadSpec::Iperf3 { connections, direction } => {
            iperf3::run(topology, job, *connections, *direction, stop)?;
        }
        WorkloadSpec::Quic {} => {
            let mut flow = QuicFlow::default();
            while !stop.load(Ordering::Relaxed) {
                if let Err(error) = quic::upload(topology, job, stop, &mut flow) {
                    worker_result.notes.push(error.to_string());
                    sleep_until(Instant::now() + RECONNECT_DELAY, stop);
                }
            }
            worker_result.quic = Some(flow);
        }
        WorkloadSpec::Call { bytes, interval_ms } => {
            let interval = Duration::from_secs_f64(interval_ms / 1000.0);
            worker_result.call = Some(call::run(topology, job, *bytes, interval, stop)?);
        }
    }
    Ok(worker_result)
}

fn set_control(socket: impl AsFd, control: Option<&str>) -> std::io::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
    control.map_or(Ok(()), |name| Ok(setsockopt(&socket.as_fd(), TcpCongestion, &name.into())?))
}

/// No limit: until the flag is set.
fn send_options(job: &Job, to: IpAddr) -> SendOptions {
    let mut options = SendOptions::new(Target { host: to.to_string(), port: RECEIVE_PORT });
    options.limits = Limits { time: Some(Duration::ZERO), ..Limits::default() };
    options.congestion_control = job.control.clone();
    options.paced = job.paced;
    options.shown = job.shown.clone();
    // A path that loses everything for a while is a valid experiment, so the timeouts are long.
    options.connect_timeout = Duration::from_secs(600);
    options.stall_timeout = Duration::from_secs(600);
    options.linger = Duration::from_millis(100);
    options.progress_interval = Duration::from_secs(3600);
    options
}

/// Sends until the flag is set or the limit is reached; a lost connection is reopened.
fn send_with_retries(
    options: &SendOptions,
    job: &Job,
    stop: &AtomicBool,
    worker_result: &mut WorkerResult,
    record: bool,
) {
    while !stop.load(Ordering::Relaxed) {
        if send_once(options, job, stop, worker_result, record) {
            return;
        }
        sleep_until(Instant::now() + RECONNECT_DELAY, stop);
    }
}

fn send_once(
    options: &SendOptions,
    job: &Job,
    stop: &AtomicBool,
    worker_result: &mut WorkerResult,
    record: bool,
) -> bool {
    let mut buffers = std::mem::take(&mut worker_result.buffers);
    let mut report = |event: &SendEvent| {
        if let (true, SendEvent::Buffer(buffer)) = (record, event) {
            buffers.push(BufferRow {
                terminal: job.terminal,
                first_write_mono_ns: buffer.first_write_mono_ns,
                acked_mono_ns: buffer.acked_mono_ns,
                bytes: buffer.bytes,
                throughput_bps: buffer.throughput_bps,
                carried_bps: buffer.carried_bps,
                cwnd: buffer.cwnd,
            });
        }
        Ok(())
    };
    let result = yuzuri_transfer::send(options, &mut report, stop);
    worker_result.buffers = buffers;
    match result {
        Ok(_) => true,
        // Transfers in progress at the end are cut off deliberately.
        Err(_) if stop.load(Ordering::Relaxed) => true,
        Err(error) => {
            let at_s = clock::mono_ns() as f64 / 1e9;
            worker_result
                .notes
                .push(format!("terminal {} at {at_s:.1} s of the monotonic clock: {error}", job.terminal));
            false
        }
    }
}
