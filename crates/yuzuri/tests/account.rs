//! One account: whatever goes wrong, the recording, the last line, the JSON lines, a replay and a
//! conversion agree, the account adds up, and the exit code matches it. The faults are real: full
//! and frozen disks, limits, stalled readers, kills.
#![allow(clippy::unwrap_used, missing_docs)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use yuzuri_testnet::{Net, Side, eventually};

const YUZURI: &str = env!("CARGO_BIN_EXE_yuzuri");

/// `yuzuri watch --json` on side A, with a recording. Its standard output is read only when the
/// test starts to.
struct Watch {
    child: Child,
    stdout: Option<ChildStdout>,
    messages: Receiver<String>,
    stderr: Vec<String>,
    recording: PathBuf,
    /// Records lost to the recording, according to the last account printed so far.
    lost_so_far: Arc<AtomicU64>,
}

impl Watch {
    fn start(net: &Net, recording: &Path, before: &[&str], more: &[&str]) -> Watch {
        let filter = format!("netns:{}", net.name(Side::A));
        let words: Vec<&str> = before.iter().copied().chain([YUZURI]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["watch", &filter, "--density", "ack", "--json"]);
        command.arg("--record").arg(recording).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take();
        let stderr = child.stderr.take().unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut watch = Watch {
            child,
            stdout,
            messages,
            stderr: Vec::new(),
            recording: recording.to_owned(),
            lost_so_far: Arc::default(),
        };
        watch.wait_for_message("watching");
        watch
    }

    fn wait_for_message(&mut self, words: &str) {
        while !self.stderr.last().is_some_and(|line| line.contains(words)) {
            let line = self.messages.recv_timeout(Duration::from_secs(120));
            self.stderr.push(line.unwrap_or_else(|_| panic!("never printed '{words}': {:?}", self.stderr)));
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Starts reading standard output.
    fn read_on(&mut self) -> std::thread::JoinHandle<String> {
        let stdout = self.stdout.take().unwrap();
        let lost = Arc::clone(&self.lost_so_far);
        std::thread::spawn(move || {
            let mut text = String::new();
            for line in BufReader::new(stdout).lines() {
                let line = line.unwrap();
                if line.contains(r#""kind":"account""#) {
                    lost.store(lost_to_recording(&serde_json::from_str(&line).unwrap()), Ordering::Relaxed);
                }
                text.push_str(&line);
                text.push('\n');
            }
            text
        })
    }

    /// Ends the process with Ctrl-C and checks that every account is the same.
    fn end(mut self, reading: std::thread::JoinHandle<String>) -> Ended {
        self.signal(Signal::SIGINT);
        let printed = reading.join().unwrap();
        let code = self.child.wait().unwrap().code().unwrap();
        while let Ok(line) = self.messages.recv() {
            self.stderr.push(line);
        }
        let messages = self.stderr.join("\n");
        println!("{messages}");
        let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let last_line = self.stderr.iter().rev().find_map(|line| line.strip_prefix("yuzuri: seen ")).unwrap();
        let in_json = lines.iter().rev().find(|line| line["kind"] == "account").unwrap();
        let sums = Sums::of(in_json);
        assert_eq!(sums.seen, sums.kept + sums.lost, "{in_json}");
        assert_eq!(Sums::of_words(last_line), sums, "{last_line}");
        let lost_to_recording = lost_to_recording(in_json);
        let recorded = Recorded::of(&self.recording);
        assert_eq!((recorded.replayed, recorded.converted), (Some(sums), Some(sums)));
        assert_eq!(recorded.complete, Value::Bool(true), "{messages}");
        assert_eq!(recorded.lost_to_recording, lost_to_recording);
        assert_eq!(recorded.convert_code, Some(0));
        // The exit code matches the account.
        assert_eq!(code, i32::from(lost_to_recording > 0), "{messages}");
        assert_eq!(messages.contains("is readable but lacks"), lost_to_recording > 0, "{messages}");
        if lost_to_recording > 0 {
            assert!(messages.contains(&format!("lacks {lost_to_recording} records")), "{messages}");
        }
        let not_printed = in_json["not_printed"].as_u64().unwrap();
        Ended {
            sums,
            lost_to_recording,
            not_printed,
            events: events(&lines),
            recorded: recorded.events,
            messages,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Ended {
    sums: Sums,
    lost_to_recording: u64,
    not_printed: u64,
    /// Events printed as JSON.
    events: u64,
    /// Events in the recording.
    recorded: u64,
    messages: String,
}

fn lost_to_recording(account: &Value) -> u64 {
    let of = |cpu: &Value| cpu["lost"].as_array().unwrap().clone();
    let losses = account["cpus"].as_array().unwrap().iter().flat_map(of);
    losses.filter(|loss| loss[0] == "recording").map(|loss| loss[1].as_u64().unwrap()).sum()
}

fn events(lines: &[Value]) -> u64 {
    let others = ["session", "flow", "account", "setting", "end"];
    lines.iter().filter(|line| !others.contains(&line["kind"].as_str().unwrap())).count() as u64
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sums {
    seen: u64,
    kept: u64,
    lost: u64,
}

impl Sums {
    fn of(json: &Value) -> Sums {
        let number = |key: &str| json[key].as_u64().unwrap_or_else(|| panic!("{key} in {json}"));
        Sums { seen: number("seen"), kept: number("kept"), lost: number("lost") }
    }

    /// Parses the text after `seen `, `1204 = kept 1200 + lost 4 (...)`.
    fn of_words(words: &str) -> Sums {
        let numbers: Vec<u64> = words.split([' ', ';']).filter_map(|word| word.parse().ok()).collect();
        Sums { seen: numbers[0], kept: numbers[1], lost: numbers[2] }
    }
}

/// The contents of a recording.
struct Recorded {
    replayed: Option<Sums>,
    converted: Option<Sums>,
    complete: Value,
    lost_to_recording: u64,
    convert_code: Option<i32>,
    events: u64,
}

fn yuzuri(args: &[&str]) -> Output {
    Command::new(YUZURI).args(args).stdin(Stdio::null()).output().unwrap()
}

impl Recorded {
    fn of(path: &Path) -> Recorded {
        let recording = path.to_str().unwrap();
        let replayed = yuzuri(&["replay", recording, "--json", "--speed", "1000"]);
        let text = String::from_utf8(replayed.stdout).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let end = lines.last().unwrap();
        assert_eq!(end["kind"], "end", "{end}");
        let account = lines.iter().rev().find(|line| line["kind"] == "account");
        if let Some(account) = account {
            assert_eq!(Sums::of(account), Sums::of(end));
        }
        let folder = tempfile::tempdir().unwrap();
        let csv = folder.path().join("out.csv");
        let converted = yuzuri(&["convert", recording, csv.to_str().unwrap(), "--json"]);
        let summary: Value = serde_json::from_slice(&converted.stdout).unwrap();
        // A header line, and all rows, whatever was wrong.
        let rows = std::fs::read_to_string(&csv).unwrap().lines().count() as u64 - 1;
        assert_eq!(summary["rows"].as_u64(), Some(rows));
        assert_eq!(summary["complete"], end["complete"]);
        assert_eq!(summary["ending"], end["ending"]);
        Recorded {
            replayed: account.map(Sums::of),
            converted: account.map(|_| Sums::of(&summary)),
            complete: end["complete"].clone(),
            lost_to_recording: account.map_or(0, lost_to_recording),
            convert_code: converted.status.code(),
            events: events(&lines),
        }
    }
}

/// Opens connections from A to B one after the other; each carries one byte each way.
fn exchange(net: &Net, times: u64) {
    let listener = net.inside(Side::B, || TcpListener::bind((net.v4(Side::B), 0)).unwrap());
    let to = listener.local_addr().unwrap();
    let mut near = net.inside(Side::A, || TcpStream::connect(to).unwrap());
    let (mut far, _) = listener.accept().unwrap();
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    let mut byte = [0];
    for _ in 0..times {
        near.write_all(&[1]).unwrap();
        far.read_exact(&mut byte).unwrap();
        far.write_all(&[2]).unwrap();
        near.read_exact(&mut byte).unwrap();
    }
}

/// Sends tiny segments from A to B; each causes an ACK, and so a record. Stops once `enough`
/// returns true.
fn blast(net: &Net, mut enough: impl FnMut(u64) -> bool) {
    // B acknowledges each segment immediately.
    let routes = net.command(Side::B, "ip").args(["-4", "route", "show", "scope", "link"]).output().unwrap();
    for route in String::from_utf8(routes.stdout).unwrap().lines() {
        let mut change = net.command(Side::B, "ip");
        change.args(["route", "change"]).args(route.split_whitespace()).args(["quickack", "1"]);
        assert!(change.status().unwrap().success(), "{route}");
    }
    let listener = net.inside(Side::B, || TcpListener::bind((net.v4(Side::B), 0)).unwrap());
    let to = listener.local_addr().unwrap();
    let mut near = net.inside(Side::A, || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_tcp_mss(88).unwrap();
        socket.connect(&to.into()).unwrap();
        TcpStream::from(socket)
    });
    let (mut far, _) = listener.accept().unwrap();
    let reading = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while far.read(&mut buffer).is_ok_and(|length| length > 0) {}
    });
    let mut sent = 0;
    while !enough(sent) {
        near.write_all(&[0; 1 << 14]).unwrap();
        sent += 1 << 14;
    }
    drop(near);
    reading.join().unwrap();
}

/// A file system mounted for a test.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(args: &[&str]) -> Mounted {
        let folder = tempfile::tempdir().unwrap();
        assert!(Command::new("mount").args(args).arg(folder.path()).status().unwrap().success());
        Mounted(folder)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_recording_without_fault_is_complete() {
    let Some(net) = Net::or_skip("a_recording_without_fault") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut watch = Watch::start(&net, &folder.path().join("a.arrows"), &[], &[]);
    let reading = watch.read_on();
    exchange(&net, 200);
    let ended = watch.end(reading);
    assert_eq!((ended.lost_to_recording, ended.not_printed), (0, 0));
    assert_eq!(ended.events, ended.recorded);
}

#[test]
fn a_disk_that_fills_up_and_stays_full() {
    let Some(net) = Net::or_skip("a_disk_that_fills_up_and_stays_full") else { return };
    let disk = Mounted::new(&["-t", "tmpfs", "-o", "size=256k", "none"]);
    let mut watch = Watch::start(&net, &disk.0.path().join("a.arrows"), &[], &[]);
    let reading = watch.read_on();
    let mut recording_paused = false;
    // Send more after that, so that more is lost than the recorder can buffer.
    let mut after = 0;
    blast(&net, |_| {
        recording_paused = recording_paused
            || watch.messages.try_iter().collect::<Vec<_>>().iter().any(|l| l.contains("recording paused"));
        after += u64::from(recording_paused) << 14;
        after > 6 << 20
    });
    let ended = watch.end(reading);
    assert!(ended.lost_to_recording > 0, "{}", ended.messages);
    assert!(ended.messages.contains("disk was full"), "{}", ended.messages);
}

#[test]
fn a_limit_on_file_sizes() {
    let Some(net) = Net::or_skip("a_limit_on_file_sizes") else { return };
    let folder = tempfile::tempdir().unwrap();
    let before = ["prlimit", "--fsize=200000"];
    let mut watch = Watch::start(&net, &folder.path().join("a.arrows"), &before, &[]);
    let reading = watch.read_on();
    let mut recording_paused = false;
    blast(&net, |_| {
        let messages: Vec<_> = watch.messages.try_iter().collect();
        recording_paused |= messages.iter().any(|line| line.contains("recording paused"));
        recording_paused
    });
    let ended = watch.end(reading);
    assert!(ended.lost_to_recording > 0, "{}", ended.messages);
}

/// Writes to a frozen file system block: the recorder's queue fills while the program continues to
/// read and print.
#[test]
fn a_disk_that_stalls_for_a_while() {
    let Some(net) = Net::or_skip("a_disk_that_stalls_for_a_while") else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status();
    let loops = Path::new("/dev/loop-control").exists();
    if !loops || !made.is_ok_and(|status| status.success()) {
        return println!("skipped: it needs mkfs.ext4 and loop devices");
    }
    let disk = Mounted::new(&["-o", "loop", image.to_str().unwrap()]);
    struct Frozen<'a>(&'a Path);
    impl Drop for Frozen<'_> {
        fn drop(&mut self) {
            let _ = Command::new("fsfreeze").arg("-u").arg(self.0).status();
        }
    }
    let mut watch = Watch::start(&net, &disk.0.path().join("a.arrows"), &[], &[]);
    let reading = watch.read_on();
    exchange(&net, 10);
    assert!(Command::new("fsfreeze").arg("-f").arg(disk.0.path()).status().unwrap().success());
    let frozen = Frozen(disk.0.path());
    // Until more records than may wait for the recorder have come: 65,536, and a slow receiver
    // acknowledges several segments at a time.
    let lost = Arc::clone(&watch.lost_so_far);
    blast(&net, |sent| lost.load(Ordering::Relaxed) > 0 || sent > 20 * 65_536 * 88);
    drop(frozen);
    let ended = watch.end(reading);
    assert!(ended.lost_to_recording > 0, "{}", ended.messages);
    assert!(ended.messages.contains("disk was too slow"), "{}", ended.messages);
}

/// Nobody reads the output. The recording loses nothing, and the loss is reported where it occurs.
#[test]
fn a_reader_of_the_output_that_stalls() {
    let Some(net) = Net::or_skip("a_reader_of_the_output_that_stalls") else { return };
    // Fewer records a second than a recorder on a busy machine can write: the subject of this test
    // is the printer.
    net.shape(Side::A, 20, 100_000).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.arrows");
    let mut watch = Watch::start(&net, &file, &[], &[]);
    // More rows than may wait for the printer (65,536 and the capacity of a pipe), at least 25
    // bytes each. The bytes sent do not give the number of rows: on a busy machine one ACK covers
    // many segments.
    blast(&net, |sent| sent > 1 << 30 || std::fs::metadata(&file).is_ok_and(|file| file.len() > 4 << 20));
    let reading = watch.read_on();
    let ended = watch.end(reading);
    assert_eq!(ended.lost_to_recording, 0);
    assert!(ended.not_printed > 0, "{}", ended.messages);
    assert_eq!(ended.events + ended.not_printed, ended.recorded, "{}", ended.messages);
    assert!(ended.messages.contains("standard output was too slow"), "{}", ended.messages);
}

/// The process that reads the ring buffers is stopped, and they are small.
#[test]
fn losses_in_a_full_ring_buffer_are_counted() {
    let Some(net) = Net::or_skip("losses_in_a_full_ring_buffer_are_counted") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut watch = Watch::start(&net, &folder.path().join("a.arrows"), &[], &["--ring", "4096"]);
    let reading = watch.read_on();
    watch.signal(Signal::SIGSTOP);
    for _ in 0..20 {
        exchange(&net, 50);
    }
    watch.signal(Signal::SIGCONT);
    let ended = watch.end(reading);
    assert!(ended.sums.lost > 500 && ended.messages.contains("ring-full"), "{}", ended.messages);
    assert_eq!((ended.lost_to_recording, ended.events), (0, ended.recorded), "{}", ended.messages);
}

/// `kill -9`: the file's account adds up, the file is marked as unfinished, and all of it can be
/// converted.
#[test]
fn a_kill_leaves_an_account_that_adds_up_and_no_end() {
    let Some(net) = Net::or_skip("a_kill_leaves_an_account") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    let mut watch = Watch::start(&net, &path, &[], &[]);
    let _reading = watch.read_on();
    exchange(&net, 200);
    // Wait until the file holds an account.
    assert!(eventually(|| Recorded::of(&path)
        .converted
        .is_some_and(|sums| sums.seen > 200 && sums.seen == sums.kept + sums.lost)));
    watch.signal(Signal::SIGKILL);
    drop(watch);
    let recorded = Recorded::of(&path);
    let sums = recorded.converted.unwrap();
    assert_eq!(recorded.replayed, Some(sums));
    assert_eq!(sums.seen, sums.kept + sums.lost);
    assert_eq!(recorded.complete, Value::Bool(false));
    assert_eq!(recorded.convert_code, Some(1));
    let replayed = yuzuri(&["replay", path.to_str().unwrap(), "--json", "--speed", "1000"]);
    let messages = String::from_utf8(replayed.stderr).unwrap();
    assert!(messages.contains("was never finished"), "{messages}");

    // A truncated file is reported as truncated, and a damaged one as damaged.
    let bytes = std::fs::read(&path).unwrap();
    let other = folder.path().join("cut.arrows");
    std::fs::write(&other, &bytes[..bytes.len() - 20]).unwrap();
    let csv = folder.path().join("cut.csv");
    let cut = yuzuri(&["convert", other.to_str().unwrap(), csv.to_str().unwrap(), "--json"]);
    let messages = String::from_utf8_lossy(&cut.stderr).into_owned();
    assert!(cut.status.code() == Some(1) && messages.contains("is cut"), "{messages}");
    assert!(csv.exists());
    let mut bytes = bytes;
    let middle = bytes.len() - 200;
    bytes[middle] ^= 1;
    std::fs::write(&other, &bytes).unwrap();
    let args = ["convert", other.to_str().unwrap(), csv.to_str().unwrap(), "--json", "--overwrite"];
    let damaged = yuzuri(&args);
    let messages = String::from_utf8_lossy(&damaged.stderr).into_owned();
    assert!(damaged.status.code() == Some(1) && messages.contains("checksum is wrong"), "{messages}");
    assert!(csv.exists());
    let summary: Value = serde_json::from_slice(&damaged.stdout).unwrap();
    assert_eq!((&summary["complete"], &summary["ending"]), (&Value::Bool(false), &"damaged".into()));
}

/// A recording made before end marks existed: nothing is known about its end, and nothing is
/// claimed.
#[test]
fn an_older_recording_does_not_state_whether_it_is_complete() {
    let old = concat!(env!("CARGO_MANIFEST_DIR"), "/../yuzuri-trace/tests/golden/v1.arrows");
    let recorded = Recorded::of(Path::new(old));
    assert_eq!((recorded.complete, recorded.convert_code), (Value::Null, Some(0)));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.csv");
    let messages = yuzuri(&["convert", old, out.to_str().unwrap()]);
    let messages = String::from_utf8_lossy(&messages.stderr).into_owned();
    assert!(
        messages.contains("older format") && messages.contains("not known whether it is complete"),
        "{messages}"
    );
    assert_eq!(yuzuri(&["convert", old, "-", "--to", "csv", "--json"]).status.code(), Some(2));
}
