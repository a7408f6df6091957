//! A call: frames of constant size at constant intervals over UDP, in both directions. All hosts
//! share one clock, so that the one-way delay of each frame is known.

use super::work::Job;
use crate::LabError;
use crate::net::Topology;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_kernel::clock;
use yuzuri_stats::nearest_rank;

/// Each terminal's peer has its own port.
const FIRST_PORT: u16 = 7000;
/// A frame that takes longer than this counts as lost.
const MAX_DELAY_NS: u64 = 1_000_000_000;
/// How often the stop flag is checked.
const STOP_CHECK: Duration = Duration::from_millis(20);

/// The figures of one direction in the evaluated part.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CallDirection {
    /// Frames sent, except for those of the last second.
    pub sent: u64,
    /// Of these, frames that did not arrive within a second.
    pub lost: u64,
    /// Median one-way delay, ms.
    pub median_ms: Option<f64>,
    /// 99th percentile of the one-way delay, ms; lost frames count as the longest.
    pub p99_ms: Option<f64>,
}

/// The figures of a call.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CallRecord {
    /// From the terminal to the server.
    pub up: CallDirection,
    /// From the server to the terminal.
    pub down: CallDirection,
}

/// A call's frames by direction: the send time of each (`CLOCK_MONOTONIC`, ns), and its one-way
/// delay, ns.
#[derive(Debug, Clone, Default)]
pub struct Call {
    directions: [Vec<(u64, Option<u64>)>; 2],
}

impl Call {
    /// The figures between two times; `None` if nothing was sent.
    pub fn record(&self, from_ns: u64, to_ns: u64) -> Option<CallRecord> {
        let [up, down] = self
            .directions
            .each_ref()
            .map(|direction| direction_figures(direction, from_ns, to_ns.saturating_sub(MAX_DELAY_NS)));
        (up.sent + down.sent > 0).then_some(CallRecord { up, down })
    }
}

fn direction_figures(frames: &[(u64, Option<u64>)], from_ns: u64, to_ns: u64) -> CallDirection {
    let of = frames.iter().filter(|(at, _)| (from_ns..to_ns).contains(at));
    let mut times: Vec<u64> =
        of.map(|(_, delay)| delay.filter(|ns| *ns <= MAX_DELAY_NS).unwrap_or(u64::MAX)).collect();
    times.sort_unstable();
    let at = |part: f64| nearest_rank(&times, part).filter(|ns| *ns != u64::MAX).map(|ns| ns as f64 / 1e6);
    let lost = times.iter().filter(|ns| **ns == u64::MAX).count() as u64;
    CallDirection { sent: times.len() as u64, lost, median_ms: at(0.5), p99_ms: at(0.99) }
}

/// Runs the call until the flag is set.
///
/// # Errors
/// If a socket cannot be created.
pub fn run(
    topology: &Topology,
    job: &Job,
    bytes: u32,
    interval: Duration,
    stop: &AtomicBool,
) -> Result<Call, LabError> {
    let network = |error: io::Error| LabError::network("a call")(error);
    let terminal = &topology.terminals[job.terminal];
    let port = FIRST_PORT + job.terminal as u16;
    let ends = [
        (
            terminal,
            SocketAddr::new(terminal.v4.into(), port),
            SocketAddr::new(topology.server.v4.into(), port),
        ),
        (
            &topology.server,
            SocketAddr::new(topology.server.v4.into(), port),
            SocketAddr::new(terminal.v4.into(), port),
        ),
    ];
    let mut sockets = Vec::new();
    for (host, at, peer) in ends {
        let made = host.namespace.inside(move || {
            let socket = UdpSocket::bind(at)?;
            socket.connect(peer)?;
            socket.set_nonblocking(true)?;
            Ok::<_, io::Error>(socket)
        })?;
        sockets.push(made.map_err(network)?);
    }
    let mut call = Call::default();
    let mut next = Instant::now();
    let mut frame = vec![0; bytes as usize];
    while !stop.load(Ordering::Relaxed) {
        let wait = next.saturating_duration_since(Instant::now()).min(STOP_CHECK);
        let mut fds: Vec<_> = sockets.iter().map(|s| PollFd::new(s.as_fd(), PollFlags::POLLIN)).collect();
        // A signal may end the wait early; the loop checks the time and the flag anyway.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None);
        if Instant::now() >= next {
            next += interval;
            for (socket, direction) in sockets.iter().zip(&mut call.directions) {
                let now_ns = clock::mono_ns();
                frame[..8].copy_from_slice(&(direction.len() as u64).to_be_bytes());
                direction.push((now_ns, None));
                // Frames that the host's own queue rejects count as lost.
                let _ = socket.send(&frame);
            }
        }
        // Frames of the terminal arrive at the server, and the reverse.
        for (socket, direction) in sockets.iter().rev().zip(&mut call.directions) {
            let mut received = [0; 2048];
            while let Ok(length @ 8..) = socket.recv(&mut received) {
                let mut number = [0; 8];
                number.copy_from_slice(&received[..8]);
                if let Some((sent_ns, delay)) = direction.get_mut(u64::from_be_bytes(number) as usize)
                    && length == bytes as usize
                {
                    *delay = Some(clock::mono_ns().saturating_sub(*sent_ns));
                }
            }
        }
    }
    Ok(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_frames_count_as_the_longest() {
        let ms = 1_000_000;
        let mut frames: Vec<(u64, Option<u64>)> =
            (0..200).map(|n| (n * 20 * ms, Some((10 + n / 100) * ms))).collect();
        let whole = direction_figures(&frames, 0, u64::MAX);
        assert_eq!((whole.sent, whole.lost, whole.median_ms, whole.p99_ms), (200, 0, Some(10.0), Some(11.0)));
        frames[7].1 = None;
        frames[8].1 = Some(2 * MAX_DELAY_NS);
        let (some, part) =
            (direction_figures(&frames, 0, u64::MAX), direction_figures(&frames, 1000 * ms, 2000 * ms));
        assert_eq!((some.lost, some.p99_ms), (2, Some(11.0)));
        frames[9].1 = None;
        assert_eq!(direction_figures(&frames, 0, u64::MAX).p99_ms, None, "more than one in a hundred");
        assert_eq!((part.sent, part.lost), (50, 0));
        assert_eq!(Call::default().record(0, u64::MAX), None);
    }
}
