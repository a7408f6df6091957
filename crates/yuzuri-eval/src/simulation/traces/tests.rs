//! Compares the windows of CUBIC, Reno and BBR with those of Linux 6.1 on the same path; see
//! `data/README.md`.

use super::{Kernel, Row, Simulation, Summary, simulated};
use yuzuri_sim::cc::Algorithm;

fn both(name: &str, algorithm: Algorithm) -> (Summary, Simulation) {
    let kernel = Kernel::read(name).summary;
    let simulation = simulated(algorithm);
    println!("kernel     {kernel}\nsimulation {}", simulation.summary);
    (kernel, simulation)
}

fn close(what: &str, simulation: f64, kernel: f64, relative: f64) {
    assert!(
        (simulation / kernel - 1.0).abs() <= relative,
        "{what}: simulation {simulation:.2}, kernel {kernel:.2}"
    );
}

fn assert_sawtooth(simulation: &Summary, kernel: &Summary) {
    close("goodput", simulation.goodput_mbps, kernel.goodput_mbps, 0.002);
    close("start-up peak", simulation.start_peak, kernel.start_peak, 0.05);
    close("mean window", simulation.mean, kernel.mean, 0.01);
    close("window before a reduction", simulation.peak, kernel.peak, 0.01);
    close("window after a reduction", simulation.trough, kernel.trough, 0.02);
    close("period", simulation.period_s, kernel.period_s, 0.03);
    close("smoothed round-trip time", simulation.srtt_mean_ms, kernel.srtt_mean_ms, 0.02);
    // The last reduction may fall just after the end.
    assert!(
        simulation.reductions.abs_diff(kernel.reductions) <= 1,
        "{} and {}",
        simulation.reductions,
        kernel.reductions
    );
}

#[test]
fn cubic_matches_the_kernels_sawtooth() {
    let (kernel, simulation) = both("cubic", Algorithm::Cubic);
    assert_sawtooth(&simulation.summary, &kernel);
    // Compare the window at the times of the kernel's rows. Period errors accumulate to half a
    // second after a minute, so only the first four reductions are compared.
    let at =
        |t: f64| simulation.rows.iter().take_while(|row| row.t_s <= t).last().map_or(10.0, |row| row.cwnd);
    let rows = Kernel::read("cubic").rows;
    let early = rows.iter().filter(|row| row.t_s > 0.3 && row.t_s < 15.0);
    let mut errors: Vec<f64> = early.map(|row| (at(row.t_s) - row.cwnd).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let (median, p90) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
    println!("window error up to 15 s: median {median}, 90th percentile {p90}");
    assert!(median <= 2.0 && p90 <= 8.0, "median {median}, p90 {p90}");
}

#[test]
fn cubic_exits_slow_start_where_the_kernel_does() {
    let first_ssthresh = |rows: &[Row]| rows.iter().map(|row| row.ssthresh).find(|ssthresh| *ssthresh < 1e6);
    // The trace has tcp_current_ssthresh, which equals ssthresh while cwnd is below 4/3 of it.
    let kernel = first_ssthresh(&Kernel::read("cubic").rows).expect("ssthresh");
    let simulation = first_ssthresh(&simulated(Algorithm::Cubic).rows).expect("ssthresh");
    println!("ssthresh set by HyStart: kernel     {kernel}, simulation {simulation}");
    close("ssthresh set by HyStart", simulation, kernel, 0.02);
}

#[test]
fn reno_matches_the_kernels_sawtooth() {
    let (kernel, simulation) = both("reno", Algorithm::Reno);
    assert_sawtooth(&simulation.summary, &kernel);
}

#[test]
fn bbr_matches_the_kernels_probe_rtt_cycle() {
    let (kernel, simulation) = both("bbr", Algorithm::Bbr);
    close("goodput", simulation.summary.goodput_mbps, kernel.goodput_mbps, 0.01);
    close("start-up peak", simulation.summary.start_peak, kernel.start_peak, 0.05);
    close("mean window", simulation.summary.mean, kernel.mean, 0.03);
    close("time between PROBE_RTT phases", simulation.summary.period_s, kernel.period_s, 0.03);
    close("smoothed round-trip time", simulation.summary.srtt_mean_ms, kernel.srtt_mean_ms, 0.03);
    assert_eq!((simulation.summary.trough, kernel.trough), (4.0, 4.0));
}
