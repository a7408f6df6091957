//! Scenario files in the simulation: which keys are refused and with which message, and that
//! watching a run does not change it.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::Path;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::CellAccount;
use yuzuri_netmodel::wire::WireAccount;
use yuzuri_scenario::Document;
use yuzuri_sim::cc::CubicConstants;
use yuzuri_sim::{FlowState, NoBounds, Watch, WatchedAt, run, run_watched, simulated};

const GOOD: &str = r#"title = "two phones"
duration_s = 3
warm_up_s = 1

[path]
rtt_ms = 20
rate_mbps = 20
queue_packets = 30

[[terminal]]
name = "phone"
count = 2
phy = { standard = "g", rate_mbps = 54 }
control = "cubic"

[[terminal]]
name = "tablet"
phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
control = "reno"
"#;

fn document(text: &str) -> Document {
    Document::parse(Path::new("good.toml"), text.to_owned()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The file with one line replaced.
fn with(line: &str, by: &str) -> String {
    assert!(GOOD.contains(line), "{line}");
    GOOD.replacen(line, by, 1)
}

#[test]
fn unsupported_keys_are_refused_by_name() {
    let reno = "control = \"reno\"";
    let cases = [
        ("captures", "capture_bytes = 100\n".to_owned() + GOOD),
        ("an access point's kernel, and its gate", "ap = \"host\"\ngate = {}\n".to_owned() + GOOD),
        ("a kernel parameter", GOOD.to_owned() + "[sysctl]\n\"net.ipv4.tcp_ecn\" = \"1\"\n"),
        ("smaller packets", with("rtt_ms = 20", "rtt_ms = 20\nmtu_bytes = 1000")),
        ("the kernel's default congestion control algorithm", with(reno, "")),
        ("an unknown congestion control algorithm", with(reno, "control = \"tahoe\"")),
        ("a route with a locked window", GOOD.to_owned() + "window = 50\n"),
        ("another initial window", GOOD.to_owned() + "initial_window = 3\n"),
        ("a CUBIC without reductions", with(reno, "cubic = { no_decrease = true }")),
        ("a CUBIC with bounds", with(reno, "cubic = { floor = 10, cap = 100 }")),
        ("several connections", GOOD.to_owned() + "workload = { kind = \"bulk\", connections = 4 }\n"),
        ("buffers", GOOD.to_owned() + "workload = { kind = \"buffers\" }\n"),
        ("on and off", GOOD.to_owned() + "workload = { kind = \"on-off\", on_s = 1, off_s = 1 }\n"),
        ("iperf3 for all terminals", GOOD.to_owned() + "[workload]\nkind = \"iperf3\"\n"),
        ("request-response", GOOD.to_owned() + "workload = { kind = \"request-response\" }\n"),
        ("sharing by the program", with(reno, "share = { by = \"program\" }")),
        (
            "two kinds with different sharing policies",
            with(reno, "share = { policy = \"count\" }").replacen(
                "control = \"cubic\"\n",
                "share = true\n",
                1,
            ),
        ),
        ("a window in a sweep", GOOD.to_owned() + "[sweep]\n\"terminal.phone.window\" = [10, 20]\n"),
        (
            "a workload in a variant",
            GOOD.to_owned()
                + "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nset = { \"workload\" = { kind = \"iperf3\" } }\n",
        ),
        ("a second cell", GOOD.to_owned() + "cell = 2\n[second_cell]\n"),
        ("several problems", "capture_bytes = 100\n".to_owned() + GOOD + "window = 50\ninitial_window = 3\n"),
    ];
    let mut text = String::new();
    for (what, file) in cases {
        let refused = document(&file).check_points(&|_| true, &yuzuri_sim::refused);
        text += &format!("# {what}\n{}\n\n", refused.map(drop).expect_err(what));
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/refused.txt");
    if std::env::var_os("YUZURI_BLESS").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&golden).unwrap(), "YUZURI_BLESS=1 updates it");
}

#[test]
fn supported_keys_are_accepted() {
    let shares = with("control = \"reno\"", "share = true");
    let custom =
        with("control = \"reno\"", "paced = true\ncubic = { c = 0.25, beta = 0.8, reno_friendly = false }");
    let idle = with("control = \"reno\"", "workload = { kind = \"idle\" }");
    let down =
        GOOD.to_owned() + "workload = { kind = \"bulk\", direction = \"down\" }\njoins_s = 1\nleaves_s = 2\n";
    for text in [GOOD, &shares, &custom, &idle, &down] {
        let document = document(text);
        document
            .check_points(&|_| true, &yuzuri_sim::refused)
            .unwrap_or_else(|problems| panic!("{problems}"));
        simulated(document.base(), 1).unwrap();
    }
    let scenario = simulated(document(&custom).base(), 1).unwrap();
    let sender = &scenario.terminals[2].sender;
    let expected = CubicConstants {
        c_1024: 256,
        beta_1024: 819,
        fast_convergence_2048: Some(1843),
        friendly_eighths: None,
    };
    assert_eq!((sender.cubic, sender.paced_by_fq), (Some(expected), true));
    assert!(yuzuri_sim::sharing(document(&shares).base()).is_some());
    assert!(yuzuri_sim::sharing(document(GOOD).base()).is_none());
    // Points that are not selected are not checked.
    let swept = document(&(GOOD.to_owned() + "[sweep]\n\"terminal.phone.window\" = [10, 20]\n"));
    swept.check_points(&|point| point == "no such point", &yuzuri_sim::refused).unwrap();
}

#[derive(Default)]
struct RecordingWatch {
    acks: u64,
    intervals: Vec<f64>,
    others: Vec<WatchedAt>,
    ends_at_s: Option<f64>,
}

impl Watch for RecordingWatch {
    fn interval_ns(&self) -> u64 {
        100_000_000
    }

    fn sender(&mut self, _now: Time, flow: FlowState<'_>) {
        self.acks += u64::from(flow.by_ack);
    }

    fn network(
        &mut self,
        now: Time,
        at: WatchedAt,
        cell: Option<&CellAccount>,
        _wire: &WireAccount,
    ) -> ControlFlow<()> {
        assert_eq!(cell.unwrap().stations.len(), 3);
        match at {
            WatchedAt::Interval => self.intervals.push(now.as_secs_f64()),
            other => self.others.push(other),
        }
        match self.ends_at_s {
            Some(end_s) if now.as_secs_f64() >= end_s => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[test]
fn watching_a_run_does_not_change_it() {
    let scenario = simulated(document(GOOD).base(), 7).unwrap();
    let unwatched = run(&scenario, &mut NoBounds).unwrap();
    let mut watch = RecordingWatch::default();
    let watched = run_watched(&scenario, &mut NoBounds, &mut watch).unwrap().unwrap();
    assert_eq!(unwatched.terminals, watched.terminals);
    assert_eq!((unwatched.cell, unwatched.wire), (watched.cell, watched.wire));
    assert_eq!(watch.others, [WatchedAt::WarmedUp, WatchedAt::End]);
    assert_eq!(watch.intervals.len(), 31);
    assert!(watch.acks > 1000, "{}", watch.acks);
    let mut early = RecordingWatch { ends_at_s: Some(1.5), ..RecordingWatch::default() };
    assert!(run_watched(&scenario, &mut NoBounds, &mut early).unwrap().is_none());
    assert_eq!(early.intervals.last(), Some(&1.5));
}
