//! The committed format: today's reader reads it, today's writer writes it.
//!
//! `UPDATE_GOLDEN=1 cargo test -p yuzuri-trace --test recording_golden` rewrites the files: only
//! for a new format version, or for additions to this one. `v1.arrows` and its conversions stay as
//! they are.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use yuzuri_trace::recording::{Format, Reader, Tail, Writer, convert};
use yuzuri_trace::{
    Account, CaState, Counts, CpuAccount, Density, Event, FlowId, Item, Kind, LossReason, Marks, Place,
    Reason, Sender, Setting, Snapshot,
};

/// A recording from before the end mark and the checksums: always readable, and never written
/// again.
const OLD: &str = "v1.arrows";
/// A recording from before the columns about what keeps a sender from sending.
const BEFORE_SENDER: &str = "v1-end.arrows";
/// A recording from before the mark that reports a bound.
const BEFORE_BOUND: &str = "v1-sender.arrows";
/// A recording from before the window's scale and the kernel's chronographs.
const BEFORE_CHRONOGRAPHS: &str = "v1-bound.arrows";
/// Today's format.
const TODAY: &str = "v1-chronographs.arrows";
/// The number of marks at first.
const FORMER_MARKS: usize = 7;
const MARKS_BEFORE_BOUND: usize = 10;

fn golden(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect()
}

/// Every kind, reason, state and mark, extreme values, and an account with every field.
fn items() -> Vec<Item> {
    let start = common::STARTED_MONO_NS;
    let mut items: Vec<Item> = (0..4).map(|n| Item::Flow(Arc::new(common::flow(n)))).collect();
    let measured = Snapshot {
        cwnd: 10,
        ssthresh: 7,
        srtt_us: 20_123,
        rttvar_us: 1_500,
        min_rtt_us: 19_876,
        packets_out: 10,
        sacked_out: 3,
        lost_out: 2,
        retrans_out: 1,
        mss: 1448,
        snd_wnd: 3_145_728,
        rcv_wnd: 65_483,
        wmem_queued: 115_200,
        notsent: 43_440,
        bytes_acked: 1_234_567_890_123,
        bytes_received: 517,
        delivery_rate_bps: 9_876_543_210,
        pacing_rate_bps: 12_000_000_000,
        total_retrans: 42,
        reordering: 3,
        ..Snapshot::UNKNOWN
    };
    let unmeasured = Snapshot {
        ssthresh: Snapshot::SSTHRESH_INFINITE,
        min_rtt_us: u32::MAX,
        pacing_rate_bps: u64::MAX,
        ..Snapshot::default()
    };
    // The reasons that existed when the old recording was made.
    let reasons = Reason::ALL.iter().take_while(|reason| **reason != Reason::CloseNotSeen);
    for (n, &reason) in reasons.enumerate() {
        let kind = Kind::ALL[n % Kind::ALL.len()];
        let ca_state = CaState::ALL[n % 5];
        items.push(Item::Event(Event {
            mono_ns: start + 1_000_000 * n as u64,
            flow: FlowId(0x1000 + n as u64 % 4),
            kind,
            reason,
            place: Place::named(["tcp:tcp_probe", "tcp_enter_loss", "sock_diag", ""][n % 4]),
            ca_state,
            ca_before: if kind == Kind::State { CaState::ALL[(n + 1) % 5] } else { ca_state },
            marks: Marks(1 << (n % FORMER_MARKS)),
            counts: Counts { acks: 9, dup_acks: 3, sacks: 2, dsacks: 1 },
            snapshot: if n % 3 == 0 { unmeasured } else { measured },
            cpu: n as u16 % 2,
        }));
    }
    items.push(Item::Setting(Arc::new(Setting {
        mono_ns: start + 20_000_000,
        filter: "port 80 and not addr 10.0.0.0/8".into(),
        density: Density::EveryAck,
    })));
    items.push(Item::Setting(Arc::new(Setting {
        mono_ns: start + 21_000_000,
        filter: String::new(),
        density: Density::Interval { ns: 1_000_000 },
    })));
    items.push(Item::Account(Arc::new(Account {
        mono_ns: start + 22_000_000,
        wall_offset_ns: common::session().wall_offset_ns() + 1000,
        cpus: vec![
            CpuAccount {
                cpu: Some(0),
                seen: 30,
                kept: 15,
                // The reasons of the first version.
                lost: LossReason::ALL[..5].iter().zip(1..).map(|(reason, n)| (*reason, n)).collect(),
                thinned: 7,
            },
            CpuAccount { cpu: Some(1), seen: 4, kept: 4, lost: vec![], thinned: 0 },
            CpuAccount { cpu: None, seen: 0, kept: 0, lost: vec![], thinned: 0 },
        ],
    })));
    items.push(Item::Event(Event { mono_ns: start + 23_000_000, flow: FlowId(0xffff), ..Event::default() }));
    items
}

/// The same, with the window's scale and the kernel's chronographs from `TCP_INFO`.
fn items_today() -> Vec<Item> {
    let mut items = items_before_chronographs();
    let sender = Sender {
        snd_wscale: 7,
        busy_us: 12_345_678,
        rwnd_limited_us: 4_000_000,
        sndbuf_limited_us: 0,
        ..Sender::UNKNOWN
    };
    items.push(Item::Event(Event {
        mono_ns: common::STARTED_MONO_NS + 27_000_000,
        flow: FlowId(0x1003),
        marks: Marks::SAMPLED,
        snapshot: Snapshot { sender, ..Snapshot::default() },
        ..Event::default()
    }));
    items
}

/// The same, and whether a bound holds the window.
fn items_before_chronographs() -> Vec<Item> {
    let mut items = items_before_bound();
    for (n, marks) in
        [Marks::REPORTS_BOUND.0, Marks::REPORTS_BOUND.0 | Marks::AT_BOUND.0].into_iter().enumerate()
    {
        items.push(Item::Event(Event {
            mono_ns: common::STARTED_MONO_NS + 26_000_000 + n as u64,
            flow: FlowId(0x1003),
            marks: Marks(marks),
            ..Event::default()
        }));
    }
    items
}

/// The same, and what keeps a sender from sending.
fn items_before_bound() -> Vec<Item> {
    let mut items = items_before_sender();
    let sender = Sender {
        sndbuf: 2_626_560,
        wmem_alloc: 4_608,
        outstanding_bytes: 14_480,
        max_window: 3_145_728,
        prior_cwnd: 10,
        pacing_wait_us: 250,
        ..Sender::UNKNOWN
    };
    for (n, (mark, _)) in Marks::ALL.into_iter().take(MARKS_BEFORE_BOUND).enumerate() {
        items.push(Item::Event(Event {
            mono_ns: common::STARTED_MONO_NS + 25_000_000 + n as u64,
            flow: FlowId(0x1002),
            marks: mark,
            snapshot: Snapshot { sender, ..Snapshot::default() },
            ..Event::default()
        }));
    }
    items
}

/// The same as at first, and later additions.
fn items_before_sender() -> Vec<Item> {
    let start = common::STARTED_MONO_NS;
    let close = Event::close_not_seen(FlowId(0x1001), start + 24_000_000, Place::named("sock_diag"));
    let mut items = items();
    items.push(Item::Event(close));
    items
}

fn today() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    let mut writer = Writer::create(&path, &common::session(), false).unwrap();
    let now = Instant::now();
    let items = items_today();
    let (first, second) = items.split_at(12);
    for part in [first, second] {
        writer.write(part, now).unwrap();
        writer.flush(now).unwrap();
    }
    writer.finish();
    std::fs::read(path).unwrap()
}

fn update() -> bool {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    if update {
        std::fs::create_dir_all(golden("")).unwrap();
    }
    update
}

#[test]
fn the_recording_reads_as_it_did() {
    if update() {
        std::fs::write(golden(TODAY), today()).unwrap();
    }
    for (name, items, tail) in [
        (OLD, items(), Tail::Unknown),
        (BEFORE_SENDER, items_before_sender(), Tail::Complete),
        (BEFORE_BOUND, items_before_bound(), Tail::Complete),
        (BEFORE_CHRONOGRAPHS, items_before_chronographs(), Tail::Complete),
        (TODAY, items_today(), Tail::Complete),
    ] {
        let mut reader = Reader::open(&golden(name)).unwrap();
        assert_eq!(*reader.session(), common::session());
        let mut read = Vec::new();
        while let Some(batch) = reader.next_batch().unwrap() {
            read.extend(batch);
        }
        assert_eq!(read, items, "{name}");
        assert_eq!((reader.tail(), reader.unknown_rows()), (Some(tail), 0), "{name}");
        assert_eq!(reader.complete(), if name == OLD { None } else { Some(true) });
    }
}

/// Byte by byte: the same schema, the same rows in the same encoding, compressed by the same zstd.
/// If only the last has changed (a newer zstd), the conversions below still agree, and the file may
/// be rewritten.
#[test]
fn the_recording_is_written_as_it_was() {
    if update() {
        return;
    }
    let committed = std::fs::read(golden(TODAY)).unwrap();
    let now = today();
    let head = |bytes: &[u8]| {
        let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        bytes[..8 + length].to_vec()
    };
    assert!(head(&now) == head(&committed), "the schema or its metadata changed");
    assert!(now == committed, "the batches changed");
}

fn conversion(recording: &str, name: &str, format: Format) {
    let mut out = Vec::new();
    convert(Reader::open(&golden(recording)).unwrap(), format, &mut out, None, |_, _| ()).unwrap();
    if update() && recording == TODAY {
        std::fs::write(golden(name), &out).unwrap();
    }
    let then = std::fs::read_to_string(golden(name)).unwrap();
    let mut now = String::from_utf8(out).unwrap();
    if format == Format::Csv && recording != TODAY {
        now = with_columns_of(&then, &now);
    }
    for (number, (now, then)) in now.lines().zip(then.lines()).enumerate() {
        assert_eq!(now, then, "line {}", number + 1);
    }
    assert_eq!(now.len(), then.len());
}

/// The CSV with only the columns that an older one has: later ones may have been added. No value
/// contains a comma.
fn with_columns_of(older: &str, csv: &str) -> String {
    let columns = |csv: &str| csv.lines().next().unwrap().split(',').map(str::to_owned).collect::<Vec<_>>();
    let all = columns(csv);
    let place =
        |name: &String| all.iter().position(|other| other == name).expect("columns are never removed");
    let places: Vec<usize> = columns(older).iter().map(place).collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), all.len(), "{line}");
        places.iter().map(|&place| cells[place]).collect::<Vec<_>>().join(",") + "\n"
    };
    csv.lines().map(row).collect()
}

#[test]
fn conversions_are_as_they_were() {
    if update() {
        std::fs::write(golden(TODAY), today()).unwrap();
    }
    conversion(OLD, "v1.csv", Format::Csv);
    conversion(OLD, "v1.jsonl", Format::JsonLines);
    conversion(BEFORE_SENDER, "v1-end.csv", Format::Csv);
    conversion(BEFORE_SENDER, "v1-end.jsonl", Format::JsonLines);
    conversion(BEFORE_BOUND, "v1-sender.csv", Format::Csv);
    conversion(BEFORE_BOUND, "v1-sender.jsonl", Format::JsonLines);
    conversion(BEFORE_CHRONOGRAPHS, "v1-bound.csv", Format::Csv);
    conversion(BEFORE_CHRONOGRAPHS, "v1-bound.jsonl", Format::JsonLines);
    conversion(TODAY, "v1-chronographs.csv", Format::Csv);
    conversion(TODAY, "v1-chronographs.jsonl", Format::JsonLines);
}

/// Parquet's bytes depend on the library; their content is ours.
#[test]
fn parquet_holds_the_same_rows_and_the_session() {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let out = std::fs::File::create(&path).unwrap();
    let recording = || Reader::open(&golden(OLD)).unwrap();
    let done = convert(recording(), Format::Parquet, out, None, |_, _| ()).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&path).unwrap()).unwrap();
    // Columns have the recording's types, units and sources.
    let columns = arrow_ipc::reader::StreamReader::try_new(std::fs::File::open(golden(OLD)).unwrap(), None);
    let columns = columns.unwrap().schema();
    for column in builder.schema().fields() {
        // Columns that this old recording lacks were added since.
        if let Ok(recorded) = columns.field_with_name(column.name()) {
            assert_eq!(
                (column.data_type(), column.is_nullable()),
                (recorded.data_type(), recorded.is_nullable())
            );
            assert_eq!(column.metadata().contains_key("unit"), recorded.metadata().contains_key("unit"));
            assert!(column.metadata().contains_key("source"), "{column}");
        }
    }
    let metadata = builder.metadata().file_metadata().key_value_metadata().unwrap();
    let session = metadata.iter().find(|pair| pair.key == "session").unwrap().value.as_deref().unwrap();
    assert_eq!(serde_json::from_str::<yuzuri_trace::Session>(session).unwrap(), common::session());
    let mut csv = arrow_csv::WriterBuilder::new().with_header(true).build(Vec::new());
    let mut rows = 0;
    for batch in builder.build().unwrap() {
        let batch = batch.unwrap();
        rows += batch.num_rows() as u64;
        // All but the time, whose zone CSV formats differently.
        csv.write(&batch.project(&(1..batch.num_columns()).collect::<Vec<_>>()).unwrap()).unwrap();
    }
    assert_eq!(rows, done.rows);
    let csv = String::from_utf8(csv.into_inner()).unwrap();
    let then = std::fs::read_to_string(golden("v1.csv")).unwrap();
    let expected: String =
        then.lines().map(|line| line.split_once(',').unwrap().1.to_owned() + "\n").collect();
    assert_eq!(with_columns_of(&expected, &csv), expected);
}
