//! A monitor in a time namespace: the kernel's timestamps are in the machine's monotonic clock,
//! its own clock differs.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Pair, Running, Watched, events, flow_id, flows, timens};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};
use yuzuri_kernel::Watch;
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{Density, Kind, Marks};

const NETNS: &str = "YUZURI_TEST_WATCH_NETNS";
const LOCAL: &str = "YUZURI_TEST_WATCH_SILENT";
/// The largest error of a recorded wall time.
const WITHIN_NS: i64 = 1_000_000;
const EXCHANGES: usize = 20;

fn unix_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// Not a test: the test below starts it. It watches a namespace until the flow that was silent when
/// it began has closed, and prints the wall time of each event.
#[test]
fn hold_a_monitor() {
    let (Ok(netns), Ok(silent)) = (std::env::var(NETNS), std::env::var(LOCAL)) else { return };
    let silent: SocketAddr = silent.parse().unwrap();
    let began = unix_ns();
    let mut watched = Watched::start(&format!("netns:{netns}"), Density::EveryAck);
    // A dump reports it, with its own time.
    watched.until("the silent flow", |items| flow_id(items, silent).is_some());
    // On one CPU the test harness prints the test's name before it runs, without a line's end.
    println!("\nstarted {} between {began} and {}", watched.monitor.session().started_unix_ns, unix_ns());
    println!("watching");
    watched.until("the flow's end", |items| {
        let id = flow_id(items, silent);
        events(items).iter().any(|event| event.kind == Kind::Close && Some(event.flow) == id)
    });
    let asked = unix_ns();
    let account = watched.monitor.account();
    let off = account.mono_ns as i64 + account.wall_offset_ns - asked;
    println!("account is off by {off} ns and {} ns passed", unix_ns() - asked);
    let id = flow_id(&watched.items, silent).unwrap();
    let offset_ns = account.wall_offset_ns;
    let seen = watched.finish_whole();
    for event in seen.events().into_iter().filter(|event| event.flow == id) {
        let how = if event.marks.contains(Marks::SAMPLED) { "sampled" } else { "event" };
        println!("{how} {:?} {}", event.kind, event.mono_ns as i64 + offset_ns);
    }
    assert!(
        flows(&seen.items).iter().all(|flow| flow.local != silent || flow.id == id),
        "one flow all the time"
    );
    println!("done");
}

#[test]
fn records_have_the_time_of_the_wall_and_all_are_drained() {
    const TEST: &str = "records_have_the_time_of_the_wall_and_all_are_drained";
    if !timens::there(TEST) {
        return;
    }
    let offsets = timens::offsets(TEST).into_iter().map(Some);
    // The same holds if the clocks are the same.
    for offset_s in offsets.chain([None]) {
        let Some(net) = Net::or_skip(TEST) else { return };
        let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
        pair.exchange();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hold_a_monitor", "--nocapture"]).stdout(Stdio::piped());
        command.env(NETNS, net.name(Side::A)).env(LOCAL, pair.near_addr().to_string());
        if let Some(offset_s) = offset_s {
            timens::enter(&mut command, offset_s);
        }
        let began = unix_ns();
        let mut holder = Running::spawn(&mut command);
        let mut lines = BufReader::new(holder.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        let started = lines.find(|line| line.starts_with("started ")).expect("the child watches");
        let numbers: Vec<i64> = started.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!((numbers[1] - WITHIN_NS..=numbers[2] + WITHIN_NS).contains(&numbers[0]), "{started}");
        assert_eq!(lines.next().as_deref(), Some("watching"));
        let watching = unix_ns();
        // Each exchange brings one byte to the near end, and one event.
        let spans: Vec<(i64, i64)> = (0..EXCHANGES)
            .map(|_| {
                let before = unix_ns();
                pair.exchange();
                (before - WITHIN_NS, unix_ns() + WITHIN_NS)
            })
            .collect();
        pair.close();
        let rest: Vec<String> = lines.collect();
        assert!(rest.iter().any(|line| line == "done"), "{offset_s:?}: {rest:#?}");
        let times = |word: &str| -> Vec<i64> {
            let of = rest.iter().filter(|line| line.starts_with(word));
            of.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
        };
        let recorded = times("event Sample");
        let met =
            spans.iter().filter(|span| recorded.iter().any(|at| (span.0..=span.1).contains(at))).count();
        // The kernel may skip a program run on a busy machine.
        assert!(met >= EXCHANGES - 2, "{offset_s:?}: {met} of {EXCHANGES}; {spans:?}; {rest:#?}");
        // No other record is from the time in between.
        let last = spans.last().unwrap().1;
        let outside_spans =
            recorded.iter().filter(|at| !spans.iter().any(|span| (span.0..=span.1).contains(*at)));
        let outside_spans = outside_spans.filter(|at| **at < last).count();
        assert!(outside_spans <= 2, "{offset_s:?}: {outside_spans} strays; {spans:?}; {rest:#?}");
        let sampled = times("sampled");
        assert!(
            !sampled.is_empty() && sampled.iter().all(|at| (began - WITHIN_NS..watching).contains(at)),
            "{offset_s:?}: {began} {watching}; {rest:#?}"
        );
        let account = rest.iter().find(|line| line.starts_with("account")).unwrap();
        let numbers: Vec<i64> = account.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!((-WITHIN_NS..=numbers[1] + WITHIN_NS).contains(&numbers[0]), "{offset_s:?}: {account}");
        println!("{TEST}: {offset_s:?} s ahead: {met} of {EXCHANGES} exchanges at their time; {account}");
    }
}
