//! `yuzuri why` names the limit that a transfer was given, live and from a recording, and exits
//! with the right code.
#![allow(clippy::unwrap_used, missing_docs)]

mod faults;

use faults::{Fault, Transfer};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};
use yuzuri_testnet::{Net, Side};

const YUZURI: &str = env!("CARGO_BIN_EXE_yuzuri");

fn yuzuri(args: &[&str]) -> Output {
    Command::new(YUZURI).args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json_lines(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The answer about the flow from this address.
fn of(lines: &[Value], local: std::net::SocketAddr) -> &Value {
    let found = lines.iter().find(|line| line["flow"]["local"] == local.to_string());
    found.unwrap_or_else(|| panic!("no flow from {local} in {lines:#?}"))
}

fn share(answer: &Value, limit: &str) -> f64 {
    answer["shares"][limit].as_f64().unwrap_or(0.0)
}

/// A running `yuzuri why`.
struct Asked {
    child: Child,
    stderr: std::io::Lines<BufReader<ChildStderr>>,
}

impl Asked {
    /// Asks about the flows of side A; it is watching once this returns.
    fn start(net: &Net, more: &[&str]) -> Asked {
        let filter = format!("netns:{}", net.name(Side::A));
        let mut command = Command::new(YUZURI);
        command.args(["why", &filter, "--json"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(stderr.any(|line| line.unwrap().contains("Ctrl-C ends it")));
        Asked { child, stderr }
    }

    fn end(self) -> Vec<Value> {
        let Asked { child, stderr } = self;
        let messages = std::thread::spawn(move || stderr.map_while(Result::ok).collect::<Vec<_>>());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{:?}", messages.join());
        json_lines(&output)
    }
}

/// The answer about a transfer, watched from its beginning or from its middle.
fn answer(test: &str, fault: Fault, begins: bool, more: &[&str]) -> Option<Value> {
    answer_and_delay(test, fault, begins, more).map(|(answer, _)| answer)
}

/// The same, with the share of time for which the transfer's threads waited for a processor.
fn answer_and_delay(test: &str, fault: Fault, begins: bool, more: &[&str]) -> Option<(Value, f64)> {
    let net = Net::or_skip(test)?;
    let early = (!begins).then(|| Transfer::start(&net, fault));
    let before = early.as_ref().map_or(Duration::ZERO, Transfer::late);
    let asked = Asked::start(&net, &[&["--for", "3s"], more].concat());
    let transfer = early.unwrap_or_else(|| Transfer::start(&net, fault));
    let lines = asked.end();
    let end = lines.last().unwrap();
    assert_eq!(end["kind"], "end");
    // Events that the kernel skips when a program interrupts itself are lost, and counted.
    let account = |key: &str| end["account"][key].as_u64().unwrap();
    assert_eq!(account("seen"), account("kept") + account("lost"), "{end}");
    let answer = of(&lines, transfer.local).clone();
    let sum: f64 = answer["shares"].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{answer}");
    let late = (transfer.late() - before).as_secs_f64() / 3.0;
    println!("{test}: late {late:.3} {answer:#}");
    Some((answer, late))
}

/// Whether the transfer's threads waited for a processor for so long that its limit is another one:
/// a writer that waits is an application that does not write, and a reader that waits is a slow
/// reader. For that share of the time, these answers are right.
fn skips_as_late(test: &str, late: f64) -> bool {
    let skips = late > 0.2;
    if skips {
        println!(
            "{test}: skipped: its programs waited for a processor for {:.0} % of the time",
            100.0 * late
        );
    }
    skips
}

#[test]
fn a_small_receive_buffer_is_the_receivers_window() {
    let test = "a_small_receive_buffer";
    let Some(answer) = answer(test, Fault::ReceiveBuffer(8_192), false, &[]) else { return };
    assert_eq!(answer["limit"], "receiver-window");
    assert!(share(&answer, "receiver-window") > 0.9);
    assert!(answer["remedy"].as_str().unwrap().contains("net.ipv4.tcp_rmem"));
    assert_eq!(answer["next"]["limit"], "congestion-window");
}

#[test]
fn a_program_that_reads_slowly_is_the_receiving_application() {
    let fault = Fault::SlowReader(10_000, Duration::from_millis(50));
    for begins in [true, false] {
        let Some(answer) = answer("a_program_that_reads_slowly", fault, begins, &[]) else { return };
        assert_eq!(answer["limit"], "slow-reader");
        // Watched from the beginning, the flow is in slow start at first.
        assert!(share(&answer, "slow-reader") > if begins { 0.7 } else { 0.9 });
    }
}

#[test]
fn a_program_that_writes_now_and_then_is_the_application() {
    let fault = Fault::SlowWriter(10_000, Duration::from_millis(50));
    let Some(answer) = answer("a_program_that_writes_now_and_then", fault, false, &[]) else { return };
    assert_eq!(answer["limit"], "application");
    assert!(share(&answer, "application") > 0.95);
}

#[test]
fn a_small_send_buffer_is_the_send_buffer() {
    let test = "a_small_send_buffer";
    let Some((answer, late)) = answer_and_delay(test, Fault::SendBuffer(4_608), false, &[]) else { return };
    if skips_as_late(test, late) {
        return;
    }
    // The kernel fills a large segment regardless of the buffer's limit. Until the window has grown
    // to that size, the window limits.
    assert!(share(&answer, "send-buffer") > 0.3);
    let wrong =
        ["application", "receiver-window", "slow-reader", "pacing"].map(|limit| share(&answer, limit));
    assert!(wrong.iter().sum::<f64>() < 0.05 + late, "{wrong:?}, late {late:.3}");
}

#[test]
fn a_pacing_rate_is_pacing_with_its_rate() {
    let Some(answer) = answer("a_pacing_rate", Fault::Paced(1_250_000), false, &[]) else { return };
    // A busy machine delivers the path's packets late: a queue, which then is the limit.
    assert!(share(&answer, "pacing") > 0.15);
    let wrong =
        ["application", "receiver-window", "slow-reader", "send-buffer"].map(|limit| share(&answer, limit));
    assert!(wrong.iter().sum::<f64>() < 0.05);
}

#[test]
fn polling_gives_the_same_limit() {
    let fault = Fault::ReceiveBuffer(8_192);
    // From the middle, polls may not show whether the window was larger before. Then a slow reader
    // is possible, too.
    let middle = &["receiver", "receiver-window"][..];
    for (begins, limits) in [(true, &["receiver-window"][..]), (false, middle)] {
        let test = "polling_gives_the_same_limit";
        let Some((answer, late)) = answer_and_delay(test, fault, begins, &["--poll"]) else { return };
        if skips_as_late(test, late) {
            return;
        }
        // A busy machine polls late, and the time between polls is unknown.
        let limit = answer["limit"].as_str().unwrap();
        assert!(limits.contains(&limit) || limit == "unknown", "{limit}: {answer}");
        let known = 1.0 - share(&answer, "unknown");
        let right = limits.iter().map(|limit| share(&answer, limit)).sum::<f64>();
        assert!(known > 0.0 && right > 0.8 * known);
    }
}

/// The kernel's own chronograph measures for how long the receiver's window was full; it is
/// independent of our rules.
#[test]
fn a_recording_agrees_with_the_kernels_chronograph() {
    let Some(net) = Net::or_skip("a_recording_gives_the_same_limit") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.arrows");
    let file = file.to_str().unwrap();
    let transfer = Transfer::start(&net, Fault::ReceiveBuffer(8_192));
    let filter = format!("netns:{}", net.name(Side::A));
    let before = transfer.chronographs();
    let recorded = yuzuri(&["watch", &filter, "--quiet", "--record", file, "--for", "2s"]);
    let after = transfer.chronographs();
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let output = yuzuri(&["why", file, &filter, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = json_lines(&output);
    let answer = of(&lines, transfer.local);
    let rwnd_limited =
        (after.rwnd_limited_us - before.rwnd_limited_us) as f64 / (after.busy_us - before.busy_us) as f64;
    // Whatever fills the window: a busy machine delays ACKs.
    let ours =
        ["receiver-window", "slow-reader", "path"].map(|limit| share(answer, limit)).iter().sum::<f64>();
    println!("ss: {rwnd_limited:.3}, ours: {ours:.3}");
    assert!((ours - rwnd_limited).abs() < 0.1, "{ours} and {rwnd_limited}: {answer}");
    assert_eq!(lines.last().unwrap()["complete"], true);
    // The recording holds no other flows.
    assert_eq!(yuzuri(&["why", file, "port:1"]).status.code(), Some(3));
    // As text.
    let words = yuzuri(&["why", file]);
    assert!(
        text(&words.stdout).contains("% of the time, the limit is the receiver's window: "),
        "{}",
        text(&words.stdout)
    );
    // A truncated recording is explained up to its end, and reported as incomplete.
    let bytes = std::fs::read(file).unwrap();
    let cut = folder.path().join("cut.arrows");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let output = yuzuri(&["why", cut.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is cut"), "{}", text(&output.stderr));
}

/// A capturing program that ends when dropped, even in a failing test: it would hold the test's
/// output open.
struct Capturing(Child);

impl Drop for Capturing {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGINT);
        let _ = self.0.wait();
    }
}

#[test]
fn a_capture_gives_the_same_limit() {
    let test = "a_capture_gives_the_same_limit";
    let Some(net) = Net::or_skip(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut captures = Vec::new();
    for side in [Side::A, Side::B] {
        let file = folder.path().join(format!("{side:?}.pcapng"));
        let mut command = net.command(side, "dumpcap");
        command.args(["-q", "-i", "any", "-s", "120", "-w"]).arg(&file).stderr(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            println!("{test}: skipped: dumpcap is not installed");
            return;
        };
        // Capturing has begun once the file is named. A program that can no longer write would end.
        let mut messages = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(messages.by_ref().any(|line| line.starts_with("File:")));
        std::thread::spawn(move || messages.for_each(drop));
        captures.push((Capturing(child), file));
    }
    let began = Instant::now();
    let transfer = Transfer::start(&net, Fault::ReceiveBuffer(8_192));
    assert!(yuzuri_testnet::eventually(|| transfer.acked_bytes() > 200_000));
    let late = transfer.late().as_secs_f64() / began.elapsed().as_secs_f64();
    let local = transfer.local;
    drop(transfer);
    if skips_as_late(test, late) {
        return;
    }
    for (capturing, file) in captures {
        drop(capturing);
        let output = yuzuri(&["why", file.to_str().unwrap(), "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let lines = json_lines(&output);
        let answer = of(&lines, local);
        // A busy machine wakes the reader late, which then is a slow one, and delivers the path's
        // packets late, which then is a queue.
        let [window, slow, path] =
            ["receiver-window", "slow-reader", "path"].map(|limit| share(answer, limit));
        if late < 0.02 && path < 0.05 {
            assert_eq!(answer["limit"], "receiver-window", "{answer:#}");
        }
        assert!(window + slow + path > 0.8, "late {late:.3}: {answer:#}");
        assert_eq!(lines.last().unwrap()["source"], "capture");
        // The capture holds no other flows, and no processes.
        assert_eq!(yuzuri(&["why", file.to_str().unwrap(), "port:1"]).status.code(), Some(3));
        assert_eq!(yuzuri(&["why", file.to_str().unwrap(), "pid:1"]).status.code(), Some(2));
    }
}

#[test]
fn ctrl_c_ends_it_early_with_the_answer_so_far() {
    let Some(net) = Net::or_skip("ctrl_c_ends_it_early") else { return };
    let transfer = Transfer::start(&net, Fault::ReceiveBuffer(8_192));
    let asked = Asked::start(&net, &["--for", "1h"]);
    // So that there is something to explain.
    let sent = transfer.acked_bytes();
    assert!(yuzuri_testnet::eventually(|| transfer.acked_bytes() > sent + 150_000));
    kill(Pid::from_raw(asked.child.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(of(&asked.end(), transfer.local)["limit"], "receiver-window");
}

#[test]
fn exit_codes_distinguish_usage_errors_failures_and_no_answer() {
    let refused = yuzuri(&["why", "prot:80"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("unknown kind 'prot'"));
    let missing = yuzuri(&["why", "/no/such.arrows"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("/no/such.arrows"));
    let nothing = yuzuri(&["why", "--poll", "lport:1", "--for", "100ms"]);
    assert_eq!(nothing.status.code(), Some(3), "{}", text(&nothing.stderr));
    assert!(text(&nothing.stderr).contains("no flow of lport:1 sent anything"));
}

/// If the reader of standard output closes the pipe early, the program ends without a message.
#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let Some(net) = Net::or_skip("a_reader_that_is_gone") else { return };
    let _transfer = Transfer::start(&net, Fault::ReceiveBuffer(8_192));
    let filter = format!("netns:{}", net.name(Side::A));
    let (reader, writer) = nix::unistd::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(YUZURI);
    command.args(["why", &filter, "--for", "200ms"]).stdin(Stdio::null()).stdout(writer);
    let output = command.stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let messages = text(&output.stderr);
    assert!(!messages.contains("panicked") && !messages.contains("Broken pipe"), "{messages}");
}
