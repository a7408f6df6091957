//! FQ-CoDel (RFC 8290): one CoDel queue per flow, served by deficit round robin with priority for
//! new flows.

use super::QueueDrops;
use super::codel::{Constants, ControlLaw, Waiting};
use crate::error::check_range;
use crate::{ConfigError, Packet, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// FQ-CoDel's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FqCodelConfig {
    /// Acceptable standing queue delay, µs. RFC 8290, section 5.2: 5 ms. mac80211 uses 20 ms.
    pub target_us: u32,
    /// How long the delay must persist before CoDel drops, µs. RFC 8290, section 5.2: 100 ms.
    pub interval_us: u32,
    /// Maximum number of queued packets over all flows. RFC 8290, section 5.2: 10240. mac80211 uses
    /// 8192.
    pub packets: u32,
    /// Number of hash buckets. RFC 8290, section 5.2: 1024.
    pub flows: u32,
    /// Bytes that a flow may send per round. RFC 8290, section 5.2: 1514. mac80211 uses 300.
    pub quantum_bytes: u32,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for FqCodelConfig {
    fn default() -> FqCodelConfig {
        FqCodelConfig {
            target_us: 5000,
            interval_us: 100_000,
            packets: 10_240,
            flows: 1024,
            quantum_bytes: 1514,
            ecn: true,
        }
    }
}

impl FqCodelConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        check_range("target_us", self.target_us, 1, 10_000_000)?;
        check_range("interval_us", self.interval_us, 1, 100_000_000)?;
        check_range("packets", self.packets, 1, 100_000_000)?;
        check_range("flows", self.flows, 1, 65_536)?;
        check_range("quantum_bytes", self.quantum_bytes, 1, 1 << 20)
    }
}

/// Maximum number of packets that a full queue drops at once from its fattest flow (RFC 8290,
/// section 4.1).
const MAX_DROPPED_AT_ONCE: usize = 64;
const NO_FLOW: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Flow<P> {
    queue: VecDeque<Waiting<P>>,
    bytes: u64,
    deficit: i64,
    control_law: ControlLaw,
    listed: bool,
}

/// An FQ-CoDel queue.
#[derive(Clone, Debug)]
pub struct FqCodel<P> {
    /// Maps a bucket to an index in `flows`. A flow is created when its bucket is first used.
    buckets: Vec<u32>,
    flows: Vec<Flow<P>>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
    constants: Constants,
    quantum: i64,
    max_packets: usize,
}

impl<P: Packet> FqCodel<P> {
    /// Creates an empty queue.
    pub fn new(config: &FqCodelConfig) -> FqCodel<P> {
        FqCodel {
            buckets: vec![NO_FLOW; config.flows as usize],
            flows: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            constants: Constants::new(config.target_us, config.interval_us, config.ecn),
            quantum: i64::from(config.quantum_bytes),
            max_packets: config.packets as usize,
        }
    }

    /// Appends a packet to its flow. If the queue then exceeds its limit, the fattest flow loses
    /// packets from its head.
    pub fn push(&mut self, now: Time, packet: P, drops: &mut QueueDrops) {
        // Fibonacci hashing, because `flow` may be a plain number or a hash with poor low bits.
        let hash = packet.flow().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let bucket = (hash % self.buckets.len() as u64) as usize;
        if self.buckets[bucket] == NO_FLOW {
            self.buckets[bucket] = self.flows.len() as u32;
            self.flows.push(Flow {
                queue: VecDeque::new(),
                bytes: 0,
                deficit: 0,
                control_law: ControlLaw::default(),
                listed: false,
            });
        }
        let index = self.buckets[bucket];
        let flow = &mut self.flows[index as usize];
        let bytes = u64::from(packet.bytes());
        flow.bytes += bytes;
        self.bytes += bytes;
        self.packets += 1;
        flow.queue.push_back((now, packet));
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.quantum;
            self.new.push_back(index);
        }
        if self.packets > self.max_packets {
            self.drop_from_fattest(drops);
        }
    }

    /// Bytes queued in the fattest flow.
    pub fn fattest_bytes(&self) -> u64 {
        self.flows.iter().map(|flow| flow.bytes).max().unwrap_or(0)
    }

    /// Drops half of the fattest flow's packets, at most 64, from its head (RFC 8290, section 4.1).
    pub fn drop_from_fattest(&mut self, drops: &mut QueueDrops) {
        let Some(flow) = self.flows.iter_mut().max_by_key(|flow| flow.bytes) else { return };
        let count = flow.queue.len().div_ceil(2).min(MAX_DROPPED_AT_ONCE);
        for (_, dropped) in flow.queue.drain(..count) {
            let bytes = u64::from(dropped.bytes());
            flow.bytes -= bytes;
            self.bytes -= bytes;
        }
        self.packets -= count;
        drops.overflow += count as u64;
    }

    /// Takes the next packet by deficit round robin (RFC 8290 section 4.2).
    pub fn pop(&mut self, now: Time, drops: &mut QueueDrops) -> Option<P> {
        loop {
            let from_new = !self.new.is_empty();
            let index = *if from_new { self.new.front() } else { self.old.front() }?;
            let flow = &mut self.flows[index as usize];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                if from_new {
                    self.new.pop_front()
                } else {
                    self.old.pop_front()
                };
                self.old.push_back(index);
                continue;
            }
            let (packets, bytes) = (flow.queue.len(), flow.bytes);
            let taken = flow.control_law.pop(now, &self.constants, &mut flow.queue, &mut flow.bytes, drops);
            self.packets -= packets - flow.queue.len();
            self.bytes -= bytes - flow.bytes;
            match taken {
                Some(packet) => {
                    flow.deficit -= i64::from(packet.bytes());
                    return Some(packet);
                }
                None if from_new => {
                    // A new flow that becomes empty passes through the old flows once, so that it
                    // cannot starve them by returning as a new flow.
                    self.new.pop_front();
                    self.old.push_back(index);
                }
                None => {
                    self.old.pop_front();
                    flow.listed = false;
                }
            }
        }
    }

    /// Number of packets queued in all flows.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Number of bytes queued in all flows.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
