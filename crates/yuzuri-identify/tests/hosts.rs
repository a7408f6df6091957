//! One algorithm on different hosts: clock tick, exit of slow start, constants.

#![allow(clippy::unwrap_used)]

mod common;

use common::{LINE, run_of};
use std::sync::atomic::AtomicBool;
use yuzuri_identify::analyse::{Options, Outcome, analyse};
use yuzuri_infer::verdict::Answer;
use yuzuri_sim::SenderConfig;
use yuzuri_sim::cc::{Algorithm, CubicConstants, SlowStartExit};

/// The names found for a capture at this sender, the best first.
fn named(config: &SenderConfig) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.pcap");
    std::fs::write(&path, run_of(config.clone(), LINE).pcap(0)).unwrap();
    let Outcome::Read(report) = analyse(&path, &Options::default(), &AtomicBool::new(false), &|_| {}) else {
        panic!("{config:?} was not read");
    };
    match &report.flows[0].verdict.answer {
        Answer::Named { set, .. } => set.clone(),
        Answer::Unknown { because } => panic!("{config:?}: {because}"),
    }
}

const TICKS: [u32; 3] = [100, 250, 1000];

/// Linux 3.x to 6.x differ in their HyStart, Windows and Apple end slow start by HyStart++ (RFC
/// 9406), and BSDs by a loss: slow start is not scored, and what follows is the same.
#[test]
fn cubic_has_one_name_whatever_its_clock_and_the_end_of_its_slow_start() {
    for hz in TICKS {
        for slow_start_exit in [SlowStartExit::Loss, SlowStartExit::Hystart, SlowStartExit::HystartPlusPlus] {
            let config = SenderConfig { hz, slow_start_exit, ..SenderConfig::default() };
            assert_eq!(named(&config)[0], "cubic", "{config:?}");
        }
    }
}

#[test]
fn cubic_with_beta_0_8_has_its_own_name() {
    let of = |cubic| named(&SenderConfig { cubic: Some(cubic), ..SenderConfig::default() })[0].clone();
    for constants in
        [CubicConstants::APPLE_OLD, CubicConstants::BETA_EIGHT_TENTHS, CubicConstants::IPHONE_2017]
    {
        assert_eq!(of(constants), "cubic_apple_old", "{constants:?}");
    }
    assert_eq!(of(CubicConstants::APPLE), "cubic");
}

/// Their windows depend on times in ticks.
#[test]
fn westwood_and_htcp_are_named_on_each_clock() {
    for algorithm in [Algorithm::Westwood, Algorithm::Htcp] {
        for hz in TICKS {
            let config = SenderConfig { algorithm, hz, ..SenderConfig::default() };
            let names = named(&config);
            assert!(names.iter().any(|name| name == algorithm.name()), "{hz}: {names:?}");
        }
    }
}
