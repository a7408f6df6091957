//! FQ-CoDel (RFC 8290): a CoDel queue per flow, served by deficit round robin, new flows first.

use super::QueueDrops;
use super::codel::{Constants, Law, Waiting};
use crate::error::check_range;
use crate::{ConfigError, Packet, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// FQ-CoDel's constants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FqCodelConfig {
    /// Acceptable standing delay, µs; RFC 8290 section 5.2: 5 ms. mac80211 takes 20 ms.
    pub target_us: u32,
    /// How long the delay must stand, µs; RFC 8290 section 5.2: 100 ms.
    pub interval_us: u32,
    /// Most packets that wait in all flows; RFC 8290 section 5.2: 10240. mac80211 takes 8192.
    pub packets: u32,
    /// Hash buckets; RFC 8290 section 5.2: 1024.
    pub flows: u32,
    /// Bytes a flow may send per round; RFC 8290 section 5.2: 1514. mac80211 takes 300.
    pub quantum_bytes: u32,
    /// Mark ECN-capable packets instead of dropping them.
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

/// RFC 8290 section 4.1: a full queue loses up to this many packets at once from its fattest flow.
const MAX_DROPPED_AT_ONCE: usize = 64;
const NO_FLOW: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Flow<P> {
    queue: VecDeque<Waiting<P>>,
    bytes: u64,
    deficit: i64,
    cca: Law,
    listed: bool,
}

/// A queue with a CoDel queue per flow.
#[derive(Clone, Debug)]
pub struct FqCodel<P> {
    /// Bucket -> place in `flows`; flows are made when their bucket is first used.
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
    /// An empty queue.
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

    /// Puts a packet into its flow; if the queue is over its limit then, the fattest flow loses packets from its head.
    pub fn push(&mut self, now: Time, packet: P, drops: &mut QueueDrops) {
        // Fibonacci hashing: `flow` may be a hash of poor low bits or a plain number.
        let hash = packet.flow().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let bucket = (hash % self.buckets.len() as u64) as usize;
        if self.buckets[bucket] == NO_FLOW {
            self.buckets[bucket] = self.flows.len() as u32;
            self.flows.push(Flow {
                queue: VecDeque::new(),
                bytes: 0,
                deficit: 0,
                cca: Law::default(),
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

    /// Bytes in the fattest flow.
    pub fn fattest_bytes(&self) -> u64 {
        self.flows.iter().map(|flow| flow.bytes).max().unwrap_or(0)
    }

    /// Drops half of the fattest flow's packets, 64 at most, from its head (RFC 8290 section 4.1).
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
            let taken = flow.cca.pop(now, &self.constants, &mut flow.queue, &mut flow.bytes, drops);
            self.packets -= packets - flow.queue.len();
            self.bytes -= bytes - flow.bytes;
            match taken {
                Some(packet) => {
                    flow.deficit -= i64::from(packet.bytes());
                    return Some(packet);
                }
                None if from_new => {
                    // An emptied new flow goes through the old ones once, lest it starve them by returning as new.
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

    /// Packets waiting in all flows.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Bytes waiting in all flows.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
