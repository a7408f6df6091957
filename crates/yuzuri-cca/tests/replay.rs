//! Replays ACKs recorded on Linux 6.1 with each algorithm and compares its window with the
//! kernel's; see `tests/data/README.md`.

mod common;
#[path = "common/replay.rs"]
mod driver;

use common::Trace;
use driver::{Outcome, replay};
use yuzuri_cca::Algorithm;

const PATHS: [&str; 2] = ["20M_50ms_100p", "10M_100ms_100p"];
/// Maximum difference of windows and thresholds, segments.
const APART: u32 = 2;
/// Time after the losses of slow start, s.
const SETTLED_S: f64 = 3.0;

fn trace(traced: &str, path: &str) -> Trace {
    let file = format!("{}/tests/data/{traced}_{path}.csv.zst", env!("CARGO_MANIFEST_DIR"));
    let packed = std::fs::read(&file).unwrap_or_else(|error| panic!("reading {file}: {error}"));
    let text = zstd::decode_all(&packed[..]).unwrap_or_else(|error| panic!("unpacking {file}: {error}"));
    Trace::read(std::str::from_utf8(&text).expect("text"))
}

fn replayed(algorithm: Algorithm, path: &str) -> Outcome {
    let outcome = replay(algorithm, &trace(algorithm.name(), path));
    for epoch in &outcome.epochs {
        println!(
            "{} {path} {:6.2} to {:6.2} s: window {:4}, kernel {:4}; difference at most {:3}, mean {:.2}; threshold {:?}",
            algorithm.name(),
            epoch.start_s,
            epoch.end_s,
            epoch.ours,
            epoch.theirs,
            epoch.max_difference,
            epoch.mean,
            epoch.threshold
        );
    }
    outcome
}

/// Checks all epochs of both paths: the window must be within [`APART`] of the kernel's at every
/// ACK, and ssthresh at the end. Slow start and its losses may differ by a fraction `start` of the
/// window.
fn follows_the_kernel(algorithm: Algorithm, min_epochs: usize, start: f64) {
    for path in PATHS {
        let outcome = replayed(algorithm, path);
        let mut settled = 0;
        for epoch in &outcome.epochs {
            let begins = epoch.start_s < SETTLED_S;
            let slack = if begins { (start * f64::from(epoch.theirs)) as u32 } else { 0 };
            let what = format!("{} {path}, {:.2} to {:.2} s", algorithm.name(), epoch.start_s, epoch.end_s);
            assert!(epoch.max_difference <= APART + slack, "{what}: {} apart", epoch.max_difference);
            assert!(begins || epoch.mean <= 1.0, "{what}: {:.2} apart in the mean", epoch.mean);
            assert!(epoch.ours.abs_diff(epoch.theirs) <= APART + slack, "{what}: {epoch:?}");
            if let Some((ours, theirs)) = epoch.threshold {
                assert!(
                    ours.abs_diff(theirs) <= APART + slack,
                    "{what}: threshold {ours}, kernel's {theirs}"
                );
            }
            settled += usize::from(!begins);
        }
        assert!(settled >= min_epochs, "{} {path}: only {settled} epochs", algorithm.name());
    }
}

#[test]
fn reno() {
    follows_the_kernel(Algorithm::Reno, 5, 0.0);
}

#[test]
fn cubic() {
    follows_the_kernel(Algorithm::Cubic, 10, 0.0);
}

#[test]
fn bic() {
    follows_the_kernel(Algorithm::Bic, 18, 0.0);
}

#[test]
fn htcp() {
    follows_the_kernel(Algorithm::Htcp, 18, 0.0);
}

#[test]
fn highspeed() {
    follows_the_kernel(Algorithm::Highspeed, 8, 0.0);
}

#[test]
fn scalable() {
    follows_the_kernel(Algorithm::Scalable, 24, 0.0);
}

/// Hybla's slow start exceeds the receive window, so the window is not fully used at every ACK.
#[test]
fn hybla() {
    follows_the_kernel(Algorithm::Hybla, 13, 0.02);
    for (path, rho) in PATHS.iter().zip([2, 4]) {
        assert_eq!(replay(Algorithm::Hybla, &trace("hybla", path)).initial, rho);
    }
}

#[test]
fn illinois() {
    follows_the_kernel(Algorithm::Illinois, 3, 0.0);
}

#[test]
fn veno() {
    follows_the_kernel(Algorithm::Veno, 2, 0.0);
}

#[test]
fn westwood_reduces_to_the_same_window_as_the_kernel() {
    follows_the_kernel(Algorithm::Westwood, 4, 0.0);
    for path in PATHS {
        let windows_after_recovery =
            replay(Algorithm::Westwood, &trace("westwood", path)).windows_after_recovery;
        println!("{path}: {windows_after_recovery:?}");
        assert!(windows_after_recovery.len() >= 4);
        assert!(
            windows_after_recovery.iter().all(|(ours, theirs)| ours.abs_diff(*theirs) <= 1),
            "{windows_after_recovery:?}"
        );
    }
}

/// Vegas keeps its window once the queue has the desired length.
#[test]
fn vegas() {
    follows_the_kernel(Algorithm::Vegas, 0, 0.0);
}

/// YeAH's estimate of the queue in slow start differs by some segments, and so do the thresholds of
/// the losses there.
#[test]
fn yeah() {
    follows_the_kernel(Algorithm::Yeah, 4, 0.07);
}

/// Without an early congestion indication, as in these traces, TCP-LP is Reno.
#[test]
fn lp() {
    follows_the_kernel(Algorithm::Lp, 5, 0.0);
}

/// Without marks DCTCP is Reno.
#[test]
fn dctcp() {
    follows_the_kernel(Algorithm::Dctcp, 5, 0.0);
}

/// TCP-NV resets the minimum RTT at random times, so its steps of nine segments may be earlier or
/// later.
#[test]
fn nv_grows_in_the_same_steps_as_the_kernel() {
    for path in PATHS {
        let outcome = replayed(Algorithm::Nv, path);
        let [epoch] = outcome.epochs[..] else { panic!("one epoch is expected: {:?}", outcome.epochs) };
        assert!(epoch.max_difference <= 12 && epoch.mean <= 4.0, "{epoch:?}");
        assert!(epoch.ours.abs_diff(epoch.theirs) <= 10, "{epoch:?}");
    }
}

/// CDG's back-offs are random. The test compares growth, back-off frequency and decrease factor.
#[test]
fn cdg_backs_off_as_often_as_the_kernel() {
    for path in PATHS {
        let outcome = replayed(Algorithm::Cdg, path);
        let reductions = outcome.epochs.iter().filter(|epoch| epoch.threshold.is_some()).count();
        for epoch in &outcome.epochs {
            assert!(epoch.max_difference <= APART, "{epoch:?}");
            if let Some((_, theirs)) = epoch.threshold {
                assert!(theirs.abs_diff(epoch.theirs * 724 / 1024) <= 1, "{epoch:?}");
            }
        }
        let (cwr_requests, reductions) = (f64::from(outcome.cwr_requests), reductions as f64);
        println!("{path}: {cwr_requests} back-offs, kernel {reductions}");
        assert!(
            (cwr_requests - reductions).abs() <= 2.0 * reductions.sqrt(),
            "{cwr_requests}, kernel {reductions}"
        );
    }
}

/// Checks that the comparison is selective: another algorithm does not follow the trace.
#[test]
fn another_algorithm_does_not_follow_the_kernels_trace() {
    for (cca, traced) in [
        (Algorithm::Reno, "cubic"),
        (Algorithm::Cubic, "reno"),
        (Algorithm::Bic, "cubic"),
        (Algorithm::CubicAppleOld, "cubic"),
        (Algorithm::CubicIphone2017, "cubic"),
        (Algorithm::Reno, "htcp"),
        (Algorithm::Htcp, "illinois"),
        (Algorithm::Reno, "veno"),
        (Algorithm::Reno, "westwood"),
        (Algorithm::Highspeed, "reno"),
        (Algorithm::Scalable, "yeah"),
        (Algorithm::Vegas, "nv"),
    ] {
        for path in PATHS {
            let outcome = replay(cca, &trace(traced, path));
            let settled = outcome.epochs.iter().filter(|epoch| epoch.end_s >= SETTLED_S);
            let off = |epoch: &&driver::Epoch| {
                epoch.max_difference > 2 * APART
                    || epoch.threshold.is_some_and(|(ours, theirs)| ours.abs_diff(theirs) > 2 * APART)
            };
            let differs_after_recovery = outcome
                .windows_after_recovery
                .iter()
                .skip(1)
                .any(|(ours, theirs)| ours.abs_diff(*theirs) > APART);
            assert!(
                settled.filter(off).count() > 0 || differs_after_recovery,
                "{} follows {traced} on {path}",
                cca.name()
            );
        }
    }
}
