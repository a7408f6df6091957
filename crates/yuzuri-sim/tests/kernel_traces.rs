//! Compares the windows of CUBIC, Reno and BBR with those of Linux 6.1 on the same path; see
//! `tests/data/README.md`.

mod common;

use common::{Kernel, Ours, Summary, simulated};
use yuzuri_sim::cc::Algorithm;

fn both(name: &str, algorithm: Algorithm) -> (Summary, Ours) {
    let kernel = Kernel::read(name).summary;
    let ours = simulated(algorithm);
    println!("kernel {kernel}\nours   {}", ours.summary);
    (kernel, ours)
}

fn close(what: &str, ours: f64, kernel: f64, relative: f64) {
    assert!((ours / kernel - 1.0).abs() <= relative, "{what}: {ours:.2} here, {kernel:.2} in the kernel");
}

fn saw_tooth(ours: &Summary, kernel: &Summary) {
    close("goodput", ours.goodput_mbps, kernel.goodput_mbps, 0.002);
    close("start-up peak", ours.start_peak, kernel.start_peak, 0.05);
    close("mean window", ours.mean, kernel.mean, 0.01);
    close("window before a reduction", ours.peak, kernel.peak, 0.01);
    close("window after a reduction", ours.trough, kernel.trough, 0.02);
    close("period", ours.period_s, kernel.period_s, 0.03);
    close("smoothed round-trip time", ours.srtt_mean_ms, kernel.srtt_mean_ms, 0.02);
    // The last reduction may fall just after the end.
    assert!(
        ours.reductions.abs_diff(kernel.reductions) <= 1,
        "{} and {}",
        ours.reductions,
        kernel.reductions
    );
}

#[test]
fn cubic_draws_the_kernels_saw_tooth() {
    let (kernel, ours) = both("cubic", Algorithm::Cubic);
    saw_tooth(&ours.summary, &kernel);
    // Compare the window at the times of the kernel's rows. Period errors accumulate to half a
    // second after a minute, so only the first four reductions are compared.
    let at = |t: f64| ours.rows.iter().take_while(|row| row.t_s <= t).last().map_or(10.0, |row| row.cwnd);
    let rows = Kernel::read("cubic").rows;
    let near = rows.iter().filter(|row| row.t_s > 0.3 && row.t_s < 15.0);
    let mut off: Vec<f64> = near.map(|row| (at(row.t_s) - row.cwnd).abs()).collect();
    off.sort_by(f64::total_cmp);
    let (median, ninth) = (off[off.len() / 2], off[off.len() * 9 / 10]);
    println!("distance of the windows up to 15 s: median {median}, 90 of 100 at most {ninth}");
    assert!(median <= 2.0 && ninth <= 8.0, "median {median}, 90 % {ninth}");
}

#[test]
fn cubic_leaves_slow_start_where_the_kernel_does() {
    let threshold =
        |rows: &[common::Row]| rows.iter().map(|row| row.ssthresh).find(|ssthresh| *ssthresh < 1e6);
    // The trace has tcp_current_ssthresh, which equals ssthresh while cwnd is below 4/3 of it.
    let kernel = threshold(&Kernel::read("cubic").rows).expect("a threshold");
    let ours = threshold(&simulated(Algorithm::Cubic).rows).expect("a threshold");
    println!("threshold by HyStart: kernel {kernel}, ours {ours}");
    close("threshold set by HyStart", ours, kernel, 0.02);
}

#[test]
fn reno_draws_the_kernels_saw_tooth() {
    let (kernel, ours) = both("reno", Algorithm::Reno);
    saw_tooth(&ours.summary, &kernel);
}

#[test]
fn bbr_probes_as_the_kernel_does() {
    let (kernel, ours) = both("bbr", Algorithm::Bbr);
    close("goodput", ours.summary.goodput_mbps, kernel.goodput_mbps, 0.01);
    close("start-up peak", ours.summary.start_peak, kernel.start_peak, 0.05);
    close("mean window", ours.summary.mean, kernel.mean, 0.03);
    close("time between two probes of the round-trip time", ours.summary.period_s, kernel.period_s, 0.03);
    close("smoothed round-trip time", ours.summary.srtt_mean_ms, kernel.srtt_mean_ms, 0.03);
    assert_eq!((ours.summary.trough, kernel.trough), (4.0, 4.0));
}
