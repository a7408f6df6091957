//! When the next packet can arrive: who drives a cell in real time need not wake for what happens in between.

use super::backlog::{Backlog, GROUP};
use super::cell::{AP, Cell};
use super::contention::NodeIndex;
use super::exchange::Channel;
use super::terms::Terms;
use crate::{Packet, Time};

impl<P: Packet> Cell<P> {
    /// A moment before which nothing arrives if nothing is done to the cell before, and as late as that can be told without
    /// running it; none if nothing will. At that moment there may still be no arrival: then ask again.
    ///
    /// [`next`](Cell::next) also tells of turns and responses: two moments more for each frame.
    pub fn next_arrival(&self) -> Option<Time> {
        if let Some(arrival) = self.early_arrival() {
            return Some(arrival);
        }
        let at = match self.channel {
            Channel::Frame { end } => end,
            Channel::Idle => match self.contention.next() {
                Time::MAX => Time::MAX,
                next => next.max(self.now).after_nanos(self.min_frame_at(next)),
            },
            // The sender draws a new back-off then, which may be none.
            Channel::Response { end, .. } => {
                let next = self.contention.earliest_from(end, |node| self.is_on_air(node));
                next.after_nanos(self.min_frame_ns)
            }
            // Each of the senders has an idleness of its own.
            Channel::Collision { end } => end.after_nanos(self.min_frame_ns),
        };
        Some(at).filter(|at| *at != Time::MAX)
    }

    /// The least that the frame can take whose turn comes at `at`, ns.
    fn min_frame_at(&self, at: Time) -> u64 {
        let mut winners = self.contention.winners(at);
        let alone = winners.next().filter(|_| winners.next().is_none());
        alone.and_then(|(node, _)| self.min_frame_of(node)).unwrap_or(self.min_frame_ns)
    }

    /// The least that a node's next frame can take, where its first packet tells.
    fn min_frame_of(&self, node: NodeIndex) -> Option<u64> {
        let terminal = &self.nodes[node];
        let Backlog::Shared(shared) = &terminal.backlog else { return None };
        let (receiver, bytes) = shared.first().filter(|_| terminal.unfinished.is_none())?;
        if receiver == GROUP {
            return None;
        }
        let terms = &self.nodes[if node == AP { receiver } else { node }].terms;
        Some(terms.ppdu_ns(terms.mpdu_bytes(bytes)))
    }

    /// Works out the least that any frame can take after which something arrives: one with a packet, or the request behind
    /// which the receiver passes on what it held back.
    pub(super) fn find_min_frame(&mut self) {
        let min_of = |terms: &Terms| terms.ppdu_ns(terms.mpdu_bytes(0)).min(terms.block_ack_req_ns);
        let stations = self.nodes[1..].iter().filter(|station| station.present);
        let least = stations.map(|station| min_of(&station.terms)).min();
        self.min_frame_ns = least.unwrap_or(0).min(super::terms::group_ns(&self.config, self.timing, 0));
    }
}
