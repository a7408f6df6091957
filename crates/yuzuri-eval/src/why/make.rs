//! Runs the transfers and stores the observations.

use super::Make as Args;
use super::case::{self, Case, KINDS, Rng};
use super::transfer::{Transfer, path};
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use yuzuri_kernel::control::{Bound, CongestionControl, CubicParams};
use yuzuri_testnet::{Net, Side};

/// Evaluated time per phase.
const JUDGED: Duration = Duration::from_secs(6);
/// After a change of phase, nothing is evaluated for this time: the queues of the previous phase
/// remain for a while.
const CHANGES: Duration = Duration::from_secs(2);

/// How long the observers continue after the evaluated part.
const SEEN_LATER: Duration = Duration::from_secs(2);

/// The time of a clock, microseconds.
fn clock_us(clock: ClockId) -> i64 {
    let time = clock_gettime(clock).unwrap();
    time.tv_sec() * 1_000_000 + time.tv_nsec() / 1000
}

pub fn all(args: &Args) {
    let folder = &args.folder;
    std::fs::create_dir_all(folder).unwrap();
    for round in args.first_round..args.first_round + args.rounds {
        for (index, kind) in KINDS.into_iter().enumerate() {
            if !args.only.is_empty() && !args.only.iter().any(|only| only == kind) {
                continue;
            }
            let number = case::number(round, index);
            let case = Case::draw(kind, &mut Rng::new(args.seed, number));
            let name = format!("{}-{number}", args.seed);
            println!("{name} {kind}: {}", case.text());
            one(args, &case, &name, folder, args.seed.wrapping_add(number));
        }
    }
}

/// Programs that end with the transfer.
struct Running(Vec<Child>);

impl Running {
    /// Starts a program and waits until it prints `word`.
    fn start(&mut self, command: &mut Command, word: &str) {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let ready = said.by_ref().any(|line| line.contains(word));
        self.0.push(child);
        assert!(ready, "{command:?} did not print {word}");
        // Read its output to the end: a program that can no longer write would exit.
        std::thread::spawn(move || said.for_each(drop));
    }

    fn end(&mut self) {
        for child in &self.0 {
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGINT);
        }
        for mut child in self.0.drain(..) {
            child.wait().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn one(args: &Args, case: &Case, name: &str, folder: &Path, seed: u64) {
    let net = Net::new().unwrap();
    let _path = path(&net, case, seed);
    let control = case.bound.map(|upper| {
        let name = format!("yuzuri_w{}", std::process::id() % 100_000);
        let always = Bound { lower: 0, upper };
        CongestionControl::register(&CubicParams { name, always, ..CubicParams::default() }).unwrap()
    });
    let named = control.as_ref().map_or(case.control, |control| &control.cubic().name);
    let mut running = Running(Vec::new());
    let mut watch = || {
        for (how, more) in [("ack", &["--density", "ack"][..]), ("default", &[]), ("poll", &["--poll"])] {
            let filter = format!("netns:{}", net.name(Side::A));
            let mut command = Command::new(&args.yuzuri);
            command.args(["watch", &filter, "--quiet", "--overwrite", "--record"]);
            command.arg(folder.join(format!("{name}.{how}.arrows"))).args(more);
            running.start(&mut command, "Ctrl-C ends it");
        }
        for (side, end) in [(Side::A, "sender"), (Side::B, "receiver")] {
            let mut command = net.command(side, "dumpcap");
            command.args(["-q", "-i", "path", "-s", "110", "-B", "64", "-w"]);
            command.arg(folder.join(format!("{name}.{end}.pcapng")));
            running.start(&mut command, "File:");
        }
    };
    if case.begins {
        watch();
    }
    let transfer = Transfer::start(&net, case, named);
    let wait = || {
        if case.waits_for_loss {
            transfer.wait_for_loss();
        }
    };
    if case.begins {
        std::thread::sleep(case.warm_up);
        wait();
    } else {
        // Starting to observe takes a while, too.
        std::thread::sleep(case.warm_up.saturating_sub(Duration::from_secs(1)));
        wait();
        watch();
        std::thread::sleep(Duration::from_secs(1));
    }
    let mut phases = Vec::new();
    for (number, phase) in case.phases.iter().enumerate() {
        if number > 0 {
            transfer.phase(number);
            transfer.wait_until_sent();
            std::thread::sleep(CHANGES);
        }
        let before = transfer.chronographs();
        let from_us = clock_us(ClockId::CLOCK_MONOTONIC);
        std::thread::sleep(JUDGED);
        let to_us = clock_us(ClockId::CLOCK_MONOTONIC);
        let after = transfer.chronographs();
        let took: Vec<u64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
        let right: Vec<&str> = phase.right.iter().map(|limit| limit.name()).collect();
        phases.push(json!({
            "from_us": from_us, "to_us": to_us, "right": right,
            "busy_us": took[0], "rwnd_limited_us": took[1], "sndbuf_limited_us": took[2],
        }));
    }
    // Observers delay their latest observations, and a round of packets is evaluated after its end.
    std::thread::sleep(SEEN_LATER);
    let realtime_us = clock_us(ClockId::CLOCK_REALTIME) - clock_us(ClockId::CLOCK_MONOTONIC);
    running.end();
    let label = json!({
        "kind": case.kind, "case": case.text(), "local": transfer.local, "realtime_minus_monotonic_us": realtime_us,
        "phases": phases,
    });
    std::fs::write(folder.join(format!("{name}.json")), label.to_string()).unwrap();
}
