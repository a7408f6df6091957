//! Drop-tail FIFO queue: packets that arrive at a full queue are dropped.

use super::QueueDrops;
use crate::Packet;
use std::collections::VecDeque;

/// A drop-tail queue with a limit in packets, bytes or both.
#[derive(Clone, Debug)]
pub struct DropTail<P> {
    packets: VecDeque<P>,
    bytes: u64,
    max_packets: usize,
    max_bytes: u64,
}

impl<P: Packet> DropTail<P> {
    /// Creates an empty queue. `None` means no limit.
    pub fn new(max_packets: Option<u32>, max_bytes: Option<u64>) -> DropTail<P> {
        DropTail {
            packets: VecDeque::new(),
            bytes: 0,
            max_packets: max_packets.map_or(usize::MAX, |n| n as usize),
            max_bytes: max_bytes.unwrap_or(u64::MAX),
        }
    }

    /// Appends a packet, or drops it if the queue is full.
    pub fn push(&mut self, packet: P, drops: &mut QueueDrops) {
        let bytes = u64::from(packet.bytes());
        if self.packets.len() >= self.max_packets || self.bytes + bytes > self.max_bytes {
            drops.overflow += 1;
            return;
        }
        self.bytes += bytes;
        self.packets.push_back(packet);
    }

    /// Takes the oldest packet.
    pub fn pop(&mut self) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes());
        Some(packet)
    }

    /// Number of queued packets.
    pub fn packets(&self) -> usize {
        self.packets.len()
    }

    /// Number of queued bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
