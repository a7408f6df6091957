//! MPDUs from one node to one receiver, from dequeuing until they are acknowledged or discarded,
//! and in-order delivery.
//!
//! The originator's window (10.25.6.7) and the recipient's reordering buffer (10.25.6.6) are a
//! single list. An MPDU received out of order stays in it until all preceding ones are received, or
//! are discarded and the recipient has been informed.

use super::backlog::Item;
use crate::Packet;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be transmitted or retransmitted.
    Waiting,
    /// Received.
    Received,
    /// Discarded. With block acknowledgement the recipient has not been informed yet.
    GivenUp,
}

#[derive(Clone, Debug)]
struct Mpdu<P> {
    /// `None` after the MPDU was discarded.
    item: Option<Item<P>>,
    /// Length with MAC header, LLC and FCS.
    bytes: u32,
    attempts: u8,
    state: State,
}

/// The MPDUs for one receiver.
#[derive(Clone, Debug)]
pub(super) struct Link<P> {
    mpdus: VecDeque<Mpdu<P>>,
    waiting: usize,
    given_up: usize,
    /// Whether a BlockAckReq must be sent before anything else.
    pub(super) ask: bool,
}

impl<P: Packet> Link<P> {
    pub(super) fn new() -> Link<P> {
        Link { mpdus: VecDeque::new(), waiting: 0, given_up: 0, ask: false }
    }

    /// Whether a dequeued MPDU or a BlockAckReq has to be sent.
    pub(super) fn has_work(&self) -> bool {
        self.ask || self.waiting > 0
    }

    /// Number of MPDUs from the first one that is neither acknowledged nor discarded to the last
    /// one. They occupy the window.
    pub(super) fn outstanding(&self) -> usize {
        self.mpdus.len()
    }

    /// Length of each MPDU to be sent, oldest first, and whether it is a retransmission.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (u32, bool)> {
        self.mpdus
            .iter()
            .filter(|mpdu| mpdu.state == State::Waiting)
            .map(|mpdu| (mpdu.bytes, mpdu.attempts > 0))
    }

    /// Appends a packet as an MPDU of `bytes`.
    pub(super) fn push(&mut self, item: Item<P>, bytes: u32) {
        self.waiting += 1;
        self.mpdus.push_back(Mpdu { item: Some(item), bytes, attempts: 0, state: State::Waiting });
    }

    /// Records the transmission of the first `count` waiting MPDUs. `received` is called for each
    /// to determine whether it was received. Returns whether any was.
    pub(super) fn sent(&mut self, count: usize, mut received: impl FnMut() -> bool) -> bool {
        let mut any = false;
        let waiting = self.mpdus.iter_mut().filter(|mpdu| mpdu.state == State::Waiting).take(count);
        for mpdu in waiting {
            // A failed MPDU keeps waiting. Whether it is discarded is decided at the end of the
            // exchange.
            if received() {
                mpdu.state = State::Received;
                self.waiting -= 1;
                any = true;
            } else {
                mpdu.attempts = mpdu.attempts.saturating_add(1);
            }
        }
        any
    }

    /// Records that the first `count` waiting MPDUs were sent and none was received.
    pub(super) fn lost(&mut self, count: usize) {
        for mpdu in self.mpdus.iter_mut().filter(|mpdu| mpdu.state == State::Waiting).take(count) {
            mpdu.attempts = mpdu.attempts.saturating_add(1);
        }
    }

    /// Discards MPDUs after `limit` attempts and returns their number. If the recipient holds later
    /// MPDUs back, or may do so because of block acknowledgement, a BlockAckReq must inform it.
    /// Otherwise the discarded MPDUs are removed immediately.
    pub(super) fn give_up(&mut self, limit: u8, block_ack: bool) -> usize {
        let mut count = 0;
        for mpdu in
            self.mpdus.iter_mut().filter(|mpdu| mpdu.state == State::Waiting && mpdu.attempts >= limit)
        {
            mpdu.state = State::GivenUp;
            mpdu.item = None;
            count += 1;
        }
        self.waiting -= count;
        self.given_up += count;
        if count > 0 && (block_ack || self.mpdus.iter().any(|mpdu| mpdu.state == State::Received)) {
            self.ask = true;
        } else if count > 0 {
            self.asked();
        }
        count
    }

    /// Records that a BlockAckReq informed the recipient of the start of the window, which closes
    /// the gaps of discarded MPDUs.
    pub(super) fn asked(&mut self) {
        self.mpdus.retain(|mpdu| mpdu.state != State::GivenUp);
        self.given_up = 0;
        self.ask = false;
    }

    /// Takes the next packet that is deliverable in order.
    pub(super) fn deliver(&mut self) -> Option<Item<P>> {
        if self.mpdus.front()?.state != State::Received {
            return None;
        }
        self.mpdus.pop_front()?.item
    }

    /// Discards everything and returns the number of packets.
    pub(super) fn clear(&mut self) -> usize {
        let count = self.mpdus.len() - self.given_up;
        self.mpdus.clear();
        self.waiting = 0;
        self.given_up = 0;
        self.ask = false;
        count
    }
}
