//! Packets of the access category for voice (AC_VO): they have a queue and a channel access of
//! their own, and do not wait behind packets of best effort (10.23.2 of IEEE Std 802.11-2020).
//!
//! Simplifications: an MPDU is a frame of its own, in the order of arrival, whatever the sequence
//! of best effort; while the voice queue contends, the back-off of best effort is paused.

use super::backlog::{Item, Receiver};
use crate::Packet;
use std::collections::VecDeque;

/// Maximum number of packets in a node's voice queue: Linux's `txqueuelen`, which applies to each
/// band of `pfifo_fast`.
const MAX_PACKETS: usize = 1000;

/// A node's packets of AC_VO. The first one stays in the queue until it is acknowledged or given
/// up.
#[derive(Clone, Debug)]
pub(super) struct Voice<P> {
    waiting: VecDeque<(Receiver, Item<P>)>,
    /// Failed attempts to send the first one.
    attempts: u8,
}

impl<P: Packet> Voice<P> {
    pub(super) fn new() -> Voice<P> {
        Voice { waiting: VecDeque::new(), attempts: 0 }
    }

    pub(super) fn packets(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Queues a packet. Returns whether there was room.
    pub(super) fn push(&mut self, receiver: Receiver, item: Item<P>) -> bool {
        let room = self.waiting.len() < MAX_PACKETS;
        if room {
            self.waiting.push_back((receiver, item));
        }
        room
    }

    /// Receiver and length of the next packet, bytes.
    pub(super) fn first(&self) -> Option<(Receiver, u32)> {
        self.waiting.front().map(|(receiver, item)| (*receiver, item.bytes()))
    }

    /// Whether the next packet was sent before.
    pub(super) fn is_retry(&self) -> bool {
        self.attempts > 0
    }

    /// The first packet was received.
    pub(super) fn deliver(&mut self) -> Option<Item<P>> {
        self.attempts = 0;
        self.waiting.pop_front().map(|(_, item)| item)
    }

    /// The first packet was not received. Returns whether it was given up.
    pub(super) fn fail(&mut self, retry_limit: u8) -> bool {
        self.attempts = self.attempts.saturating_add(1);
        self.attempts >= retry_limit && self.deliver().is_some()
    }

    /// Discards all packets for `receiver` and returns their number.
    pub(super) fn clear(&mut self, receiver: Receiver) -> usize {
        let before = self.waiting.len();
        if self.first().is_some_and(|(first, _)| first == receiver) {
            self.attempts = 0;
        }
        self.waiting.retain(|(to, _)| *to != receiver);
        before - self.waiting.len()
    }
}
