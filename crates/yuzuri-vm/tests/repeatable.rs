//! Checks that the same seed yields the same windows and sequence numbers, whatever the load of the
//! host.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{ready, run};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use yuzuri_vm::{Guest, Kernel, Mips, Time};

const KERNEL: Kernel = Kernel::Linux6_1Amd64;

/// snd_nxt, snd_una, snd_cwnd and ssthresh at each ACK, in the order of tcp_probe.
fn windows(seed: u64) -> Vec<String> {
    let results = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest/transfer.sh");
    let outcome = run(&Guest::new(KERNEL)
        .file(script, "/root/transfer.sh")
        .program("sh /root/transfer.sh 20 40 60 4 loss 0.5%".split(' '))
        .time(Time::Virtual { processor: Mips::default(), seed })
        .results(results.path()))
    .unwrap();
    assert_eq!(outcome.code, 0, "{}", outcome.output);
    let text = std::fs::read_to_string(results.path().join("probe")).unwrap();
    text.lines().map(|line| line.split(' ').skip(1).take(4).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
#[ignore = "boots three guests: make test-kernels"]
fn a_seed_repeats_a_lossy_transfer_also_on_a_busy_machine() {
    if !ready("a_seed_repeats_a_lossy_transfer", KERNEL) {
        return;
    }
    let quiet = windows(7);
    assert!(quiet.len() > 1000, "{} ACKs", quiet.len());
    let ssthreshs: std::collections::BTreeSet<&str> =
        quiet.iter().map(|r| r.rsplit(' ').next().unwrap()).collect();
    assert!(ssthreshs.len() > 2, "no loss was seen: {ssthreshs:?}");

    let done = AtomicBool::new(false);
    let busy = std::thread::scope(|scope| {
        for _ in 0..2 * std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let busy = std::panic::catch_unwind(|| windows(7));
        done.store(true, Ordering::Relaxed);
        busy.unwrap()
    });
    let differ = quiet.iter().zip(&busy).position(|(a, b)| a != b);
    assert_eq!(differ, None, "of {} ACKs", quiet.len());
    assert_eq!(quiet.len(), busy.len());

    assert_ne!(windows(8), quiet, "another seed loses other packets");
}

/// Durations of a shell loop and of a two-second sleep by the guest's clock, seconds.
fn loop_and_sleep_s(processor: Mips) -> (f64, f64) {
    let script = "up() { read -r s _ < /proc/uptime; echo $s; }
        up; n=0; while [ $n -lt 50000 ]; do n=$((n+1)); done; up; sleep 2; up";
    let outcome =
        run(&Guest::new(KERNEL).program(["sh", "-c", script]).time(Time::Virtual { processor, seed: 1 }))
            .unwrap();
    assert_eq!(outcome.code, 0, "{}", outcome.output);
    let at: Vec<f64> = outcome.output.lines().filter_map(|line| line.trim().parse().ok()).collect();
    assert_eq!(at.len(), 3, "{}", outcome.output);
    (at[1] - at[0], at[2] - at[1])
}

#[test]
#[ignore = "boots three guests: make test-kernels"]
fn a_faster_processor_computes_faster_and_sleeps_as_long() {
    if !ready("a_faster_processor", KERNEL) {
        return;
    }
    let (plain, slept) = loop_and_sleep_s(Mips::default());
    assert!(plain > 0.2 && (1.98..2.1).contains(&slept), "{plain} s, {slept} s");
    for (mips, times) in [(4000, 4.0), (500, 0.5)] {
        let (other, slept) = loop_and_sleep_s(mips.try_into().unwrap());
        let ratio = plain / other;
        assert!((ratio / times - 1.0).abs() < 0.1, "{mips}: {ratio:.2} times as fast");
        assert!((1.98..2.1).contains(&slept), "{mips}: slept {slept} s");
    }
}
