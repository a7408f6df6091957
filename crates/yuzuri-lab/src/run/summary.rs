//! Converts the measurements to the files of a run's results.

use super::record;
use super::work::WorkerResult;
use super::{
    BufferRow, Clock, FlowFigures, HostRecord, LineRecord, RadioRecord, RunRecord, Task, TerminalRecord,
    Totals, Watched, Weighted,
};
use crate::driver::{DriverReport, Lateness, Snapshot};
use std::collections::HashMap;
use std::fmt::Write as _;
use yuzuri_netmodel::radio::{CellAccount, NodeAccount};
use yuzuri_scenario::fairness::jain;
use yuzuri_scenario::{Scenario, WorkloadSpec};
use yuzuri_stats::upper_median;
use yuzuri_trace::Account;

/// The contents of `flows.csv`.
pub(super) fn flows_csv(scenario: &Scenario, figures: &[FlowFigures]) -> String {
    let names: Vec<String> = scenario.terminals().map(|t| t.name()).collect();
    let mut text = String::from(
        "terminal,control,bytes_acked,bytes_received,retransmissions,recoveries,timeouts,srtt_mean_us,srtt_p95_us,min_rtt_us,cwnd_mean\n",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.1}"));
    for f in figures {
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{}",
            names[f.terminal],
            f.control,
            f.bytes_acked,
            f.bytes_received,
            f.retransmissions,
            f.recoveries,
            f.timeouts,
            number(f.srtt.mean()),
            number(f.srtt.quantile(0.95)),
            f.min_rtt_us.map_or(String::new(), |v| v.to_string()),
            number(f.cwnd.mean())
        );
    }
    text
}

/// The buffers of all terminals; `None` if no workload records them.
pub(super) fn buffers_csv(
    scenario: &Scenario,
    worker_results: &[WorkerResult],
    origin_mono_ns: u64,
) -> Option<String> {
    let names: Vec<String> = scenario.terminals().map(|t| t.name()).collect();
    let mut rows: Vec<&BufferRow> = worker_results.iter().flat_map(|t| &t.buffers).collect();
    rows.sort_by_key(|row| row.acked_mono_ns);
    if rows.is_empty() {
        return None;
    }
    let mut text = String::from("terminal,first_write_s,acked_s,bytes,throughput_bps,carried_bps,cwnd\n");
    let seconds = |ns: u64| (ns as f64 - origin_mono_ns as f64) / 1e9;
    for row in rows {
        let _ = writeln!(
            text,
            "{},{:.6},{:.6},{},{},{},{}",
            names[row.terminal],
            seconds(row.first_write_mono_ns),
            seconds(row.acked_mono_ns),
            row.bytes,
            row.throughput_bps,
            row.carried_bps,
            row.cwnd
        );
    }
    Some(text)
}

/// The contents of `run.json`, except what is known only after the network was removed.
pub(super) fn summarize(
    scenario: &Scenario,
    task: &Task,
    report: &DriverReport,
    figures: &[FlowFigures],
    worker_results: &[WorkerResult],
    account: &Account,
    spans: [&Snapshot; 2],
) -> RunRecord {
    let mut invalid_because = Vec::new();
    let mut notes: Vec<String> = worker_results.iter().flat_map(|t| t.notes.clone()).collect();
    let advice = match task.clock {
        Clock::Real => Lateness::IN_REAL_TIME,
        // A simulated packet is never late.
        Clock::Virtual | Clock::Simulated => Lateness::IN_VIRTUAL_TIME,
    };
    invalid_because.extend(report.lateness.invalid_because(advice));
    let watched = Watched { seen: account.seen(), kept: account.kept(), lost: account.lost() };
    if watched.lost > 0 {
        notes.push(format!("the monitor lost records: {account}"));
    }
    let [from, to] = spans;
    let span_s = scenario.duration_s - scenario.warm_up_s;
    let mut all_rtt = Weighted::default();
    // A radio in both cells together: a terminal is in one at a time, the access point in both.
    let radio = |of: &dyn Fn(&CellAccount) -> &NodeAccount| {
        let between = |a: &CellAccount, b: &CellAccount| RadioRecord::between(of(a), of(b), from.at, to.at);
        let first = between(&from.cell, &to.cell);
        match (&from.second_cell, &to.second_cell) {
            (Some(a), Some(b)) => first.plus(&between(a, b)),
            _ => first,
        }
    };
    let mut terminals = Vec::new();
    for (number, terminal) in scenario.terminals().enumerate() {
        let of: Vec<&FlowFigures> = figures.iter().filter(|f| f.terminal == number).collect();
        let (mut rtt, mut cwnd) = (Weighted::default(), Weighted::default());
        for f in &of {
            rtt.extend(&f.srtt);
            cwnd.extend(&f.cwnd);
        }
        all_rtt.extend(&rtt);
        let mut exchanges: Vec<u64> = worker_results[number].exchanges_us.clone();
        let present_s = scenario.leaves_s(terminal.kind) - terminal.kind.joins_s.max(scenario.warm_up_s);
        // A terminal is evaluated for the time in which it is present.
        let seconds = present_s.clamp(1e-3, span_s);
        let mut controls: HashMap<&str, u64> = HashMap::new();
        of.iter().for_each(|f| *controls.entry(&f.control).or_default() += f.bytes_acked + 1);
        let control = controls.into_iter().max_by_key(|(name, bytes)| (*bytes, std::cmp::Reverse(*name)));
        let ms = |us: f64| us / 1000.0;
        terminals.push(TerminalRecord {
            name: terminal.name(),
            kind: terminal.kind.name.clone(),
            control: control.map(|(name, _)| name.to_owned()).unwrap_or_default(),
            flows: of.len(),
            throughput_mbps: of.iter().map(|f| f.bytes()).sum::<u64>() as f64 * 8e-6 / seconds,
            rtt_mean_ms: rtt.mean().map(ms),
            rtt_p95_ms: rtt.quantile(0.95).map(ms),
            rtt_min_ms: of.iter().filter_map(|f| f.min_rtt_us).min().map(f64::from).map(ms),
            cwnd_mean: cwnd.mean(),
            retransmissions: of.iter().map(|f| f.retransmissions).sum(),
            recoveries: of.iter().map(|f| f.recoveries).sum(),
            timeouts: of.iter().map(|f| f.timeouts).sum(),
            buffers: worker_results[number].buffers.len(),
            exchange_median_ms: upper_median(&mut exchanges).map(|us| us as f64 / 1000.0),
            call: None,
            share: None,
            radio: radio(&|cell| &cell.stations[number]),
        });
    }
    let ap = radio(&|cell| &cell.ap);
    let wire_up = LineRecord::between(&from.wire.up, &to.wire.up, from.at, to.at);
    let wire_down = LineRecord::between(&from.wire.down, &to.wire.down, from.at, to.at);
    let radios = terminals.iter().map(|t| &t.radio).chain([&ap]);
    let drops = radios.map(|r| r.queue_drops + r.retry_drops).sum::<u64>()
        + [&wire_up, &wire_down].map(|l| l.queue_drops + l.lost).iter().sum::<u64>();
    let busy_kinds = scenario.terminals().map(|t| scenario.workload_of(t.kind));
    let working = terminals
        .iter()
        .zip(busy_kinds)
        .filter(|(_, w)| !matches!(w, WorkloadSpec::Idle {} | WorkloadSpec::Call { .. }));
    let totals = Totals {
        throughput_mbps: figures.iter().map(FlowFigures::bytes).sum::<u64>() as f64 * 8e-6 / span_s,
        jain: jain(working.map(|(t, _)| t.throughput_mbps)),
        rtt_mean_ms: all_rtt.mean().map(|us| us / 1000.0),
        rtt_p95_ms: all_rtt.quantile(0.95).map(|us| us / 1000.0),
        retransmissions: terminals.iter().map(|t| t.retransmissions).sum(),
        drops,
    };
    RunRecord {
        format: record::FORMAT,
        task: task.clone(),
        title: scenario.title.clone(),
        yuzuri: env!("CARGO_PKG_VERSION").to_owned(),
        host: host(),
        started_unix_ns: 0,
        origin_mono_ns: 0,
        valid: invalid_because.is_empty(),
        invalid_because,
        notes,
        lateness: report.lateness,
        watched,
        driver_cpu_s: report.cpu.as_secs_f64(),
        process_cpu_s: 0.0,
        wall_s: 0.0,
        from_s: scenario.warm_up_s,
        to_s: scenario.duration_s,
        totals,
        terminals,
        gate: None,
        ap,
        busy: record::busy_between(from, to, |s| Some(&s.cell)).unwrap_or(0.0),
        busy_second: record::busy_between(from, to, |s| s.second_cell.as_ref()),
        wire_up,
        wire_down,
    }
}

fn host() -> HostRecord {
    let name = nix::sys::utsname::uname();
    let word = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    name.map_or(HostRecord::default(), |n| HostRecord {
        name: word(n.nodename()),
        kernel: format!("{} {}", word(n.release()), word(n.version())),
        machine: word(n.machine()),
        cpus,
    })
}
