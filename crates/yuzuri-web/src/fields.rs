//! The layout of the arrays in the page's messages: one list for each kind of array.
//!
//! Rows, buckets and events are arrays of numbers, because a name for each number would double the
//! bytes. Rust writes them from these lists, and `ui/src/fields.ts`, with which the page reads
//! them, is generated from the same lists (`UPDATE_GOLDEN=1 cargo test -p yuzuri-web fields`).

use crate::encode::{TimeBase, text};
use std::fmt::Write as _;
use yuzuri_limits::Limit;
use yuzuri_trace::{CaState, Marks, Snapshot};
use yuzuri_view::{Bucket, Logged, Row};

/// One value of an array. `value` appends it as JSON.
pub(crate) struct ArrayField<T> {
    /// The name of its index in TypeScript, or of its column.
    pub(crate) name: &'static str,
    /// A description, with the unit; empty where the name suffices.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the generator, which is a test"))]
    pub(crate) note: &'static str,
    pub(crate) value: fn(&mut String, EncodeContext, &T),
}

/// The context that encoding needs besides the value itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EncodeContext {
    pub(crate) base: TimeBase,
    /// `CLOCK_MONOTONIC`, the end of the interval for rates.
    pub(crate) now_ns: u64,
}

impl From<TimeBase> for EncodeContext {
    fn from(base: TimeBase) -> EncodeContext {
        EncodeContext { base, now_ns: 0 }
    }
}

impl EncodeContext {
    fn us(self, mono_ns: u64) -> i64 {
        self.base.us(mono_ns)
    }
}

/// A list of fields: for each its name, its note, and the format and argument of `write!`.
macro_rules! fields {
    (|$of:ident: $type:ty, $at:ident| $($name:literal $note:literal: $format:literal $value:expr;)*) => {
        &[$(ArrayField {
            name: $name,
            note: $note,
            value: |out, $at, $of: &$type| {
                let _ = $at;
                let _ = write!(out, $format, $value);
            },
        },)*]
    };
}

/// 0 for the kernel's `TCP_INFINITE_SSTHRESH`.
fn finite_ssthresh(ssthresh: u32) -> u32 {
    if ssthresh >= Snapshot::SSTHRESH_INFINITE { 0 } else { ssthresh }
}

/// 0 where the kernel has not measured yet.
fn measured(min_rtt_us: u32) -> u32 {
    if min_rtt_us == u32::MAX { 0 } else { min_rtt_us }
}

/// -1: unknown.
fn known_bytes(bytes: Option<u32>) -> i64 {
    bytes.map_or(-1, i64::from)
}

/// 0 where pacing does not limit.
fn pacing_bps(rate_bps: u64) -> u64 {
    if rate_bps == u64::MAX { 0 } else { rate_bps }
}

/// Index into [`Limit::ALL`]; -1: unknown.
fn limit_index(limit: Option<Limit>) -> i32 {
    limit.map_or(-1, |limit| limit as i32)
}

/// A time, or `null`.
struct OptionalMicros(Option<i64>);

impl std::fmt::Display for OptionalMicros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(us) => us.fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// A flow's row in the table.
pub(crate) const ROW: &[ArrayField<Row>] = fields! { |row: Row, at|
    "ID" "the flow's socket cookie, hexadecimal text": "\"{}\"" row.flow.id;
    "SENT" "bytes acknowledged, bit/s": "{:.0}" row.sent_bps(at.now_ns);
    "RECEIVED" "bytes received, bit/s": "{:.0}" row.received_bps(at.now_ns);
    "CWND" "segments": "{}" row.last.snapshot.cwnd;
    "SSTHRESH" "segments; 0: none yet": "{}" finite_ssthresh(row.last.snapshot.ssthresh);
    "SRTT" "µs; 0: unmeasured": "{}" row.last.snapshot.srtt_us;
    "RTTVAR" "µs": "{}" row.last.snapshot.rttvar_us;
    "MIN_RTT" "µs; 0: unmeasured": "{}" measured(row.last.snapshot.min_rtt_us);
    "IN_FLIGHT" "segments": "{}" row.last.snapshot.in_flight();
    "LOST" "lost_out, segments": "{}" row.last.snapshot.lost_out;
    "SACKED" "sacked_out, segments": "{}" row.last.snapshot.sacked_out;
    "RETRANS_OUT" "retrans_out, segments": "{}" row.last.snapshot.retrans_out;
    "MSS" "mss_cache, bytes": "{}" row.last.snapshot.mss;
    "SND_WND" "the peer's receive window, bytes; -1: unknown": "{}" known_bytes(row.last.snapshot.known_snd_wnd_bytes());
    "RCV_WND" "our receive window, bytes": "{}" row.last.snapshot.rcv_wnd;
    "WMEM" "sk_wmem_queued, bytes": "{}" row.last.snapshot.wmem_queued;
    "NOTSENT" "written and not yet sent, bytes; -1: unknown": "{}" known_bytes(row.last.snapshot.known_notsent_bytes());
    "DELIVERY" "delivery rate, bit/s": "{}" row.last.snapshot.delivery_rate_bps;
    "PACING" "pacing rate, bit/s; 0: does not limit": "{}" pacing_bps(row.last.snapshot.pacing_rate_bps);
    "TOTAL_RETRANS" "segments": "{}" row.last.snapshot.total_retrans;
    "STATE" "index into STATES": "{}" row.last.ca_state as u8;
    "CLOSED" "time, µs; null: open": "{}" OptionalMicros(row.closed_ns.map(|closed| at.us(closed)));
    "TIMEOUTS" "retransmission timeouts since watching began": "{}" row.tally.timeouts;
    "DUP_ACKS" "duplicate ACKs since watching began": "{}" row.tally.dup_acks;
    "DSACKS" "DSACKs since watching began": "{}" row.tally.dsacks;
    "EVENTS" "records since watching began": "{}" row.tally.events;
    "APP_LIMITED" "1: the application had nothing to send": "{}" u8::from(row.last.marks.contains(Marks::APP_LIMITED));
    "ACKED" "bytes_acked": "{}" row.last.snapshot.bytes_acked;
    "BYTES_RECEIVED" "bytes_received": "{}" row.last.snapshot.bytes_received;
    "UNWATCHED" "since when the filter no longer selects it, µs; null: it is watched": "{}" OptionalMicros(row.unwatched_ns.map(|since| at.us(since)));
    "LIMIT" "what limited it for most of the last two seconds, index into LIMITS; -1: unknown": "{}" limit_index(row.limited_by(at.now_ns).map(|(limit, _)| limit));
    "LIMIT_PART" "for which part of that time, per cent; 0: unknown": "{:.0}" row.limited_by(at.now_ns).map_or(0.0, |(_, part)| part * 100.0);
    "BOUND_SINCE" "when a record first said that the window is at its upper bound by sharing, µs; null: none did": "{}" OptionalMicros(row.bound_since_ns.map(|since| at.us(since)));
};

/// What happened to a flow in a stretch of time. `merge` in `ui/src/ring.ts` merges them as
/// [`Bucket::merge`] does.
pub(crate) const BUCKET: &[ArrayField<Bucket>] = fields! { |b: Bucket, at|
    "START" "µs": "{}" at.us(b.start_ns);
    "LAST" "time of the last record, µs": "{}" at.us(b.last_ns);
    "EVENTS" "records": "{}" b.events;
    "CWND_MIN" "segments": "{}" b.cwnd.0;
    "CWND_MAX" "segments": "{}" b.cwnd.1;
    "CWND" "the last, segments": "{}" b.cwnd.2;
    "SSTHRESH" "the last, segments; 0: none yet": "{}" finite_ssthresh(b.ssthresh);
    "SRTT_MIN" "µs; 0: unmeasured": "{}" b.srtt_us.0;
    "SRTT_MAX" "µs": "{}" b.srtt_us.1;
    "SRTT" "the last, µs": "{}" b.srtt_us.2;
    "MIN_RTT" "the last that was measured, µs; 0: none": "{}" measured(b.min_rtt_us);
    "IN_FLIGHT" "the largest, segments": "{}" b.in_flight;
    "ACKED" "bytes_acked at the end": "{}" b.bytes_acked;
    "RECEIVED" "bytes_received at the end": "{}" b.bytes_received;
    "STATES" "a bit for each state seen": "{}" b.states;
    "STATE" "the last, index into STATES": "{}" b.state;
    "MARKS" "marks seen (Mark)": "{}" b.marks.0;
    "KINDS" "a bit for each kind of record seen (Kind)": "{}" b.kinds;
    "RETRANSMITS" "segments": "{}" b.retransmits;
    "OUTSTANDING" "sent and not yet cumulatively acknowledged at the end, bytes": "{}" b.outstanding_bytes;
    "SACKED" "selectively acknowledged at the end, bytes": "{}" b.sacked_bytes;
    "SND_WND" "the peer's receive window at the end, bytes; -1: unknown": "{}" known_bytes(b.known_snd_wnd_bytes());
    "RCV_WND" "our receive window at the end, bytes": "{}" b.rcv_wnd;
    "LIMIT" "what limited the flow for most of the time, index into LIMITS": "{}" b.limit.limit as u8;
    "LIMIT_LEAD" "its certainty, µs (the lead in a majority vote weighted by time); 0: unknown": "{}" b.limit.lead_us;
    "LIMIT_BEFORE" "what limited it from the record before until the start, index into LIMITS; -1: unknown": "{}" limit_index(b.limit_before);
    "NOTSENT" "the last known of written and not yet sent, bytes; -1: unknown": "{}" known_bytes(b.known_notsent_bytes());
    "BOUND" "the last upper bound of the window by sharing that records show (a window that rests at it), segments; 0: none": "{}" b.bound;
};

/// A bucket as a line of CSV; empty where there is no value.
pub(crate) const CSV: &[ArrayField<Bucket>] = fields! { |b: Bucket, at|
    "start_us" "": "{}" at.us(b.start_ns);
    "last_us" "": "{}" at.us(b.last_ns);
    "events" "": "{}" b.events;
    "cwnd_min" "": "{}" b.cwnd.0;
    "cwnd_max" "": "{}" b.cwnd.1;
    "cwnd_last" "": "{}" b.cwnd.2;
    "ssthresh" "": "{}" unless_zero(finite_ssthresh(b.ssthresh));
    "srtt_min_us" "": "{}" unless_zero(b.srtt_us.0);
    "srtt_max_us" "": "{}" unless_zero(b.srtt_us.1);
    "srtt_last_us" "": "{}" unless_zero(b.srtt_us.2);
    "in_flight_max" "": "{}" b.in_flight;
    "bytes_acked" "": "{}" b.bytes_acked;
    "bytes_received" "": "{}" b.bytes_received;
    "state" "": "{}" CaState::from_kernel(b.state).map_or("", CaState::name);
    "states_bits" "": "{}" b.states;
    "marks" "": "{}" b.marks.words().collect::<Vec<_>>().join(" ");
    "kinds_bits" "": "{}" b.kinds;
    "retransmits" "": "{}" b.retransmits;
    "outstanding_bytes" "": "{}" b.outstanding_bytes;
    "sacked_bytes" "": "{}" b.sacked_bytes;
    "snd_wnd" "": "{}" unless_unknown(b.known_snd_wnd_bytes());
    "rcv_wnd" "": "{}" b.rcv_wnd;
    "limited_by" "": "{}" b.limit.known().map_or("", Limit::name);
    "notsent_bytes" "": "{}" unless_unknown(b.known_notsent_bytes());
    "bound" "": "{}" unless_zero(b.bound);
};

fn unless_unknown(bytes: Option<u32>) -> String {
    bytes.map_or(String::new(), |bytes| bytes.to_string())
}

fn unless_zero(number: u32) -> String {
    if number == 0 { String::new() } else { number.to_string() }
}

/// A notable event.
pub(crate) const EVENT: &[ArrayField<Logged>] = fields! { |of: Logged, at|
    "NUMBER" "counts up without gaps": "{}" of.number;
    "TIME" "µs": "{}" at.us(of.event.mono_ns);
    "FLOW" "the flow's socket cookie, hexadecimal text": "\"{}\"" of.event.flow;
    "KIND" "Kind": "{}" of.event.kind as u8;
    "REASON" "Reason": "{}" of.event.reason as u8;
    "PLACE" "kernel function or tracepoint, text": "{}" Text(of.event.place.name());
    "STATE" "index into STATES": "{}" of.event.ca_state as u8;
    "BEFORE" "the state before, index into STATES": "{}" of.event.ca_before as u8;
    "MARKS" "Mark": "{}" of.event.marks.0;
    "CWND" "segments": "{}" of.event.snapshot.cwnd;
    "SSTHRESH" "segments; 0: none yet": "{}" finite_ssthresh(of.event.snapshot.ssthresh);
    "SRTT" "µs; 0: unmeasured": "{}" of.event.snapshot.srtt_us;
    "CPU" "processor": "{}" of.event.cpu;
};

/// Text as a JSON string.
struct Text<'a>(&'a str);

impl std::fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut quoted = String::new();
        text(&mut quoted, self.0);
        f.write_str(&quoted)
    }
}

/// Appends the values of all fields, separated by commas.
pub(crate) fn write_all<T>(out: &mut String, at: EncodeContext, fields: &[ArrayField<T>], of: &T) {
    for (n, field) in fields.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        (field.value)(out, at, of);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::path::Path;
    use yuzuri_trace::{Kind, Reason};
    use yuzuri_view::DominantLimit;

    const HTTP_API: &str = "../../docs/http-api.md";

    fn indices<T>(out: &mut String, of: &str, name: &str, fields: &[ArrayField<T>]) {
        let _ = writeln!(out, "\n/** Indices of {of}. */\nexport const {name} = {{");
        for (n, ArrayField { name, note, .. }) in fields.iter().enumerate() {
            let _ = writeln!(out, "  /** {note} */\n  {name}: {n},");
        }
        out.push_str("} as const;\n");
    }

    fn numbers<N: Into<u64>>(
        out: &mut String,
        of: &str,
        name: &str,
        words: impl Iterator<Item = (N, &'static str)>,
    ) {
        let _ = writeln!(out, "\n/** {of} */\nexport const {name} = {{");
        for (number, word) in words {
            let word = if word.is_empty() { "none" } else { word };
            let _ = writeln!(out, "  {}: {},", word.replace('-', "_").to_uppercase(), number.into());
        }
        out.push_str("} as const;\n");
    }

    fn typescript() -> String {
        let mut out = String::from(
            "// Indices of the fields in the arrays of messages. Generated from `src/fields.rs`:\n// UPDATE_GOLDEN=1 cargo test -p yuzuri-web fields\n",
        );
        indices(&mut out, "a row's array", "R", ROW);
        indices(&mut out, "a bucket, of which messages hold many one after the other", "B", BUCKET);
        let _ = writeln!(out, "/** Numbers per bucket. */\nexport const STRIDE = {};", BUCKET.len());
        indices(&mut out, "an event's array", "E", EVENT);
        numbers(
            &mut out,
            "`Kind` of `yuzuri-trace`.",
            "Kind",
            Kind::ALL.iter().map(|k| (*k as u8, k.name())),
        );
        numbers(
            &mut out,
            "`Reason` of `yuzuri-trace`.",
            "Reason",
            Reason::ALL.iter().map(|r| (*r as u8, r.name())),
        );
        numbers(
            &mut out,
            "`Marks` of `yuzuri-trace`.",
            "Mark",
            Marks::ALL.into_iter().map(|(m, word)| (m.0, word)),
        );
        numbers(
            &mut out,
            "`CaState` of `yuzuri-trace`.",
            "State",
            CaState::ALL.into_iter().map(|s| (s as u8, s.name())),
        );
        out.push_str("\n/** What limits a sender, by its index (`Limit` of `yuzuri-limits`), and its name in a narrow column. */\nexport const LIMITS = [\n");
        for limit in Limit::ALL {
            let _ = writeln!(out, "  [\"{limit}\", \"{}\"],", yuzuri_view::short(limit));
        }
        out.push_str("] as const;\n");
        out
    }

    /// Compares a text with its golden file; `UPDATE_GOLDEN=1` rewrites it.
    fn assert_golden(path: &str, made: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, made).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(
            kept == made,
            "{} is not up to date: UPDATE_GOLDEN=1 cargo test -p yuzuri-web fields",
            path.display()
        );
    }

    /// The documentation's table of some fields, between its markers.
    fn documented<T>(page: &str, of: &str, fields: &[ArrayField<T>]) -> String {
        let (begin, end) = (format!("<!-- {of}: begin -->\n"), format!("<!-- {of}: end -->"));
        let (head, rest) = page.split_once(&begin).unwrap();
        let (_, tail) = rest.split_once(&end).unwrap();
        let mut table = String::from("| Index | Name | Value |\n|---|---|---|\n");
        for (n, field) in fields.iter().enumerate() {
            let _ = writeln!(table, "| {n} | `{}` | {} |", field.name.to_lowercase(), field.note);
        }
        format!("{head}{begin}{table}{end}{tail}")
    }

    #[test]
    fn the_documentation_lists_every_array_index() {
        let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(HTTP_API)).unwrap();
        let page = documented(&page, "row", ROW);
        let page = documented(&page, "bucket", BUCKET);
        assert_golden(HTTP_API, &documented(&page, "event", EVENT));
    }

    #[test]
    fn the_page_reads_what_is_written_here() {
        assert_golden("ui/src/fields.ts", &typescript());
    }

    /// Buckets in which each value is sometimes unmeasured, and some of which are late.
    fn buckets() -> Vec<Bucket> {
        let mut drawn = 20_u32;
        let mut draw = |below: u32| {
            // Any fixed sequence serves: a linear congruential generator (Numerical Recipes).
            drawn = drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (drawn >> 8) % below
        };
        (0..64)
            .map(|n| {
                let (cwnd, wider, srtt_us) = (1 + draw(100), draw(9), draw(3) * (1000 + draw(90_000)));
                let last_us = 1000 + n * 10 + u64::from(draw(40));
                Bucket {
                    // Sometimes later than an earlier one.
                    start_ns: [0, (last_us - 5) * 1000][if n == 0 { 0 } else { draw(2) as usize }],
                    last_ns: last_us * 1000,
                    events: 1 + draw(5),
                    cwnd: (cwnd, cwnd + wider, cwnd + draw(wider + 1)),
                    ssthresh: [Snapshot::SSTHRESH_INFINITE, 7, cwnd][draw(3) as usize],
                    srtt_us: (srtt_us, srtt_us, srtt_us),
                    min_rtt_us: [u32::MAX, 900 + draw(90)][draw(2) as usize],
                    in_flight: draw(cwnd),
                    bytes_acked: u64::from(draw(1_000_000)),
                    bytes_received: u64::from(draw(1_000_000)),
                    states: 1 << draw(5),
                    state: draw(5) as u8,
                    marks: Marks(1 << draw(7)),
                    kinds: 1 << draw(9),
                    retransmits: draw(3),
                    outstanding_bytes: draw(200_000),
                    sacked_bytes: draw(50_000),
                    snd_wnd: draw(1 << 20),
                    rcv_wnd: draw(1 << 20),
                    limit: DominantLimit {
                        limit: Limit::ALL[draw(4) as usize],
                        lead_us: draw(4) * draw(9_000),
                    },
                    limit_before: [None, Some(Limit::ALL[draw(4) as usize])][draw(2) as usize],
                    notsent_bytes: [u32::MAX, draw(90_000)][draw(4).min(1) as usize],
                    bound: draw(2) * draw(60),
                }
            })
            .collect()
    }

    /// The page's own test (`ui/test/merge.test.ts`) merges the same buckets and compares with the
    /// same file.
    #[test]
    fn both_sides_join_buckets_alike() {
        let at = EncodeContext::default();
        let array = |bucket: &Bucket| {
            let mut out = String::from("[");
            write_all(&mut out, at, BUCKET, bucket);
            out + "]"
        };
        let all = buckets();
        let mut steps = Vec::new();
        let mut joined = all[0];
        for bucket in &all[1..] {
            joined.merge(bucket);
            steps.push(format!("[{},{}]", array(bucket), array(&joined)));
        }
        let made = format!("{{\"first\":{},\"joined\":[\n{}\n]}}\n", array(&all[0]), steps.join(",\n"));
        assert_golden("tests/data/merged-buckets.json", &made);
    }
}
