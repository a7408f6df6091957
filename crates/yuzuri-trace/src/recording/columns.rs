//! The columns of a recording: one list, from which the schema and the documentation's table are
//! generated.

use crate::Session;
use crate::snapshot::numbers;
use arrow_array::types::{ArrowPrimitiveType, UInt16Type, UInt32Type, UInt64Type};
use arrow_schema::{DataType, Field, Metadata, Schema, TimeUnit};

/// The value of the metadata key `format`.
pub const FORMAT: &str = "yuzuri-recording";

/// The version this code writes, and the newest it reads (metadata key `format_version`).
pub const FORMAT_VERSION: u32 = 1;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// Wall time, nanoseconds since the Unix epoch, UTC.
    Time,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// True or false.
    Bool,
    /// UTF-8 text.
    Text,
}

impl ColumnType {
    /// The type in the Arrow schema.
    pub fn arrow(self) -> DataType {
        match self {
            ColumnType::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            ColumnType::U16 => DataType::UInt16,
            ColumnType::U32 => DataType::UInt32,
            ColumnType::U64 => DataType::UInt64,
            ColumnType::I64 => DataType::Int64,
            ColumnType::Bool => DataType::Boolean,
            ColumnType::Text => DataType::Utf8,
        }
    }

    /// The type's name in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            ColumnType::Time => "timestamp[ns, UTC]",
            ColumnType::U16 => "uint16",
            ColumnType::U32 => "uint32",
            ColumnType::U64 => "uint64",
            ColumnType::I64 => "int64",
            ColumnType::Bool => "bool",
            ColumnType::Text => "utf8",
        }
    }
}

/// The rows in which a column has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InRows {
    /// In every row; never null.
    All,
    /// In rows about a flow: its records and its identity.
    OfAFlow,
    /// In a flow's records (`kind` as in [`crate::Kind`]).
    Event,
    /// In a flow's records and in `account` rows.
    EventAndAccount,
    /// In `flow` rows; in a converted recording also in a flow's records.
    Flow,
    /// In `account` rows.
    Account,
    /// In `account` rows, and summed up in the `end` row.
    AccountAndEnd,
    /// In `setting` rows.
    Setting,
}

impl InRows {
    /// The wording in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            InRows::All => "all",
            InRows::OfAFlow => "event, flow",
            InRows::Event => "event",
            InRows::EventAndAccount => "event, account",
            InRows::Flow => "flow",
            InRows::Account => "account",
            InRows::AccountAndEnd => "account, end",
            InRows::Setting => "setting",
        }
    }
}

/// A column of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: ColumnType,
    /// The rows that have it.
    pub rows: InRows,
    /// The unit; empty if there is none.
    pub unit: &'static str,
    /// The meaning of null in the rows that have the column; empty if it is never null there.
    pub null: &'static str,
    /// The source of the value: the kernel's field (of `struct tcp_sock` unless stated otherwise),
    /// or how it is formed.
    pub source: &'static str,
}

const fn column(
    name: &'static str,
    kind: ColumnType,
    rows: InRows,
    unit: &'static str,
    null: &'static str,
    source: &'static str,
) -> Column {
    Column { name, kind, rows, unit, null, source }
}

use ColumnType::{Bool, I64, Text, Time, U16, U32, U64};
use InRows::{Account, AccountAndEnd, All, Event, EventAndAccount, Flow, OfAFlow, Setting};

/// Columns before the numbers of an event.
const BEFORE: [Column; 8] = [
    column(
        "time",
        Time,
        All,
        "ns",
        "",
        "mono_ns + wall_offset_ns of the last account, before it of the session",
    ),
    column("mono_ns", U64, All, "ns", "", "CLOCK_MONOTONIC (bpf_ktime_get_ns); flow rows: of the row before"),
    column("kind", Text, All, "", "", "event: see below; else flow, account, setting, end"),
    column("flow", U64, OfAFlow, "", "", "sk_cookie"),
    column("reason", Text, Event, "", "no reason known", "derived in the kernel, see below"),
    column("place", Text, Event, "", "unknown", "kernel function or tracepoint; sock_diag where polled"),
    column("ca_state", Text, Event, "", "", "icsk_ca_state"),
    column("ca_before", Text, Event, "", "the same as ca_state", "icsk_ca_state before the change"),
];

const IN_FLIGHT: Column = column(
    "in_flight",
    U32,
    Event,
    "segments",
    "",
    "packets_out + retrans_out - sacked_out - lost_out, at least 0",
);

/// How an event's number is stored in Arrow.
pub(super) trait Number {
    /// The array's type.
    type Arrow: ArrowPrimitiveType;
    /// Its column type.
    const KIND: ColumnType;
}

impl Number for u16 {
    type Arrow = UInt16Type;
    const KIND: ColumnType = U16;
}

impl Number for u32 {
    type Arrow = UInt32Type;
    const KIND: ColumnType = U32;
}

impl Number for u64 {
    type Arrow = UInt64Type;
    const KIND: ColumnType = U64;
}

macro_rules! columns_of_numbers {
    ($(
        $(#[$about:meta])*
        $type:ident $path:tt [$($part:ident: $part_type:ident)?] {$(
            $(#[$field_about:meta])*
            $field:ident: $native:ty => $column:ident, $unit:literal, $source:literal $(, null $null:expr, $meaning:literal)?;
        )*}
    )*) => {
        /// The numbers of an event.
        const NUMBERS: &[Column] = &[$($(
            column(stringify!($column), <$native as Number>::KIND, Event, $unit, concat!("" $(, $meaning)?), $source),
        )*)*];
    };
}

numbers!(columns_of_numbers);

/// Columns after them.
const AFTER: [Column; 32] = [
    column("mark_dup_ack", Bool, Event, "", "", "a duplicate ACK (RFC 5681) since the previous record"),
    column("mark_sack", Bool, Event, "", "", "SACK blocks (RFC 2018)"),
    column("mark_dsack", Bool, Event, "", "", "a duplicate arrival was reported (RFC 2883)"),
    column("mark_ece", Bool, Event, "", "", "an ACK carried ECE"),
    column("mark_app_limited", Bool, Event, "", "", "rate_app_limited"),
    column("mark_ssthresh", Bool, Event, "", "", "ssthresh differs from the previous record"),
    column("mark_sampled", Bool, Event, "", "", "polled from TCP_INFO, not taken at an event"),
    column(
        "mark_no_space",
        Bool,
        Event,
        "",
        "unknown",
        "SOCK_NOSPACE: the writer waits for room, nothing is unsent; not where polled",
    ),
    column("mark_cwnd_limited", Bool, Event, "", "unknown", "is_cwnd_limited; not where polled"),
    column(
        "mark_throttled",
        Bool,
        Event,
        "",
        "unknown",
        "TSQ_THROTTLED: the device's queue holds enough; not where polled",
    ),
    column(
        "mark_at_bound",
        Bool,
        Event,
        "",
        "the congestion control does not report it",
        "the window control's upper bound holds the congestion window",
    ),
    column("cpu", U16, EventAndAccount, "", "account: of all CPUs together", "the CPU; 0 where polled"),
    column("local", Text, Flow, "", "", "this end's address (IPv4 as such, also over an IPv6 socket)"),
    column("local_port", U16, Flow, "", "", "this end's port"),
    column("remote", Text, Flow, "", "", "the other end's address"),
    column("remote_port", U16, Flow, "", "", "the other end's port"),
    column("netns", U32, Flow, "", "", "inode number of the network namespace"),
    column("netns_name", Text, Flow, "", "no name in /run/netns", "name in /run/netns"),
    column("pid", U32, Flow, "", "owner unknown", "process id of the owner"),
    column("process", Text, Flow, "", "owner unknown", "/proc/PID/comm"),
    column("cgroup", U64, Flow, "", "unknown", "id of the cgroup (version 2)"),
    column("congestion_control", Text, Flow, "", "unknown", "icsk_ca_ops->name"),
    column("role", Text, Flow, "", "", "opened, accepted or unknown: which end sent the SYN"),
    column("inode", U64, Flow, "", "unknown", "the socket's inode number"),
    column(
        "wall_offset_ns",
        I64,
        Account,
        "ns",
        "a further row of the same account",
        "CLOCK_REALTIME - CLOCK_MONOTONIC",
    ),
    column(
        "seen",
        U64,
        AccountAndEnd,
        "records",
        "a further row of the same CPU",
        "records due since the start",
    ),
    column(
        "kept",
        U64,
        AccountAndEnd,
        "records",
        "a further row of the same CPU",
        "of these, reached user space",
    ),
    column(
        "lost",
        U64,
        AccountAndEnd,
        "records",
        "the account has no CPU",
        "of these, lost for the reason beside",
    ),
    column("lost_reason", Text, Account, "", "nothing lost", "ring-full, nested, no-memory, recording, face"),
    column(
        "thinned",
        U64,
        AccountAndEnd,
        "records",
        "a further row of the same CPU",
        "hook runs merged into a later sample",
    ),
    column("filter", Text, Setting, "", "all flows", "the filter's text"),
    column(
        "density_interval_ns",
        U64,
        Setting,
        "ns",
        "a sample at every ACK",
        "least distance of a flow's samples",
    ),
];

/// `in_flight` is derived and placed next to the windows.
const SPLIT: (&[Column], &[Column]) = NUMBERS.split_at(2);

const fn joined<const N: usize>(parts: &[&[Column]]) -> [Column; N] {
    let mut all = [IN_FLIGHT; N];
    let (mut part, mut next) = (0, 0);
    while part < parts.len() {
        let mut at = 0;
        while at < parts[part].len() {
            all[next] = parts[part][at];
            at += 1;
            next += 1;
        }
        part += 1;
    }
    all
}

/// Every column, in the order of the file.
pub const COLUMNS: &[Column] = &joined::<{ BEFORE.len() + NUMBERS.len() + 1 + AFTER.len() }>(&[
    &BEFORE,
    SPLIT.0,
    &[IN_FLIGHT],
    SPLIT.1,
    &AFTER,
]);

/// The metadata key that lists how a reader can verify that the recording is complete, as words
/// separated by blanks.
pub(super) const INTEGRITY: &str = "integrity";
/// A finished recording ends with a row of kind `end`.
pub(super) const END_ROW: &str = "end-row";
/// Every batch has a checksum.
pub(super) const CHECKSUM: &str = "crc32";

/// The schema of a recording of that session.
pub fn schema(session: &Session) -> Schema {
    let fields: Vec<Field> = COLUMNS
        .iter()
        .map(|column| {
            let mut about = Metadata::default();
            if !column.unit.is_empty() {
                about.insert("unit", column.unit);
            }
            about.insert("source", column.source);
            Field::new(column.name, column.kind.arrow(), column.rows != InRows::All).with_metadata(about)
        })
        .collect();
    Schema::new(fields).with_metadata(metadata(session))
}

/// The session as key and value: all of it as JSON, and its main parts separately for readers
/// without JSON.
fn metadata(session: &Session) -> Metadata {
    let hooks: Vec<&str> = session
        .hooks
        .iter()
        .filter(|hook| hook.state == crate::HookState::Used)
        .map(|hook| hook.name.as_str())
        .collect();
    let mut pairs = Metadata::default();
    pairs.insert("format", FORMAT);
    pairs.insert("format_version", FORMAT_VERSION.to_string());
    pairs.insert(INTEGRITY, format!("{END_ROW} {CHECKSUM}"));
    // A Session consists of numbers, text and lists, so converting it to JSON cannot fail.
    pairs.insert("session", serde_json::to_string(session).unwrap_or_default());
    pairs.insert("yuzuri", session.yuzuri.as_str());
    pairs.insert("host", session.host.as_str());
    pairs.insert("kernel", session.kernel.as_str());
    pairs.insert("machine", session.machine.as_str());
    pairs.insert(
        "source",
        match session.source {
            crate::Source::Events => "events",
            crate::Source::Sampled => "sampled",
        },
    );
    pairs.insert("filter", session.filter.as_str());
    pairs.insert("density", session.density.to_string());
    pairs.insert("hooks", hooks.join(" "));
    pairs
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Marks;

    #[test]
    fn every_mark_has_its_column() {
        let columns: Vec<_> = COLUMNS.iter().filter_map(|c| c.name.strip_prefix("mark_")).collect();
        let marks: Vec<_> = Marks::ALL.iter().map(|(_, word)| word.replace('-', "_")).collect();
        assert_eq!(columns, marks);
    }

    /// The documentation's table matches the code, row by row; `UPDATE_GOLDEN=1` rewrites it.
    #[test]
    fn the_documentation_lists_every_column() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recording-format.md");
        let text = std::fs::read_to_string(path).unwrap();
        let is_row = |line: &&str| line.starts_with("| `");
        let listed: Vec<_> = text.lines().filter(is_row).collect();
        let expected: Vec<_> = COLUMNS
            .iter()
            .map(|c| {
                let cells =
                    [&format!("`{}`", c.name), c.kind.name(), c.rows.name(), c.unit, c.null, c.source];
                format!("| {} |", cells.join(" | ")).replace("|  |", "| |").replace("|  |", "| |")
            })
            .collect();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let before = text.lines().take_while(|line| !is_row(line));
            let after = text.lines().skip_while(|line| !is_row(line)).skip_while(is_row);
            let all: Vec<_> = before.chain(expected.iter().map(String::as_str)).chain(after).collect();
            std::fs::write(path, all.join("\n") + "\n").unwrap();
            return;
        }
        assert_eq!(listed, expected, "UPDATE_GOLDEN=1 cargo test -p yuzuri-trace --lib columns");
    }
}
