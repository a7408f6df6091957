//! The record at every ACK compared with the kernel's own output at the same tracepoint.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::tracefs::{Line, Trace};
use common::{Outcome, Pair, Watched};
use std::net::IpAddr;
use yuzuri_kernel::shielded::{Shielded, shielded};
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{CaState, Density, Event};

/// The common part of a record and a line.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Row {
    cookie: u64,
    cwnd: u64,
    ssthresh: u64,
    snd_wnd: u64,
    srtt_us: u64,
    rcv_wnd: u64,
    /// Bytes acknowledged since the flow's first row.
    acknowledged: u64,
}

fn ours(event: &Event, first: &Event) -> Row {
    let s = &event.snapshot;
    // The tracepoint prints tcp_current_ssthresh(): outside a reduction at least three quarters of
    // the window.
    let reducing = matches!(event.ca_state, CaState::Cwr | CaState::Recovery);
    let ssthresh = if reducing { s.ssthresh } else { s.ssthresh.max((s.cwnd >> 1) + (s.cwnd >> 2)) };
    Row {
        cookie: event.flow.0,
        cwnd: s.cwnd.into(),
        ssthresh: ssthresh.into(),
        snd_wnd: s.snd_wnd.into(),
        srtt_us: s.srtt_us.into(),
        rcv_wnd: s.rcv_wnd.into(),
        acknowledged: s.bytes_acked - first.snapshot.bytes_acked,
    }
}

fn kernels(line: &Line, first: &Line) -> Row {
    let hex = |line: &Line, name: &str| u64::from_str_radix(line[name].trim_start_matches("0x"), 16).unwrap();
    let number = |name: &str| line[name].parse().unwrap();
    Row {
        cookie: hex(line, "sock_cookie"),
        cwnd: number("snd_cwnd"),
        ssthresh: number("ssthresh"),
        snd_wnd: number("snd_wnd"),
        srtt_us: number("srtt"),
        rcv_wnd: number("rcv_wnd"),
        acknowledged: (hex(line, "snd_una") as u32).wrapping_sub(hex(first, "snd_una") as u32).into(),
    }
}

/// The flow's records must be the kernel's lines: none that the kernel did not print, in the same
/// order. Returns the lines without a record of their own; if the flow sends, none may be merged
/// into a later record.
fn without_record<'a>(records: &[&Event], lines: &[&'a Line], started_ns: u64, sends: bool) -> Vec<&'a Line> {
    let mut acks: Vec<&Event> = (records.iter().copied())
        .filter(|e| e.place.name() == "tcp:tcp_probe" && e.counts.acks > 0)
        .collect();
    assert!(!sends || acks.iter().all(|e| e.counts.acks == 1), "a record at every ACK");
    // The end of the handshake preceded the trace.
    let early = acks.iter().take_while(|e| e.mono_ns < started_ns).count();
    assert!(early <= 1, "{early} segments before the first byte");
    acks.drain(..early);
    assert!(!acks.is_empty(), "no record for {} lines", lines.len());
    // If the very first line has no record, the sums do not begin together.
    let first = lines.iter().position(|line| ours(acks[0], acks[0]) == kernels(line, line));
    let first = first.unwrap_or_else(|| panic!("no line is the first record: {:?}", acks[0]));
    let mut rows = acks.iter().map(|e| ours(e, acks[0])).peekable();
    let mut missing: Vec<&Line> = lines[..first].to_vec();
    for line in &lines[first..] {
        if rows.next_if_eq(&kernels(line, lines[first])).is_none() {
            missing.push(line);
        }
    }
    assert_eq!(
        rows.next(),
        None,
        "a record that the kernel did not print next; missing until there: {missing:?}"
    );
    missing
}

/// Whether the line's packet interrupted a thread of a process that the kernel shields from BPF.
fn over_shielded(line: &Line, shielded: &[Shielded]) -> bool {
    // NAME-THREAD [CPU] flags time
    let thread = line["task"].split(" [").next().and_then(|task| task.trim().rsplit('-').next()).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let process =
        status.lines().find_map(|line| line.strip_prefix("Tgid:")).and_then(|id| id.trim().parse().ok());
    shielded.iter().any(|s| Some(s.pid) == process)
}

fn compare(test: &'static str, v6: bool, control: &str) {
    common::exactly(test, || attempt(test, v6, control));
}

fn attempt(test: &'static str, v6: bool, control: &str) -> Option<Outcome<()>> {
    let net = Net::or_skip(test)?;
    net.shape(Side::A, 20, 25_000).unwrap();
    let loss = "add table inet lossy\nadd chain inet lossy in { type filter hook input priority 0 ; }\n\
                add rule inet lossy in meta l4proto tcp numgen inc mod 60 30 drop\n";
    net.firewall(Side::B, loss).map_err(|why| println!("{test}: skipped: {why}")).ok()?;
    let to: IpAddr = if v6 { net.v6(Side::B) } else { net.v4(Side::B) };
    let filter = format!("netns:{} netns:{}", net.name(Side::A), net.name(Side::B));
    let watched = Watched::start(&filter, Density::EveryAck);
    let pair = Pair::new(&net, Side::A, to, control);
    let port = pair.near_addr().port();
    let trace = Trace::start(&format!("{}-{port}", net.name(Side::A)), port);
    let trace = trace.map_err(|why| println!("{test}: skipped: {why}")).ok()?;
    let started_ns = yuzuri_kernel::clock::mono_ns();
    pair.send(600_000);
    let lines = trace.lines();
    let seen = watched.finish_whole();
    let cookie = |line: &Line| u64::from_str_radix(&line["sock_cookie"], 16).unwrap();
    let mut missing = Vec::new();
    for (local, remote) in [
        (pair.near_addr(), pair.far.local_addr().unwrap()),
        (pair.far.local_addr().unwrap(), pair.near_addr()),
    ] {
        let id = seen.id(local);
        let own: Vec<&Line> = lines.iter().filter(|line| cookie(line) == id.0).collect();
        assert!(own.len() >= 30, "{} lines for {local}", own.len());
        assert!(own[0]["dest"].contains(&remote.to_string()), "{:?}", own[0]);
        missing.extend(without_record(&seen.of(local), &own, started_ns, local == pair.near_addr()));
    }
    // Every line has its record, except lines that only brought data and were merged, lines that
    // the kernel skipped and counted, and lines that it withholds from BPF uncounted.
    let shielded = shielded();
    let (kept_from_us, mut missing): (Vec<&Line>, Vec<&Line>) =
        missing.into_iter().partition(|line| over_shielded(line, &shielded));
    let mut skipped = missing.extract_if(.., |line| line["data_len"] == "0").collect::<Vec<_>>();
    let merged = usize::try_from(seen.account.thinned()).unwrap();
    assert!(merged <= missing.len(), "{merged} merged, {} lines of data without a record", missing.len());
    skipped.extend(missing.drain(merged..));
    let how = format!(
        "{} lines, {merged} of data merged, {} over a shielded process, {} more without a record: {skipped:?}",
        lines.len(),
        kept_from_us.len(),
        skipped.len()
    );
    println!("{test}: {}", how.split(':').next().unwrap_or_default());
    // The path was lossy.
    let sender = seen.of(pair.near_addr());
    assert!(sender.iter().any(|e| e.ca_state == CaState::Recovery || e.ca_state == CaState::Cwr));
    assert!(sender.iter().any(|e| e.snapshot.total_retrans > 0));
    Some(if skipped.len() as u64 <= seen.nested() {
        Outcome::Exact(())
    } else {
        Outcome::Differs { how, skipped: seen.nested() }
    })
}

#[test]
fn every_ack_is_what_tcp_probe_prints_over_ipv4() {
    compare("every_ack_is_what_tcp_probe_prints_over_ipv4", false, "cubic");
}

#[test]
fn every_ack_is_what_tcp_probe_prints_over_ipv6() {
    compare("every_ack_is_what_tcp_probe_prints_over_ipv6", true, "reno");
}
