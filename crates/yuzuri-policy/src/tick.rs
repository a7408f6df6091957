//! One tick of sharing, the same for the daemon and the simulation: observe, report, aggregate,
//! decide.

use crate::capacity::AGAIN;
use crate::{
    Capacity, Decision, FlowSeen, Limit, Member, Moment, Objective, Policy, PolicyConfig, RadioHint, Report,
    SendersSeen, Summary,
};

/// The functions of a terminal's group that a tick needs.
pub trait Group {
    /// Takes the report about this terminal's flows; `None`: nothing is sent.
    fn report(&mut self, now: Moment, report: Option<Report>);
    /// Whether this terminal leads.
    fn is_leader(&self, now: Moment) -> bool;
    /// The number of members, including silent ones.
    fn members(&self, now: Moment) -> u16;
    /// The senders' latest reports, for a leader.
    fn reports<'a>(&'a self, now: Moment) -> Box<dyn Iterator<Item = &'a Report> + 'a>;
    /// What limits the group, if a leader knows it by other means than reports.
    fn limit(&self) -> Option<Limit> {
        None
    }
    /// What the members' data in flight carry at most, bit/s, if a leader can measure it.
    fn in_flight_bps(&self) -> Option<f64> {
        None
    }
    /// Takes the leader's summary, to send it to all.
    fn summarize(&mut self, now: Moment, summary: Summary);
    /// The valid summary, of this terminal if it leads.
    fn summary(&mut self, now: Moment) -> Option<Summary>;
    /// The senders that this terminal knows of.
    fn senders(&self, now: Moment) -> SendersSeen;
    /// Challenges all senders to prove their liveness.
    fn challenge_senders(&mut self, now: Moment);
}

impl Group for Member {
    fn report(&mut self, now: Moment, report: Option<Report>) {
        Member::report(self, now, report);
    }

    fn is_leader(&self, now: Moment) -> bool {
        Member::is_leader(self, now)
    }

    fn members(&self, now: Moment) -> u16 {
        Member::members(self, now).count().min(u16::MAX.into()) as u16
    }

    fn reports<'a>(&'a self, now: Moment) -> Box<dyn Iterator<Item = &'a Report> + 'a> {
        Box::new(Member::reports(self, now).map(|(_, report)| report))
    }

    fn summarize(&mut self, now: Moment, summary: Summary) {
        Member::summarize(self, now, summary);
    }

    fn summary(&mut self, now: Moment) -> Option<Summary> {
        Member::weighted_summary(self, now)
    }

    fn senders(&self, now: Moment) -> SendersSeen {
        Member::senders(self, now)
    }

    fn challenge_senders(&mut self, now: Moment) {
        Member::challenge_senders(self, now);
    }
}

/// A terminal that shares: its policy, and the leader's state while it leads.
#[derive(Debug, Clone)]
pub struct Terminal {
    /// Its policy.
    pub policy: Policy,
    capacity: Option<Capacity>,
    last_summary: Option<(Moment, Summary)>,
    report: Option<Report>,
}

impl Terminal {
    /// Creates the initial state.
    pub fn new(config: PolicyConfig) -> Terminal {
        Terminal { policy: Policy::new(config), capacity: None, last_summary: None, report: None }
    }

    /// Leads a group of members that other groups have bounded so far.
    pub fn regrouping(config: PolicyConfig) -> Terminal {
        let capacity = Capacity::regrouped(config.objective);
        Terminal { capacity: Some(capacity), ..Terminal::new(config) }
    }

    /// The report of the last tick; `None`: nothing was sent.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Applies another choice. A leader keeps its knowledge of the capacity if the objective is
    /// unchanged.
    pub fn configure(&mut self, now: Moment, config: PolicyConfig) {
        if config.objective != self.policy.config().objective && self.capacity.is_some() {
            self.capacity = Some(self.begin_capacity(now, config.objective));
        }
        self.policy.configure(config);
    }

    /// Forgets the group: another one's capacity is unknown.
    pub fn forget_group(&mut self) {
        (self.capacity, self.last_summary) = (None, None);
        self.policy.configure(self.policy.config());
    }

    /// One tick: observes the flows, reports them, aggregates all reports if this terminal leads,
    /// and decides for each flow, in its order. Without a group nothing is known about others.
    pub fn tick(
        &mut self,
        now: Moment,
        flows: &[FlowSeen],
        radio: RadioHint,
        group: Option<&mut dyn Group>,
        out: &mut Vec<Decision>,
    ) {
        self.report = self.policy.observe(now, flows, radio);
        let Some(group) = group else {
            self.capacity = None;
            let alone = SendersSeen { proved: 1, unproved: 0 };
            self.policy.decide(now, flows, radio, None, alone, out);
            return;
        };
        group.report(now, self.report.clone());
        if group.is_leader(now) {
            let begun = self.capacity.take();
            let mut capacity =
                begun.unwrap_or_else(|| self.begin_capacity(now, self.policy.config().objective));
            capacity.limited_by(group.limit());
            capacity.carries_at_most(group.in_flight_bps());
            let summary = capacity.sum(now, group.members(now), group.reports(now));
            self.capacity = Some(capacity);
            group.summarize(now, summary);
        } else {
            self.capacity = None;
        }
        let summary = group.summary(now);
        self.policy.decide(now, flows, radio, summary.as_ref(), group.senders(now), out);
        if let Some(summary) = summary {
            self.last_summary = Some((now, summary));
        }
        if self.policy.wants_proof() {
            group.challenge_senders(now);
        }
    }

    fn begin_capacity(&self, now: Moment, objective: Objective) -> Capacity {
        // Older knowledge of the path would have been tested again.
        let last = self.last_summary.as_ref().filter(|(at, _)| now.since(*at) <= AGAIN);
        match last {
            Some((_, summary)) => Capacity::resume(now, summary, objective),
            None => Capacity::new(objective),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{GroupId, Key, MemberConfig, NodeId, Rule};
    use std::time::Duration;

    const BASE_US: u32 = 50_000;
    const RATE_BPS: u64 = 20_000_000;

    fn member(now: Moment) -> Member {
        let key = Some(Key::from_bytes([1; 32]));
        Member::new(MemberConfig::new(NodeId(7), GroupId::of(b"bssid"), key, 1, 42), now).unwrap()
    }

    /// A flow that delivers 20 Mbit/s, at a tick.
    fn flow(tick: u64) -> FlowSeen {
        FlowSeen {
            id: 1,
            mss_bytes: 1448,
            cwnd: 90,
            in_flight: 90,
            srtt_us: BASE_US,
            min_rtt_us: BASE_US,
            delivered: tick * RATE_BPS / 2 / (1448 * 8),
            ..FlowSeen::default()
        }
    }

    /// The leader decides by the summary of the same tick; a member that has received none decides
    /// nothing.
    #[test]
    fn a_leader_decides_by_the_summary_of_the_same_tick() {
        let (mut terminal, mut out, mut sent) =
            (Terminal::new(PolicyConfig::default()), Vec::new(), Vec::new());
        let mut member = member(Moment::default());
        let mut led = 0;
        for tick in 1..60 {
            let now = Moment::at(Duration::from_millis(500 * tick));
            let before = Member::summary(&member, now).cloned();
            terminal.tick(now, &[flow(tick)], RadioHint::default(), Some(&mut member), &mut out);
            let summary = Member::summary(&member, now).cloned();
            if Member::is_leader(&member, now) {
                led += 1;
                let summary = summary.unwrap();
                assert_eq!(summary.senders, 1);
                // At its first tick as leader there is no earlier one.
                assert!(led > 1 || before.is_none());
                assert_eq!(terminal.last_summary, Some((now, summary)));
            } else {
                assert_eq!((summary, out[0].why), (None, Rule::Unknown));
            }
            member.poll(now, &mut sent);
        }
        assert!(led > 40, "led at {led} ticks");
        assert!(out[0].bound.upper > 0, "{out:?}");
    }

    #[test]
    fn without_a_group_nothing_is_bounded() {
        let (mut terminal, mut out) = (Terminal::new(PolicyConfig::default()), Vec::new());
        for tick in 1..20 {
            let now = Moment::at(Duration::from_millis(500 * tick));
            terminal.tick(now, &[flow(tick)], RadioHint::default(), None, &mut out);
            assert_eq!((out[0].why, out[0].bound), (Rule::Unknown, crate::Bound::NONE));
        }
        assert!(terminal.report().is_some_and(|report| report.rate_bps.abs_diff(RATE_BPS) < 1_000_000));
    }
}
