//! Encodes messages. Rows, buckets and events are arrays ([`fields`]), ids are hexadecimal text
//! (JavaScript's numbers are exact up to 2^53), times are microseconds since the session's start.
//! `ui/src/wire.ts` has the types of the messages.

use crate::fields::{self, EncodeContext};
use serde_json::json;
use std::fmt::Write as _;
use yuzuri_limits::Limit;
use yuzuri_trace::recording::COLUMNS;
use yuzuri_trace::{CaState, Density, Flow, Kind, LossReason, Marks, Reason};
use yuzuri_view::{Bucket, LiveModel, Logged, Replay, Row};

/// The origin of times.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TimeBase {
    start_ns: u64,
}

impl TimeBase {
    pub(crate) fn of(model: &LiveModel) -> TimeBase {
        TimeBase { start_ns: model.session().started_mono_ns }
    }

    /// Microseconds since the session's start; negative before it.
    pub(crate) fn us(self, mono_ns: u64) -> i64 {
        (mono_ns as i64).wrapping_sub(self.start_ns as i64).div_euclid(1000)
    }

    /// The inverse; times before boot become 0.
    pub(crate) fn mono_ns(self, us: i64) -> u64 {
        (self.start_ns as i64).saturating_add(us.saturating_mul(1000)).max(0) as u64
    }
}

/// Text as a JSON string.
pub(crate) fn text(out: &mut String, value: &str) {
    out.push_str(&serde_json::to_string(value).unwrap_or_else(|_| "\"\"".into()));
}

/// A flow's identity.
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

/// All numbers of the flow's last record, with unit and source as in the columns of a recording.
pub(crate) fn numbers(base: TimeBase, row: &Row) -> String {
    let known = row.last.has_snapshot();
    let numbers: Vec<_> = row
        .last
        .numbers()
        .filter_map(|(name, value)| {
            let column = COLUMNS.iter().find(|column| column.name == name)?;
            let value = value.filter(|_| known);
            Some(json!({
                "name": name, "value": value, "unit": column.unit, "missing": column.null, "source": column.source,
            }))
        })
        .collect();
    json!({ "time": base.us(row.last.mono_ns), "numbers": numbers }).to_string()
}

/// A flow's row in the table.
pub(crate) fn row(out: &mut String, base: TimeBase, row: &Row, now_ns: u64) {
    out.push('[');
    fields::write_all(out, EncodeContext { base, now_ns }, fields::ROW, row);
    out.push(']');
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

/// Values separated by commas.
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
    let at = EncodeContext::from(base);
    out.push('[');
    list(out, buckets.iter(), |out, bucket| fields::write_all(out, at, fields::BUCKET, bucket));
    out.push(']');
}

/// A notable event.
pub(crate) fn event(out: &mut String, base: TimeBase, logged: &Logged) {
    out.push('[');
    fields::write_all(out, base.into(), fields::EVENT, logged);
    out.push(']');
}

/// A density as the interval in microseconds; 0 for every ACK.
pub(crate) fn interval_us(density: Density) -> u64 {
    density.interval().as_micros() as u64
}

/// The account, the settings, and the state of a replay.
pub(crate) fn status(
    model: &LiveModel,
    replay: Option<Replay>,
    epoch: u64,
    not_shown: u64,
    browsers: usize,
) -> String {
    let base = TimeBase::of(model);
    let account = model.account();
    let reasons: Vec<(&str, u64)> = account
        .map(|a| a.lost_by_reason().into_iter().map(|(r, n): (LossReason, u64)| (r.name(), n)).collect())
        .unwrap_or_default();
    // Unix time of the origin of times, microseconds.
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
        "not_shown": not_shown,
        "forgotten": model.discarded_flows(),
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

/// Where and how the stream was recorded, and the words for numbers in other messages.
pub(crate) fn session(model: &LiveModel) -> String {
    let s = model.session();
    json!({
        "yuzuri": s.yuzuri,
        "host": s.host,
        "kernel": s.kernel,
        "machine": s.machine,
        "source": s.source,
        "hooks": s.hooks.iter().map(|h| json!({ "name": h.name, "provides": h.provides, "state": h.state })).collect::<Vec<_>>(),
        "started_unix_us": s.started_unix_ns / 1000,
        "now": TimeBase::of(model).us(model.now_ns()),
        "filter_syntax": yuzuri_trace::Filter::SYNTAX,
        "kinds": Kind::ALL.iter().map(|k| k.name()).collect::<Vec<_>>(),
        "reasons": Reason::ALL.iter().map(|r| r.name()).collect::<Vec<_>>(),
        "states": CaState::ALL.iter().map(|s| s.name()).collect::<Vec<_>>(),
        "limits": Limit::ALL.iter().map(|l| l.name()).collect::<Vec<_>>(),
        "marks": Marks::ALL.iter().map(|(m, word)| (m.0, *word)).collect::<Vec<_>>(),
    })
    .to_string()
}

/// The header of [`csv_line`]'s lines.
pub(crate) fn csv_head(out: &mut String) {
    list(out, fields::CSV.iter(), |out, column| out.push_str(column.name));
    out.push('\n');
}

/// A bucket as a line of CSV.
pub(crate) fn csv_line(out: &mut String, base: TimeBase, bucket: &Bucket) {
    fields::write_all(out, base.into(), fields::CSV, bucket);
    out.push('\n');
}
