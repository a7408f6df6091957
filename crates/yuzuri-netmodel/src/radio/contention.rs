//! Channel access: back-off by DCF (10.3.4) and EDCA (10.23.2) of IEEE Std 802.11-2020.
//!
//! Slots are not simulated one by one. A node with a frame transmits at (start of idle period) +
//! AIFS + slots. The next transmission is the minimum over all nodes, and the slots that the others
//! counted down are a quotient.

use super::Access;
use super::timing::{CCA_NS, SLOT_NS, Timing};
use crate::Time;
use crate::random::Random;

/// Index of a node in the cell: 0 is the access point, n + 1 is station n.
pub(super) type NodeIndex = usize;

#[derive(Clone, Debug)]
struct Contender {
    access: Access,
    /// Whether EDCA applies. EDCA decrements the counter at the end of AIFS, DCF at the end of the
    /// first slot after DIFS (10.23.2.4).
    edca: bool,
    cw: u16,
    /// Consecutive failures (QSRC). At the retry limit the contention window is reset.
    failures: u8,
    /// Remaining back-off slots.
    slots: u32,
    /// Time since when the node has a frame to send.
    ready: Option<Time>,
    /// Start of the idle period for this node if it differs from that of the others.
    own_idle_from: Option<Time>,
    listed: bool,
    /// While the node contends for a voice packet: its state of best effort.
    paused: Option<Paused>,
}

/// An access category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    BestEffort,
    Voice,
}

/// The back-off of best effort while a voice packet takes precedence.
#[derive(Clone, Copy, Debug)]
struct Paused {
    access: Access,
    cw: u16,
    failures: u8,
    slots: u32,
}

impl Contender {
    fn pause(&mut self) {
        let Contender { access, cw, failures, slots, .. } = *self;
        self.paused = Some(Paused { access, cw, failures, slots });
        self.access = Access::VOICE;
        (self.cw, self.failures, self.slots) = (Access::VOICE.cw_min, 0, 0);
    }

    fn resume(&mut self) {
        if let Some(Paused { access, cw, failures, slots }) = self.paused.take() {
            (self.access, self.cw, self.failures, self.slots) = (access, cw, failures, slots);
        }
    }
}

/// Back-off state of all nodes.
#[derive(Clone, Debug)]
pub(super) struct Contention {
    contenders: Vec<Contender>,
    /// Nodes with a frame or a running back-off.
    listed: Vec<NodeIndex>,
    /// Nodes with an `own_idle_from`.
    with_own_idle_time: Vec<NodeIndex>,
    ready: usize,
    idle_from: Time,
    next: Time,
    timing: Timing,
    random: Random,
}

impl Contention {
    pub(super) fn new(timing: Timing, random: Random) -> Contention {
        Contention {
            contenders: Vec::new(),
            listed: Vec::new(),
            with_own_idle_time: Vec::new(),
            ready: 0,
            idle_from: Time::ZERO,
            next: Time::MAX,
            timing,
            random,
        }
    }

    /// Adds a node.
    pub(super) fn add(&mut self, access: Access, edca: bool) {
        self.contenders.push(Contender {
            access,
            edca,
            cw: access.cw_min,
            failures: 0,
            slots: 0,
            ready: None,
            own_idle_from: None,
            listed: false,
            paused: None,
        });
    }

    /// Changes a node's access parameters. A running back-off continues.
    pub(super) fn set_access(&mut self, node: NodeIndex, access: Access, edca: bool) {
        let contender = &mut self.contenders[node];
        contender.edca = edca;
        let (before, cw) = match &mut contender.paused {
            Some(paused) => (&mut paused.access, &mut paused.cw),
            None => (&mut contender.access, &mut contender.cw),
        };
        *before = access;
        *cw = (*cw).clamp(access.cw_min, access.cw_max);
    }

    /// Whether any node contends for the channel.
    pub(super) fn has_contenders(&self) -> bool {
        self.ready > 0
    }

    /// Start of the next transmission if nothing changes; [`Time::MAX`] if there is none.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Lower bound on the start of the next transmission if the channel is idle from `from` on. For
    /// waiting nodes the remaining back-off is known. A node that currently transmits draws a new
    /// back-off, which may be 0.
    pub(super) fn earliest_from(&self, from: Time, transmits: impl Fn(NodeIndex) -> bool) -> Time {
        let begins = self.contenders.iter().enumerate().filter_map(|(node, contender)| {
            let aifsn = contender.access.aifsn;
            let (aifsn, slots) = match (transmits(node), contender.ready) {
                // A voice packet may be next.
                (true, _) => (aifsn.min(Access::VOICE.aifsn), 0),
                (false, Some(_)) => (aifsn, u64::from(contender.slots)),
                (false, None) => return None,
            };
            Some(from.after_nanos(self.timing.aifs_ns(aifsn) + slots * SLOT_NS))
        });
        begins.min().unwrap_or(Time::MAX)
    }

    /// Registers that a node has a frame to send at `now`. A node that had none before and finds
    /// the channel busy draws a back-off unless one is running (10.3.4.2, 10.23.2.2). `in_exchange`
    /// says whether the channel is in use, regardless of what the node senses.
    pub(super) fn request(&mut self, node: NodeIndex, now: Time, busy: bool, in_exchange: bool) {
        let contender = &mut self.contenders[node];
        if contender.ready.is_some() {
            return;
        }
        contender.ready = Some(now);
        self.ready += 1;
        if busy && contender.slots == 0 {
            contender.slots = self.random.up_to(u32::from(contender.cw));
        }
        self.list(node);
        if !in_exchange {
            self.next = self.next.min(self.access_at(node));
        }
    }

    /// Registers that a node has a voice packet to send at `now`; the arguments are those of
    /// [`request`](Self::request).
    pub(super) fn preempt_by_voice(&mut self, node: NodeIndex, now: Time, busy: bool, in_exchange: bool) {
        let contender = &mut self.contenders[node];
        if contender.paused.is_some() {
            return;
        }
        contender.pause();
        self.ready += usize::from(contender.ready.is_none());
        contender.ready = Some(now);
        if busy {
            contender.slots = self.random.up_to(u32::from(contender.cw));
        }
        self.list(node);
        if !in_exchange {
            self.find_next();
        }
    }

    /// Resumes best effort at a node whose voice packets were discarded.
    pub(super) fn resume_best_effort(&mut self, node: NodeIndex) {
        self.contenders[node].resume();
    }

    /// Withdraws a node that has nothing to send.
    pub(super) fn withdraw(&mut self, node: NodeIndex) {
        let contender = &mut self.contenders[node];
        if contender.ready.take().is_some() {
            self.ready -= 1;
        }
    }

    /// Resets a node that has left or whose entry is reused.
    pub(super) fn reset(&mut self, node: NodeIndex) {
        self.withdraw(node);
        let contender = &mut self.contenders[node];
        contender.resume();
        contender.cw = contender.access.cw_min;
        contender.failures = 0;
        contender.slots = 0;
    }

    /// Nodes that transmit at `at`, the time returned by `next`, and the start of each
    /// transmission. Includes nodes whose slot begins before they can sense the first transmission.
    pub(super) fn winners(&self, at: Time) -> impl Iterator<Item = (NodeIndex, Time)> {
        let ready = self.listed.iter().filter(|node| self.contenders[**node].ready.is_some());
        let begins = ready.map(|node| (*node, self.access_at(*node)));
        begins.filter(move |(_, begin)| *begin < at.after_nanos(CCA_NS))
    }

    /// Freezes the back-off of the other nodes when the channel becomes busy at `at`. `transmits`
    /// identifies the transmitting nodes.
    pub(super) fn count_down(&mut self, at: Time, transmits: impl Fn(NodeIndex) -> bool) {
        let mut position = 0;
        while position < self.listed.len() {
            let node = self.listed[position];
            let start = self.start(node);
            let contender = &mut self.contenders[node];
            if !transmits(node) && at >= start {
                let passed = at.nanos_since(start) / SLOT_NS + u64::from(contender.edca);
                contender.slots = contender.slots.saturating_sub(u32::try_from(passed).unwrap_or(u32::MAX));
            }
            if contender.slots == 0 && contender.ready.is_none() && !transmits(node) {
                contender.listed = false;
                self.listed.swap_remove(position);
            } else {
                position += 1;
            }
        }
        for node in self.with_own_idle_time.drain(..) {
            self.contenders[node].own_idle_from = None;
        }
    }

    /// Ends a node's transmission: adjusts its contention window and draws a back-off (10.23.2.2).
    /// `own_idle_from` is the start of its idle period if it differs from that of the others;
    /// `next` is what it sends next; `None`: it has nothing to send.
    pub(super) fn finish(
        &mut self,
        node: NodeIndex,
        now: Time,
        success: bool,
        retry_limit: u8,
        own_idle_from: Option<Time>,
        next: Option<Category>,
    ) {
        self.withdraw(node);
        let contender = &mut self.contenders[node];
        contender.failures = if success { 0 } else { contender.failures.saturating_add(1) };
        if contender.failures == 0 || contender.failures >= retry_limit {
            contender.failures = 0;
            contender.cw = contender.access.cw_min;
        } else {
            contender.cw = (2 * contender.cw + 1).min(contender.access.cw_max);
        }
        contender.slots = self.random.up_to(u32::from(contender.cw));
        match (contender.paused.is_some(), next == Some(Category::Voice)) {
            (true, false) => contender.resume(),
            (false, true) => {
                contender.pause();
                contender.slots = self.random.up_to(u32::from(contender.cw));
            }
            _ => {}
        }
        contender.own_idle_from = own_idle_from;
        if next.is_some() {
            contender.ready = Some(now);
            self.ready += 1;
        }
        if own_idle_from.is_some() {
            self.with_own_idle_time.push(node);
        }
        if next.is_some() || contender.slots > 0 {
            self.list(node);
        }
    }

    /// Starts an idle period at `from` for all nodes except those that finished with an
    /// `own_idle_from`.
    pub(super) fn idle(&mut self, from: Time) {
        self.idle_from = from;
        self.find_next();
    }

    /// Recomputes the next transmission.
    pub(super) fn find_next(&mut self) {
        let ready = self.listed.iter().filter(|node| self.contenders[**node].ready.is_some());
        self.next = ready.map(|node| self.access_at(*node)).min().unwrap_or(Time::MAX);
    }

    fn list(&mut self, node: NodeIndex) {
        if !self.contenders[node].listed {
            self.contenders[node].listed = true;
            self.listed.push(node);
        }
    }

    /// End of the node's AIFS.
    fn start(&self, node: NodeIndex) -> Time {
        let contender = &self.contenders[node];
        let from = contender.own_idle_from.unwrap_or(self.idle_from);
        from.after_nanos(self.timing.aifs_ns(contender.access.aifsn))
    }

    /// When a node transmits if no other does before.
    fn access_at(&self, node: NodeIndex) -> Time {
        let contender = &self.contenders[node];
        let start = self.start(node);
        let counted = start.after_nanos(u64::from(contender.slots) * SLOT_NS);
        let ready = contender.ready.unwrap_or(counted);
        if ready <= counted {
            counted
        } else if contender.edca {
            // EDCA starts only on slot boundaries (10.23.2.4). DCF starts immediately after DIFS of
            // idle channel (10.3.4.2).
            start.after_nanos(ready.nanos_since(start).div_ceil(SLOT_NS) * SLOT_NS)
        } else {
            ready
        }
    }
}
