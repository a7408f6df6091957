//! The leader election. Only terminals that send take part: the leader is then awake, and the
//! others need no leader.
//!
//! A terminal that begins to send and finds no leader announces itself and, if nobody answers,
//! leads. A leader stays until it stops sending, leaves or falls silent; its summaries name the
//! deputy that then takes over. Two leaders that hear each other answer each other's challenges,
//! and the one with the higher (rank, ID) yields.
//!
//! An access point leads from its start, without sending anything itself: every terminal yields to
//! it, and none takes over from it while it is heard. Of two access points the one with the higher
//! (rank, ID) follows the other.

use super::config::*;
use super::member::Member;
use super::session::Admission;
use crate::message::{Body, Message};
use crate::{Moment, NodeId, Report, Summary};
use std::net::SocketAddr;
use std::time::Duration;

/// The role of this terminal in its group.
#[derive(Debug, Clone)]
pub(super) enum Role {
    /// It does not send.
    Idle,
    /// It sends and looks for a leader.
    Seeking(Seeking),
    /// It sends reports to a leader.
    Following(Following),
    /// It is the leader.
    Leading(Leading),
}

#[derive(Debug, Clone)]
pub(super) struct Seeking {
    /// A successor was named; until this time only the successor may claim leadership.
    waits_until: Option<Moment>,
    claim_at: Moment,
    claim_at_latest: Moment,
    /// When to send the report again to leaders that did not answer.
    again_at: Moment,
}

#[derive(Debug, Clone)]
pub(super) struct Following {
    pub leader: NodeId,
    /// When the leader was last heard.
    heard: Moment,
    summary_interval: Duration,
    report_interval: Duration,
    /// Whether this terminal takes over if the leader falls silent.
    deputy: bool,
    /// Whether the leader was challenged since it was last heard.
    challenged: bool,
    /// Whether the leader has answered a report, which shows that it counts this terminal.
    confirmed: bool,
    reported: Option<(Moment, Report)>,
    /// When a report was last sent early.
    hurried: Option<Moment>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Leading {
    /// The time and content of the last summary.
    sent: Option<(Moment, Summary)>,
    report_interval_ds: u8,
    deputy: Option<NodeId>,
}

/// The parts of a message that the election needs.
pub(super) struct ElectionMessage {
    pub node: NodeId,
    pub from: SocketAddr,
    pub challenge: Option<u32>,
    pub admission: Admission,
    pub addressed: bool,
    pub asks: bool,
    pub leads: bool,
    pub sends: bool,
    pub rank: u8,
    pub access_point: bool,
    /// The leader that it names.
    pub leader: Option<NodeId>,
}

impl ElectionMessage {
    pub fn of(message: &Message, from: SocketAddr, admission: Admission) -> ElectionMessage {
        ElectionMessage {
            node: message.node,
            from,
            challenge: message.challenge,
            admission,
            addressed: message.addressed.is_some(),
            asks: message.asks,
            leads: message.leads,
            sends: message.sends,
            rank: message.rank,
            access_point: message.access_point,
            leader: if let Body::Hello { leader } = message.body { leader } else { None },
        }
    }
}

/// A rate change that is reported early: by half, and by at least this much, bits per second.
const BIG_CHANGE_BPS: u64 = 500_000;

fn changed_much(before: &Report, after: &Report) -> bool {
    let (low, high) = (before.rate_bps.min(after.rate_bps), before.rate_bps.max(after.rate_bps));
    let rate = high > low.saturating_mul(3) / 2 && high - low > BIG_CHANGE_BPS;
    rate || before.elastic != after.elastic || (before.flows == 0) != (after.flows == 0)
}

/// Whether a change should be sent without waiting for the next regular summary.
fn changed_for_all(before: &Summary, after: &Summary) -> bool {
    let tenth = |a: u64, b: u64| a.abs_diff(b) > a.max(b) / 10;
    before.senders != after.senders
        || before.phase != after.phase
        || before.paced != after.paced
        || tenth(before.share_bps, after.share_bps)
        || tenth(before.air_share_ppm.into(), after.air_share_ppm.into())
}

impl Member {
    fn is_better(&self, heard: &ElectionMessage) -> bool {
        (!heard.access_point, heard.rank, heard.node) < (!self.access_point, self.rank, self.node)
    }

    /// An access point takes part at this tick: it leads, unless it follows another access point.
    /// Ignored for a terminal.
    pub fn lead(&mut self, now: Moment) {
        let now = self.advance(now);
        if self.access_point && matches!(self.role, Role::Idle) {
            self.left = false;
            self.claim(now);
        }
    }

    /// The access point that this member follows and hears.
    pub fn leading_access_point(&self) -> Option<(NodeId, SocketAddr)> {
        let Role::Following(following) = &self.role else { return None };
        let peer = self.peers.get(following.leader).filter(|peer| peer.access_point)?;
        Some((following.leader, peer.address))
    }

    /// Starts to look for a leader: sends the report to recent leaders, or a hello to all if there
    /// are none.
    pub(super) fn seek_first(&mut self, now: Moment) {
        self.seek(now);
        if self.attach_to_known(now) == 0 {
            self.trickle.reset_soon(&mut self.random, now, FIRST_HELLO);
        }
    }

    fn seek(&mut self, now: Moment) {
        self.trickle.reset(&mut self.random, now);
        self.role = Role::Seeking(Seeking {
            waits_until: None,
            claim_at: now + CLAIM_AFTER,
            claim_at_latest: now + CLAIM_AT_LATEST,
            again_at: now + CHALLENGE_AGAIN,
        });
    }

    /// Sends the report to members that led recently. Returns how many there are.
    fn attach_to_known(&mut self, now: Moment) -> usize {
        let leads = |at: Option<Moment>| at.is_some_and(|at| now.since(at) <= SUMMARY_FRESH);
        let known: Vec<NodeId> =
            self.peers.iter().filter(|(_, peer)| leads(peer.led)).map(|(node, _)| node).take(4).collect();
        for node in &known {
            self.attach(now, *node);
        }
        known.len()
    }

    /// Sends the report and a challenge to a member that claims to lead. The sender of a replayed
    /// message cannot answer it.
    fn attach(&mut self, now: Moment, node: NodeId) {
        let Some(address) = self.peers.get(node).map(|peer| peer.address) else { return };
        if self.may_challenge(now, node) {
            let addressed = self.addressed(node, None);
            let body = match &self.own {
                Some((_, report)) => Body::Report(report.clone()),
                None => self.hello(None),
            };
            self.queue_message(now, body, Some(addressed), true, Some(address));
        }
    }

    fn follow(&mut self, now: Moment, leader: NodeId, confirmed: bool) {
        self.role = Role::Following(Following {
            leader,
            heard: now,
            summary_interval: summary_interval(u16::MAX),
            report_interval: Duration::from_millis(500),
            deputy: false,
            challenged: false,
            confirmed,
            reported: self.own.clone().filter(|_| confirmed).map(|(_, report)| (now, report)),
            hurried: None,
        });
        self.report_if_due(now);
    }

    pub(super) fn report_if_due(&mut self, now: Moment) {
        let (Role::Following(following), Some((_, own))) = (&mut self.role, &self.own) else { return };
        let due = match &following.reported {
            Some((at, before)) if following.confirmed => {
                let early = changed_much(before, own)
                    && following.hurried.is_none_or(|at| now.since(at) >= following.report_interval * 4);
                let due = now.since(*at) + TICK_SLACK >= following.report_interval;
                if early && !due {
                    following.hurried = Some(now);
                }
                due || early
            }
            _ => true,
        };
        if due {
            following.reported = Some((now, own.clone()));
            let (leader, asks, body) = (following.leader, !following.confirmed, Body::Report(own.clone()));
            let address = self.peers.get(leader).map(|peer| peer.address);
            self.queue_message(now, body, Some(self.addressed(leader, None)), asks, address);
        }
    }

    fn claim(&mut self, now: Moment) {
        self.counts.led += 1;
        self.role = Role::Leading(Leading::default());
        self.queue_message(now, self.hello(None), None, false, None);
    }

    /// Evaluates a message for the election.
    pub(super) fn consider(&mut self, now: Moment, heard: &ElectionMessage) {
        let proved = heard.admission.proved;
        let better = self.is_better(heard);
        match &mut self.role {
            Role::Idle => {}
            Role::Seeking(seeking) => {
                if heard.leads && proved {
                    self.follow(now, heard.node, heard.addressed && !heard.asks);
                } else if heard.leads {
                    self.attach(now, heard.node);
                } else if heard.sends && better && !heard.addressed && seeking.waits_until.is_none() {
                    seeking.claim_at = seeking.claim_at_latest;
                }
            }
            Role::Following(following) if heard.node == following.leader => {
                if !proved {
                    // A message of another session than the one followed: if its sender is live,
                    // the leader has restarted.
                    self.challenge_at(now, heard.node, heard.from, heard.challenge);
                } else if heard.leads {
                    following.heard = now;
                    following.challenged = false;
                    following.confirmed |= heard.addressed && !heard.asks;
                } else {
                    self.lose_leader(now, heard.node, heard.leader);
                }
            }
            Role::Following(following) => {
                // Two leaders settle it between themselves, but our leader may be out of reach.
                // An access point follows no terminal.
                let may_lead = heard.leads && (heard.access_point || !self.access_point);
                if may_lead && now.since(following.heard) > following.summary_interval * 3 / 2 {
                    if proved {
                        self.follow(now, heard.node, false);
                    } else {
                        self.attach(now, heard.node);
                    }
                }
            }
            Role::Leading(_) => {
                if heard.leads && proved && better {
                    self.follow(now, heard.node, false);
                    // Inform our followers which leader to follow.
                    self.queue_message(now, self.hello(None), None, false, None);
                } else if heard.leads {
                    self.challenge_at(now, heard.node, heard.from, heard.challenge);
                } else if heard.sends && !heard.addressed && !heard.asks {
                    // A terminal that challenges all senders is answered like by any sender.
                    self.answer(now, heard.node, heard.from, heard.challenge);
                }
            }
        }
    }

    /// The leader has resigned or left, and named its successor.
    pub(super) fn lose_leader(&mut self, now: Moment, leader: NodeId, successor: Option<NodeId>) {
        let Role::Following(following) = &self.role else { return };
        if following.leader != leader {
            return;
        }
        if let Some(peer) = self.peers.get_mut(leader) {
            peer.led = None;
        }
        if self.access_point {
            return self.claim(now);
        }
        match successor.filter(|node| *node != leader) {
            Some(node) if node == self.node => self.claim(now),
            Some(node) => {
                let leads = self.peers.get(node).is_some_and(|peer| peer.leads && peer.sessions.is_proved());
                if leads {
                    self.follow(now, node, false);
                    return;
                }
                let until = now + AWAIT_SUCCESSOR;
                self.role = Role::Seeking(Seeking {
                    waits_until: Some(until),
                    claim_at: until + CLAIM_AFTER,
                    claim_at_latest: until + CLAIM_AT_LATEST,
                    again_at: now + CHALLENGE_AGAIN,
                });
                if self.peers.get(node).is_some_and(|peer| peer.leads) {
                    self.attach(now, node);
                }
            }
            None => {
                self.seek(now);
                self.attach_to_known(now);
            }
        }
    }

    pub(super) fn take_summary(
        &mut self,
        now: Moment,
        node: NodeId,
        deputy: Option<NodeId>,
        report_interval_ds: u8,
        summary: Summary,
    ) {
        let own = self.node;
        if let Role::Following(following) = &mut self.role
            && following.leader == node
        {
            following.deputy = deputy == Some(own);
            following.report_interval = Duration::from_millis(100) * u32::from(report_interval_ds);
            following.summary_interval = summary_interval(summary.senders);
            self.heard_summary = Some((now, summary));
        }
    }

    /// Takes the leader's summary of this tick and fills in the numbers of members and senders. An
    /// access point's summary already includes stations that are not members. The summary is sent
    /// at the summary interval: every 500 ms for two senders, every second for more, and every 500
    /// ms while the senders, the phase or the shares change. Ignored unless this terminal leads.
    pub fn summarize(&mut self, now: Moment, mut summary: Summary) {
        let now = now.max(self.now);
        let count = |all: usize| u16::try_from(all).unwrap_or(u16::MAX);
        let (senders, members) = (count(self.reports(now).count()), count(self.members(now).count()));
        if self.access_point {
            summary.senders = summary.senders.max(senders);
            summary.members = summary.members.max(members - 1).max(summary.senders);
        } else {
            (summary.senders, summary.members) = (senders, members.max(senders));
        }
        let summary = summary.bounded();
        let deputy = self.choose_deputy(now);
        let Role::Leading(leading) = &mut self.role else { return };
        let due = leading.sent.as_ref().is_none_or(|(at, before)| {
            let waited = now.since(*at) + TICK_SLACK;
            let interval = summary_interval(summary.senders);
            waited >= interval || waited >= SUMMARY_SOONEST && changed_for_all(before, &summary)
        });
        leading.deputy = deputy;
        leading.report_interval_ds = report_interval_ds(senders);
        self.heard_summary = Some((now, summary.clone()));
        if due {
            leading.sent = Some((now, summary.clone()));
            let report_interval_ds = leading.report_interval_ds;
            self.queue_message(now, Body::Summary { deputy, report_interval_ds, summary }, None, false, None);
        }
    }

    /// How long the leader keeps a report: three report intervals and one second.
    pub(super) fn report_timeout(&self) -> Duration {
        let interval_ds =
            if let Role::Leading(leading) = &self.role { leading.report_interval_ds.max(5) } else { 5 };
        Duration::from_millis(300) * u32::from(interval_ds) + Duration::from_secs(1)
    }

    /// The best of the reporting members. The deputy does not change while it reports, unless a
    /// member with a better rank does.
    fn choose_deputy(&self, now: Moment) -> Option<NodeId> {
        let Role::Leading(leading) = &self.role else { return None };
        let timeout = self.report_timeout();
        let reporting = |at: Option<&(Moment, Report)>| at.is_some_and(|(at, _)| now.since(*at) <= timeout);
        let all = self.peers.iter().filter(|(_, peer)| reporting(peer.report.as_ref()));
        let (rank, node) = all.map(|(node, peer)| (peer.rank, node)).min()?;
        let before = leading.deputy.and_then(|before| Some((before, self.peers.get(before)?)));
        match before {
            Some((before, peer)) if reporting(peer.report.as_ref()) && peer.rank <= rank => Some(before),
            _ => Some(node),
        }
    }

    /// The successor if this terminal, which leads, stops.
    pub(super) fn successor(&self) -> Option<NodeId> {
        self.choose_deputy(self.now)
    }

    /// Leaves the sender role after a while without a report.
    pub(super) fn stop_if_silent(&mut self, now: Moment) {
        let silent = self.own.as_ref().is_none_or(|(at, _)| now.since(*at) >= LINGER);
        if self.sends_since.is_none() || !silent {
            return;
        }
        let successor = self.successor();
        let before = std::mem::replace(&mut self.role, Role::Idle);
        (self.sends_since, self.own, self.heard_summary) = (None, None, None);
        self.trickle.rest(&mut self.random, now);
        match before {
            Role::Following(Following { leader, .. }) => {
                // Inform the leader, so that it need not wait for a timeout.
                let address = self.peers.get(leader).map(|peer| peer.address);
                let body = Body::Hello { leader: Some(leader) };
                self.queue_message(now, body, Some(self.addressed(leader, None)), false, address);
            }
            Role::Leading(_) if successor.is_some() => {
                self.queue_message(now, self.hello(successor), None, false, None);
            }
            _ => {}
        }
    }

    /// Discards everything known about the group's state.
    pub(super) fn discard_group_state(&mut self, now: Moment) {
        self.heard_summary = None;
        self.role = Role::Idle;
        if self.sends_since.is_some() {
            self.seek_first(now);
        } else {
            self.trickle.reset(&mut self.random, now);
        }
    }

    /// The next deadline of this role.
    pub(super) fn next_of_role(&self) -> Option<Moment> {
        match &self.role {
            Role::Idle | Role::Leading(_) => None,
            Role::Seeking(seeking) => {
                Some(seeking.waits_until.unwrap_or(seeking.claim_at).min(seeking.again_at))
            }
            Role::Following(following) => {
                let missed = |n| following.heard + following.summary_interval * n + TICK_SLACK;
                Some(missed(match (following.deputy, following.challenged) {
                    (true, false) => 2,
                    (true, true) => 3,
                    _ => 4,
                }))
            }
        }
    }

    pub(super) fn poll_role(&mut self, now: Moment) {
        let takes_over = self.sends_since.is_some_and(|since| now.since(since) >= TAKE_OVER_AFTER);
        match &mut self.role {
            Role::Idle | Role::Leading(_) => {}
            Role::Seeking(seeking) => {
                if seeking.waits_until.is_some_and(|until| until <= now) {
                    seeking.waits_until = None;
                    self.trickle.reset(&mut self.random, now);
                } else if seeking.waits_until.is_none() && seeking.claim_at <= now {
                    self.claim(now);
                } else if seeking.again_at <= now {
                    seeking.again_at = now + CHALLENGE_AGAIN;
                    self.attach_to_known(now);
                }
            }
            Role::Following(following) => {
                let leader = following.leader;
                let missed = |n| now >= following.heard + following.summary_interval * n + TICK_SLACK;
                if following.deputy && missed(3) {
                    self.claim(now);
                } else if missed(4) {
                    self.lose_leader(now, leader, None);
                } else if following.deputy && missed(2) && !following.challenged {
                    following.challenged = true;
                    self.challenge_member(now, leader);
                } else if following.deputy
                    && takes_over
                    && self.peers.get(leader).is_some_and(|peer| self.rank < peer.rank && !peer.access_point)
                {
                    // The leader itself has named this terminal as the best of all, and its rank is
                    // better than the leader's.
                    self.claim(now);
                }
            }
        }
    }

    /// Whether this terminal waits for a named successor.
    pub(super) fn waits_for_successor(&self) -> bool {
        matches!(&self.role, Role::Seeking(Seeking { waits_until: Some(_), .. }))
    }

    /// Processes another member's hello. A terminal that looks for a leader is suppressed only by
    /// better candidates.
    pub(super) fn hear_hello(&mut self, heard: &ElectionMessage) {
        if matches!(self.role, Role::Idle) || self.is_better(heard) {
            self.trickle.hear();
        }
    }
}
