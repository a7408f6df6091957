//! Packet queues of the radio and the wire: drop-tail, CoDel (RFC 8289) and FQ-CoDel (RFC 8290).

mod codel;
mod drop_tail;
mod fq_codel;

use crate::error::check_range;
use crate::{ConfigError, Packet, Time};
use serde::{Deserialize, Serialize};

pub(crate) use codel::CoDelLine;
pub use codel::{Codel, CodelConfig};
pub use drop_tail::DropTail;
pub use fq_codel::{FqCodel, FqCodelConfig};

/// Kind and limits of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueConfig {
    /// FIFO; packets that arrive at a full queue are dropped.
    DropTail {
        /// Maximum number of queued packets; without it only bytes are limited. Excludes the packet
        /// in transmission.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        packets: Option<u32>,
        /// Maximum number of queued bytes, including Ethernet headers; without it only packets are
        /// limited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
    /// FIFO managed by CoDel.
    Codel(CodelConfig),
    /// One CoDel queue per flow, served by deficit round robin.
    FqCodel(FqCodelConfig),
}

impl QueueConfig {
    /// A drop-tail queue with a limit of `packets`.
    pub fn drop_tail(packets: u32) -> QueueConfig {
        QueueConfig::DropTail { packets: Some(packets), bytes: None }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match self {
            QueueConfig::DropTail { packets: None, bytes: None } => {
                Err(ConfigError::new("packets", "absent", "a drop-tail queue needs packets, bytes or both"))
            }
            QueueConfig::DropTail { packets, bytes } => {
                packets.map_or(Ok(()), |n| check_range("packets", n, 1, 100_000_000))?;
                bytes.map_or(Ok(()), |n| check_range("bytes", n, 1, 1 << 40))
            }
            QueueConfig::Codel(codel) => codel.check(),
            QueueConfig::FqCodel(fq) => fq.check(),
        }
    }
}

/// Packets that a queue dropped or marked since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueDrops {
    /// Dropped because the queue was full.
    pub overflow: u64,
    /// Dropped by CoDel because of their sojourn time.
    pub aqm: u64,
    /// Marked Congestion Experienced instead of dropped.
    pub marked: u64,
}

/// A queue of any kind.
#[derive(Clone, Debug)]
pub enum Queue<P> {
    /// Drop-tail FIFO.
    DropTail(DropTail<P>),
    /// FIFO managed by CoDel.
    Codel(Codel<P>),
    /// One CoDel queue per flow.
    FqCodel(Box<FqCodel<P>>),
}

impl<P: Packet> Queue<P> {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// Returns an error if a limit is out of range.
    pub fn new(config: &QueueConfig) -> Result<Queue<P>, ConfigError> {
        config.check()?;
        Ok(match config {
            QueueConfig::DropTail { packets, bytes } => Queue::DropTail(DropTail::new(*packets, *bytes)),
            QueueConfig::Codel(codel) => Queue::Codel(Codel::new(codel)),
            QueueConfig::FqCodel(fq) => Queue::FqCodel(Box::new(FqCodel::new(fq))),
        })
    }

    /// Queues a packet. Packets dropped as a result, this one or others, are counted in `drops`.
    pub fn push(&mut self, now: Time, packet: P, drops: &mut QueueDrops) {
        match self {
            Queue::DropTail(queue) => queue.push(packet, drops),
            Queue::Codel(queue) => queue.push(now, packet, drops),
            Queue::FqCodel(queue) => queue.push(now, packet, drops),
        }
    }

    /// Takes the next packet; `None` if the queue is empty. Packets that CoDel drops or marks are
    /// counted in `drops`.
    pub fn pop(&mut self, now: Time, drops: &mut QueueDrops) -> Option<P> {
        match self {
            Queue::DropTail(queue) => queue.pop(),
            Queue::Codel(queue) => queue.pop(now, drops),
            Queue::FqCodel(queue) => queue.pop(now, drops),
        }
    }

    /// Number of queued packets.
    pub fn packets(&self) -> usize {
        match self {
            Queue::DropTail(queue) => queue.packets(),
            Queue::Codel(queue) => queue.packets(),
            Queue::FqCodel(queue) => queue.packets(),
        }
    }

    /// Number of queued bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Queue::DropTail(queue) => queue.bytes(),
            Queue::Codel(queue) => queue.bytes(),
            Queue::FqCodel(queue) => queue.bytes(),
        }
    }
}
