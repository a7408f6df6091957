//! Runs the sharing of `yuzuri-policy` in a simulated cell. Policy, aggregation and the order of a
//! tick are the daemon's. The first terminal that shares leads, and its tick is the last: it
//! decides by its new summary, the others by the last summary that they received. Without
//! [`Messages`], messages arrive immediately; with it, they are delayed and lost. An access point
//! may lead instead ([`Sharing::led_by_access_point`]).

use crate::cc::Bounds;
use crate::messages::{MessageLinks, Messages};
use crate::scenario::{ChangeKind, Scenario, Terminal};
use crate::steer::{Observation, Steer};
use crate::units::MILLISECOND;
use std::time::Duration;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::Phy;
use yuzuri_policy::{
    Aggregation, Decision, Destination, FlowSeen, Group, Moment, Phase, PolicyConfig, RadioHint, Report,
    Rule, SendersSeen, Summary, Terminal as Sharer,
};

/// All terminals of a scenario that share.
pub struct Sharing {
    terminals: Vec<Option<Member>>,
    decisions: Vec<Decision>,
    /// Radio changes, in time order.
    changes: Vec<(Time, usize, RadioHint)>,
    destinations: Vec<Destination>,
    /// Time at which sharing begins.
    starts_at: Time,
    cell: Cell,
}

/// The messages between the members.
#[derive(Default)]
struct Cell {
    members: u16,
    /// If messages arrive immediately: the reports of this tick.
    reports: Vec<Report>,
    /// Whether an access point leads, and what terminals reported to it at this tick.
    led: bool,
    received_reports: Vec<Option<Report>>,
    /// Each terminal's weight relative to a terminal of weight 1, as the access point sends it. If
    /// empty, all have weight 1.
    weights: Vec<f64>,
    summary: Option<Summary>,
    /// Messages with delay and loss; absent: messages arrive immediately.
    links: Option<MessageLinks>,
    /// Known capacity, used instead of the estimate.
    oracle: Option<Oracle>,
    /// Alters summaries (lying leader) and reports (lying members).
    false_summaries: Option<FalseSummaries>,
    false_reports: Option<FalseReports>,
    /// Nonexistent senders that have authenticated to all members.
    invented_members: u16,
    /// How long a message of each member waits behind its data.
    queues: Vec<Option<Duration>>,
}

/// A member's view of its group at one tick.
struct GroupView<'a> {
    number: usize,
    leads: bool,
    time: Time,
    cell: &'a mut Cell,
}

impl Group for GroupView<'_> {
    fn report(&mut self, now: Moment, mut report: Option<Report>) {
        if let Some(lie) = &mut self.cell.false_reports {
            lie(now, self.number, &mut report);
        }
        let queue = self.cell.queues[self.number].unwrap_or_default();
        if self.cell.led {
            self.cell.received_reports[self.number] = report;
            return;
        }
        match &mut self.cell.links {
            None => self.cell.reports.extend(report),
            // A leader sends no message with its own report.
            Some(links) if self.leads => {
                links.own_report(now, self.number, report);
                self.cell.reports = links.received_reports(now);
            }
            Some(links) => links.send_report(now, self.number, queue, report),
        }
    }

    fn is_leader(&self, _now: Moment) -> bool {
        self.leads
    }

    fn members(&self, _now: Moment) -> u16 {
        self.cell.members
    }

    fn reports<'a>(&'a self, _now: Moment) -> Box<dyn Iterator<Item = &'a Report> + 'a> {
        Box::new(self.cell.reports.iter())
    }

    fn summarize(&mut self, now: Moment, mut summary: Summary) {
        if let Some(oracle) = &mut self.cell.oracle {
            let TrueCapacity { capacity_bps, air, paced, wire_bps } = oracle(self.time, summary.senders);
            let senders = f64::from(summary.senders.max(1));
            summary.phase = Phase::Hold;
            summary.paced = paced;
            summary.alone_max_bps = wire_bps;
            summary.capacity_bps = capacity_bps as u64;
            summary.share_bps = (capacity_bps / senders) as u64;
            summary.air_share_ppm = (air / senders * 1e6) as u32;
        }
        if let Some(links) = &mut self.cell.links {
            for (number, queue) in self.cell.queues.iter().enumerate() {
                if let Some(queue) = queue.filter(|_| number != self.number) {
                    links.send_summary(now, number, queue, &summary);
                }
            }
        }
        self.cell.summary = Some(summary);
    }

    fn summary(&mut self, now: Moment) -> Option<Summary> {
        let mut summary = match &mut self.cell.links {
            Some(links) if !self.leads => links.received_summary(now, self.number),
            _ => self.cell.summary.as_ref().map(|summary| summary.weighted(self.weight())),
        };
        if let (Some(lie), Some(summary)) = (&mut self.cell.false_summaries, &mut summary) {
            lie(now, self.number, summary);
        }
        summary
    }

    fn senders(&self, _now: Moment) -> SendersSeen {
        // Stations that send no messages cannot prove that they exist. So the terminals believe the
        // access point's count, as they do when its address authenticates it.
        let published = self.cell.summary.as_ref().filter(|_| self.cell.led);
        let published = published.map_or(0, |summary| summary.weighted(self.weight()).senders);
        SendersSeen {
            proved: self.cell.members.saturating_add(self.cell.invented_members).max(published),
            unproved: 0,
        }
    }

    /// All have proved that they exist.
    fn challenge_senders(&mut self, _now: Moment) {}
}

impl GroupView<'_> {
    fn weight(&self) -> f64 {
        self.cell.weights.get(self.number).copied().unwrap_or(1.0)
    }
}

/// Alters a summary before a terminal receives it.
pub type FalseSummaries = Box<dyn FnMut(Moment, usize, &mut Summary)>;

/// Alters a terminal's report before the leader receives it; `None` suppresses the report.
pub type FalseReports = Box<dyn FnMut(Moment, usize, &mut Option<Report>)>;

/// An oracle: the group's true capacity at a moment and for a number of sending members.
pub type Oracle = Box<dyn FnMut(Time, u16) -> TrueCapacity>;

/// A group's true capacity, known to an oracle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrueCapacity {
    /// Capacity, payload bits per second.
    pub capacity_bps: f64,
    /// Sum over the members of rate divided by the rate alone, at that capacity.
    pub air: f64,
    /// Whether the wire is the bottleneck, so that pacing is preferable.
    pub paced: bool,
    /// Rate of the wire, bits per second: no member could exceed it alone. 0: the radios' rates
    /// already include it.
    pub wire_bps: u64,
}

struct Member {
    sharer: Sharer,
    radio: RadioHint,
    /// The rule that set the bound at the last tick; `None` before the first.
    rule: Option<Rule>,
}

/// The radio hint that nl80211 would give for a station.
pub fn hint_of(phy: Phy) -> RadioHint {
    RadioHint::of_link(phy.rate_bps(), Aggregation::up_to(phy.ampdu_bytes()))
}

impl Sharing {
    /// One member per radio; `None` is a terminal that does not share.
    pub fn new(config: PolicyConfig, radios: &[Option<RadioHint>]) -> Sharing {
        let terminals = radios
            .iter()
            .map(|radio| radio.map(|radio| Member { sharer: Sharer::new(config), radio, rule: None }));
        let terminals: Vec<Option<Member>> = terminals.collect();
        let cell = Cell {
            members: terminals.iter().flatten().count().min(u16::MAX.into()) as u16,
            queues: vec![None; radios.len()],
            received_reports: vec![None; radios.len()],
            ..Cell::default()
        };
        Sharing {
            changes: Vec::new(),
            destinations: vec![Destination::default(); radios.len()],
            terminals,
            decisions: Vec::new(),
            starts_at: Time::ZERO,
            cell,
        }
    }

    /// Starts sharing at `at`, among flows that have filled the queues.
    pub fn starting_at(mut self, at: Time) -> Sharing {
        self.starts_at = at;
        self
    }

    /// Delays and loses messages.
    pub fn with_messages(mut self, messages: Messages) -> Sharing {
        self.cell.links = Some(MessageLinks::new(messages, self.terminals.len()));
        self
    }

    /// No terminal leads: an access point reads [`reports`](Sharing::reports) and
    /// [publishes](Sharing::publish) its summary. Messages arrive immediately.
    pub fn led_by_access_point(mut self) -> Sharing {
        self.cell.led = true;
        self
    }

    /// Each terminal applies its weight to the access point's summary.
    pub fn with_weights(mut self, weights: Vec<f64>) -> Sharing {
        self.cell.weights = weights;
        self
    }

    /// The terminals' reports at the last tick to the access point that leads them.
    pub fn reports(&self) -> impl Iterator<Item = (usize, &Report)> {
        self.cell
            .received_reports
            .iter()
            .enumerate()
            .filter_map(|(number, report)| Some((number, report.as_ref()?)))
    }

    /// The access point's summary for all terminals. They decide by it from the next tick on.
    pub fn publish(&mut self, summary: Summary) {
        self.cell.summary = Some(summary);
    }

    /// Uses a known capacity: the upper limit of what sharing can achieve.
    pub fn with_capacity(self, known: TrueCapacity) -> Sharing {
        self.with_oracle(Box::new(move |_, _| known))
    }

    /// Uses a capacity that is known at each moment.
    pub fn with_oracle(mut self, oracle: Oracle) -> Sharing {
        self.cell.oracle = Some(oracle);
        self
    }

    /// Makes the leader lie.
    pub fn with_false_summaries(mut self, false_summaries: FalseSummaries) -> Sharing {
        self.cell.false_summaries = Some(false_summaries);
        self
    }

    /// Makes members lie.
    pub fn with_false_reports(mut self, false_reports: FalseReports) -> Sharing {
        self.cell.false_reports = Some(false_reports);
        self
    }

    /// Applies the radio changes of `scenario`, and gives each distance its own destination.
    pub fn with_changes_of(mut self, scenario: &Scenario) -> Sharing {
        for change in &scenario.changes {
            if let ChangeKind::Radio { terminal, phy } = change.what {
                self.changes.push((
                    Time::from_nanos(change.at_ms * MILLISECOND),
                    terminal.into(),
                    hint_of(phy),
                ));
            }
        }
        self.changes.sort_by_key(|(at, ..)| *at);
        let far = |terminal: &Terminal| Destination(terminal.extra_rtt_us as u32);
        self.destinations = scenario.terminals.iter().map(far).collect();
        self
    }

    /// Adds senders that an insider invented; each member believes that they exist.
    pub fn with_invented_members(mut self, senders: u16) -> Sharing {
        self.cell.invented_members = senders;
        self
    }

    /// The rule that bounded a terminal at the last tick; `None` if it does not share or did not
    /// send.
    pub fn rule(&self, terminal: usize) -> Option<Rule> {
        self.terminals.get(terminal)?.as_ref()?.rule
    }

    /// The leader's last summary.
    pub fn summary(&self) -> Option<&Summary> {
        self.cell.summary.as_ref()
    }
}

fn seen(id: u64, destination: Destination, observation: &Observation) -> FlowSeen {
    let micros = |us: u64| u32::try_from(us).unwrap_or(u32::MAX);
    FlowSeen {
        id,
        destination,
        mss_bytes: observation.mss_bytes,
        cwnd: observation.cwnd,
        in_flight: observation.in_flight,
        srtt_us: micros(observation.srtt_us),
        min_rtt_us: micros(observation.min_rtt_us),
        delivered: observation.delivered,
        bytes_acked: observation.acked_bytes,
        lost: observation.lost,
        retransmitted: observation.retransmitted,
        app_limited: observation.app_limited,
        window_bytes: observation.window_bytes,
    }
}

impl Steer for Sharing {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        if now < self.starts_at {
            return;
        }
        let changed = self.changes.iter().take_while(|(at, ..)| *at <= now).count();
        for (_, number, radio) in self.changes.drain(..changed) {
            if let Some(member) = self.terminals.get_mut(number).and_then(Option::as_mut) {
                member.radio = radio;
            }
        }
        self.terminals.iter_mut().flatten().for_each(|member| member.rule = None);
        self.cell.reports.clear();
        self.cell.received_reports.iter_mut().for_each(|heard| *heard = None);
        for (queue, (member, seen)) in self.cell.queues.iter_mut().zip(self.terminals.iter().zip(terminals)) {
            *queue = member.as_ref().map(|_| seen.as_ref().map_or(Duration::ZERO, queue_of));
        }
        let leader = self.terminals.iter().position(Option::is_some).filter(|_| !self.cell.led);
        let others = (0..self.terminals.len()).filter(|number| Some(*number) != leader);
        for number in others.chain(leader) {
            self.tick(now, number, leader == Some(number), terminals[number].as_ref(), &mut bounds[number]);
        }
    }
}

impl Sharing {
    fn tick(
        &mut self,
        time: Time,
        number: usize,
        leads: bool,
        observation: Option<&Observation>,
        bounds: &mut Bounds,
    ) {
        let Some(member) = &mut self.terminals[number] else { return };
        // A leader that has not started sending leads nevertheless.
        if observation.is_none() && !leads {
            return;
        }
        let flows: Vec<FlowSeen> = observation
            .iter()
            .map(|seen_of| seen(number as u64, self.destinations[number], seen_of))
            .collect();
        let now = Moment::from_nanos(time.as_nanos());
        let mut view = GroupView { number, leads, time, cell: &mut self.cell };
        member.sharer.tick(now, &flows, member.radio, Some(&mut view), &mut self.decisions);
        let Some(decision) = self.decisions.first() else { return };
        member.rule = Some(decision.why);
        let some = |segments: u32| Some(segments).filter(|s| *s > 0);
        *bounds = Bounds {
            lower: some(decision.bound.lower),
            upper: some(decision.bound.upper),
            no_decrease: decision.no_decrease,
            burst: some(decision.burst),
        };
    }
}

/// How long a message waits behind a terminal's data.
fn queue_of(observation: &Observation) -> Duration {
    Duration::from_micros(observation.srtt_us.saturating_sub(observation.min_rtt_us))
}
