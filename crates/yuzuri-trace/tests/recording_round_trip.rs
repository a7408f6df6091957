//! Recordings survive a round trip exactly.
#![allow(clippy::unwrap_used)]

mod common;

use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use yuzuri_trace::recording::{
    BATCH_ROWS, FLUSH_AFTER, Format, ReadError, Reader, RecordError, Tail, Writer, convert,
};
use yuzuri_trace::{
    Account, CaState, CpuAccount, Density, Event, Flow, FlowId, Item, Kind, LossReason, Marks, Owner, Place,
    Reason, Role, Session, Setting, Snapshot,
};

/// A finished recording.
fn read(path: &Path) -> (Session, Vec<Item>) {
    read_ending(path, Tail::Complete)
}

/// A recording whose writer is running, or did not finish.
fn so_far(path: &Path) -> Vec<Item> {
    read_ending(path, Tail::Unfinished).1
}

fn read_ending(path: &Path, tail: Tail) -> (Session, Vec<Item>) {
    let mut reader = Reader::open(path).unwrap();
    let mut items = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        items.extend(batch);
    }
    assert_eq!(reader.tail(), Some(tail));
    assert_eq!(reader.unknown_rows(), 0);
    (reader.session().clone(), items)
}

/// Extreme numbers and arbitrary ones.
fn u32s() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(u32::MAX), Just(Snapshot::SSTHRESH_INFINITE), any::<u32>()]
}

fn u64s() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), Just(Snapshot::SSTHRESH_INFINITE.into()), any::<u64>()]
}

prop_compose! {
    fn events()(
        mono_ns in u64s(),
        flow in u64s(),
        kind in prop::sample::select(Kind::ALL),
        reason in prop::sample::select(Reason::ALL),
        place in prop::sample::select(vec!["", "tcp:tcp_probe", "tcp_enter_loss", "sock_diag"]),
        states in (prop::sample::select(CaState::ALL.to_vec()), prop::sample::select(CaState::ALL.to_vec())),
        marks in 0u16..(Marks::REPORTS_BOUND.0 << 1),
        numbers in prop::collection::vec(u64s(), Event::default().numbers().count()),
        cpu in any::<u16>(),
    ) -> Event {
        if reason == Reason::CloseNotSeen {
            return Event::close_not_seen(FlowId(flow), mono_ns, Place::named(place));
        }
        let mut event = Event {
            mono_ns, flow: FlowId(flow), kind, reason, place: Place::named(place), ca_state: states.0,
            ca_before: states.1, cpu, ..Event::default()
        };
        let mut numbers = numbers.into_iter();
        event.set_numbers(|_| numbers.next().unwrap());
        let mut unknown = if event.snapshot.sender.has_marks() { 0 } else { Marks::OF_SENDER.0 };
        if !Marks(marks).contains(Marks::REPORTS_BOUND) {
            unknown |= Marks::AT_BOUND.0;
        }
        event.marks = Marks(marks & !unknown);
        event
    }
}

fn addresses() -> impl Strategy<Value = SocketAddr> {
    prop_oneof![
        (any::<IpAddr>(), any::<u16>()).prop_map(SocketAddr::from),
        (any::<u16>(), any::<u32>()).prop_map(|(port, scope)| {
            SocketAddrV6::new("fe80::1".parse().unwrap(), port, 0, scope).into()
        }),
    ]
}

prop_compose! {
    fn flows()(
        id in u64s(), local in addresses(), remote in addresses(), netns in u32s(),
        netns_name in prop::option::of(".{1,20}"),
        owner in prop::option::of((any::<u32>(), ".{0,15}").prop_map(|(pid, name)| Owner { pid, name })),
        cgroup in u64s(), congestion_control in "[a-z]{0,8}",
        role in prop::sample::select(Role::ALL.to_vec()), inode in u64s(),
    ) -> Flow {
        Flow { id: FlowId(id), local, remote, netns, netns_name, owner, cgroup, congestion_control, role, inode }
    }
}

fn accounts() -> impl Strategy<Value = Account> {
    let losses = prop::collection::vec((prop::sample::select(LossReason::ALL.to_vec()), u64s()), 0..4);
    let cpu = (prop::option::of(any::<u16>()), u64s(), u64s(), losses, u64s())
        .prop_map(|(cpu, seen, kept, lost, thinned)| CpuAccount { cpu, seen, kept, lost, thinned });
    (u64s(), any::<i64>(), prop::collection::vec(cpu, 0..5))
        .prop_map(|(mono_ns, wall_offset_ns, cpus)| Account { mono_ns, wall_offset_ns, cpus })
}

fn settings() -> impl Strategy<Value = Setting> {
    let density = prop_oneof![Just(Density::EveryAck), u64s().prop_map(|ns| Density::Interval { ns })];
    (u64s(), ".{0,40}", density).prop_map(|(mono_ns, filter, density)| Setting { mono_ns, filter, density })
}

fn items() -> impl Strategy<Value = Item> {
    prop_oneof![
        6 => events().prop_map(Item::Event),
        2 => flows().prop_map(|flow| Item::Flow(Arc::new(flow))),
        1 => accounts().prop_map(|account| Item::Account(Arc::new(account))),
        1 => settings().prop_map(|setting| Item::Setting(Arc::new(setting))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_items_round_trip(slices in prop::collection::vec(prop::collection::vec(items(), 0..40), 0..6)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.arrows");
        let mut now = Instant::now();
        let mut writer = Writer::create(&path, &common::session(), false).unwrap();
        for slice in &slices {
            writer.write(slice, now).unwrap();
            // Some slices share a batch, some do not.
            now += Duration::from_millis(500);
        }
        let summary = writer.finish();
        prop_assert!(summary.failed.is_none());
        prop_assert_eq!(summary.lost, 0);
        prop_assert_eq!(summary.bytes, path.metadata().unwrap().len());
        let (session, back) = read(&path);
        prop_assert_eq!(session, common::session());
        prop_assert_eq!(back, slices.concat());
    }

    /// A conversion never fails on what a writer wrote, whatever the values.
    #[test]
    fn all_items_convert(items in prop::collection::vec(items(), 0..60)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.arrows");
        let mut writer = Writer::create(&path, &common::session(), false).unwrap();
        writer.write(&items, Instant::now()).unwrap();
        let rows = writer.finish().rows;
        for format in Format::ALL {
            let mut out = Vec::new();
            let done = convert(Reader::open(&path).unwrap(), format, &mut out, None, |_, _| ()).unwrap();
            prop_assert_eq!(done.rows, rows);
            prop_assert!(format == Format::JsonLines || !out.is_empty());
        }
    }
}

/// A writer may run in its own thread.
#[test]
fn a_writer_can_move_to_a_thread() {
    fn moves<T: Send>() {}
    moves::<Writer>();
    moves::<Reader<std::fs::File>>();
}

#[test]
fn batches_are_written_when_full_or_due() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    let mut traffic = common::Traffic::new(20, 50_000);
    let start = Instant::now();
    let mut writer = Writer::create(&path, &common::session(), false).unwrap();
    let mut expected = traffic.identities();
    assert_eq!(writer.due(), None);
    writer.write(&expected, start).unwrap();
    assert_eq!(writer.due(), Some(start + FLUSH_AFTER));
    assert_eq!(writer.rows(), 0);
    writer.flush_due(start + FLUSH_AFTER - Duration::from_nanos(1)).unwrap();
    assert_eq!(so_far(&path), []);
    writer.flush_due(start + FLUSH_AFTER).unwrap();
    assert_eq!(writer.due(), None);
    // While the writer is running, a reader sees a valid recording.
    assert_eq!(so_far(&path), expected);

    let many: Vec<Item> = (0..BATCH_ROWS * 2 + 5).map(|_| Item::Event(traffic.next())).collect();
    writer.write(&many, start).unwrap();
    expected.extend_from_slice(&many[..BATCH_ROWS * 2]);
    assert_eq!(so_far(&path), expected);
    // Without finish, dropping keeps the rest.
    drop(writer);
    expected.extend_from_slice(&many[BATCH_ROWS * 2..]);
    assert_eq!(so_far(&path), expected);
}

#[test]
fn a_reader_beside_the_writer_always_sees_a_whole_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    let mut traffic = common::Traffic::new(7, 50_000);
    let mut writer = Writer::create(&path, &common::session(), false).unwrap();
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let watcher = std::thread::spawn({
        let (path, done) = (path.clone(), done.clone());
        move || {
            let mut counts = Vec::new();
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                counts.push(so_far(&path).len());
            }
            counts
        }
    });
    for round in 0..2_000 {
        let items: Vec<Item> = (0..1 + round % 50).map(|_| Item::Event(traffic.next())).collect();
        writer.write(&items, Instant::now()).unwrap();
        writer.flush(Instant::now()).unwrap();
    }
    done.store(true, std::sync::atomic::Ordering::SeqCst);
    let counts = watcher.join().unwrap();
    assert!(counts.is_sorted(), "{counts:?}");
    assert!(counts.len() > 3, "the reader hardly ran: {counts:?}");
}

#[test]
fn an_existing_file_is_not_overwritten_without_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    std::fs::write(&path, "precious").unwrap();
    let refused = Writer::create(&path, &common::session(), false).err().unwrap();
    assert!(matches!(refused, RecordError::Exists { .. }), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    let writer = Writer::create(&path, &common::session(), true).unwrap();
    // A recording that is being written is not replaced, even on request.
    let refused = Writer::create(&path, &common::session(), true).err().unwrap();
    assert!(matches!(refused, RecordError::Busy { .. }), "{refused}");
    writer.finish();
    assert_eq!(read(&path).1, []);
}

#[test]
fn a_file_that_is_no_recording_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let refused = Writer::create(folder.path(), &common::session(), true).err().unwrap();
    assert!(matches!(refused, RecordError::NotAFile { .. }), "{refused}");
    let refused = Writer::create(Path::new("/dev/null"), &common::session(), true).err().unwrap();
    assert!(matches!(refused, RecordError::NotAFile { .. }), "{refused}");
    let refused = Writer::create(&folder.path().join("no/such/folder.arrows"), &common::session(), false);
    assert!(refused.err().unwrap().to_string().contains("make the folder first"));
    let refused = Reader::open(&folder.path().join("none.arrows")).err().unwrap();
    assert!(matches!(refused, ReadError::Open { .. }), "{refused}");
}

#[test]
fn a_converted_row_has_its_flows_identity() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    let mut traffic = common::Traffic::new(2, 50_000);
    let mut writer = Writer::create(&path, &common::session(), false).unwrap();
    let now = Instant::now();
    writer.write(&traffic.identities(), now).unwrap();
    writer.write(&[Item::Event(traffic.next()), Item::Event(traffic.next())], now).unwrap();
    // The identity changes: later records have the new one.
    let mut changed = common::flow(0);
    changed.congestion_control = "reno".into();
    writer.write(&[Item::Flow(Arc::new(changed)), Item::Event(traffic.next())], now).unwrap();
    // A flow whose identity was lost has none, and is recorded nevertheless.
    writer.write(&[Item::Event(Event { flow: FlowId(9), ..traffic.next() })], now).unwrap();
    writer.finish();

    let mut out = Vec::new();
    convert(Reader::open(&path).unwrap(), Format::JsonLines, &mut out, None, |_, _| ()).unwrap();
    let lines: Vec<serde_json::Value> = out
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).unwrap())
        .collect();
    let notes: Vec<_> = lines
        .iter()
        .filter(|line| line["kind"] == "sample" || line["kind"] == "state")
        .map(|line| {
            (line["flow"].as_u64().unwrap(), line["local"].as_str(), line["congestion_control"].as_str())
        })
        .collect();
    assert_eq!(
        notes,
        [
            (0x1000, Some("10.0.0.0"), Some("cubic")),
            (0x1001, Some("10.0.0.1"), Some("cubic")),
            (0x1000, Some("10.0.0.0"), Some("reno")),
            (9, None, None),
        ]
    );
}
