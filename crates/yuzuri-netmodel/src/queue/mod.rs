//! Queues for packets: drop-tail, CoDel (RFC 8289), FQ-CoDel (RFC 8290); shared by radio and wire.

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

/// Which queue, and its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueConfig {
    /// First in, first out; what comes to a full queue is dropped.
    DropTail {
        /// Most packets that wait; without it only bytes count. Not counted: the one in transmission.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        packets: Option<u32>,
        /// Most bytes (with Ethernet header) that wait; without it only packets count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
    /// First in, first out, governed by CoDel.
    Codel(CodelConfig),
    /// A CoDel queue per flow, served in turn.
    FqCodel(FqCodelConfig),
}

impl QueueConfig {
    /// Drop-tail with room for `packets`.
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

/// What a queue did with packets it could not keep, since its making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueDrops {
    /// Dropped because the queue was full.
    pub overflow: u64,
    /// Dropped by CoDel because packets waited too long.
    pub aqm: u64,
    /// Marked "congestion experienced" instead (not lost).
    pub marked: u64,
}

/// A queue of any kind.
#[derive(Clone, Debug)]
pub enum Queue<P> {
    /// First in, first out.
    DropTail(DropTail<P>),
    /// First in, first out, governed by CoDel.
    Codel(Codel<P>),
    /// A CoDel queue per flow.
    FqCodel(Box<FqCodel<P>>),
}

impl<P: Packet> Queue<P> {
    /// An empty queue.
    ///
    /// # Errors
    /// If a limit is out of range.
    pub fn new(config: &QueueConfig) -> Result<Queue<P>, ConfigError> {
        config.check()?;
        Ok(match config {
            QueueConfig::DropTail { packets, bytes } => Queue::DropTail(DropTail::new(*packets, *bytes)),
            QueueConfig::Codel(codel) => Queue::Codel(Codel::new(codel)),
            QueueConfig::FqCodel(fq) => Queue::FqCodel(Box::new(FqCodel::new(fq))),
        })
    }

    /// Puts a packet in. What that pushes out (this packet or others) is counted in `drops`.
    pub fn push(&mut self, now: Time, packet: P, drops: &mut QueueDrops) {
        match self {
            Queue::DropTail(queue) => queue.push(packet, drops),
            Queue::Codel(queue) => queue.push(now, packet, drops),
            Queue::FqCodel(queue) => queue.push(now, packet, drops),
        }
    }

    /// Takes the next packet out. What CoDel drops on the way is counted in `drops`; `None` if nothing is left.
    pub fn pop(&mut self, now: Time, drops: &mut QueueDrops) -> Option<P> {
        match self {
            Queue::DropTail(queue) => queue.pop(),
            Queue::Codel(queue) => queue.pop(now, drops),
            Queue::FqCodel(queue) => queue.pop(now, drops),
        }
    }

    /// Packets waiting.
    pub fn packets(&self) -> usize {
        match self {
            Queue::DropTail(queue) => queue.packets(),
            Queue::Codel(queue) => queue.packets(),
            Queue::FqCodel(queue) => queue.packets(),
        }
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> u64 {
        match self {
            Queue::DropTail(queue) => queue.bytes(),
            Queue::Codel(queue) => queue.bytes(),
            Queue::FqCodel(queue) => queue.bytes(),
        }
    }
}
