//! The command from outside: what users type, what they get, and how it ends.
#![allow(clippy::unwrap_used, missing_docs)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use yuzuri_testnet::{Net, Side, eventually};

const YUZURI: &str = env!("CARGO_BIN_EXE_yuzuri");

fn yuzuri(args: &[&str]) -> Output {
    Command::new(YUZURI).args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one line of an error.
fn error(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    let text = text(&output.stderr);
    assert!(!text.contains("panicked"), "{text}");
    text
}

fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        println!("{test}: skipped: it needs root");
    }
    root
}

fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A pipe whose reader has stopped.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A child process that ends with the test, however the test ends.
struct Running(Child, Option<JoinHandle<Vec<u8>>>);

impl Running {
    /// Starts it and reads its standard output, so that it never blocks on us.
    fn start(command: &mut Command) -> Running {
        let mut child = spawn(command);
        let mut stdout = child.stdout.take().unwrap();
        let reading = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).unwrap();
            bytes
        });
        Running(child, Some(reading))
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    /// Reads standard error up to a line that contains `words`.
    fn says(&mut self, words: &str) -> String {
        let stderr = self.0.stderr.as_mut().unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        while stderr.read(&mut byte).unwrap() == 1 {
            if byte[0] == b'\n' {
                let said = text(&line);
                if said.contains(words) {
                    return said;
                }
                line.clear();
            } else {
                line.push(byte[0]);
            }
        }
        panic!("ended without saying '{words}'");
    }

    fn end(mut self) -> Output {
        let mut stderr = Vec::new();
        self.0.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        let stdout = self.1.take().unwrap().join().unwrap();
        Output { status: self.0.wait().unwrap(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A receiver at B, listening.
fn receiver(net: &Net) -> Running {
    receiver_with(net, &[])
}

fn receiver_with(net: &Net, more: &[&str]) -> Running {
    let receiver = Running::start(net.command(Side::B, YUZURI).args(["receive", "--json"]).args(more));
    let to = (net.v4(Side::B), 4950).into();
    let listens = || TcpStream::connect_timeout(&to, std::time::Duration::from_secs(1)).is_ok();
    assert!(net.inside(Side::A, || eventually(listens)));
    receiver
}

/// Sends buffers of 100 kB from A to B with CUBIC.
fn send(net: &Net, buffers: u32) -> Output {
    let buffers = buffers.to_string();
    let to = net.v4(Side::B).to_string();
    let args = ["send", "--json", "--control", "cubic", "--buffer", "100k", "--buffers", &buffers, &to];
    net.command(Side::A, YUZURI).args(args).output().unwrap()
}

fn json_lines(bytes: &[u8]) -> Vec<Value> {
    text(bytes)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect()
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

#[test]
fn usage_errors_say_what_to_do() {
    assert_eq!(yuzuri(&["wath"]).status.code(), Some(2));
    assert_eq!(yuzuri(&["watch", "--density", "soon"]).status.code(), Some(2));
    assert!(error(&yuzuri(&["watch", "--poll", "prot:80"])).contains("unknown kind 'prot'"));
    for filter in [&["prot:80"][..], &["host"], &["443", "no-such-thing"]] {
        assert_eq!(yuzuri(&[&["watch", "--poll"], filter].concat()).status.code(), Some(2), "{filter:?}");
    }
    let usage: [&[&str]; 6] = [
        &["convert", "x.arrows"],
        &["convert", "x.arrows", "x.xyz"],
        &["send", "--buffer", "0", "127.0.0.1:1"],
        &["send", "--connections", "0", "127.0.0.1:1"],
        &["receive", "--connections", "0"],
        &["ap"],
    ];
    for words in usage {
        let ended = yuzuri(words);
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {}", error(&ended));
    }
    assert!(error(&yuzuri(&["watch", "--poll", "netns:no-such"])).contains("ip netns list"));
    assert!(error(&yuzuri(&["watch", "--poll", "cgroup:/no-such"])).contains("no-such"));
    let refused = error(&yuzuri(&["send", "--control", "no-such", "--buffers", "1", "127.0.0.1:1"]));
    assert!(
        refused.contains("cubic") || refused.contains("reno") || refused.contains("refused"),
        "{refused}"
    );
    assert!(error(&yuzuri(&["replay", "/no/such.arrows", "--json"])).contains("/no/such.arrows"));
    assert!(error(&yuzuri(&["top", "--poll"])).contains("terminal"));
}

/// Both directions at once, and reverse alone. A receiver without the option refuses, and ends the
/// direction that it could serve.
#[test]
fn a_transfer_goes_both_ways() {
    let Some(net) = Net::or_skip("a_transfer_goes_both_ways") else { return };
    let to = net.v4(Side::B).to_string();
    let asks = |args: &[&str]| net.command(Side::A, YUZURI).arg("send").args(args).arg(&to).output().unwrap();
    let typed = |lines: &[Value], kind: &str| -> Vec<Value> {
        lines.iter().filter(|line| line["type"] == kind).cloned().collect()
    };
    {
        let _receiver = receiver(&net);
        let refused = asks(&["--two-way", "--json", "--bytes", "1GB"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(error(&refused).contains("start it with `yuzuri receive --reverse`"), "{}", error(&refused));
        let failed = typed(&json_lines(&refused.stdout), "failed");
        assert!(failed.iter().any(|line| line["kind"] == "not-reversed"), "{failed:?}");
    }
    let _receiver = receiver_with(&net, &["--reverse"]);
    let both = asks(&["--two-way", "--json", "--bytes", "3MB", "--connections", "2"]);
    assert_eq!(both.status.code(), Some(0), "{}", text(&both.stderr));
    let lines = json_lines(&both.stdout);
    assert_eq!(typed(&lines, "summary")[0]["bytes_acked"], 3_000_000);
    assert_eq!(typed(&lines, "reverse-summary")[0]["bytes"], 3_000_000);
    let reverse = asks(&["-R", "--bytes", "1MB"]);
    assert_eq!(reverse.status.code(), Some(0), "{}", text(&reverse.stderr));
    assert!(text(&reverse.stdout).contains("total in reverse: 1.0 MB"), "{}", text(&reverse.stdout));
    assert_eq!(asks(&["-R", "--control", "reno"]).status.code(), Some(2));
}

#[test]
fn every_help_text_is_there() {
    for command in ["watch", "top", "replay", "convert", "send", "receive", "doctor"] {
        let help = yuzuri(&[command, "--help"]);
        assert!(help.status.success() && text(&help.stdout).contains("Usage: yuzuri"), "{command}");
    }
}

#[test]
fn a_receiver_listens_at_the_given_address_and_ends_at_its_limit() {
    let help = text(&yuzuri(&["receive", "--help"]).stdout);
    for limit in ["[default: 100GB]", "[default: 1TB]", "[default: 100000]", "`none` means no limit"] {
        assert!(help.contains(limit), "{help}");
    }
    assert_eq!(yuzuri(&["receive", "--bytes", "many"]).status.code(), Some(2));
    let words = ["receive", "--json", "--bind", "127.0.0.1", "--port", "0", "--bytes", "none"];
    let mut command = Command::new(YUZURI);
    command.args(words).args(["--total-bytes", "300k", "--lines", "1"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut receiver = Running(command.spawn().unwrap(), None);
    let mut lines = BufReader::new(receiver.0.stdout.take().unwrap()).lines();
    let listening: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&listening["max_bytes"], &listening["max_total_bytes"]), (&Value::Null, &300_000.into()));
    let address: std::net::SocketAddr = listening["address"].as_str().unwrap().parse().unwrap();
    assert!(address.ip().is_loopback() && address.is_ipv4(), "{address}");
    let mut sender = TcpStream::connect(address).unwrap();
    // The connection may close before everything is written.
    let _ = sender.write_all(&[0; 1_000_000]);
    let rest: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!(receiver.0.wait().unwrap().code(), Some(0));
    let summary = rest.last().unwrap();
    assert_eq!((&summary["type"], &summary["bytes"]), (&"summary".into(), &300_000.into()), "{rest:?}");
    assert_eq!(summary["limit_reached"], true, "{rest:?}");
    // A line, a note that there are more, and their number; then the summary.
    assert_eq!(rest.iter().filter(|line| line["type"] == "note").count(), 2, "{rest:?}");
    assert_eq!(rest.len(), 4, "{rest:?}");
}

#[test]
fn doctor_prints_a_table_and_json() {
    let findings: Value = serde_json::from_slice(&yuzuri(&["doctor", "--json"]).stdout).unwrap();
    let findings = findings.as_array().unwrap();
    assert!(findings.iter().any(|f| f["what"] == "sock_diag" && f["result"] == "ok"), "{findings:?}");
    let table = text(&yuzuri(&["doctor"]).stdout);
    assert!(table.contains("sock_diag") && table.contains("\ngate "), "{table}");
}

#[test]
fn what_is_watched_is_recorded_replayed_and_converted() {
    let Some(net) = Net::or_skip("what_is_watched_is_recorded") else { return };
    net.shape(Side::A, 50, 60_000).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    let recording = path.to_str().unwrap();
    let receiver = receiver(&net);
    let filter = format!("netns:{}", net.name(Side::A));
    let args = ["watch", &filter, "rport:4950", "--record", recording, "--json"];
    let mut watch = Running::start(Command::new(YUZURI).args(args));
    watch.says("watching");
    let sent = json_lines(&send(&net, 30).stdout);
    watch.signal(Signal::SIGINT);
    let watched = watch.end();
    assert!(watched.status.success(), "{}", text(&watched.stderr));
    let lines = json_lines(&watched.stdout);
    drop(receiver);

    let summary = sent.iter().find(|line| line["type"] == "summary").unwrap();
    let close = *of_kind(&lines, "close").first().unwrap();
    assert!(close["bytes_acked"].as_u64().unwrap().abs_diff(summary["bytes_acked"].as_u64().unwrap()) <= 2);
    let account = *of_kind(&lines, "account").last().unwrap();
    let number = |key: &str| account[key].as_u64().unwrap();
    assert_eq!(number("seen"), number("kept") + number("lost"));

    let replayed = yuzuri(&["replay", recording, "--json", "--speed", "1000"]);
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    let again = json_lines(&replayed.stdout);
    for kind in ["open", "sample", "state", "retransmit", "close"] {
        assert_eq!(of_kind(&again, kind), of_kind(&lines, kind), "{kind}");
    }
    for (format, head) in [("csv", &b"time,"[..]), ("jsonl", b"{"), ("parquet", b"PAR1")] {
        let output = folder.path().join(format!("a.{format}"));
        let converted = yuzuri(&["convert", recording, output.to_str().unwrap()]);
        assert!(converted.status.success(), "{}", text(&converted.stderr));
        assert!(std::fs::read(&output).unwrap().starts_with(head));
        let refused = error(&yuzuri(&["convert", recording, output.to_str().unwrap()]));
        assert!(refused.contains("exists"), "{refused}");
        let unread = Command::new(YUZURI)
            .args(["convert", recording, "-", "--to", format])
            .stdout(unread())
            .output()
            .unwrap();
        assert!(unread.status.success(), "{format}: {}", text(&unread.stderr));
        let errors = text(&unread.stderr);
        assert!(!errors.contains("cannot"), "a reader that stops is no failure: {errors}");
    }
    // A note that nobody reads ends nothing.
    let unnoted = |args: &[&str]| Command::new(YUZURI).args(args).stderr(unread()).output().unwrap();
    assert_eq!(unnoted(&["why", recording]).status.code(), Some(0));
    assert_eq!(unnoted(&["why", recording, "lport:1"]).status.code(), Some(3));
    let again = error(&yuzuri(&["watch", "--poll", "--record", recording, "--for", "1s"]));
    assert!(again.contains("overwrite") || again.contains("exists"), "{again}");
}

#[test]
fn a_recording_survives_kill_9_and_what_is_no_recording_is_named() {
    let Some(net) = Net::or_skip("a_recording_survives_kill_9") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    let recording = path.to_str().unwrap();
    let _receiver = receiver(&net);
    let filter = format!("netns:{}", net.name(Side::A));
    let mut watch =
        Running::start(Command::new(YUZURI).args(["watch", &filter, "--quiet", "--record", recording]));
    watch.says("watching");
    let replay = || yuzuri(&["replay", recording, "--json", "--speed", "1000"]);
    let samples = |replayed: &Output| of_kind(&json_lines(&replayed.stdout), "sample").len();
    send(&net, 20);
    // Until the file holds a batch with samples: a file that grew may hold only the flow's opening.
    let mut written = 0;
    assert!(eventually(|| {
        written = samples(&replay());
        written > 0
    }));
    watch.signal(Signal::SIGKILL);
    drop(watch);
    let replayed = replay();
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    assert!(samples(&replayed) >= written);

    let other = folder.path().join("other");
    std::fs::write(&other, "no recording at all, but long enough to look into").unwrap();
    let refused = error(&yuzuri(&["replay", other.to_str().unwrap(), "--json"]));
    assert!(refused.contains("other") && refused.lines().count() == 1, "{refused}");
    // Truncated in the middle: the complete part is shown, and the truncation is reported.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&other, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let cut = yuzuri(&["replay", other.to_str().unwrap(), "--json", "--speed", "1000"]);
    assert!(text(&cut.stderr).contains("is cut"), "{}", text(&cut.stderr));
}

/// A file system of a few pages.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> SmallDisk {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "none"])
            .arg(folder.path())
            .status();
        assert!(made.unwrap().success());
        SmallDisk(folder)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_said_counted_and_leaves_a_readable_recording() {
    let Some(net) = Net::or_skip("a_full_disk_is_said") else { return };
    let disk = SmallDisk::mount();
    let path = disk.0.path().join("a.arrows");
    let recording = path.to_str().unwrap();
    let _receiver = receiver(&net);
    let filter = format!("netns:{}", net.name(Side::A));
    let args = ["watch", &filter, "--density", "ack", "--quiet", "--record", recording];
    let mut watch = Running::start(Command::new(YUZURI).args(args));
    watch.says("watching");
    let filling = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while filling.load(std::sync::atomic::Ordering::Relaxed) {
                send(&net, 20);
            }
        });
        watch.says("recording paused");
        filling.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    watch.signal(Signal::SIGINT);
    let ended = watch.end();
    assert!(error(&ended).contains("readable but lacks"), "{}", text(&ended.stderr));
    let replayed = yuzuri(&["replay", recording, "--json", "--speed", "1000"]);
    assert!(replayed.status.success() && !json_lines(&replayed.stdout).is_empty());
}

fn get(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

#[test]
fn the_page_is_served_and_a_second_one_on_its_port_is_refused() {
    let mut watch = Running::start(Command::new(YUZURI).args(["watch", "--poll", "--web", "127.0.0.1:0"]));
    let said = watch.says("the page is at");
    let (address, token) = said.split("http://").nth(1).unwrap().split_once("/#token=").unwrap();
    let (address, token) = (address.to_owned(), token.to_owned());
    let page = get(&address, &format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"));
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>"), "{page}");
    let session = |more: &str| {
        let head = format!("GET /api/session HTTP/1.1\r\nHost: {address}\r\nConnection: close");
        get(&address, &format!("{head}\r\n{more}\r\n"))
    };
    assert!(session("").starts_with("HTTP/1.1 401"));
    assert!(session(&format!("Authorization: Bearer {token}\r\n")).starts_with("HTTP/1.1 200"));
    let stranger = get(&address, "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!(stranger.starts_with("HTTP/1.1 4"), "{stranger}");
    let second = error(&yuzuri(&["watch", "--poll", "--web", &address]));
    assert!(second.contains(address.rsplit(':').next().unwrap()), "{second}");
    watch.signal(Signal::SIGTERM);
    assert!(watch.end().status.success());
}

#[test]
fn without_btf_it_steps_down_and_the_doctor_knows() {
    const TEST: &str = "without_btf_it_steps_down";
    if !is_root(TEST) {
        return;
    }
    if !Path::new("/sys/kernel/btf").exists() {
        return println!("{TEST}: skipped: this kernel has none anyway");
    }
    // The kernel's BTF is hidden under an empty folder, for this command only.
    let hidden = |words: &str| {
        let script = format!("mount -t tmpfs none /sys/kernel/btf && exec {YUZURI} {words}");
        Command::new("unshare").args(["--mount", "sh", "-c", &script]).stdin(Stdio::null()).output().unwrap()
    };
    let doctor = hidden("doctor");
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    let found = text(&doctor.stdout);
    assert!(found.contains("has no BTF") && found.contains("CONFIG_DEBUG_INFO_BTF=y"), "{found}");
    assert_eq!(text(&doctor.stderr), "");
    let watch = hidden("watch --json --for 300ms");
    let said = text(&watch.stderr);
    assert!(watch.status.success() && said.contains("SAMPLED") && said.contains("has no BTF"), "{said}");
    assert!(!said.contains("libbpf"), "{said}");
}

#[test]
fn without_privilege_it_steps_down_and_says_so() {
    if !is_root("without_privilege_it_steps_down") {
        return;
    }
    // A user who may not read this folder needs the program elsewhere.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = folder.path().join("yuzuri");
    std::fs::copy(YUZURI, &program).unwrap();
    let output = Command::new(&program)
        .args(["watch", "--json", "--for", "300ms"])
        .current_dir(Path::new("/"))
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("SAMPLED"), "{}", text(&output.stderr));
    let lines = json_lines(&output.stdout);
    assert_eq!(lines[0]["session"]["source"], "sampled");
}

#[test]
fn a_filter_without_a_match_is_reported() {
    for (filter, shown) in
        [(&["name:no-such-name"][..], "name:no-such-name"), (&["host", "localhost", "1"], "port:1 addr:")]
    {
        let output = yuzuri(&[&["watch", "--poll", "--for", "300ms"], filter].concat());
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains(&format!("no flow matched {shown}")), "{said}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let mut watch =
        Running(spawn(Command::new(YUZURI).args(["watch", "--poll", "--json", "--for", "30s"])), None);
    let mut first = String::new();
    BufReader::new(watch.0.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("session"));
    // The pipe is closed now. The next line finds it closed, at the latest the account after a
    // second.
    let mut ended = None;
    assert!(eventually(|| {
        ended = watch.0.try_wait().unwrap();
        ended.is_some()
    }));
    assert!(ended.unwrap().success());
}

#[test]
fn a_sender_records_its_own_connections_without_privilege() {
    let Some(net) = Net::or_skip("a_sender_records_its_own_connections") else { return };
    net.shape(Side::A, 20, 100_000).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Any user may write here.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let path = folder.path().join("own.arrows");
    let recording = path.to_str().unwrap();
    let receiver = receiver(&net);
    for (to, connections) in [(net.v4(Side::B), 1), (net.v6(Side::B), 2)] {
        let mut command = net.command(Side::A, "setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            YUZURI,
            "send",
            "--json",
            "--record",
            recording,
        ]);
        command.args([
            "--overwrite",
            "--bytes",
            "2MB",
            "--connections",
            &connections.to_string(),
            &to.to_string(),
        ]);
        let sent = command.output().unwrap();
        if text(&sent.stderr).contains("setpriv") {
            println!("a_sender_records_its_own_connections: skipped: {}", text(&sent.stderr));
            return;
        }
        assert!(sent.status.success(), "{}", text(&sent.stderr));
        assert!(text(&sent.stderr).contains("yuzuri: recorded"), "{}", text(&sent.stderr));
        let events = json_lines(&sent.stdout);
        let connected: Vec<_> = events.iter().filter(|event| event["type"] == "connected").collect();
        assert_eq!(connected.len(), connections);
        let replayed = json_lines(&yuzuri(&["replay", recording, "--json", "--speed", "1000"]).stdout);
        assert_eq!(of_kind(&replayed, "session")[0]["session"]["source"], "sampled");
        let flows = of_kind(&replayed, "flow");
        for connected in connected {
            let flow = flows.iter().find(|flow| flow["flow"]["id"] == connected["cookie"]);
            let flow = flow.unwrap_or_else(|| panic!("{connected} in {flows:?}"));
            assert_eq!(flow["flow"]["remote"], connected["peer"]);
            let samples = of_kind(&replayed, "sample");
            let mut windows = samples.iter().filter(|sample| sample["flow"] == connected["cookie"]);
            assert!(windows.any(|sample| sample["cwnd"].as_u64() > Some(10)), "its window grows");
        }
        assert_eq!(of_kind(&replayed, "close").len(), connections);
    }
    drop(receiver);
}

/// A transfer's JSON lines when the recording requested with it failed: the transfer was completed,
/// and the failure was reported once.
fn events_of_recording(sent: &Output) -> Vec<Value> {
    let lines = json_lines(&sent.stdout);
    assert_eq!(sent.status.code(), Some(3), "{}", text(&sent.stderr));
    let of_type = |name: &str| lines.iter().filter(|line| line["type"] == name).collect::<Vec<_>>();
    let [summary] = of_type("summary")[..] else { panic!("{lines:?}") };
    assert!(summary["bytes_acked"].as_u64() > Some(0) && summary["bytes_unacknowledged"] == 0, "{summary}");
    assert!(of_type("failed").is_empty());
    let [warning] = of_type("warning")[..] else { panic!("it is reported once: {lines:?}") };
    assert_eq!(warning["kind"], "recording");
    let said = text(&sent.stderr);
    assert_eq!(said.matches(warning["message"].as_str().unwrap()).count(), 1, "{said}");
    lines
}

#[test]
fn a_recording_that_cannot_be_begun_does_not_hold_a_transfer_up() {
    const TEST: &str = "a_recording_that_cannot_be_begun_does_not_hold_a_transfer_up";
    let Some(net) = Net::or_skip(TEST) else { return };
    let _receiver = receiver(&net);
    let to = net.v4(Side::B).to_string();
    // Owned by root, who alone may write there.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let there = folder.path().join("there.arrows");
    std::fs::write(&there, "something else").unwrap();
    for file in [folder.path().join("a.arrows"), there.clone(), "/nonexistent/a.arrows".into()] {
        let mut command = net.command(Side::A, "setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", YUZURI, "send", "--json"]);
        let sent = command.args(["--bytes", "2MB", "--record"]).arg(&file).arg(&to).output().unwrap();
        if text(&sent.stderr).contains("setpriv") {
            return println!("{TEST}: skipped: {}", text(&sent.stderr));
        }
        let lines = events_of_recording(&sent);
        assert_eq!(lines[0]["type"], "warning", "it is reported before the first byte");
        let summary = lines.iter().find(|line| line["type"] == "summary").unwrap();
        assert_eq!(summary["bytes_acked"], 2_000_000);
    }
    assert_eq!(std::fs::read_to_string(there).unwrap(), "something else");
}

#[test]
fn a_full_disk_does_not_disturb_the_transfer_that_is_recorded() {
    const TEST: &str = "a_full_disk_does_not_disturb_the_transfer_that_is_recorded";
    let Some(net) = Net::or_skip(TEST) else { return };
    net.shape(Side::A, 50, 200_000).unwrap();
    let _receiver = receiver(&net);
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept.arrows");
    std::fs::create_dir(folder.path().join("small")).unwrap();
    // A small disk in a mount namespace of its own. It disappears with the process that mounted it,
    // so its content is copied before.
    let script = "mount -t tmpfs -o size=64k none \"$1/small\" || exit 77\n\
        \"$2\" send --json --time 5s --buffer 100kB --record \"$1/small/a.arrows\" \"$3\"\n\
        code=$?; cp \"$1/small/a.arrows\" \"$1/kept.arrows\"; exit $code";
    let mut command = net.command(Side::A, "unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(folder.path());
    let sent = command.args([YUZURI, &net.v4(Side::B).to_string()]).output().unwrap();
    if sent.status.code() == Some(77) || text(&sent.stderr).contains("unshare:") {
        return println!("{TEST}: skipped: {}", text(&sent.stderr));
    }
    let lines = events_of_recording(&sent);
    let at = lines.iter().position(|line| line["type"] == "warning").unwrap();
    assert!(lines[at]["message"].as_str().unwrap().contains("No space left"), "{}", lines[at]);
    let buffers = |lines: &[Value]| lines.iter().filter(|line| line["type"] == "buffer").count();
    assert!(buffers(&lines[..at]) > 0 && buffers(&lines[at..]) > 20, "it was reported in the middle: {at}");
    // The path carries 47 Mbit/s of payload. A busy machine may lose some of it, but a transfer
    // that waited for its recorder would reach little.
    let summary = lines.iter().find(|line| line["type"] == "summary").unwrap();
    assert!(summary["throughput_bps"].as_u64() > Some(25_000_000), "{summary}");
    assert!(text(&sent.stderr).contains("readable but lacks"), "{}", text(&sent.stderr));
    // The part that fit is readable.
    let replayed = yuzuri(&["replay", kept.to_str().unwrap(), "--json", "--speed", "1000"]);
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    assert!(!of_kind(&json_lines(&replayed.stdout), "sample").is_empty());
}

#[test]
fn failures_of_a_transfer_have_a_kind() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let to = format!("127.0.0.1:{port}");
    for (words, kind) in [
        (&[to.as_str()][..], "refused"),
        (&["nosuch.invalid"], "unknown-host"),
        (&["--control", "nosuch", &to], "control-unknown"),
        (&["--bind", "192.0.2.77", &to], "unknown-address"),
        (&["--interface", "nosuch0", &to], "unknown-interface"),
        (&["--buffers", "0", &to], "option"),
        (&["--share", &to], "sharing"),
        (&["--share", "--share-key-file", "/nonexistent/key", &to], "sharing"),
    ] {
        let failed = yuzuri(&[&["send", "--json"], words].concat());
        assert_eq!(failed.status.code(), Some(1), "{words:?}");
        let lines = json_lines(&failed.stdout);
        let [line] = &lines[..] else { panic!("{words:?}: {lines:?}") };
        assert_eq!((&line["type"], &line["kind"]), (&"failed".into(), &kind.into()), "{words:?}");
        assert!(error(&failed).contains(line["message"].as_str().unwrap()), "{words:?}");
    }
}

/// The command in a folder of its own, without the accompanying programs. It is a link: a copy
/// could not be executed while a process started by another test still holds it open for writing.
fn alone() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir_in(Path::new(YUZURI).parent().unwrap()).unwrap();
    let program = folder.path().join("yuzuri");
    std::fs::hard_link(YUZURI, &program).unwrap();
    (folder, program)
}

#[test]
fn lab_becomes_the_program_beside_it_or_says_what_is_missing() {
    let (folder, program) = alone();
    let lab =
        || Command::new(&program).args(["lab", "run", "--help"]).env("PATH", folder.path()).output().unwrap();
    let missing = error(&lab());
    assert!(missing.contains("yuzuri-lab") && missing.contains("make build"), "{missing}");
    // Any program of that name receives all arguments unchanged.
    std::os::unix::fs::symlink("/bin/echo", folder.path().join("yuzuri-lab")).unwrap();
    assert_eq!(text(&lab().stdout), "run --help\n");
}

/// The program next to the command under test; a test of both is skipped if only one was built.
fn beside(program: &str, test: &str) -> bool {
    let built = Path::new(YUZURI).with_file_name(program).exists();
    if !built {
        println!("{test}: skipped: {program} is not built (cargo build -p {program})");
    }
    built
}

#[test]
fn what_is_watched_is_identified_while_it_goes_on_and_at_the_end() {
    const TEST: &str = "what_is_watched_is_identified_while_it_goes_on_and_at_the_end";
    let Some(net) = Net::or_skip(TEST) else { return };
    if !is_root(TEST) || !beside("yuzuri-identify", TEST) {
        return;
    }
    // A queue of 70 segments, which Reno fills again every second or so.
    net.shape(Side::A, 20, 100_000).unwrap();
    let receiver = receiver(&net);
    // Other namespaces have flows of other tests.
    let filter = format!("netns:{}", net.name(Side::A));
    let words = ["watch", "--identify", "--json", "--density", "ack", &filter, "rport:4950"];
    let mut watching = Running::start(Command::new(YUZURI).args(words));
    watching.says("Ctrl-C ends it");
    let to = net.v4(Side::B).to_string();
    let sent = net
        .command(Side::A, YUZURI)
        .args(["send", "--control", "reno", "--bytes", "20MB", &to])
        .output()
        .unwrap();
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    watching.signal(Signal::SIGINT);
    let watched = watching.end();
    assert!(watched.status.success(), "{}", text(&watched.stderr));
    drop(receiver);
    let lines = json_lines(&watched.stdout);
    assert!(!of_kind(&lines, "sample").is_empty(), "the records are printed as without");
    let verdicts = of_kind(&lines, "verdict");
    let (last, before): (Vec<&Value>, Vec<&Value>) =
        verdicts.into_iter().partition(|verdict| verdict["last"] == true);
    let [last] = last[..] else { panic!("one flow, one last word: {last:?}") };
    assert_eq!(last["kernel_name"], "reno");
    assert!(last["summary"]["losses"].as_u64() > Some(0), "{last}");
    let set = |verdict: &Value| verdict["answer"]["set"].to_string();
    assert!(set(last).contains("\"reno\""), "{last}");
    assert!(!before.is_empty(), "it was reported while the flow continued");
}

#[test]
fn without_the_program_that_identifies_watching_says_what_is_missing() {
    let (folder, program) = alone();
    let watch = || {
        let words = ["watch", "--identify", "--poll", "--for", "1s"];
        Command::new(&program).args(words).env("PATH", folder.path()).stdin(Stdio::null()).output().unwrap()
    };
    let missing = error(&watch());
    assert!(missing.contains("yuzuri-identify") && missing.contains("make build"), "{missing}");
    // A program that exits immediately does not end the watch; its failure is reported.
    std::os::unix::fs::symlink("/bin/false", folder.path().join("yuzuri-identify")).unwrap();
    let failed = error(&watch());
    assert!(failed.contains("yuzuri-identify ended with exit status: 1"), "{failed}");
    assert!(failed.contains("seen"), "the account is given all the same: {failed}");
}

/// A link of 20 Mbit/s with a queue of 100 ms: CUBIC fills it, and other traffic waits in it.
#[test]
fn latency_beside_the_load_is_that_of_the_queue() {
    let Some(net) = Net::or_skip("latency_beside_the_load_is_that_of_the_queue") else { return };
    net.shape(Side::A, 20, 250_000).unwrap();
    let receiver = receiver(&net);
    let to = net.v4(Side::B).to_string();
    let sent = net
        .command(Side::A, YUZURI)
        .args(["send", "--json", "--probe", "--control", "cubic", "--time", "4s", &to])
        .output()
        .unwrap();
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let lines = json_lines(&sent.stdout);
    let latency = lines.iter().find(|line| line["type"] == "latency").unwrap();
    assert!(latency["handshakes"].as_u64().unwrap() >= 8, "{latency}");
    let median_us = latency["median_us"].as_u64().unwrap();
    assert!((20_000..400_000).contains(&median_us), "{latency}");
    assert!(latency["min_us"].as_u64() <= latency["p95_us"].as_u64());
    receiver.signal(Signal::SIGINT);
    receiver.end();
}
