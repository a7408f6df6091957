//! Lower bounds on the next arrival. A real-time driver of a cell need not wake up for events in
//! between.

use super::backlog::{Backlog, GROUP};
use super::cell::Cell;
use super::contention::NodeIndex;
use super::exchange::Channel;
use super::frame_terms::FrameTerms;
use crate::{Packet, Time};

impl<P: Packet> Cell<P> {
    /// The latest time that is known, without running the cell, to precede the next arrival,
    /// provided that nothing else is done to the cell. `None` if nothing will arrive. If there is
    /// no arrival at that time, call this again.
    ///
    /// [`next`](Cell::next) also reports channel accesses and responses, two further times per
    /// frame.
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
            // The sender then draws a new back-off, which may be 0.
            Channel::Response { end, .. } => {
                let next = self.contention.earliest_from(end, |node| self.is_on_air(node));
                next.after_nanos(self.min_frame_ns)
            }
            // Each sender has its own idle period.
            Channel::Collision { end } => end.after_nanos(self.min_frame_ns),
        };
        Some(at).filter(|at| *at != Time::MAX)
    }

    /// Minimum duration of the frame whose access is at `at`, ns.
    fn min_frame_at(&self, at: Time) -> u64 {
        let mut winners = self.contention.winners(at);
        let alone = winners.next().filter(|_| winners.next().is_none());
        alone.and_then(|(node, _)| self.min_frame_of(node)).unwrap_or(self.min_frame_ns)
    }

    /// Minimum duration of a node's next frame, ns; `None` if its first packet does not determine
    /// it.
    fn min_frame_of(&self, node: NodeIndex) -> Option<u64> {
        let terminal = &self.nodes[node];
        let (receiver, bytes) = match (terminal.voice.first(), &terminal.backlog) {
            (Some(first), _) => first,
            (None, Backlog::Shared(shared)) => shared.first().filter(|_| terminal.unfinished.is_none())?,
            (None, Backlog::PerReceiver(_)) => return None,
        };
        if receiver == GROUP {
            return None;
        }
        let terms = self.terms(node, receiver);
        Some(terms.ppdu_ns(terms.mpdu_bytes(bytes)))
    }

    /// Computes the minimum duration of a frame that leads to an arrival: a frame with a packet, or
    /// a BlockAckReq after which the receiver releases packets it held back.
    pub(super) fn find_min_frame(&mut self) {
        let min_of = |terms: &FrameTerms| terms.ppdu_ns(terms.mpdu_bytes(0)).min(terms.block_ack_req_ns);
        let stations = self.nodes[1..].iter().filter(|station| station.present);
        let least = stations.map(|station| min_of(&station.terms)).min();
        self.min_frame_ns =
            least.unwrap_or(0).min(super::frame_terms::group_ns(&self.config, self.timing, 0));
    }
}
