//! The committed format: today's reader reads it, today's writer writes it.
//!
//! For an addition to the format, append a line to `RECORDINGS`: a new name, and a function that
//! returns items with the addition. `UPDATE_GOLDEN=1 cargo test -p yuzuri-trace --test
//! recording_golden` then writes the files of the last line; older files stay as they are.
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

/// Returns the items that a recording adds.
type Added = fn() -> Vec<Item>;

/// The committed recordings, oldest first: the name of its files, and the items that it has in
/// addition to those of the recording before. The last one is today's format; the others are never
/// written again, and always readable.
const RECORDINGS: [(&str, Added); 7] = [
    // Without the end mark and the checksums.
    ("v1", first),
    ("v1-end", close_not_seen),
    ("v1-sender", limits_of_the_sender),
    ("v1-bound", bounds),
    ("v1-chronographs", chronographs),
    // The same columns; the unsent data may be unknown.
    ("v1-unsent", unknown_unsent_data),
    // The same columns; the other end's window may be unknown.
    ("v1-window", unknown_window),
];
const OLDEST: &str = RECORDINGS[0].0;
const TODAY: &str = RECORDINGS[RECORDINGS.len() - 1].0;
/// The number of marks at first.
const FORMER_MARKS: usize = 7;
const MARKS_BEFORE_BOUND: usize = 10;

fn golden(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect()
}

fn recording(name: &str) -> PathBuf {
    golden(&format!("{name}.arrows"))
}

/// The items of a committed recording.
fn items_of(name: &str) -> Vec<Item> {
    let last = RECORDINGS.iter().position(|(other, _)| *other == name).unwrap();
    RECORDINGS[..=last].iter().flat_map(|(_, added)| added()).collect()
}

/// Every kind, reason, state and mark, extreme values, and an account with every field.
fn first() -> Vec<Item> {
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

/// The reason of a flow whose close was not seen.
fn close_not_seen() -> Vec<Item> {
    let mono_ns = common::STARTED_MONO_NS + 24_000_000;
    vec![Item::Event(Event::close_not_seen(FlowId(0x1001), mono_ns, Place::named("sock_diag")))]
}

/// The values that can limit a sender, and its marks.
fn limits_of_the_sender() -> Vec<Item> {
    let sender = Sender {
        sndbuf: 2_626_560,
        wmem_alloc: 4_608,
        outstanding_bytes: 14_480,
        max_window: 3_145_728,
        prior_cwnd: 10,
        pacing_wait_us: 250,
        ..Sender::UNKNOWN
    };
    let marks = Marks::ALL.into_iter().take(MARKS_BEFORE_BOUND).enumerate();
    let event = |(n, (marks, _))| Event {
        mono_ns: common::STARTED_MONO_NS + 25_000_000 + n as u64,
        flow: FlowId(0x1002),
        marks,
        snapshot: Snapshot { sender, ..Snapshot::default() },
        ..Event::default()
    };
    marks.map(event).map(Item::Event).collect()
}

/// Whether the window is at a bound.
fn bounds() -> Vec<Item> {
    let marks = [Marks::REPORTS_BOUND.0, Marks::REPORTS_BOUND.0 | Marks::AT_BOUND.0].into_iter().enumerate();
    let event = |(n, marks)| Event {
        mono_ns: common::STARTED_MONO_NS + 26_000_000 + n as u64,
        flow: FlowId(0x1003),
        marks: Marks(marks),
        ..Event::default()
    };
    marks.map(event).map(Item::Event).collect()
}

/// The window's scale and the kernel's chronographs, from `TCP_INFO`.
fn chronographs() -> Vec<Item> {
    let sender = Sender {
        snd_wscale: 7,
        busy_us: 12_345_678,
        rwnd_limited_us: 4_000_000,
        sndbuf_limited_us: 0,
        ..Sender::UNKNOWN
    };
    vec![Item::Event(Event {
        mono_ns: common::STARTED_MONO_NS + 27_000_000,
        flow: FlowId(0x1003),
        marks: Marks::SAMPLED,
        snapshot: Snapshot { sender, ..Snapshot::default() },
        ..Event::default()
    })]
}

fn unknown_unsent_data() -> Vec<Item> {
    vec![Item::Event(Event {
        mono_ns: common::STARTED_MONO_NS + 28_000_000,
        flow: FlowId(0x1003),
        snapshot: Snapshot { notsent: u32::MAX, ..Snapshot::default() },
        ..Event::default()
    })]
}

fn unknown_window() -> Vec<Item> {
    vec![Item::Event(Event {
        mono_ns: common::STARTED_MONO_NS + 29_000_000,
        flow: FlowId(0x1003),
        snapshot: Snapshot { snd_wnd: u32::MAX, ..Snapshot::default() },
        ..Event::default()
    })]
}

fn today() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    let mut writer = Writer::create(&path, &common::session(), false).unwrap();
    let now = Instant::now();
    let items = items_of(TODAY);
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
fn old_recordings_are_read_unchanged() {
    if update() {
        std::fs::write(recording(TODAY), today()).unwrap();
    }
    for (name, _) in RECORDINGS {
        let tail = if name == OLDEST { Tail::Unknown } else { Tail::Complete };
        let mut reader = Reader::open(&recording(name)).unwrap();
        assert_eq!(*reader.session(), common::session());
        let has_all = matches!(name, "v1-chronographs" | "v1-unsent" | TODAY);
        assert_eq!(reader.missing_columns().is_empty(), has_all, "{name}");
        let missing = reader.missing_columns().contains(&"sndbuf_bytes");
        assert_eq!(missing, matches!(name, "v1" | "v1-end"), "{name}");
        let mut read = Vec::new();
        while let Some(batch) = reader.next_batch().unwrap() {
            read.extend(batch);
        }
        assert_eq!(read, items_of(name), "{name}");
        assert_eq!((reader.tail(), reader.unknown_rows()), (Some(tail), 0), "{name}");
        assert_eq!(reader.complete(), if name == OLDEST { None } else { Some(true) });
    }
}

/// Byte by byte: the same schema, the same rows in the same encoding, compressed by the same zstd.
/// If only the last has changed (a newer zstd), the conversions below still agree, and the file may
/// be rewritten.
#[test]
fn recordings_are_written_unchanged() {
    if update() {
        return;
    }
    let committed = std::fs::read(recording(TODAY)).unwrap();
    let now = today();
    let head = |bytes: &[u8]| {
        let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        bytes[..8 + length].to_vec()
    };
    assert!(head(&now) == head(&committed), "the schema or its metadata changed");
    assert!(now == committed, "the batches changed");
}

fn check_conversion(name: &str, format: Format, extension: &str) {
    let file = golden(&format!("{name}.{extension}"));
    let mut out = Vec::new();
    convert(Reader::open(&recording(name)).unwrap(), format, &mut out, None, |_, _| ()).unwrap();
    if update() && name == TODAY {
        std::fs::write(&file, &out).unwrap();
    }
    let then = std::fs::read_to_string(&file).unwrap();
    let mut now = String::from_utf8(out).unwrap();
    if format == Format::Csv && name != TODAY {
        now = with_columns_of(&then, &now);
    }
    for (number, (now, then)) in now.lines().zip(then.lines()).enumerate() {
        assert_eq!(now, then, "{name}.{extension}, line {}", number + 1);
    }
    assert_eq!(now.len(), then.len(), "{name}.{extension}");
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
fn conversions_are_unchanged() {
    if update() {
        std::fs::write(recording(TODAY), today()).unwrap();
    }
    for (name, _) in RECORDINGS {
        check_conversion(name, Format::Csv, "csv");
        check_conversion(name, Format::JsonLines, "jsonl");
    }
}

/// Parquet's bytes depend on the library; their content is ours.
#[test]
fn parquet_holds_the_same_rows_and_the_session() {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let out = std::fs::File::create(&path).unwrap();
    let done =
        convert(Reader::open(&recording(OLDEST)).unwrap(), Format::Parquet, out, None, |_, _| ()).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&path).unwrap()).unwrap();
    // Columns have the recording's types, units and sources.
    let columns =
        arrow_ipc::reader::StreamReader::try_new(std::fs::File::open(recording(OLDEST)).unwrap(), None);
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
