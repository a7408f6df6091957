//! Frame exchanges on the channel: single transmissions with or without a response, and collisions.

use super::backlog::{BacklogDrops, GROUP, Item, Receiver};
use super::cell::{AP, Cell};
use super::contention::{Category, NodeIndex};
use super::frame_terms::{Psdu, group_ns};
use super::ledger::{Ledger, Purpose, node_account};
use super::{Node, To};
use crate::{Arrival, Packet, Time};

/// State of the channel and its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Channel {
    Idle,
    /// One node transmits. `end` is the end of the data frame, after RTS and CTS if any.
    Frame {
        end: Time,
    },
    /// The receiver responds.
    Response {
        begin: Time,
        end: Time,
    },
    /// Several nodes transmit simultaneously.
    Collision {
        end: Time,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data { receiver: Receiver, mpdus: usize, retries: u64 },
    BlockAckReq { receiver: Receiver },
    Voice { receiver: Receiver, retry: bool },
    Group,
}

/// A transmitting node.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnAir {
    node: NodeIndex,
    kind: Kind,
    begin: Time,
    /// RTS, CTS and the SIFS after each, ns; 0 without protection.
    protection_ns: u64,
    rts_ns: u64,
    frame_ns: u64,
    /// SIFS and response, ns; 0 if no response is expected.
    response_ns: u64,
    /// Whether the sender or receiver left in the meantime, so that nothing is delivered.
    cancelled: bool,
}

impl OnAir {
    /// End of the part that can collide: the RTS if there is one, otherwise the frame.
    fn first_end(&self) -> Time {
        self.begin.after_nanos(if self.protection_ns > 0 { self.rts_ns } else { self.frame_ns })
    }
}

impl<P: Packet> Cell<P> {
    /// Time of the next event on the channel; [`Time::MAX`] if there is none.
    pub(super) fn due(&self) -> Time {
        match self.channel {
            // A change of rate or parameters may have moved an access into the past; it then
            // happens now.
            Channel::Idle => self.contention.next().max(self.now),
            Channel::Frame { end } | Channel::Response { end, .. } | Channel::Collision { end } => end,
        }
    }

    pub(super) fn is_on_air(&self, node: NodeIndex) -> bool {
        self.on_air.iter().any(|on_air| on_air.node == node)
    }

    /// Whether a node has just received a single-MPDU frame and waits for SIFS before it responds.
    /// The node senses an idle channel: nobody transmits, and a frame addressed to it does not set
    /// its NAV (10.3.2.4). A frame that it queues at this moment, for example segments triggered by
    /// the received ACK, needs no new back-off. MPDUs of an aggregate are assumed to be passed up
    /// one by one while they arrive, all but the last while the channel is busy.
    pub(super) fn is_about_to_respond(&self, node: NodeIndex, now: Time) -> bool {
        let (Channel::Response { begin, .. }, Some(one)) = (self.channel, self.on_air.first()) else {
            return false;
        };
        let single = matches!(one.kind, Kind::Data { mpdus: 1, .. } | Kind::Voice { .. });
        single && now < begin && self.receiver_of(one) == node
    }

    fn receiver_of(&self, one: &OnAir) -> NodeIndex {
        match one.kind {
            Kind::Data { receiver, .. } | Kind::BlockAckReq { receiver } | Kind::Voice { receiver, .. }
                if one.node == AP =>
            {
                receiver
            }
            _ => AP,
        }
    }

    /// Cancels frames from or to a node that left.
    pub(super) fn cancel(&mut self, node: NodeIndex) {
        for index in 0..self.on_air.len() {
            let concerned = self.on_air[index].node == node || self.receiver_of(&self.on_air[index]) == node;
            self.on_air[index].cancelled |= concerned;
        }
    }

    /// Processes the event at `at`.
    pub(super) fn step(&mut self, at: Time, out: &mut Vec<Arrival<P, Node>>) {
        self.ledger.settle(at, self.contention.has_contenders(), &mut self.account);
        match self.channel {
            Channel::Idle => self.begin(at),
            Channel::Frame { .. } => self.frame_ends(at, out),
            Channel::Response { .. } => self.response_ends(at),
            Channel::Collision { .. } => self.collision_ends(at),
        }
    }

    /// Starts a transmission after the back-off of one or more nodes has expired.
    fn begin(&mut self, at: Time) {
        let mut winners = std::mem::take(&mut self.winners);
        winners.clear();
        winners.extend(self.contention.winners(at));
        for &(node, begin) in &winners {
            match self.build(at, node, begin.max(at)) {
                Some(on_air) => self.on_air.push(on_air),
                // CoDel dropped all packets.
                None => self.contention.withdraw(node),
            }
        }
        self.winners = winners;
        if self.on_air.is_empty() {
            self.contention.find_next();
            return;
        }
        let on_air = &self.on_air;
        self.contention.count_down(at, |node| on_air.iter().any(|one| one.node == node));
        self.account.busy_periods += 1;
        for index in 0..self.on_air.len() {
            self.count_access(index);
        }
        if self.on_air.len() == 1 {
            self.begin_alone(at);
        } else {
            self.begin_collision(at);
        }
    }

    fn begin_alone(&mut self, at: Time) {
        let one = self.on_air[0];
        let protected = at.after_nanos(one.protection_ns);
        if one.protection_ns > 0 {
            self.ledger.add(protected, one.node, Purpose::Protection);
        }
        let end = protected.after_nanos(one.frame_ns);
        let purpose = match one.kind {
            Kind::Data { .. } | Kind::Voice { .. } => Purpose::Data,
            Kind::BlockAckReq { .. } => Purpose::BlockAckReq,
            Kind::Group => Purpose::Group,
        };
        self.ledger.add(end, one.node, purpose);
        self.channel = Channel::Frame { end };
    }

    fn begin_collision(&mut self, at: Time) {
        self.account.collisions += 1;
        self.ends.clear();
        self.ends.extend(self.on_air.iter().map(|one| (one.first_end(), one.node)));
        self.ledger.add_collision(at, &mut self.ends);
        let end = self.ends.last().map_or(at, |(end, _)| *end);
        self.channel = Channel::Collision { end };
    }

    fn count_access(&mut self, index: usize) {
        let (collides, one) = (self.on_air.len() > 1, self.on_air[index]);
        let account = node_account(&mut self.account, one.node);
        account.accesses += 1;
        account.collisions += u64::from(collides);
        let (mpdus, retries) = match one.kind {
            Kind::Data { mpdus, retries, .. } if !(collides && one.protection_ns > 0) => (mpdus, retries),
            Kind::Voice { retry, .. } => (1, u64::from(retry)),
            _ => return,
        };
        account.frames += 1;
        account.mpdus += mpdus as u64;
        account.retries += retries;
    }

    /// Builds the next frame of a node; `None` if its queue turns out to be empty.
    fn build(&mut self, now: Time, node: NodeIndex, begin: Time) -> Option<OnAir> {
        let mut drops = BacklogDrops::default();
        let packets = self.nodes[node].packets();
        let built = self.build_frame(now, node, begin, &mut drops);
        let account = node_account(&mut self.account, node);
        account.count_drops(&drops);
        let left = self.nodes[node].packets();
        if left != packets {
            account.queue.set(now, left);
        }
        built
    }

    fn build_frame(
        &mut self,
        now: Time,
        node: NodeIndex,
        begin: Time,
        drops: &mut BacklogDrops,
    ) -> Option<OnAir> {
        let quiet = OnAir {
            node,
            kind: Kind::Group,
            begin,
            protection_ns: 0,
            rts_ns: 0,
            frame_ns: 0,
            response_ns: 0,
            cancelled: false,
        };
        if let Some((receiver, bytes)) = self.nodes[node].voice.first() {
            let terms = self.terms(node, receiver);
            return Some(OnAir {
                kind: Kind::Voice { receiver, retry: self.nodes[node].voice.is_retry() },
                frame_ns: terms.ppdu_ns(terms.mpdu_bytes(bytes)),
                response_ns: terms.sifs_ns + terms.response_ns(1),
                ..quiet
            });
        }
        loop {
            let unfinished = self.nodes[node].unfinished;
            let receiver = match unfinished {
                Some(receiver) => receiver,
                None => self.nodes[node].backlog.next_receiver()?,
            };
            if receiver == GROUP {
                let Some(item) = self.nodes[node].backlog.pop(now, GROUP, drops) else { continue };
                self.nodes[node].backlog.served(GROUP);
                let account = node_account(&mut self.account, node);
                account.group.sent += 1;
                account.group.queued -= 1;
                let frame_ns = group_ns(&self.config, self.timing, item.bytes());
                self.group_on_air = Some(item);
                return Some(OnAir { frame_ns, ..quiet });
            }
            if self.nodes[node].links[receiver].ask {
                let terms = self.terms(node, receiver);
                return Some(OnAir {
                    kind: Kind::BlockAckReq { receiver },
                    frame_ns: terms.block_ack_req_ns,
                    response_ns: terms.sifs_ns + terms.block_ack_ns(),
                    ..quiet
                });
            }
            let (psdu, retries) = self.fill(now, node, receiver, drops);
            if psdu.mpdus == 0 {
                continue;
            }
            self.nodes[node].backlog.served(receiver);
            let terms = self.terms(node, receiver);
            let protection_ns = if terms.is_protected(psdu.bytes) {
                terms.rts_ns + terms.cts_ns + 2 * terms.sifs_ns
            } else {
                0
            };
            return Some(OnAir {
                kind: Kind::Data { receiver, mpdus: psdu.mpdus, retries },
                protection_ns,
                rts_ns: terms.rts_ns,
                frame_ns: terms.ppdu_ns(psdu.bytes),
                response_ns: terms.sifs_ns + terms.response_ns(psdu.mpdus),
                ..quiet
            });
        }
    }

    /// Collects the MPDUs of a PPDU: first failed ones, oldest first, then new ones from the queue.
    fn fill(
        &mut self,
        now: Time,
        node: NodeIndex,
        receiver: Receiver,
        drops: &mut BacklogDrops,
    ) -> (Psdu, u64) {
        let (ap, stations) = self.nodes.split_at_mut(1);
        let (link, backlog, terms) = if node == AP {
            (&mut ap[0].links[receiver], &mut ap[0].backlog, &stations[receiver - 1].terms)
        } else {
            let terminal = &mut stations[node - 1];
            (&mut terminal.links[receiver], &mut terminal.backlog, &terminal.terms)
        };
        let mut psdu = Psdu::default();
        let mut retries = 0;
        for (bytes, again) in link.waiting() {
            if !psdu.add(bytes, terms) {
                return (psdu, retries);
            }
            retries += u64::from(again);
        }
        let account = node_account(&mut self.account, node);
        while psdu.mpdus < terms.max_mpdus && link.outstanding() < terms.window {
            let Some(item) = backlog.pop(now, receiver, drops) else { break };
            let bytes = terms.mpdu_bytes(item.bytes());
            if !psdu.add(bytes, terms) {
                backlog.put_back(now, receiver, item);
                break;
            }
            link.push(item, bytes);
            account.in_mac += 1;
        }
        (psdu, retries)
    }

    /// Ends a frame without collision. All, some or none of its MPDUs were received.
    fn frame_ends(&mut self, at: Time, out: &mut Vec<Arrival<P, Node>>) {
        let one = self.on_air[0];
        let (receiver, mpdus) = match one.kind {
            Kind::Group => return self.group_frame_ends(at, out),
            Kind::BlockAckReq { receiver } => (receiver, 0),
            Kind::Data { receiver, mpdus, .. } => (receiver, mpdus),
            Kind::Voice { receiver, .. } => (receiver, 1),
        };
        let (station, to) = if one.node == AP { (receiver, receiver) } else { (one.node, AP) };
        let error_rate = self.nodes[station].mpdu_error_rate;
        let answered = if one.cancelled {
            false
        } else {
            let random = &mut self.random;
            let link = &mut self.nodes[one.node].links[receiver];
            match one.kind {
                Kind::Data { .. } => link.sent(mpdus, || !random.bernoulli(error_rate)),
                Kind::Voice { .. } => !random.bernoulli(error_rate),
                // Control frames at basic rates are assumed to be received.
                _ => {
                    link.asked();
                    true
                }
            }
        };
        if answered {
            let end = at.after_nanos(one.response_ns);
            self.ledger.add(end, one.node, Purpose::Response);
            self.channel = Channel::Response { begin: at.after_nanos(self.timing.sifs_ns()), end };
            if matches!(one.kind, Kind::Voice { .. }) {
                let item = self.nodes[one.node].voice.deliver();
                let account = node_account(&mut self.account, one.node);
                account.queue.set(at, self.nodes[one.node].packets());
                if let Some(item) = item {
                    account.sent += 1;
                    account.sent_bytes += u64::from(item.bytes());
                    self.arrive(at, to, item, out);
                }
                return;
            }
            while let Some(item) = self.nodes[one.node].links[receiver].deliver() {
                let account = node_account(&mut self.account, one.node);
                account.sent += 1;
                account.sent_bytes += u64::from(item.bytes());
                account.in_mac -= 1;
                self.arrive(at, to, item, out);
            }
            return;
        }
        let account = node_account(&mut self.account, one.node);
        account.unanswered += 1;
        let purpose = if mpdus == 0 { Purpose::BlockAckReq } else { Purpose::Data };
        Ledger::move_airtime(account, one.frame_ns, purpose, Purpose::Failed);
        // The frame's Duration field sets the other nodes' NAV (10.3.2.4).
        let idle_from = at.after_nanos(one.response_ns);
        self.fail(at, one, mpdus > 1, at.after_nanos(self.timing.response_timeout_ns()));
        self.end_exchange(idle_from);
    }

    fn group_frame_ends(&mut self, at: Time, out: &mut Vec<Arrival<P, Node>>) {
        let one = self.on_air[0];
        if let Some(item) = self.group_on_air.take() {
            for station in 1..self.nodes.len() {
                // A station ignores frames whose source address is its own.
                if !self.nodes[station].present || item.origin == Self::node(station) {
                    continue;
                }
                if self.random.bernoulli(self.nodes[station].mpdu_error_rate) {
                    self.account.ap.group.copies_lost += 1;
                } else {
                    self.account.ap.group.copies += 1;
                    self.arrive(at, station, item.clone(), out);
                }
            }
        }
        self.finish(at, one.node, true, None);
        self.end_exchange(at);
    }

    /// Ends an exchange with a response: at least part of the frame was received.
    fn response_ends(&mut self, at: Time) {
        let one = self.on_air[0];
        if let Kind::Data { receiver, .. } | Kind::BlockAckReq { receiver } | Kind::Voice { receiver, .. } =
            one.kind
        {
            if !one.cancelled && !matches!(one.kind, Kind::Voice { .. }) {
                self.settle_link(one.node, receiver, false);
            }
            let station = if one.node == AP { receiver } else { one.node };
            self.nodes[AP].backlog.charge(station, at.nanos_since(one.begin));
        }
        self.finish(at, one.node, true, None);
        self.end_exchange(at);
    }

    fn collision_ends(&mut self, at: Time) {
        let timeout_ns = self.timing.response_timeout_ns();
        for index in 0..self.on_air.len() {
            let one = self.on_air[index];
            if let (Kind::Data { receiver, mpdus, .. }, false) = (one.kind, one.cancelled) {
                self.nodes[one.node].links[receiver].lost(mpdus);
            }
            if one.kind == Kind::Group {
                // Group-addressed frames have no response, so the sender does not detect the loss.
                if let Some(item) = self.group_on_air.take() {
                    let present = self.nodes[1..].iter().filter(|station| station.present).count() as u64;
                    let own = matches!(item.origin, Node::Station(number) if self.is_present(number));
                    self.account.ap.group.copies_lost += present - u64::from(own);
                }
                self.finish(at, one.node, true, Some(at));
            } else {
                // A sender waits for the response until its timeout, and no longer (10.23.2.4).
                // After a collided RTS no block acknowledgement was due.
                let missed = one.protection_ns == 0 && matches!(one.kind, Kind::Data { mpdus: 2.., .. });
                self.fail(at, one, missed, one.first_end().after_nanos(timeout_ns).max(at));
            }
        }
        // Nodes that received a corrupted frame wait for EIFS (10.3.2.3.7).
        self.end_exchange(at.after_nanos(self.timing.eifs_extra_ns()));
    }

    /// Ends an exchange without a response. The sender waited for it until `own_idle_from`.
    fn fail(&mut self, at: Time, one: OnAir, block_ack_missed: bool, own_idle_from: Time) {
        if let Kind::Data { receiver, .. } | Kind::Voice { receiver, .. } = one.kind {
            match one.kind {
                _ if one.cancelled => {}
                Kind::Voice { .. } => self.fail_voice(at, one.node),
                _ => self.settle_link(one.node, receiver, block_ack_missed),
            }
            if one.node == AP {
                self.nodes[AP].backlog.charge(receiver, at.nanos_since(one.begin));
            }
        }
        self.finish(at, one.node, false, Some(own_idle_from));
    }

    fn fail_voice(&mut self, at: Time, node: NodeIndex) {
        let given_up = self.nodes[node].voice.fail(self.config.retry_limit);
        let account = node_account(&mut self.account, node);
        account.drops.retry += u64::from(given_up);
        account.queue.set(at, self.nodes[node].packets());
    }

    /// Discards MPDUs at the retry limit and records the remaining work.
    fn settle_link(&mut self, node: NodeIndex, receiver: Receiver, block_ack_missed: bool) {
        let block_ack = self.terms(node, receiver).block_ack;
        let link = &mut self.nodes[node].links[receiver];
        let given_up = link.give_up(self.config.retry_limit, block_ack) as u64;
        link.ask |= block_ack_missed && self.config.request_missed_block_ack;
        self.nodes[node].unfinished = link.has_work().then_some(receiver);
        let account = node_account(&mut self.account, node);
        account.drops.retry += given_up;
        account.in_mac -= given_up;
    }

    fn finish(&mut self, at: Time, node: NodeIndex, success: bool, own_idle_from: Option<Time>) {
        let next = match &self.nodes[node] {
            terminal if !terminal.present || !self.has_work(node) => None,
            terminal if terminal.voice.is_empty() => Some(Category::BestEffort),
            _ => Some(Category::Voice),
        };
        self.contention.finish(node, at, success, self.config.retry_limit, own_idle_from, next);
    }

    fn end_exchange(&mut self, idle_from: Time) {
        self.on_air.clear();
        self.channel = Channel::Idle;
        self.contention.idle(idle_from);
    }

    /// Handles a packet that a node has received: delivers it or, at the access point, relays it.
    fn arrive(&mut self, at: Time, node: NodeIndex, item: Item<P>, out: &mut Vec<Arrival<P, Node>>) {
        let account = node_account(&mut self.account, node);
        account.received += 1;
        account.received_bytes += u64::from(item.bytes());
        if node != AP || item.to == To::One(Node::Ap) {
            out.push(Arrival { at, at_node: Self::node(node), from: item.origin, packet: item.packet });
            return;
        }
        if item.to == To::Group {
            out.push(Arrival { at, at_node: Node::Ap, from: item.origin, packet: item.packet.clone() });
        }
        self.enqueue(at, AP, item);
    }
}
