//! Window traces of the kernel's own senders, one or two for each algorithm, over random paths
//! (scenarios/identify/paths-*.toml, made by `yuzuri-eval window-trace`): each algorithm is named,
//! or is in a set with algorithms that cannot be distinguished from it.

use yuzuri_infer::identify;
use yuzuri_infer::verdict::{Answer, Verdict};
use yuzuri_infer::window_trace::WindowTrace;

fn verdict(name: &str) -> Verdict {
    let path = format!("{}/tests/window_traces/{name}.json.zst", env!("CARGO_MANIFEST_DIR"));
    let packed = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let json = zstd::decode_all(packed.as_slice()).expect("zstd");
    let window_trace: WindowTrace = serde_json::from_slice(&json).expect("a window trace");
    identify(window_trace, None, None, None)
}

fn all() -> Vec<String> {
    let folder = format!("{}/tests/window_traces", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(folder).expect("the window traces");
    let mut names: Vec<String> = files
        .filter_map(|file| {
            file.ok()?.file_name().into_string().ok()?.strip_suffix(".json.zst").map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

#[test]
fn every_algorithm_is_named() {
    let names = all();
    assert_eq!(names.len(), 20, "{names:?}");
    for name in names {
        let cca = name.split('-').next().expect("a name");
        let Answer::Named { name: answer, set } = verdict(&name).answer else { panic!("{name}: unknown") };
        // LP mostly behaves like Reno, because the clocks' random offset blinds it; in the other
        // window trace it backs off.
        let expected = if name == "lp-07-sender" { "reno" } else { cca };
        assert_eq!(answer, expected, "{name}");
        assert!(set.iter().any(|other| other == cca), "{name}: {set:?}");
        assert!(set.len() <= 3, "{name}: {set:?}");
    }
}

#[test]
fn replays_predict_the_kernels_windows() {
    for cca in ["cubic", "dctcp", "highspeed", "reno", "scalable", "vegas", "veno", "westwood", "yeah"] {
        let name =
            all().into_iter().find(|name| name.starts_with(&format!("{cca}-"))).expect("a window trace");
        let ranked =
            verdict(&name).ranked.into_iter().find(|ranked| ranked.name == cca).expect("a candidate");
        // Units of the noise: 0.7 segments and 1 %.
        assert!(ranked.score.residual < 0.6, "{name}: {:?}", ranked.score);
    }
}

#[test]
fn the_constants_of_cubic_are_those_of_the_kernel() {
    for (name, beta) in [("cubic-07-sender", 0.7), ("cubic_apple_old-07-server", 0.8)] {
        let constants = verdict(name).constants;
        let (c, error) = constants.cubic_c_replayed.expect("C");
        assert!((c / 0.4 - 1.0).abs() < 0.05, "{name}: C {c} +- {error}");
        let measured = constants.beta.expect("beta").median;
        assert!((measured - beta).abs() < 0.02, "{name}: kept {measured}");
    }
}

#[test]
fn a_flow_that_has_hardly_begun_is_unknown() {
    let mut window_trace = verdict("cubic-07-sender").window_trace;
    window_trace.rounds.truncate(2);
    window_trace.reductions.clear();
    let verdict = identify(window_trace, None, None, None);
    assert!(matches!(verdict.answer, Answer::Unknown { .. }), "{:?}", verdict.answer);
    let nothing = identify(WindowTrace::default(), None, None, None);
    assert!(matches!(nothing.answer, Answer::Unknown { .. }));
}

#[test]
fn the_gain_of_bbr_and_its_probes_are_those_of_the_kernel() {
    let constants = verdict("bbr-07-sender").constants;
    let gain = constants.probe_gain.expect("a gain");
    // `bbr_pacing_gain`: 5/4 in one of eight phases, each a round-trip time long; a phase begins at
    // random after a PROBE_RTT.
    assert!((gain.median - 1.25).abs() < 0.05, "{gain:?}");
    let seen = verdict("bbr-07-sender");
    let rtt_s = f64::from(seen.window_trace.min_rtt_us) / 1e6;
    let interval = constants.probe_interval_s.expect("an interval");
    assert!((interval.median / rtt_s - 8.0).abs() < 1.5, "{interval:?} at {rtt_s} s");
    for name in all().iter().filter(|name| !name.starts_with("bbr")) {
        assert_eq!(verdict(name).constants.probe_gain, None, "{name}");
    }
}
