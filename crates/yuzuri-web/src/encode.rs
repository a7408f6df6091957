//! The messages' form. Written by hand: rows and buckets are arrays of numbers (a name per number would double the
//! bytes), ids are hexadecimal text (JavaScript's numbers end at 2^53), times are microseconds since the session's
//! start. `ui/src/wire.ts` reads what is written here.

use serde_json::json;
use std::fmt::Write as _;
use yuzuri_trace::{CaState, Density, Event, Flow, Kind, LossReason, Marks, Reason, Snapshot};
use yuzuri_view::{Bucket, LiveModel, Logged, Replay, Row};

/// What times are counted from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeBase {
    start_ns: u64,
}

impl TimeBase {
    pub(crate) fn of(model: &LiveModel) -> TimeBase {
        TimeBase { start_ns: model.session().started_mono_ns }
    }

    /// Microseconds since the session's start; below 0 for what was before.
    pub(crate) fn us(self, mono_ns: u64) -> i64 {
        (mono_ns as i64).wrapping_sub(self.start_ns as i64).div_euclid(1000)
    }

    /// The other way; times before the boot are the boot.
    pub(crate) fn mono_ns(self, us: i64) -> u64 {
        (self.start_ns as i64).saturating_add(us.saturating_mul(1000)).max(0) as u64
    }
}

/// Text as a JSON string.
pub(crate) fn text(out: &mut String, value: &str) {
    out.push_str(&serde_json::to_string(value).unwrap_or_else(|_| "\"\"".into()));
}

fn finite_ssthresh(ssthresh: u32) -> u32 {
    if ssthresh >= Snapshot::SSTHRESH_INFINITE { 0 } else { ssthresh }
}

fn measured(min_rtt_us: u32) -> u32 {
    if min_rtt_us == u32::MAX { 0 } else { min_rtt_us }
}

/// Who a flow is.
pub(crate) fn flow(out: &mut String, base: TimeBase, flow: &Flow, first_ns: u64) {
    let who = json!({
        "id": flow.id.to_string(),
        "local": flow.local.to_string(),
        "remote": flow.remote.to_string(),
        "netns": flow.netns,
        "netns_name": flow.netns_name,
        "pid": flow.owner.as_ref().map(|o| o.pid),
        "process": flow.owner.as_ref().map(|o| &o.name),
        "cgroup": flow.cgroup,
        "control": flow.congestion_control,
        "role": flow.role.name(),
        "first": base.us(first_ns),
    });
    let _ = write!(out, "{who}");
}

/// A flow's line in the table.
pub(crate) fn row(out: &mut String, base: TimeBase, row: &Row, now_ns: u64) {
    let s = &row.last.snapshot;
    let t = &row.tally;
    let _ = write!(
        out,
        "[\"{}\",{:.0},{:.0},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},",
        row.flow.id,
        row.sent_bps(now_ns),
        row.received_bps(now_ns),
        s.cwnd,
        finite_ssthresh(s.ssthresh),
        s.srtt_us,
        s.rttvar_us,
        measured(s.min_rtt_us),
        s.in_flight(),
        s.lost_out,
        s.sacked_out,
        s.retrans_out,
        s.mss,
        s.snd_wnd,
        s.rcv_wnd,
        s.wmem_queued,
        s.notsent,
        s.delivery_rate_bps,
        if s.pacing_rate_bps == u64::MAX { 0 } else { s.pacing_rate_bps },
        s.total_retrans,
        row.last.ca_state as u8,
    );
    match row.closed_ns {
        Some(closed) => {
            let _ = write!(out, "{}", base.us(closed));
        }
        None => out.push_str("null"),
    }
    let _ = write!(
        out,
        ",{},{},{},{},{},{},{}]",
        t.timeouts,
        t.dup_acks,
        t.dsacks,
        t.events,
        u8::from(row.last.marks.contains(Marks::APP_LIMITED)),
        s.bytes_acked,
        s.bytes_received,
    );
}

/// A flow's sparkline: rates, then windows.
pub(crate) fn spark(out: &mut String, row: &Row) {
    let _ = write!(out, "\"{}\":[[", row.flow.id);
    list(out, row.spark_rate_bps.iter(), |out, rate| {
        let _ = write!(out, "{rate:.0}");
    });
    out.push_str("],[");
    list(out, row.spark_cwnd.iter(), |out, cwnd| {
        let _ = write!(out, "{cwnd}");
    });
    out.push_str("]]");
}

/// Values with commas between.
pub(crate) fn list<T>(
    out: &mut String,
    values: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    for (n, value) in values.enumerate() {
        if n > 0 {
            out.push(',');
        }
        write(out, value);
    }
}

/// Buckets, one after the other in a flat array.
pub(crate) fn buckets(out: &mut String, base: TimeBase, buckets: &[Bucket]) {
    out.push('[');
    list(out, buckets.iter(), |out, b| {
        let _ = write!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            base.us(b.start_ns),
            base.us(b.last_ns),
            b.events,
            b.cwnd.0,
            b.cwnd.1,
            b.cwnd.2,
            finite_ssthresh(b.ssthresh),
            b.srtt_us.0,
            b.srtt_us.1,
            b.srtt_us.2,
            measured(b.min_rtt_us),
            b.in_flight,
            b.bytes_acked,
            b.bytes_received,
            b.states,
            b.state,
            b.marks.0,
            b.kinds,
            b.retransmits,
        );
    });
    out.push(']');
}

/// A notable event.
pub(crate) fn event(out: &mut String, base: TimeBase, logged: &Logged) {
    let Event { mono_ns, flow, kind, reason, place, ca_state, ca_before, marks, snapshot, cpu, .. } =
        logged.event;
    let _ =
        write!(out, "[{},{},\"{flow}\",{},{},", logged.number, base.us(mono_ns), kind as u8, reason as u8);
    text(out, place.name());
    let _ = write!(
        out,
        ",{},{},{},{},{},{},{cpu}]",
        ca_state as u8,
        ca_before as u8,
        marks.0,
        snapshot.cwnd,
        finite_ssthresh(snapshot.ssthresh),
        snapshot.srtt_us,
    );
}

/// A density as the interval in microseconds; 0 at every ACK.
pub(crate) fn interval_us(density: Density) -> u64 {
    density.interval().as_micros() as u64
}

/// The account, the settings, and where a replay stands.
pub(crate) fn status(
    model: &LiveModel,
    replay: Option<Replay>,
    epoch: u64,
    face_lost: u64,
    browsers: usize,
) -> String {
    let base = TimeBase::of(model);
    let account = model.account();
    let reasons: Vec<(&str, u64)> = account
        .map(|a| a.lost_by_reason().into_iter().map(|(r, n): (LossReason, u64)| (r.name(), n)).collect())
        .unwrap_or_default();
    // Unix time of the moment that times are counted from, microseconds.
    let zero = model.session().started_mono_ns as i128 + i128::from(model.wall_offset_ns());
    json!({
        "now": base.us(model.now_ns()),
        "epoch": epoch,
        "zero_unix_us": (zero / 1000) as i64,
        "seen": account.map(|a| a.seen()),
        "kept": account.map(|a| a.kept()),
        "lost": account.map(|a| a.lost()),
        "thinned": account.map(|a| a.thinned()),
        "reasons": reasons,
        "face_lost": face_lost,
        "forgotten": model.forgotten(),
        "filter": model.filter(),
        "interval_us": interval_us(model.density()),
        "browsers": browsers,
        "replay": replay.map(|r| json!({
            "paused": r.paused,
            "speed": r.speed,
            "position_us": r.position_ns / 1000,
            "length_us": r.length_ns / 1000,
        })),
    })
    .to_string()
}

/// Where and how the stream was taken, and the words that numbers in other messages stand for.
pub(crate) fn session(model: &LiveModel) -> String {
    let s = model.session();
    json!({
        "yuzuri": s.yuzuri,
        "host": s.host,
        "kernel": s.kernel,
        "machine": s.machine,
        "source": s.source,
        "hooks": s.hooks,
        "started_unix_us": s.started_unix_ns / 1000,
        "now": TimeBase::of(model).us(model.now_ns()),
        "filter_syntax": yuzuri_trace::Filter::SYNTAX,
        "kinds": Kind::ALL.iter().map(|k| k.name()).collect::<Vec<_>>(),
        "reasons": Reason::ALL.iter().map(|r| r.name()).collect::<Vec<_>>(),
        "states": CaState::ALL.iter().map(|s| s.name()).collect::<Vec<_>>(),
        "marks": Marks::ALL.iter().map(|(m, word)| (m.0, *word)).collect::<Vec<_>>(),
    })
    .to_string()
}

/// The head of [`csv_line`]'s lines.
pub(crate) const CSV_HEAD: &str = "start_us,last_us,events,cwnd_min,cwnd_max,cwnd_last,ssthresh,srtt_min_us,srtt_max_us,srtt_last_us,in_flight_max,bytes_acked,bytes_received,state,states_bits,marks,kinds_bits,retransmits\n";

/// A bucket as a line of CSV; empty where there is no value.
pub(crate) fn csv_line(out: &mut String, base: TimeBase, b: &Bucket) {
    let blank = |n: u32| if n == 0 { String::new() } else { n.to_string() };
    let state = CaState::from_kernel(b.state).map_or("", CaState::name);
    let marks: Vec<&str> = b.marks.words().collect();
    let _ = writeln!(
        out,
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{state},{},{},{},{}",
        base.us(b.start_ns),
        base.us(b.last_ns),
        b.events,
        b.cwnd.0,
        b.cwnd.1,
        b.cwnd.2,
        blank(finite_ssthresh(b.ssthresh)),
        blank(b.srtt_us.0),
        blank(b.srtt_us.1),
        blank(b.srtt_us.2),
        b.in_flight,
        b.bytes_acked,
        b.bytes_received,
        b.states,
        marks.join(" "),
        b.kinds,
        b.retransmits,
    );
}
