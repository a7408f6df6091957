//! Runs the sharing of `yuzuri-policy` in a simulated cell. Policy and aggregation are the daemon's
//! code. Without [`Messages`], reports arrive at once and the leader's summary takes effect at the
//! next half second; with it, messages are delayed and lost.

use crate::cc::Bounds;
use crate::messages::{MessageLinks, Messages};
use crate::scenario::{ChangeKind, Scenario, Terminal};
use crate::steer::{Observation, Steer};
use crate::units::MILLISECOND;
use std::time::Duration;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::Phy;
use yuzuri_policy::{
    Aggregation, Capacity, Decision, Destination, FlowSeen, Moment, Phase, Policy, PolicyConfig, RadioHint,
    Report, Rule, SendersSeen, Summary,
};

/// All terminals of a scenario, each with its policy, and their leader.
pub struct Sharing {
    terminals: Vec<Option<Member>>,
    capacity: Capacity,
    summary: Option<Summary>,
    /// Known capacity, used instead of the estimate.
    oracle: Option<Oracle>,
    decisions: Vec<Decision>,
    /// Alters summaries (lying leader) and reports (lying members).
    lie: Option<Lie>,
    false_report: Option<FalseReport>,
    /// Radio changes, in time order.
    changes: Vec<(Time, usize, RadioHint)>,
    destinations: Vec<Destination>,
    /// Nonexistent senders that have authenticated to all members.
    invented: u16,
    /// Time at which sharing begins.
    begins: Time,
    /// Messages with delay and loss; absent: messages arrive at once.
    links: Option<MessageLinks>,
}

/// Alters a summary before a terminal receives it.
pub type Lie = Box<dyn FnMut(Moment, usize, &mut Summary)>;

/// Alters a terminal's report before the leader receives it; `None` suppresses the report.
pub type FalseReport = Box<dyn FnMut(Moment, usize, &mut Option<Report>)>;

/// What an oracle knows of a moment at which so many members send.
pub type Oracle = Box<dyn FnMut(Time, u16) -> Known>;

/// A group's true capacity, known to an oracle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Capacity, payload bits per second.
    pub capacity_bps: f64,
    /// Sum over the members of rate divided by the rate alone, at that capacity.
    pub air: f64,
    /// Whether the wire is the bottleneck, so that pacing is preferable.
    pub paced: bool,
    /// Rate of the wire, bits per second: nobody would get more alone. 0: the radios' rates take it into account.
    pub wire_bps: u64,
}

struct Member {
    policy: Policy,
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
            .map(|radio| radio.map(|radio| Member { policy: Policy::new(config), radio, rule: None }))
            .collect();
        Sharing {
            changes: Vec::new(),
            destinations: vec![Destination::default(); radios.len()],
            false_report: None,
            terminals,
            capacity: Capacity::new(config.objective),
            summary: None,
            oracle: None,
            decisions: Vec::new(),
            lie: None,
            invented: 0,
            begins: Time::ZERO,
            links: None,
        }
    }

    /// Starts sharing at `at`, among flows that have filled the queues.
    pub fn beginning(mut self, at: Time) -> Sharing {
        self.begins = at;
        self
    }

    /// Delays and loses messages.
    pub fn telling_by(mut self, messages: Messages) -> Sharing {
        self.links = Some(MessageLinks::new(messages, self.terminals.len()));
        self
    }

    /// Uses a known capacity: the upper limit of what sharing can achieve.
    pub fn knowing(self, known: Known) -> Sharing {
        self.knowing_at(Box::new(move |_, _| known))
    }

    /// Uses a capacity that is known at each moment.
    pub fn knowing_at(mut self, oracle: Oracle) -> Sharing {
        self.oracle = Some(oracle);
        self
    }

    /// Makes the leader lie.
    pub fn lying(mut self, lie: Lie) -> Sharing {
        self.lie = Some(lie);
        self
    }

    /// Makes members lie.
    pub fn reporting(mut self, false_report: FalseReport) -> Sharing {
        self.false_report = Some(false_report);
        self
    }

    /// Applies the radio changes of `scenario`, and gives each distance its own destination.
    pub fn following(mut self, scenario: &Scenario) -> Sharing {
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
    pub fn beside_invented(mut self, senders: u16) -> Sharing {
        self.invented = senders;
        self
    }

    /// The rule that bounded a terminal at the last tick; `None` if it does not share or did not
    /// send.
    pub fn rule(&self, terminal: usize) -> Option<Rule> {
        self.terminals.get(terminal)?.as_ref()?.rule
    }

    /// The leader's last summary.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
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
        local_bytes: u64::from(observation.local_segments) * u64::from(observation.mss_bytes),
    }
}

impl Steer for Sharing {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        if now < self.begins {
            return;
        }
        let changed = self.changes.iter().take_while(|(at, ..)| *at <= now).count();
        for (_, number, radio) in self.changes.drain(..changed) {
            if let Some(member) = self.terminals.get_mut(number).and_then(Option::as_mut) {
                member.radio = radio;
            }
        }
        let time = now;
        let now = Moment::from_nanos(now.as_nanos());
        let mut reports = Vec::new();
        let members = self.terminals.iter().flatten().count().min(u16::MAX.into()) as u16;
        self.terminals.iter_mut().flatten().for_each(|member| member.rule = None);
        for (number, (member, observation)) in self.terminals.iter_mut().zip(terminals).enumerate() {
            let (Some(member), Some(observation)) = (member, observation) else { continue };
            let flows = [seen(number as u64, self.destinations[number], observation)];
            let mut report = member.policy.observe(now, &flows, member.radio);
            if let Some(lie) = &mut self.false_report {
                lie(now, number, &mut report);
            }
            let mut summary = match &mut self.links {
                None => {
                    reports.extend(report);
                    self.summary.clone()
                }
                Some(links) => {
                    links.send_report(now, number, queue_of(observation), report);
                    links.received_summary(now, number)
                }
            };
            if let (Some(lie), Some(summary)) = (&mut self.lie, &mut summary) {
                lie(now, number, summary);
            }
            member.policy.decide(
                now,
                &flows,
                member.radio,
                summary.as_ref(),
                SendersSeen { proved: members.saturating_add(self.invented), unproved: 0 },
                &mut self.decisions,
            );
            member.rule = self.decisions.first().map(|decision| decision.why);
            if let Some(decision) = self.decisions.first() {
                let some = |segments: u32| Some(segments).filter(|s| *s > 0);
                bounds[number] = Bounds {
                    lower: some(decision.bound.lower),
                    upper: some(decision.bound.upper),
                    no_decrease: decision.no_decrease,
                    burst: some(decision.burst),
                };
            }
        }
        if let Some(links) = &mut self.links {
            reports = links.received_reports(now);
        }
        let mut summary = self.capacity.sum(now, members, &reports);
        if let Some(oracle) = &mut self.oracle {
            let Known { capacity_bps, air, paced, wire_bps } = oracle(time, summary.senders);
            let senders = f64::from(summary.senders.max(1));
            summary.phase = Phase::Hold;
            summary.paced = paced;
            summary.alone_max_bps = wire_bps;
            summary.capacity_bps = capacity_bps as u64;
            summary.share_bps = (capacity_bps / senders) as u64;
            summary.air_share_ppm = (air / senders * 1e6) as u32;
        }
        if let Some(links) = &mut self.links {
            for (number, (member, observation)) in self.terminals.iter().zip(terminals).enumerate() {
                if member.is_some() {
                    let queue = observation.as_ref().map_or(Duration::ZERO, queue_of);
                    links.send_summary(now, number, queue, &summary);
                }
            }
        }
        self.summary = Some(summary);
    }
}

/// How long a message waits behind a terminal's data.
fn queue_of(observation: &Observation) -> Duration {
    Duration::from_micros(observation.srtt_us.saturating_sub(observation.min_rtt_us))
}
