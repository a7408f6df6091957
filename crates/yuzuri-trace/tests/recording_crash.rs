//! A killed writer and a full disk: the recording is readable, and at most the last second is
//! missing.
#![allow(clippy::unwrap_used)]

mod common;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, setrlimit};
use nix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use yuzuri_trace::recording::{
    BATCH_ROWS, FLUSH_AFTER, Format, RETRY_AFTER, Reader, RecordError, Tail, Writer, convert,
};
use yuzuri_trace::{Account, CpuAccount, Event, FlowId, Item, LossReason, Setting, Snapshot};

fn mono_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// An event that carries its own number.
fn numbered(number: u64) -> Item {
    let snapshot = Snapshot { cwnd: 10 + (number % 90) as u32, bytes_acked: number, ..Snapshot::default() };
    Item::Event(Event { mono_ns: mono_ns(), flow: FlowId(0x1000), snapshot, ..Event::default() })
}

/// The events of a recording without an end mark, whose batches must be complete.
fn events(path: &Path) -> Vec<Event> {
    events_ending(path, Tail::Unfinished)
}

fn events_ending(path: &Path, tail: Tail) -> Vec<Event> {
    let mut reader = Reader::open(path).unwrap();
    let mut events = Vec::new();
    while let Some(items) = reader.next_batch().unwrap() {
        events.extend(items.into_iter().filter_map(|item| match item {
            Item::Event(event) => Some(event),
            _ => None,
        }));
    }
    assert_eq!(reader.tail(), Some(tail));
    events
}

const TO: &str = "YUZURI_TEST_RECORD_TO";
const HASTE: &str = "YUZURI_TEST_RECORD_IN_HASTE";

/// The time that the process below lets pass between two writes, by the clock that it passes to the
/// writer. It is not the real time, so a busy machine changes nothing. A write has [`ROWS`] events.
const STEP: Duration = Duration::from_millis(10);
const ROWS: u64 = 20;

/// The file in which the process below counts its writes.
fn writes_of(path: &Path) -> PathBuf {
    path.with_extension("writes")
}

/// Not a test: the process that the tests below kill.
#[test]
#[ignore = "runs until it is killed; the tests start it themselves"]
fn a_writer_that_runs_until_it_is_killed() {
    let Some(path) = std::env::var_os(TO) else { return };
    let haste = std::env::var_os(HASTE).is_some();
    let mut writer = Writer::create(Path::new(&path), &common::session(), false).unwrap();
    writer.write(&[Item::Flow(Arc::new(common::flow(0)))], Instant::now()).unwrap();
    let writes = File::create(writes_of(Path::new(&path))).unwrap();
    let mut now = Instant::now();
    for number in 0u64.. {
        let items: Vec<Item> = (0..ROWS).map(|n| numbered(number * ROWS + n)).collect();
        writer.write(&items, now).unwrap();
        writes.write_all_at(&(number + 1).to_le_bytes(), 0).unwrap();
        if haste {
            // A commit after each write, so that kills interrupt some.
            writer.flush(now).unwrap();
        } else {
            std::thread::sleep(STEP);
        }
        now += STEP;
    }
}

/// Kills its process when dropped, so that none is left behind.
struct KilledWriter(Child, PathBuf);

impl KilledWriter {
    fn start(path: PathBuf, haste: bool) -> KilledWriter {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_writer_that_runs_until_it_is_killed", "--ignored"]);
        command.env(TO, &path).stdout(Stdio::null()).stderr(Stdio::null());
        if haste {
            command.env(HASTE, "1");
        }
        let killed_writer = KilledWriter(command.spawn().unwrap(), path);
        let deadline = Instant::now() + Duration::from_secs(60);
        // A file whose writer was killed within its head would not be a recording yet.
        while Reader::open(&killed_writer.1).is_err() {
            assert!(Instant::now() < deadline, "the writer did not start");
            std::thread::sleep(Duration::from_millis(2));
        }
        killed_writer
    }

    /// Kills it with `kill -9`, and returns the recorded events.
    fn kill(mut self) -> Vec<Event> {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        events(&self.1)
    }

    /// The number of writes made.
    fn writes(path: &Path) -> u64 {
        std::fs::read(writes_of(path))
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    }

    fn wait_for_writes(&self, number: u64) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while KilledWriter::writes(&self.1) < number {
            assert!(Instant::now() < deadline, "the writer makes no progress");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for KilledWriter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn in_order(events: &[Event]) {
    assert!(events.iter().enumerate().all(|(number, event)| event.snapshot.bytes_acked == number as u64));
}

#[test]
fn kill_9_loses_at_most_the_last_second() {
    let folder = tempfile::tempdir().unwrap();
    let killed_writers: Vec<KilledWriter> =
        (0..6).map(|n| KilledWriter::start(folder.path().join(format!("{n}.arrows")), false)).collect();
    // By the writer's clock: a row waits this long, and is written by the first write after it.
    let waiting = (FLUSH_AFTER.as_millis() / STEP.as_millis()) as u64;
    for (killed_writer, number) in killed_writers.into_iter().zip(0..) {
        // Each writer is killed at another moment of its second, and always after a first commit.
        killed_writer.wait_for_writes(waiting * 3 / 2 + number * waiting / 4);
        let path = killed_writer.1.clone();
        let events = killed_writer.kill();
        in_order(&events);
        // A commit may have come before its write was counted.
        let lost = KilledWriter::writes(&path).saturating_sub(events.len() as u64 / ROWS);
        println!("killed after {} events, {:?} of them not kept", events.len(), STEP * lost as u32);
        // A caller that flushes every 100 ms, as required, loses less than a second.
        assert!(lost <= waiting, "{:?} lost", STEP * lost as u32);
        assert!(!events.is_empty());
    }
    yuzuri_testnet::attack("kill -9 of a recording", 6, "kills", "at most the last second");
}

#[test]
fn kill_9_within_a_commit_leaves_a_readable_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut behind_the_end = 0;
    for round in 0..30u64 {
        let killed_writer = KilledWriter::start(folder.path().join(format!("{round}.arrows")), true);
        std::thread::sleep(Duration::from_micros(500 + round * 1700));
        let path = killed_writer.1.clone();
        let events = killed_writer.kill();
        in_order(&events);
        // A kill during a commit leaves bytes behind the end marker.
        let mut reader = Reader::open(&path).unwrap();
        while reader.next_batch().unwrap().is_some() {}
        behind_the_end += u32::from(path.metadata().unwrap().len() > reader.bytes_read());
    }
    println!("{behind_the_end} of 30 kills fell into a commit");
    yuzuri_testnet::attack("kill -9 within a commit", 30, "kills", "the file is readable");
}

/// Runs in its own mount namespace, with a small tmpfs at the path: nothing is left behind.
fn on_a_small_disk(bytes: usize, test: impl FnOnce(&Path) + Send + 'static) {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: mounting a small tmpfs needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let done = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        let size = format!("size={bytes}");
        mount(Some("tmpfs"), &path, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).unwrap();
        test(&path);
    })
    .join();
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_full_disk_leaves_a_readable_file_and_recording_continues_when_there_is_room() {
    on_a_small_disk(2 << 20, |folder| {
        let ballast = folder.join("ballast");
        std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
        let path = folder.join("a.arrows");
        let mut now = Instant::now();
        let mut writer = Writer::create(&path, &common::session(), false).unwrap();
        let mut traffic = common::Traffic::new(50, 20_000);
        let mut given = 0u64;
        let error = loop {
            let items: Vec<Item> = (0..1000).map(|_| Item::Event(traffic.next())).collect();
            given += items.len() as u64;
            now += Duration::from_millis(10);
            if let Err(error) = writer.write(&items, now) {
                break error;
            }
        };
        let RecordError::Write { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
        println!("{error}");
        assert!(error.to_string().contains("No space left"), "{error}");
        assert!(error.to_string().contains("free some space"), "{error}");
        assert!(writer.is_failing());
        // The file is readable while the disk is full, and nothing of the failed batch takes room.
        let before = events(&path).len();
        assert!(before >= BATCH_ROWS);
        assert_eq!(path.metadata().unwrap().len(), writer.bytes());

        // The disk stays full for some seconds: at most one error in each, and losses are counted.
        let mut errors = 0;
        let setting = Setting { mono_ns: 1, filter: "port 80".into(), density: Default::default() };
        for round in 0..500 {
            let items: Vec<Item> = (0..1000).map(|_| Item::Event(traffic.next())).collect();
            given += items.len() as u64;
            now += Duration::from_millis(10);
            errors += u32::from(writer.write(&items, now).is_err());
            if round == 400 {
                let identity = Item::Flow(Arc::new(common::flow(7)));
                now += Duration::from_millis(10);
                let _ = writer.write(&[identity, Item::Setting(Arc::new(setting.clone()))], now);
            }
        }
        assert!((4..=6).contains(&errors), "{errors} errors in five seconds");
        assert_eq!(events(&path).len(), before);
        assert!(writer.lost() > 400_000, "{}", writer.lost());

        // There is room again: writing resumes without help, beginning with what later rows need.
        std::fs::remove_file(&ballast).unwrap();
        now += RETRY_AFTER;
        writer.flush_due(now).unwrap();
        assert!(!writer.is_failing());
        let items: Vec<Item> = (0..1000).map(|_| Item::Event(traffic.next())).collect();
        given += items.len() as u64;
        writer.write(&items, now).unwrap();
        let summary = writer.finish();
        assert!(summary.failed.is_none(), "{:?}", summary.failed);
        let read: Vec<Item> = Reader::open(&path).unwrap().items().map(Result::unwrap).collect();
        assert!(read.iter().any(|item| *item == Item::Setting(Arc::new(setting.clone()))));
        assert!(read.iter().any(|item| matches!(item, Item::Flow(flow) if **flow == common::flow(7))));
        let kept = read.iter().filter(|item| matches!(item, Item::Event(_))).count() as u64;
        assert_eq!(given, kept + summary.lost, "every event is in the file or counted as lost");
        // And the end mark.
        assert_eq!(read.len() as u64 + 1, summary.rows);
        assert!(summary.finished);
        yuzuri_testnet::attack(
            "full disk under a recording",
            given,
            "events",
            "each is in the file or counted",
        );
    });
}

#[test]
fn a_full_disk_leaves_a_finished_file_that_reports_what_is_missing() {
    on_a_small_disk(512 << 10, |folder| {
        // Another program takes the remaining room once recording has begun.
        let path = folder.join("a.arrows");
        let mut writer = Writer::create(&path, &common::session(), false).unwrap();
        let mut traffic = common::Traffic::new(50, 20_000);
        let items: Vec<Item> = (0..60_000).map(|_| Item::Event(traffic.next())).collect();
        assert!(writer.write(&items, Instant::now()).is_err());
        let mut ballast = File::create(folder.join("ballast")).unwrap();
        while std::io::Write::write_all(&mut ballast, &[1; 4096]).is_ok() {}
        reports_missing(&path, writer, items.len() as u64, 1);
    });
}

/// Concludes a recording that lost records, and finds the same account in the writer's result, in
/// the file, in its end mark and in a conversion.
fn reports_missing(path: &Path, writer: Writer, given: u64, min_kept: usize) {
    let cpu = CpuAccount { cpu: Some(0), seen: given + 7, kept: given, ..CpuAccount::default() };
    let cpu = CpuAccount { lost: vec![(LossReason::RingFull, 7)], ..cpu };
    let account = Account { mono_ns: mono_ns(), cpus: vec![cpu], ..Account::default() };
    let (account, summary) = writer.conclude(account);
    println!("{account}; {:?}", summary.failed);
    assert!(summary.finished, "{summary:?}");
    let events = events_ending(path, Tail::Complete);
    assert!(events.len() >= min_kept);
    assert_eq!(account.lost_to(LossReason::Recording), summary.lost);
    assert!(summary.lost > 0);
    assert_eq!(account.kept(), events.len() as u64);
    assert_eq!(account.seen(), account.kept() + account.lost());
    let last = Reader::open(path).unwrap().items().map(Result::unwrap).last();
    assert_eq!(last, Some(Item::Account(Arc::new(account.clone()))));
    let mut csv = Vec::new();
    let done = convert(Reader::open(path).unwrap(), Format::Csv, &mut csv, None, |_, _| ()).unwrap();
    assert_eq!(done.complete(), Some(true));
    assert_eq!(done.account.as_deref(), Some(&account));
    let csv = String::from_utf8(csv).unwrap();
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let end = lines.next_back().unwrap();
    let value = |name| end[head.iter().position(|column| *column == name).unwrap()];
    assert_eq!(value("kind"), "end");
    let sums = [account.seen(), account.kept(), account.lost()].map(|n| n.to_string());
    assert_eq!(["seen", "kept", "lost"].map(value), [&sums[0], &sums[1], &sums[2]]);
    assert_eq!(path.metadata().unwrap().len(), summary.bytes);
    // The room reserved for the end was released.
    let allocated = std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap()) * 512;
    assert!(allocated <= summary.bytes.next_multiple_of(4096) + 4096, "{allocated} for {}", summary.bytes);
}

/// Not a test: writes under a limit on file sizes, which applies to a process.
#[test]
#[ignore = "the test below starts it itself, in a process of its own"]
fn a_writer_under_a_limit() {
    let Some(path) = std::env::var_os(TO) else { return };
    setrlimit(Resource::RLIMIT_FSIZE, 300 << 10, 300 << 10).unwrap();
    let path = Path::new(&path);
    let mut writer = Writer::create(path, &common::session(), false).unwrap();
    let mut traffic = common::Traffic::new(50, 20_000);
    let items: Vec<Item> = (0..60_000).map(|_| Item::Event(traffic.next())).collect();
    let error = writer.write(&items, Instant::now()).unwrap_err().to_string();
    assert!(error.contains("limit on file sizes"), "{error}");
    reports_missing(path, writer, items.len() as u64, 1);
}

/// A write beyond `ulimit -f` would raise SIGXFSZ, which ends a process.
#[test]
fn a_limit_on_file_sizes_leaves_a_finished_file_that_reports_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_writer_under_a_limit", "--ignored", "--nocapture"]);
    let output = command.env(TO, folder.path().join("a.arrows")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The rows of a finish whose account did not include the loss: the writer corrects the last
/// account.
#[test]
fn losses_of_the_last_batch_are_in_the_files_account() {
    on_a_small_disk(128 << 10, |folder| {
        let path = folder.join("a.arrows");
        let mut writer = Writer::create(&path, &common::session(), false).unwrap();
        let mut ballast = File::create(folder.join("ballast")).unwrap();
        while std::io::Write::write_all(&mut ballast, &[1; 4096]).is_ok() {}
        let mut items: Vec<Item> = (0..100).map(numbered).collect();
        let cpus = vec![CpuAccount { cpu: Some(0), seen: 100, kept: 100, ..CpuAccount::default() }];
        items.push(Item::Account(Arc::new(Account { cpus, ..Account::default() })));
        writer.write(&items, Instant::now()).unwrap();
        let summary = writer.finish();
        assert_eq!((summary.lost, summary.finished), (100, true), "{:?}", summary.failed);
        let last = Reader::open(&path).unwrap().items().map(Result::unwrap).last();
        let Some(Item::Account(account)) = last else { panic!("{last:?}") };
        assert_eq!((account.seen(), account.kept(), account.lost_to(LossReason::Recording)), (100, 0, 100));
    });
}

#[test]
fn a_full_disk_is_reported_at_the_start_and_leaves_no_empty_file() {
    on_a_small_disk(64 << 10, |folder| {
        let mut ballast = std::fs::File::create(folder.join("ballast")).unwrap();
        while std::io::Write::write_all(&mut ballast, &[1; 4096]).is_ok() {}
        let path = folder.join("a.arrows");
        let error = Writer::create(&path, &common::session(), false).err().unwrap();
        assert!(matches!(error, RecordError::Create { .. }), "{error}");
        assert!(!path.exists());
    });
}
