//! From one node to one receiver: MPDUs taken out of the queue until they are acknowledged or given up, and delivered in order.
//!
//! The originator's window (10.25.6.7) and the recipient's reordering buffer (10.25.6.6) are one list here: an MPDU that was
//! received ahead of its turn stays in it until those before it are received, or given up and the recipient told so.

use super::backlog::Item;
use crate::Packet;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be sent, perhaps again.
    Waiting,
    /// At the receiver.
    Received,
    /// Given up; with block acknowledgement the recipient has yet to be told.
    GivenUp,
}

#[derive(Clone, Debug)]
struct Mpdu<P> {
    /// Gone when given up.
    item: Option<Item<P>>,
    /// With MAC header, LLC and FCS.
    bytes: u32,
    attempts: u8,
    state: State,
}

/// An MPDU list towards one receiver.
#[derive(Clone, Debug)]
pub(super) struct Link<P> {
    mpdus: VecDeque<Mpdu<P>>,
    waiting: usize,
    given_up: usize,
    /// A BlockAckReq is due before anything else.
    pub(super) ask: bool,
}

impl<P: Packet> Link<P> {
    pub(super) fn new() -> Link<P> {
        Link { mpdus: VecDeque::new(), waiting: 0, given_up: 0, ask: false }
    }

    /// Whether something has to be sent that was taken out of the queue before.
    pub(super) fn has_work(&self) -> bool {
        self.ask || self.waiting > 0
    }

    /// MPDUs from the first that is neither acknowledged nor given up to the last: they share the window.
    pub(super) fn outstanding(&self) -> usize {
        self.mpdus.len()
    }

    /// Sizes of the MPDUs to be sent, oldest first, and whether each was sent before.
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

    /// The first `count` waiting MPDUs were sent; `received` says of each whether it came through. Returns whether any did.
    pub(super) fn sent(&mut self, count: usize, mut received: impl FnMut() -> bool) -> bool {
        let mut any = false;
        let waiting = self.mpdus.iter_mut().filter(|mpdu| mpdu.state == State::Waiting).take(count);
        for mpdu in waiting {
            // What failed stays waiting; whether it is given up is settled when the exchange is over.
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

    /// The first `count` waiting MPDUs were sent, and none came through.
    pub(super) fn lost(&mut self, count: usize) {
        for mpdu in self.mpdus.iter_mut().filter(|mpdu| mpdu.state == State::Waiting).take(count) {
            mpdu.attempts = mpdu.attempts.saturating_add(1);
        }
    }

    /// Gives up MPDUs with `limit` attempts; how many. If the recipient holds others back for them, or may do so because frames
    /// are acknowledged in blocks, it has to be told by a BlockAckReq; else they are forgotten at once.
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

    /// The recipient was told by BlockAckReq where the window begins: holes of given-up MPDUs close.
    pub(super) fn asked(&mut self) {
        self.mpdus.retain(|mpdu| mpdu.state != State::GivenUp);
        self.given_up = 0;
        self.ask = false;
    }

    /// The next packet that is delivered in order.
    pub(super) fn deliver(&mut self) -> Option<Item<P>> {
        if self.mpdus.front()?.state != State::Received {
            return None;
        }
        self.mpdus.pop_front()?.item
    }

    /// Throws everything away; how many packets that was.
    pub(super) fn clear(&mut self) -> usize {
        let count = self.mpdus.len() - self.given_up;
        self.mpdus.clear();
        self.waiting = 0;
        self.given_up = 0;
        self.ask = false;
        count
    }
}
