//! Compares every congestion control algorithm with Linux 6.1 on two paths
//! (`data/kernel_controls.csv`, made by `yuzuri-eval simulation algorithms`).

use super::{Figures, PATHS, Path, TRACED_ALGORITHMS, saved, simulated_mean};
use yuzuri_sim::cc::Algorithm;

/// Maximum relative error per figure; for the number of reductions, the maximum absolute error.
struct Limits {
    goodput: f64,
    start: f64,
    cwnd: f64,
    srtt: f64,
    reductions: f64,
    period: f64,
    /// For the windows before and after a reduction.
    sawtooth: f64,
}

fn limits(algorithm: Algorithm) -> Limits {
    let sawtooth = Limits {
        goodput: 0.005,
        start: 0.02,
        cwnd: 0.01,
        srtt: 0.01,
        reductions: 1.0,
        period: 0.03,
        sawtooth: 0.02,
    };
    match algorithm {
        // The overshoot of slow start determines when its last losses are repaired, and thus the
        // phase.
        Algorithm::Hybla => Limits { start: 0.05, reductions: 1.0, period: 0.05, ..sawtooth },
        // One loss more or less in the last round makes the second of two recoveries early.
        Algorithm::Highspeed => Limits { period: 0.1, ..sawtooth },
        // Only two or three teeth: the phase affects the mean.
        Algorithm::Illinois => Limits { cwnd: 0.02, srtt: 0.02, ..sawtooth },
        // The distance from the end of the queue is the same; the kernel's extra RTT changes the
        // number of packets counted as queued.
        Algorithm::Vegas => Limits { cwnd: 0.015, srtt: 0.03, sawtooth: 0.04, ..sawtooth },
        // The window rises when NV resets its minimum RTT, at random times.
        Algorithm::Nv => Limits { cwnd: 0.02, srtt: 0.02, ..sawtooth },
        // Backoff is random and depends on RTT differences of µs. Simulated RTTs are exact, so CDG
        // backs off more often when the queue is empty.
        Algorithm::Cdg => Limits {
            goodput: 0.06,
            start: f64::INFINITY,
            cwnd: 0.06,
            srtt: 0.02,
            reductions: 3.0,
            period: 0.06,
            sawtooth: 0.1,
        },
        Algorithm::Bbr => Limits { cwnd: 0.03, srtt: 0.03, sawtooth: 0.04, ..sawtooth },
        _ => sawtooth,
    }
}

fn compare(algorithm: Algorithm, path: Path) -> Result<(), String> {
    let kernel = saved()
        .into_iter()
        .find(|(control, of, _)| control == algorithm.name() && of == path.name)
        .map(|(_, _, figures)| figures)
        .expect("the kernel's figures");
    let simulation = simulated_mean(path, algorithm);
    let limits = limits(algorithm);
    let mut exceeded = Vec::new();
    let mut close = |what: &str, figure: fn(&Figures) -> f64, limit: f64| {
        let (simulation, kernel) = (figure(&simulation), figure(&kernel));
        if simulation.is_nan() != kernel.is_nan() || (simulation / kernel - 1.0).abs() > limit {
            exceeded.push(format!("{what} {simulation:.3}, kernel {kernel:.3}"));
        }
    };
    close("goodput", |f| f.goodput_mbps, limits.goodput);
    close("largest window of the start", |f| f.start_peak, limits.start);
    close("mean window", |f| f.cwnd_mean, limits.cwnd);
    close("smoothed RTT", |f| f.srtt_ms, limits.srtt);
    close("period", |f| f.period_s, limits.period);
    close("window before", |f| f.peak, limits.sawtooth);
    close("window after", |f| f.trough, limits.sawtooth);
    close("beta", Figures::beta, limits.sawtooth);
    if (simulation.reductions - kernel.reductions).abs() > limits.reductions {
        exceeded.push(format!("{} reductions, kernel {}", simulation.reductions, kernel.reductions));
    }
    if simulation.timeouts != kernel.timeouts {
        exceeded.push(format!("{} timeouts, kernel {}", simulation.timeouts, kernel.timeouts));
    }
    if exceeded.is_empty() {
        return Ok(());
    }
    Err(format!("{} on {}: {}", algorithm.name(), path.name, exceeded.join("; ")))
}

#[test]
fn every_algorithm_matches_the_kernel() {
    let mut exceeded = Vec::new();
    for path in PATHS {
        for algorithm in TRACED_ALGORITHMS {
            exceeded.extend(compare(algorithm, path).err());
        }
    }
    assert!(exceeded.is_empty(), "{}", exceeded.join("\n"));
}

/// The limits discriminate: each algorithm's figures exceed the limits of most others.
#[test]
fn the_limits_distinguish_the_algorithms() {
    let all = saved();
    let of = |algorithm: Algorithm| {
        let rows = all.iter().filter(|(control, ..)| control == algorithm.name());
        rows.map(|(_, _, figures)| *figures).collect::<Vec<_>>()
    };
    let alike = |a: Algorithm, b: Algorithm| {
        of(a).iter().zip(of(b)).all(|(a, b)| {
            (a.cwnd_mean / b.cwnd_mean - 1.0).abs() <= 0.01
                && (a.beta() / b.beta() - 1.0).abs() <= 0.02
                && (a.period_s / b.period_s - 1.0).abs() <= 0.03
        })
    };
    let mut pairs = Vec::new();
    for (n, a) in TRACED_ALGORITHMS.iter().enumerate() {
        pairs.extend(
            TRACED_ALGORITHMS[n + 1..].iter().filter(|b| alike(*a, **b)).map(|b| (a.name(), b.name())),
        );
    }
    // Without early congestion indication LP is Reno, and so is DCTCP without marks.
    assert_eq!(pairs, [("reno", "lp"), ("reno", "dctcp"), ("lp", "dctcp")]);
}
