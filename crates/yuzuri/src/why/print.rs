//! The answers on standard output.

use super::account_json;
use super::flows::{Flows, LimitedFlow};
use crate::cli::WhyArgs;
use crate::words::{flow_name, one_line, shared_bottleneck, wrapped};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use yuzuri_limits::Limit;
use yuzuri_trace::Account;
use yuzuri_view::text;
use yuzuri_view::why::{Why, percent};

/// Maximum number of flows shown without `--all`.
const MAX_FLOWS: usize = 20;
/// The initial window (RFC 6928), bytes, rounded as in the remark on small flows.
const INITIAL_WINDOW_BYTES: u64 = 14_000;
/// Maximum number of limits in a flow's line of shares.
const MAX_SHARES: usize = 4;

/// Prints every answer. Returns the number of flows that send.
pub fn all(args: &WhyArgs, flows: &Flows) -> anyhow::Result<usize> {
    let mut out = std::io::stdout().lock();
    let ranked = flows.ranked();
    let senders = ranked.iter().filter(|answer| answer.limits.sends()).count();
    let everyone = args.all || args.json;
    // Connections without data have no limit to explain.
    let (mut carry, empty): (Vec<_>, Vec<_>) =
        ranked.into_iter().partition(|answer| everyone || answer.carries());
    if !everyone {
        // If both ends are on this host, the sender's answer suffices.
        let ends = |answer: &LimitedFlow| answer.flow.as_ref().map(|flow| (flow.local, flow.remote));
        let senders: HashSet<_> =
            carry.iter().filter(|answer| answer.limits.sends()).filter_map(|answer| ends(answer)).collect();
        let answered = |(local, remote)| senders.contains(&(remote, local));
        carry.retain(|answer| answer.limits.sends() || !ends(answer).is_some_and(answered));
    }
    // Omit a transfer's control connection and a download's requests while there is a transfer to
    // explain.
    let mut small = 0;
    if !everyone && carry.iter().any(|answer| !is_small(answer)) {
        small = carry.iter().filter(|answer| is_small(answer)).count();
        carry.retain(|answer| !is_small(answer));
    }
    let width = std::io::stdout().is_terminal().then(|| yuzuri_top::terminal_columns().unwrap_or(80).into());
    let shown = if everyone { carry.len() } else { carry.len().min(MAX_FLOWS) };
    for answer in &carry[..shown] {
        let control = answer.flow.as_ref().map_or("", |flow| &flow.congestion_control);
        let Some(why) = Why::of(&answer.limits, control) else { continue };
        if args.json {
            serde_json::to_writer(&mut out, &document(answer, &why)?)?;
            out.write_all(b"\n")?;
        } else {
            out.write_all(wrapped(&words(answer, &why), width).as_bytes())?;
        }
    }
    if shown < carry.len() {
        writeln!(out, "and {} more (--all shows them)", carry.len() - shown)?;
    }
    if small > 0 {
        let flows = text::counted(text::count(small as u64), "flow");
        writeln!(out, "and {flows} with less than {} kB (--all shows them)", INITIAL_WINDOW_BYTES / 1000)?;
    }
    if senders > 0 && !empty.is_empty() {
        writeln!(out, "and {} without data (--all shows them)", connections(empty.len()))?;
    }
    for (flows, together) in flows.together() {
        if args.json {
            let flows: Vec<_> =
                flows.iter().map(|answer| serde_json::to_value(answer.flow.as_deref())).collect();
            let flows = flows.into_iter().collect::<Result<Vec<_>, _>>()?;
            let line = json!({
                "kind": "shared-bottleneck", "flows": flows, "correlation": together.correlation,
                "deviations": together.deviations,
            });
            writeln!(out, "{line}")?;
        } else {
            let names = flows.into_iter().map(name);
            out.write_all(wrapped(&shared_bottleneck(&together, names), width).as_bytes())?;
        }
    }
    out.flush()?;
    Ok(senders)
}

/// Whether it moved less than an initial window (RFC 6928), and has no more to send.
fn is_small(answer: &LimitedFlow) -> bool {
    let limits = &answer.limits;
    let moved_bytes = limits.acked_bytes().max(limits.received_bytes());
    let ranked = limits.times().ranked();
    moved_bytes < INITIAL_WINDOW_BYTES && ranked.first().is_none_or(|(limit, _)| *limit == Limit::Application)
}

/// The number of connections, as text.
pub fn connections(count: usize) -> String {
    text::counted(text::count(count as u64), "connection")
}

/// What is known of the observation as a whole.
pub struct Observed<'a> {
    pub account: Option<&'a Account>,
    pub complete: Option<bool>,
    pub source: Value,
    /// Columns that a recording of an older version lacks.
    pub missing_columns: &'a [&'static str],
}

/// The last line of JSON, or the remaining remarks.
pub fn end(args: &WhyArgs, flows: &Flows, observed: &Observed<'_>) -> anyhow::Result<()> {
    let (beyond, missed) = flows.left_out();
    if args.json {
        let end = json!({
            "kind": "end", "flows": flows.len(), "complete": observed.complete,
            "source": observed.source, "account": observed.account.map(account_json),
            "connections_one_way": flows.one_way(), "records_of_more_flows": beyond,
            "records_not_looked_at": missed, "missing_columns": observed.missing_columns,
        });
        let mut out = std::io::stdout().lock();
        writeln!(out, "{end}")?;
        out.flush()?;
    }
    if flows.one_way() > 0 {
        let one_way = connections(flows.one_way() as usize);
        yuzuri_exit::note!(
            "yuzuri: {one_way} captured in one direction only: finding a sender's limit needs its data and their ACKs"
        );
    }
    if beyond > 0 {
        yuzuri_exit::note!(
            "yuzuri: skipped {}, of more flows than can be followed at the same time",
            text::counted(beyond, "record")
        );
    }
    if missed > 0 {
        yuzuri_exit::note!(
            "yuzuri: too fast to be examined: {}; select fewer flows, or use --density 1ms",
            text::counted(missed, "record")
        );
    }
    Ok(())
}

fn rate_bps(answer: &LimitedFlow) -> f64 {
    let time_us = answer.limits.times().total_us().max(1);
    answer.limits.acked_bytes().max(answer.limits.received_bytes()) as f64 * 8e6 / time_us as f64
}

/// The flow's name.
fn name(answer: &LimitedFlow) -> String {
    flow_name(answer.flow.as_deref())
}

fn words(answer: &LimitedFlow, why: &Why) -> String {
    let control = answer.flow.as_ref().map_or("", |flow| &flow.congestion_control);
    // Packets do not show the name of the congestion control.
    let control = if control.is_empty() { String::new() } else { format!("  {control}") };
    let seconds = answer.limits.times().total_us() as f64 / 1e6;
    let head =
        format!("{}{}  {seconds:.1} s  {}", name(answer), one_line(&control), text::rate(rate_bps(answer)));
    let mut answer = format!("{head}\n");
    let limit_is = if why.limit == Limit::Unknown { "" } else { "the limit is " };
    answer += &format!("  {} of the time, {limit_is}{}.\n", percent(why.share), why.sentence);
    answer += &format!("  {}.\n", capital(&why.remedy));
    if why.shares.len() > 1 {
        let rest = &why.shares[1..];
        let mut shares: Vec<_> =
            rest.iter().take(MAX_SHARES).map(|(name, share)| format!("{name} {}", percent(*share))).collect();
        if rest.len() > MAX_SHARES {
            let more: f64 = rest[MAX_SHARES..].iter().map(|(_, share)| share).sum();
            shares.push(format!("others {}", percent(more)));
        }
        answer += &format!("  Rest of the time: {}.\n", shares.join(", "));
    }
    if let Some(next) = &why.next {
        answer += &format!("  Next: {}.\n", next.sentence());
    }
    answer
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn document(answer: &LimitedFlow, why: &Why) -> anyhow::Result<Value> {
    let limits = &answer.limits;
    let mut map = Map::new();
    map.insert("kind".into(), "why".into());
    map.insert("flow".into(), serde_json::to_value(answer.flow.as_deref())?);
    map.insert("time_s".into(), (limits.times().total_us() as f64 / 1e6).into());
    map.insert("sends".into(), limits.sends().into());
    map.insert("acked_bytes".into(), limits.acked_bytes().into());
    map.insert("received_bytes".into(), limits.received_bytes().into());
    map.insert("rate_bps".into(), rate_bps(answer).into());
    map.insert("retransmitted_segments".into(), limits.retransmitted().into());
    map.insert("limit".into(), why.limit.name().into());
    map.insert("share".into(), why.share.into());
    map.insert("sentence".into(), why.sentence.clone().into());
    map.insert("remedy".into(), why.remedy.clone().into());
    map.insert("next".into(), serde_json::to_value(&why.next)?);
    map.insert("chronographs".into(), serde_json::to_value(limits.chronographs())?);
    let shares = why.shares.iter().map(|(limit, share)| (limit.name().to_owned(), (*share).into()));
    map.insert("shares".into(), Value::Object(shares.collect()));
    let figures = limits.figures(why.limit);
    let known = |value: f64| (value > 0.0 && value.is_finite()).then_some(value);
    map.insert(
        "figures".into(),
        json!({
            "cwnd_segments": known(figures.cwnd_segments),
            "mss_bytes": known(figures.mss_bytes),
            "outstanding_bytes": figures.outstanding_bytes,
            "receive_window_bytes": known(figures.receive_window_bytes),
            "send_memory_bytes": known(figures.send_memory_bytes),
            "send_buffer_bytes": known(figures.send_buffer_bytes),
            "srtt_us": known(figures.srtt_us),
            "queue_us": figures.queue_us,
            "pacing_rate_bps": known(figures.pacing_rate_bps),
        }),
    );
    Ok(Value::Object(map))
}
