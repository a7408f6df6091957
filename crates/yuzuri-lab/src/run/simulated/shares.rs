//! The sharing of a simulated run, tick by tick.

use crate::run::ShareRecord;
use crate::run::sharing::{COLUMNS, summary_cells};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use yuzuri_netmodel::Time;
use yuzuri_policy::Rule;
use yuzuri_scenario::{Scenario, ShareSpec};
use yuzuri_share::SummaryStatus;
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{Observation, Sharing, Steer};

/// A terminal at one tick.
struct Member {
    terminal: usize,
    cwnd: u32,
    srtt_us: u64,
    bounds: Bounds,
    rule: Rule,
}

struct Tick {
    at_s: f64,
    summary: Option<SummaryStatus>,
    members: Vec<Member>,
}

/// Runs the terminals' sharing, if enabled, and stores the decisions.
pub(super) struct Shares {
    sharing: Option<Sharing>,
    /// By terminal.
    specs: Vec<Option<ShareSpec>>,
    ticks: Vec<Tick>,
}

impl Shares {
    pub(super) fn of(scenario: &Scenario) -> Shares {
        let specs = scenario.terminals().map(|terminal| scenario.share_of(terminal.kind)).collect();
        Shares { sharing: yuzuri_sim::sharing(scenario), specs, ticks: Vec::new() }
    }

    /// A terminal's results for a span of time, seconds; `None` if it did not share. Reports arrive
    /// instantly in the simulation: there are no messages, and no particular terminal leads.
    pub(super) fn record(&self, terminal: usize, [from_s, to_s]: [f64; 2]) -> Option<ShareRecord> {
        let spec = self.specs.get(terminal)?.as_ref()?;
        let of = |tick: &Tick| tick.members.iter().any(|member| member.terminal == terminal);
        let counted = self.ticks.iter().filter(|tick| tick.at_s > from_s && tick.at_s <= to_s);
        let members = counted.flat_map(|tick| &tick.members).filter(|member| member.terminal == terminal);
        let mut rules: BTreeMap<String, u64> = BTreeMap::new();
        let mut bounds = Vec::new();
        for member in members {
            *rules.entry(member.rule.name().to_owned()).or_default() += 1;
            bounds.extend(member.bounds.upper.map(f64::from));
        }
        let last = self.ticks.iter().rfind(|tick| tick.at_s <= to_s).and_then(|tick| tick.summary.as_ref());
        Some(ShareRecord {
            policy: spec.policy,
            objective: spec.objective,
            control: "cubic".into(),
            ticks: self.ticks.iter().filter(|tick| of(tick)).count() as u64,
            late_ticks: 0,
            kernel_refusals: 0,
            new_flows_wait: None,
            messages_sent: 0,
            bytes_sent: 0,
            messages_accepted: 0,
            messages_refused: 0,
            leads: false,
            led: 0,
            phase: last.map(|summary| summary.phase),
            senders: last.map_or(0, |summary| summary.senders),
            capacity_mbps: last.map_or(0.0, |summary| summary.capacity_bps as f64 / 1e6),
            bound_mean: (!bounds.is_empty()).then(|| bounds.iter().sum::<f64>() / bounds.len() as f64),
            rules,
        })
    }

    /// Every tick of every terminal that shares and sends; `None` if no terminal shares.
    pub(super) fn csv(&self, scenario: &Scenario) -> Option<String> {
        self.sharing.as_ref()?;
        let names: Vec<String> = scenario.terminals().map(|terminal| terminal.name()).collect();
        let mut text = format!("{COLUMNS}\n");
        for tick in &self.ticks {
            for Member { terminal, cwnd, srtt_us, bounds, rule } in &tick.members {
                let (at_s, name, flow) = (tick.at_s, &names[*terminal], terminal);
                let said = summary_cells(tick.summary.as_ref());
                let Bounds { lower, upper, no_decrease, burst } = *bounds;
                let [lower, upper, burst] = [lower, upper, burst].map(|bound| bound.unwrap_or(0));
                let _ = writeln!(
                    text,
                    "{at_s:.3},{name},false{said},{flow},,{cwnd},{srtt_us},{lower},{upper},{no_decrease},{burst},{}",
                    rule.name()
                );
            }
        }
        Some(text)
    }
}

impl Steer for Shares {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        let Some(sharing) = &mut self.sharing else { return };
        sharing.steer(now, terminals, bounds);
        let members = terminals.iter().zip(bounds).enumerate().filter_map(|(terminal, (seen, bounds))| {
            let (seen, rule) = ((*seen)?, sharing.rule(terminal)?);
            Some(Member { terminal, cwnd: seen.cwnd, srtt_us: seen.srtt_us, bounds: *bounds, rule })
        });
        let members: Vec<Member> = members.collect();
        if !members.is_empty() {
            self.ticks.push(Tick {
                at_s: now.as_secs_f64(),
                summary: sharing.summary().map(SummaryStatus::from),
                members,
            });
        }
    }
}
