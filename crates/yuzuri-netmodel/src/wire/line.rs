//! One direction of the wire.

use super::LineConfig;
use super::loss::Loss;
use crate::queue::{Queue, QueueDrops};
use crate::random::Random;
use crate::{ConfigError, Packet, Time};
use std::collections::VecDeque;

/// Statistics of one direction. They satisfy
/// `sent = delivered + drops.overflow + drops.aqm + lost + queued + in_flight`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineAccount {
    /// Packets sent into the line.
    pub sent: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Bytes in `delivered`, as defined by [`Packet::bytes`].
    pub delivered_bytes: u64,
    /// Packets that the queue dropped or marked.
    pub drops: QueueDrops,
    /// Packets lost after the queue.
    pub lost: u64,
    /// Packets currently queued.
    pub queued: u64,
    /// Maximum of `queued`.
    pub queued_max: u64,
    /// Packets currently in transmission or propagating.
    pub in_flight: u64,
    /// Busy time of the transmitter up to the end of the last transmission started, ns.
    pub busy_ns: u64,
    queued_packet_ns: u128,
    queued_since: Time,
}

impl LineAccount {
    /// Time average of the queue length from the start to `now`, packets.
    pub fn queued_mean(&self, now: Time) -> f64 {
        let waiting = u128::from(self.queued) * u128::from(now.nanos_since(self.queued_since));
        if now == Time::ZERO { 0.0 } else { (self.queued_packet_ns + waiting) as f64 / now.as_nanos() as f64 }
    }

    fn set_queued(&mut self, now: Time, packets: usize) {
        self.queued_packet_ns += u128::from(self.queued) * u128::from(now.nanos_since(self.queued_since));
        self.queued_since = now;
        self.queued = packets as u64;
        self.queued_max = self.queued_max.max(self.queued);
    }
}

/// A queue, a transmitter and a delay line.
#[derive(Clone, Debug)]
pub(super) struct Line<P> {
    queue: Queue<P>,
    /// The packet in transmission and the end of its transmission.
    transmitting: Option<(Time, P)>,
    /// Propagating packets in the order of their arrival.
    propagating: VecDeque<(Time, P)>,
    loss: Loss,
    random: Random,
    rate_bps: Option<u64>,
    overhead_bytes: u64,
    delay_ns: u64,
    jitter_ns: u64,
}

impl<P: Packet> Line<P> {
    pub(super) fn new(config: &LineConfig, seed: u64, stream: u64) -> Result<Line<P>, ConfigError> {
        Ok(Line {
            queue: Queue::new(&config.queue)?,
            transmitting: None,
            propagating: VecDeque::new(),
            loss: Loss::new(&config.loss),
            random: Random::new(seed, stream),
            rate_bps: config.rate_bps,
            overhead_bytes: u64::from(config.overhead_bytes),
            delay_ns: config.delay_us * 1000,
            jitter_ns: config.jitter_us * 1000,
        })
    }

    /// Changes the rate, starting with the next transmission.
    pub(super) fn set_rate(&mut self, rate_bps: u64) {
        self.rate_bps = Some(rate_bps);
    }

    pub(super) fn send(&mut self, now: Time, packet: P, account: &mut LineAccount) {
        account.sent += 1;
        if self.rate_bps.is_none() {
            self.start_propagation(now, packet, account);
        } else if self.transmitting.is_none() {
            // The queue of an idle transmitter is empty. Passing through it would only present
            // CoDel with a packet that never waited.
            self.transmit(now, packet, account);
        } else {
            self.queue.push(now, packet, &mut account.drops);
            account.set_queued(now, self.queue.packets());
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        let end = self.transmitting.as_ref().map(|(end, _)| *end);
        let arrival = self.propagating.front().map(|(at, _)| *at);
        match (end, arrival) {
            (Some(end), Some(arrival)) => Some(end.min(arrival)),
            (end, arrival) => end.or(arrival),
        }
    }

    /// Lower bound on the next arrival if nothing is sent before.
    pub(super) fn next_arrival(&self) -> Option<Time> {
        // Nothing overtakes a packet that is already propagating.
        let in_flight = self.propagating.front().map(|(at, _)| *at);
        in_flight.or_else(|| self.transmitting.as_ref().map(|(end, _)| end.after_nanos(self.delay_ns)))
    }

    /// Processes the single event due at `now` and returns the packet if it is an arrival.
    pub(super) fn step(&mut self, now: Time, account: &mut LineAccount) -> Option<P> {
        if let Some((end, packet)) = self.transmitting.take_if(|(end, _)| *end <= now) {
            account.in_flight -= 1;
            self.start_propagation(end, packet, account);
            if let Some(following) = self.queue.pop(end, &mut account.drops) {
                self.transmit(end, following, account);
            }
            account.set_queued(end, self.queue.packets());
            return None;
        }
        let (_, packet) = self.propagating.pop_front()?;
        account.in_flight -= 1;
        account.delivered += 1;
        account.delivered_bytes += u64::from(packet.bytes());
        Some(packet)
    }

    fn transmit(&mut self, now: Time, packet: P, account: &mut LineAccount) {
        let bits = (u64::from(packet.bytes()) + self.overhead_bytes) * 8;
        let nanos = (bits * 1_000_000_000).div_ceil(self.rate_bps.unwrap_or(u64::MAX));
        account.busy_ns += nanos;
        account.in_flight += 1;
        self.transmitting = Some((now.after_nanos(nanos), packet));
    }

    fn start_propagation(&mut self, now: Time, packet: P, account: &mut LineAccount) {
        if self.loss.loses_next(&mut self.random) {
            account.lost += 1;
            return;
        }
        let jitter = if self.jitter_ns == 0 { 0 } else { self.random.up_to_u64(self.jitter_ns) };
        let arrival = now.after_nanos(self.delay_ns + jitter);
        // Packets do not overtake each other: one that would arrive before its predecessor arrives
        // with it.
        let arrival = self.propagating.back().map_or(arrival, |(before, _)| arrival.max(*before));
        account.in_flight += 1;
        self.propagating.push_back((arrival, packet));
    }
}
