//! One connection in every supported format: the same name, and nearly the same window trace.

#![allow(clippy::unwrap_used)]

mod common;

use common::{LINE, Line, Run, run};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use yuzuri_identify::analyse::{Options, Outcome, analyse};
use yuzuri_identify::input::Kind;
use yuzuri_identify::report::FileReport;
use yuzuri_identify::table::anomalies;
use yuzuri_infer::verdict::Answer;
use yuzuri_infer::window_trace::CapturePoint;
use yuzuri_sim::cc::Algorithm;

fn report(path: &Path) -> FileReport {
    match analyse(path, &Options::default(), &AtomicBool::new(false), &|_| {}) {
        Outcome::Read(report) => *report,
        Outcome::NotOurs(error) => panic!("{}: {error}", path.display()),
    }
}

/// The names found for the file's only flow, the best first.
fn names(report: &FileReport) -> Vec<String> {
    assert_eq!(report.error, None, "{}", report.path);
    assert_eq!(report.flows.len(), 1, "{}", report.path);
    match &report.flows[0].verdict.answer {
        Answer::Named { set, .. } => set.clone(),
        Answer::Unknown { because } => panic!("{}: {because}", report.path),
    }
}

fn forms(run: &Run, folder: &Path) -> Vec<(Kind, std::path::PathBuf)> {
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let recording = folder.join("x.arrows");
    run.recording(&recording);
    vec![
        (Kind::Capture, put("capture", &run.pcap(0))),
        (Kind::ProbeCsv, put("csv", run.probe_csv().as_bytes())),
        (Kind::ProbeTrace, put("trace", run.probe_trace().as_bytes())),
        (Kind::Ss, put("ss", run.ss(20, true).as_bytes())),
        (Kind::Recording, recording),
    ]
}

#[test]
fn every_input_format_gives_the_same_name() {
    for algorithm in [Algorithm::Cubic, Algorithm::Reno, Algorithm::Scalable, Algorithm::Htcp] {
        let folder = tempfile::tempdir().unwrap();
        let run = run(algorithm, LINE);
        for (kind, path) in forms(&run, folder.path()) {
            let report = report(&path);
            assert_eq!(report.kind, Some(kind));
            let names = names(&report);
            assert!(
                names.iter().any(|name| name == algorithm.name()),
                "{} as {kind:?}: {names:?}",
                algorithm.name()
            );
            let flow = &report.flows[0];
            let kernel = matches!(kind, Kind::Ss | Kind::Recording);
            assert_eq!(flow.kernel_name.as_deref(), kernel.then_some(algorithm.name()), "{kind:?}");
            let capture_point =
                if kind == Kind::Capture { CapturePoint::Sender } else { CapturePoint::Kernel };
            assert_eq!(flow.verdict.capture_point, capture_point);
            assert_eq!(flow.verdict.window_trace.mss_bytes, 1448, "{kind:?}");
        }
    }
}

#[test]
fn a_truncated_recording_is_read_to_its_end_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.arrows");
    run(Algorithm::Reno, LINE).recording(&path);
    let of = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let report = report(&path);
        assert!(names(&report).contains(&"reno".to_owned()), "{:?}", names(&report));
        (report.log.as_ref().unwrap().complete, anomalies(&report).join("; "))
    };
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(of(&bytes), (Some(true), String::new()));
    let (complete, odd) = of(&bytes[..bytes.len() - 20]);
    assert!(complete == Some(false) && odd.contains("cut"), "{complete:?}: {odd}");
}

/// Known windows must not differ from reconstructed ones by more than the reconstruction's error.
#[test]
fn window_traces_agree() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(Algorithm::Cubic, LINE);
    let reports: Vec<FileReport> = forms(&run, folder.path()).iter().map(|(_, path)| report(path)).collect();
    let first = &reports[0].flows[0];
    let truth = run.moments.iter().map(|m| m.cwnd).max().unwrap() as f32;
    for report in &reports {
        let flow = &report.flows[0];
        let window_trace = &flow.verdict.window_trace;
        let kind = report.kind;
        assert!(
            (flow.summary.window_greatest - truth).abs() <= 0.03 * truth,
            "{kind:?}: {} of {truth}",
            flow.summary.window_greatest
        );
        assert!(
            window_trace.reductions.len().abs_diff(first.verdict.window_trace.reductions.len()) <= 1,
            "{kind:?}: {} reductions",
            window_trace.reductions.len()
        );
        let acked = window_trace.acked_bytes as f64 / first.verdict.window_trace.acked_bytes as f64;
        assert!((acked - 1.0).abs() < 0.02, "{kind:?}: acked {acked}");
        let beta = flow.verdict.constants.beta.unwrap().median;
        assert!((beta - 0.7).abs() < 0.02, "{kind:?}: kept {beta}");
        // Every byte is acknowledged in exactly one round.
        let rounds: f32 = window_trace.rounds.iter().map(|round| round.acked).sum();
        let all = window_trace.acked_bytes as f32 / window_trace.mss_bytes as f32;
        assert!((rounds / all - 1.0).abs() < 0.02, "{kind:?}: {rounds} of {all}");
    }
    // The round-trip times are recovered from the smoothed ones.
    let rtt = |report: &FileReport| f64::from(report.flows[0].summary.rtt_median_us);
    for report in &reports[1..3] {
        assert!(
            (rtt(report) / rtt(&reports[0]) - 1.0).abs() < 0.03,
            "{:?}: {} of {}",
            report.kind,
            rtt(report),
            rtt(&reports[0])
        );
    }
}

#[test]
fn without_a_clock_the_sockets_own_is_used_or_its_lack_reported() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(Algorithm::Reno, Line { seconds: 10, ..LINE });
    let path = folder.path().join("ss");
    let text = run.ss(20, false);
    std::fs::write(&path, &text).unwrap();
    let without = report(&path);
    assert!(without.error.as_ref().unwrap().contains("date +%s.%N"), "{:?}", without.error);
    let mut busy_ms = 0;
    let text: String = text
        .split_inclusive('\n')
        .map(|line| {
            busy_ms += u32::from(line.contains(" cwnd:")) * 20;
            line.replace(" rcv_space", &format!(" busy:{busy_ms}ms rcv_space"))
        })
        .collect();
    std::fs::write(&path, text).unwrap();
    let with = report(&path);
    assert_eq!(with.error, None);
    // Samples are a little further apart than the clock counts here.
    let seconds = with.flows[0].summary.seconds;
    assert!((7.0..10.0).contains(&seconds), "{seconds}");
}

/// A log polled every 20 ms shows what happens in round trips of 100 to 200 ms. One polled every
/// second does not: it gives no name, but the reason.
#[test]
fn a_log_that_was_polled_too_rarely_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(Algorithm::Cubic, LINE);
    let answer = |every_ms: u64| {
        let path = folder.path().join(format!("{every_ms}.log"));
        std::fs::write(&path, run.ss(every_ms, true)).unwrap();
        report(&path).flows[0].verdict.answer.clone()
    };
    assert!(matches!(answer(20), Answer::Named { name, .. } if name == "cubic"));
    let Answer::Unknown { because } = answer(1000) else { panic!("{:?}", answer(1000)) };
    assert!(because.contains("its rows are 100") && because.contains("poll more often"), "{because}");
}
