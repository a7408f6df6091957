//! Turns the terminals' traffic into writes.

use crate::histogram::Histogram;
use crate::network::Connection;
use crate::scenario::{Terminal, Traffic};
use crate::units::{MICROSECOND, MILLISECOND, after, nanos_between};
use yuzuri_netmodel::Time;
use yuzuri_scenario::Direction;

/// An event for a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal {
    /// The wake-up time that it requested has come.
    Timer,
    /// The receiver of a direction has `segments` in order.
    Received { upload: bool, segments: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    On,
    Off,
    Requested,
    Responding,
    Thinking,
    Done,
}

/// The workload of one terminal.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    traffic: Traffic,
    start: Time,
    stop: Time,
    phase: Phase,
    wake: Option<Time>,
    /// Segments of requests and responses so far.
    request_segments: u32,
    response_segments: u32,
    requested_at: Time,
    exchanges: u64,
    exchange_ns: u64,
    /// After warm-up.
    exchange_us: Histogram,
    finished_at: Option<Time>,
}

impl Workload {
    /// The half-connections that the traffic needs, in order: true for an upload.
    pub(crate) fn directions(traffic: &Traffic) -> &'static [bool] {
        match traffic {
            Traffic::Bulk { direction: Direction::Up, .. }
            | Traffic::OnOff { direction: Direction::Up, .. } => &[true],
            Traffic::Bulk { direction: Direction::Down, .. }
            | Traffic::OnOff { direction: Direction::Down, .. } => &[false],
            Traffic::RequestResponse { .. } => &[true, false],
            Traffic::Silent => &[],
        }
    }

    pub(crate) fn new(terminal: &Terminal, start: Time) -> Workload {
        let stop = terminal.stop_ms.map_or(Time::MAX, |stop_ms| Time::from_nanos(stop_ms * MILLISECOND));
        Workload {
            traffic: terminal.traffic.clone(),
            start,
            stop,
            phase: Phase::Waiting,
            wake: None,
            request_segments: 0,
            response_segments: 0,
            requested_at: Time::ZERO,
            exchanges: 0,
            exchange_ns: 0,
            exchange_us: Histogram::default(),
            finished_at: None,
        }
    }

    pub(crate) fn finished_at(&self) -> Option<Time> {
        self.finished_at
    }

    pub(crate) fn exchanges(&self) -> u64 {
        self.exchanges
    }

    pub(crate) fn exchange_mean_ms(&self) -> Option<f64> {
        (self.exchanges > 0).then(|| self.exchange_ns as f64 / self.exchanges as f64 / MILLISECOND as f64)
    }

    pub(crate) fn exchange_p99_ms(&self) -> Option<f64> {
        self.exchange_us.quantile(0.99).map(|us| us / 1e3)
    }

    /// Times of exchanges are counted from now on.
    pub(crate) fn warmed_up(&mut self) {
        self.exchange_us = Histogram::default();
    }

    /// Handles `signal`; `connections` are the half-connections of
    /// [`directions`](Workload::directions). Returns the next wake-up time.
    pub(crate) fn handle(
        &mut self,
        now: Time,
        signal: Signal,
        connections: &mut [Connection],
    ) -> Option<Time> {
        match signal {
            Signal::Received { upload, segments } => self.received(now, upload, segments, connections),
            Signal::Timer if now < self.start => Some(self.start),
            Signal::Timer if self.wake.is_some_and(|wake| wake > now) => None,
            Signal::Timer => self.on_wake(now, connections),
        }
    }

    fn on_wake(&mut self, now: Time, connections: &mut [Connection]) -> Option<Time> {
        if self.phase == Phase::Waiting {
            connections.iter_mut().for_each(Connection::open);
        }
        if now >= self.stop {
            connections.iter_mut().for_each(|connection| connection.sender.write_endlessly(false));
            self.phase = Phase::Done;
            return None;
        }
        let next = match (self.traffic.clone(), self.phase) {
            (Traffic::Bulk { bytes, .. }, Phase::Waiting) => {
                self.phase = Phase::On;
                match bytes {
                    Some(bytes) => connections[0].sender.write(bytes.max(1)),
                    None => connections[0].sender.write_endlessly(true),
                }
                self.stop
            }
            (Traffic::OnOff { on_ms, .. }, Phase::Waiting | Phase::Off) => {
                self.phase = Phase::On;
                connections[0].sender.write_endlessly(true);
                after(now, on_ms * MILLISECOND)
            }
            (Traffic::OnOff { off_ms, .. }, Phase::On) => {
                self.phase = Phase::Off;
                connections[0].sender.write_endlessly(false);
                after(now, off_ms * MILLISECOND)
            }
            (Traffic::RequestResponse { request_bytes, .. }, Phase::Waiting | Phase::Thinking) => {
                self.phase = Phase::Requested;
                self.requested_at = now;
                self.request_segments += segments(request_bytes);
                connections[0].sender.write(request_bytes.max(1));
                self.stop
            }
            _ => self.stop,
        };
        let next = next.min(self.stop);
        self.wake = Some(next);
        Some(next).filter(|at| *at < Time::MAX)
    }

    fn received(
        &mut self,
        now: Time,
        upload: bool,
        received: u32,
        connections: &mut [Connection],
    ) -> Option<Time> {
        match self.traffic {
            Traffic::Bulk { bytes: Some(bytes), .. } if received >= segments(bytes) => {
                self.finished_at.get_or_insert(now);
                None
            }
            Traffic::RequestResponse { response_bytes, .. }
                if upload && self.phase == Phase::Requested && received >= self.request_segments =>
            {
                self.phase = Phase::Responding;
                self.response_segments += segments(response_bytes);
                connections[1].sender.write(response_bytes.max(1));
                None
            }
            Traffic::RequestResponse { think_ms, .. }
                if !upload && self.phase == Phase::Responding && received >= self.response_segments =>
            {
                self.phase = Phase::Thinking;
                self.exchanges += 1;
                let took_ns = nanos_between(now, self.requested_at);
                self.exchange_ns += took_ns;
                self.exchange_us.add(took_ns / MICROSECOND);
                let wake = after(now, think_ms * MILLISECOND).min(self.stop);
                self.wake = Some(wake);
                Some(wake)
            }
            _ => None,
        }
    }
}

/// Number of segments in a write of `bytes`; at least one.
fn segments(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(crate::segment::MSS_BYTES.into())).unwrap_or(u32::MAX).max(1)
}
