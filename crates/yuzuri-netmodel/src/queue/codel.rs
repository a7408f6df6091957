//! CoDel (RFC 8289): drops from the head of the queue once the sojourn time has exceeded `target`
//! for at least `interval`.

use super::QueueDrops;
use crate::error::check_range;
use crate::{ConfigError, Packet, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// CoDel's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CodelConfig {
    /// Acceptable standing queue delay, µs. RFC 8289, section 4.4: 5 ms.
    pub target_us: u32,
    /// How long the delay must persist before CoDel drops, µs. RFC 8289, section 4.3: 100 ms.
    pub interval_us: u32,
    /// Maximum number of queued packets. Linux's `codel`: 1000.
    pub packets: u32,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CodelConfig {
    fn default() -> CodelConfig {
        CodelConfig { target_us: 5000, interval_us: 100_000, packets: 1000, ecn: true }
    }
}

impl CodelConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        check_range("target_us", self.target_us, 1, 10_000_000)?;
        check_range("interval_us", self.interval_us, 1, 100_000_000)?;
        check_range("packets", self.packets, 1, 100_000_000)
    }
}

/// CoDel's state and control law for one queue (RFC 8289, section 5).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ControlLaw {
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// CoDel's parameters in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants {
    target_ns: u64,
    interval_ns: u64,
    ecn: bool,
}

impl Constants {
    pub(super) fn new(target_us: u32, interval_us: u32, ecn: bool) -> Constants {
        Constants { target_ns: u64::from(target_us) * 1000, interval_ns: u64::from(interval_us) * 1000, ecn }
    }

    fn next_drop(&self, after: Time, count: u32) -> Time {
        after.after_nanos((self.interval_ns as f64 / f64::from(count.max(1)).sqrt()) as u64)
    }
}

/// A packet and the time at which it was queued.
pub(super) type Waiting<P> = (Time, P);

/// CoDel for a queue that the caller owns.
#[derive(Clone, Debug)]
pub(crate) struct CoDelLine {
    control_law: ControlLaw,
    constants: Constants,
}

impl CoDelLine {
    pub(crate) fn new(config: &CodelConfig) -> CoDelLine {
        CoDelLine {
            control_law: ControlLaw::default(),
            constants: Constants::new(config.target_us, config.interval_us, config.ecn),
        }
    }

    /// Takes the next packet from `queue`, after CoDel's drops. `bytes` is the backlog that the law
    /// uses and is updated.
    pub(crate) fn pop<P: Packet>(
        &mut self,
        now: Time,
        queue: &mut VecDeque<(Time, P)>,
        bytes: &mut u64,
        drops: &mut QueueDrops,
    ) -> Option<P> {
        self.control_law.pop(now, &self.constants, queue, bytes, drops)
    }
}

impl ControlLaw {
    /// Takes packets from `queue` and drops them according to the control law until one may be
    /// sent. Updates the backlog `bytes` and counts the drops in `drops`.
    pub(super) fn pop<P: Packet>(
        &mut self,
        now: Time,
        constants: &Constants,
        queue: &mut VecDeque<Waiting<P>>,
        bytes: &mut u64,
        drops: &mut QueueDrops,
    ) -> Option<P> {
        let (mut head, mut late) = self.take(now, constants, queue, bytes)?;
        if self.dropping {
            if !late {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if mark(constants, &mut head, drops) {
                    self.drop_next = constants.next_drop(self.drop_next, self.count);
                    return Some(head);
                }
                drops.aqm += 1;
                (head, late) = self.take(now, constants, queue, bytes)?;
                if late {
                    self.drop_next = constants.next_drop(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if late {
            let marked = mark(constants, &mut head, drops);
            self.dropping = true;
            // A drop rate that recently controlled the queue is resumed instead of being searched
            // for again (section 5.5).
            let delta = self.count.saturating_sub(self.last_count);
            self.count = if delta > 1 && now.nanos_since(self.drop_next) < 16 * constants.interval_ns {
                delta
            } else {
                1
            };
            self.drop_next = constants.next_drop(now, self.count);
            self.last_count = self.count;
            if !marked {
                drops.aqm += 1;
                (head, _) = self.take(now, constants, queue, bytes)?;
            }
        }
        Some(head)
    }

    /// Takes the head packet. Returns it and whether the delay has been above target for an
    /// interval.
    fn take<P: Packet>(
        &mut self,
        now: Time,
        constants: &Constants,
        queue: &mut VecDeque<Waiting<P>>,
        bytes: &mut u64,
    ) -> Option<(P, bool)> {
        let Some((since, packet)) = queue.pop_front() else {
            self.first_above = None;
            self.dropping = false;
            return None;
        };
        *bytes -= u64::from(packet.bytes());
        let sojourn = now.nanos_since(since);
        // At most one full-size packet is not a standing queue (section 5.6).
        if sojourn < constants.target_ns || *bytes <= FULL_PACKET {
            self.first_above = None;
            return Some((packet, false));
        }
        let late = match self.first_above {
            None => {
                self.first_above = Some(now.after_nanos(constants.interval_ns));
                false
            }
            Some(first) => now >= first,
        };
        Some((packet, late))
    }
}

/// Length of a full-size packet: 1500 bytes of IP and the Ethernet header.
const FULL_PACKET: u64 = 1514;

fn mark<P: Packet>(constants: &Constants, packet: &mut P, drops: &mut QueueDrops) -> bool {
    let marks = constants.ecn && packet.ecn_capable();
    if marks {
        packet.mark_ce();
        drops.marked += 1;
    }
    marks
}

/// A FIFO queue managed by CoDel.
#[derive(Clone, Debug)]
pub struct Codel<P> {
    queue: VecDeque<Waiting<P>>,
    bytes: u64,
    line: CoDelLine,
    max_packets: usize,
}

impl<P: Packet> Codel<P> {
    /// Creates an empty queue.
    pub fn new(config: &CodelConfig) -> Codel<P> {
        Codel {
            queue: VecDeque::new(),
            bytes: 0,
            line: CoDelLine::new(config),
            max_packets: config.packets as usize,
        }
    }

    /// Appends a packet, or drops it if the queue is full.
    pub fn push(&mut self, now: Time, packet: P, drops: &mut QueueDrops) {
        if self.queue.len() >= self.max_packets {
            drops.overflow += 1;
            return;
        }
        self.bytes += u64::from(packet.bytes());
        self.queue.push_back((now, packet));
    }

    /// Takes the oldest packet that CoDel does not drop.
    pub fn pop(&mut self, now: Time, drops: &mut QueueDrops) -> Option<P> {
        self.line.pop(now, &mut self.queue, &mut self.bytes, drops)
    }

    /// Number of queued packets.
    pub fn packets(&self) -> usize {
        self.queue.len()
    }

    /// Number of queued bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
