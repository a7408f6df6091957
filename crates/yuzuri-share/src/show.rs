//! Formats the status as text for people and for Prometheus.

use crate::status::{FlowStatus, InterfaceStatus, MessageCounts, Status};
use std::collections::BTreeMap;
use std::fmt::Write;
use yuzuri_policy::Bound;
use yuzuri_stats::counted;

pub(crate) fn mbps(bps: u64) -> String {
    let mbps = bps as f64 / 1e6;
    if mbps >= 99.95 { format!("{mbps:.0}") } else { format!("{mbps:.1}") }
}

fn ms(us: u32) -> String {
    format!("{:.1}", f64::from(us) / 1e3)
}

fn bound(Bound { lower, upper }: Bound) -> String {
    let one = |segments: u32| if segments == 0 { "-".to_owned() } else { segments.to_string() };
    format!("{}..{}", one(lower), one(upper))
}

/// Formats the status as text for a terminal.
pub fn table(status: &Status) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_table(&mut out, status);
    out
}

fn write_table(out: &mut String, status: &Status) -> std::fmt::Result {
    let policy = status.policy;
    write!(out, "yuzuri share {}, process {}: ", status.version, status.pid)?;
    match &status.why_not {
        None => writeln!(out, "bounds flows by policy {} ({})", policy.name, policy.objective.name())?,
        Some(why) => writeln!(out, "bounds nothing: {why}")?,
    }
    if !status.keyed {
        writeln!(out, "without a key: anybody on the network can forge messages")?;
    }
    if let Some(why) = &status.new_flows_wait {
        writeln!(out, "new flows are migrated at the next half second: {why}")?;
    }
    for warning in &status.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    for wait in &status.waits {
        writeln!(out, "{wait}")?;
    }
    for problem in &status.problems {
        writeln!(out, "problem: {problem}")?;
    }
    if let Some(why) = status.reload.as_ref().and_then(|reload| reload.error.as_ref()) {
        writeln!(out, "the previous configuration is in use, because the last reload failed: {why}")?;
    }
    for interface in &status.interfaces {
        writeln!(out)?;
        write_interface(out, interface)?;
    }
    if status.interfaces.is_empty() {
        writeln!(out, "\nno interface takes part")?;
    }
    if status.flows_elsewhere > 0 {
        writeln!(out, "\n{} of other addresses, left alone", counted(status.flows_elsewhere, "flow"))?;
    }
    Ok(())
}

fn write_interface(out: &mut String, interface: &InterfaceStatus) -> std::fmt::Result {
    let unknown = || "not known yet".to_owned();
    write!(out, "{}: group {}", interface.name, interface.group.clone().unwrap_or_else(unknown))?;
    if let Some(from) = interface.group_from {
        write!(out, " (by {})", from.name())?;
    }
    if let Some(rendezvous) = interface.rendezvous {
        write!(out, ", over {rendezvous}")?;
    }
    writeln!(out)?;
    match &interface.summary {
        Some(summary) => {
            writeln!(
                out,
                "  phase {}, sending: {} of {}, estimated capacity {} Mbit/s, share {} Mbit/s, queue \
                 {} ms{}",
                summary.phase.name(),
                summary.senders,
                counted(summary.members, "member"),
                mbps(summary.capacity_bps),
                mbps(summary.share_bps),
                ms(summary.queue_us),
                if summary.paced { ", paced over the round trip" } else { "" },
            )?;
        }
        None => writeln!(out, "  {}", waits_for(interface))?,
    }
    if let Some(benefit) = interface.benefit {
        writeln!(out, "  {benefit}")?;
    }
    if let Some(membership) = interface.membership {
        writeln!(
            out,
            "  member {}, the group's key is generation {}",
            membership.number, membership.generation
        )?;
    }
    let others = interface.members.iter().filter(|member| member.other_key).count();
    if others > 0 {
        writeln!(out, "  still with the other key: {}", counted(others, "member"))?;
    }
    if interface.alone_bps > 0 {
        writeln!(out, "  alone on the air: {} Mbit/s", mbps(interface.alone_bps))?;
    }
    if let Some(error) = &interface.last_send_error {
        writeln!(out, "  could not send {}, the last {error}", counted(interface.send_errors, "message"))?;
    }
    let refused: u64 = interface.messages.refused.values().sum();
    if refused > 0 {
        let mut worst: Vec<_> = interface.messages.refused.iter().collect();
        worst.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let words: Vec<String> = worst.iter().take(3).map(|(why, count)| format!("{why} {count}")).collect();
        writeln!(
            out,
            "  refused {refused} of {}: {}",
            counted(interface.messages.received, "message"),
            words.join(", ")
        )?;
    }
    writeln!(out, "  {:<16}  {:<6} {:<5} {:>5}  address, name", "member", "leads", "sends", "age")?;
    for member in &interface.members {
        let yes = |is: bool| if is { "yes" } else { "-" };
        writeln!(
            out,
            "  {:<16}  {:<6} {:<5} {:>4.0}s  {}",
            member.node,
            yes(member.leads),
            yes(member.sends),
            member.age_s,
            member.address.map_or("this terminal".to_owned(), |a| a.ip().to_string())
                + if member.other_key { ", other key" } else { "" }
                + &member.name.as_ref().map_or(String::new(), |name| format!("  {name}")),
        )?;
    }
    if interface.flows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "  {:>7} {:>6} {:>8} {:>8}  {:>9}  {:<11} flow",
        "Mbit/s", "cwnd", "srtt ms", "least", "bounds", "rule"
    )?;
    for flow in &interface.flows {
        write_flow(out, flow)?;
    }
    let counts = &interface.flow_counts;
    if counts.left_out > 0 {
        let listed: u64 = interface.flows.iter().map(|flow| flow.rate_bps).sum();
        writeln!(
            out,
            "  and {} more of {} flows, {} of them idle; those above carry {} of {} Mbit/s (--all lists every flow)",
            counts.left_out,
            counts.all,
            counts.idle.min(counts.left_out),
            mbps(listed),
            mbps(interface.rate_bps.max(listed)),
        )?;
    }
    Ok(())
}

/// Why there is no summary of a leader; none of these reasons is a problem.
fn waits_for(interface: &InterfaceStatus) -> &'static str {
    let sends = interface.members.iter().any(|member| member.sends);
    match () {
        () if interface.group.is_none() => "waiting for its group",
        () if !sends => "no member sends: nothing to share",
        () if interface.leader.is_none() => "waiting for a leader, which is found within seconds",
        () => "waiting for the leader's first summary",
    }
}

fn write_flow(out: &mut String, flow: &FlowStatus) -> std::fmt::Result {
    let rule = if flow.obeys { flow.rule.name() } else { "left alone" };
    write!(
        out,
        "  {:>7} {:>6} {:>8} {:>8}  {:>9}  {rule:<11} {} > {}",
        mbps(flow.rate_bps),
        flow.cwnd,
        ms(flow.srtt_us),
        ms(flow.min_rtt_us),
        bound(flow.bound),
        flow.local,
        flow.remote,
    )?;
    if flow.no_decrease {
        write!(out, ", not reduced")?;
    }
    if !flow.obeys {
        write!(out, ", {}: {}", flow.control, flow.control_state)?;
    }
    writeln!(out)
}

/// Formats the status in Prometheus's text format (version 0.0.4).
pub fn metrics(status: &Status) -> String {
    let mut out = Metrics(String::new());
    out.one("yuzuri_share_steers", "gauge", "Whether flows are bounded", &[(vec![], status.steers.into())]);
    out.one("yuzuri_share_uptime_seconds", "gauge", "Time since the start", &[(vec![], status.uptime_s)]);
    out.one(
        "yuzuri_share_ticks_total",
        "counter",
        "Ticks of half a second since the start",
        &[(vec![], status.ticks as f64)],
    );
    out.one(
        "yuzuri_share_late_ticks_total",
        "counter",
        "Ticks more than half a second late",
        &[(vec![], status.late_ticks as f64)],
    );
    out.one(
        "yuzuri_share_kernel_refusals_total",
        "counter",
        "Calls that the kernel refused",
        &[(vec![], status.kernel_refusals as f64)],
    );
    out.one(
        "yuzuri_share_bounds_refused",
        "gauge",
        "Flows left plain CUBIC because the kernel's table of bounds is full",
        &[(vec![], status.bounds_refused as f64)],
    );
    out.one("yuzuri_share_problems", "gauge", "Current problems", &[(vec![], status.problems.len() as f64)]);
    let each = |of: &dyn Fn(&InterfaceStatus) -> Option<f64>| -> Vec<Row> {
        let row = |i: &InterfaceStatus| Some((vec![("interface", i.name.clone())], of(i)?));
        status.interfaces.iter().filter_map(row).collect()
    };
    let summary = |of: &dyn Fn(&crate::SummaryStatus) -> f64| each(&|i| i.summary.as_ref().map(of));
    out.one(
        "yuzuri_share_members",
        "gauge",
        "Members heard within the last minute",
        &each(&|i| Some(i.members.len() as f64)),
    );
    out.one("yuzuri_share_leads", "gauge", "Whether this terminal leads", &each(&|i| Some(i.leads.into())));
    out.one("yuzuri_share_senders", "gauge", "Members that send", &summary(&|s| s.senders.into()));
    out.one(
        "yuzuri_share_capacity_bits_per_second",
        "gauge",
        "Estimated capacity of the group",
        &summary(&|s| s.capacity_bps as f64),
    );
    out.one(
        "yuzuri_share_share_bits_per_second",
        "gauge",
        "Share of a member that does not know its radio's rate",
        &summary(&|s| s.share_bps as f64),
    );
    out.one(
        "yuzuri_share_rate_bits_per_second",
        "gauge",
        "Rate that this terminal delivers",
        &each(&|i| Some(i.rate_bps as f64)),
    );
    let mut flows: Vec<Row> = Vec::new();
    for interface in &status.interfaces {
        for (rule, count) in &interface.flow_counts.rules {
            let labels = vec![("interface", interface.name.clone()), ("rule", rule.clone())];
            flows.push((labels, f64::from(*count)));
        }
    }
    out.one("yuzuri_share_flows", "gauge", "Bounded flows, by the rule that set the bound", &flows);
    out.one(
        "yuzuri_share_flows_idle",
        "gauge",
        "Flows without data written or in flight for five seconds",
        &each(&|i| Some(i.flow_counts.idle.into())),
    );
    let messages = |label: &'static str, of: &dyn Fn(&MessageCounts) -> &BTreeMap<String, u64>| -> Vec<Row> {
        let rows = status.interfaces.iter().flat_map(|interface| {
            of(&interface.messages).iter().map(|(value, count)| {
                (vec![("interface", interface.name.clone()), (label, value.clone())], *count as f64)
            })
        });
        rows.collect()
    };
    out.one(
        "yuzuri_share_messages_accepted_total",
        "counter",
        "Messages believed",
        &messages("kind", &|m| &m.accepted),
    );
    out.one(
        "yuzuri_share_messages_refused_total",
        "counter",
        "Messages refused",
        &messages("reason", &|m| &m.refused),
    );
    out.one("yuzuri_share_messages_sent_total", "counter", "Messages sent", &messages("kind", &|m| &m.sent));
    out.one(
        "yuzuri_share_send_errors_total",
        "counter",
        "Datagrams that could not be sent",
        &each(&|i| Some(i.send_errors as f64)),
    );
    out.0
}

type Row = (Vec<(&'static str, String)>, f64);

struct Metrics(String);

impl Metrics {
    fn one(&mut self, name: &str, kind: &str, help: &str, rows: &[Row]) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}.\n# TYPE {name} {kind}");
        for (labels, value) in rows {
            let labels: Vec<String> =
                labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
            let braces = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.0, "{name}{braces} {value}");
        }
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
