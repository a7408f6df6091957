//! Tests the steering with recorded and mutated answers of hostapd.
#![allow(clippy::unwrap_used, missing_docs)]
// The entry point does not exist in release builds.
#![cfg(debug_assertions)]

use proptest::prelude::*;
use std::path::PathBuf;
use yuzuri_share::fuzz_hostapd;

fn seed(name: &str) -> Vec<u8> {
    let folder: PathBuf = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/hostapd").into();
    std::fs::read(folder.join(name)).unwrap()
}

/// The fuzzer's seeds cover a request, its answers, and a move that is undone or refused.
#[test]
fn the_seed_inputs_are_valid_answers() {
    // Two stations are on a radio of 80 MHz, none on the other one. One is asked to move, and does
    // not.
    let two = fuzz_hostapd(&seed("two-radios"));
    assert!(two.asked > 0, "{two:?}");
    let events = fuzz_hostapd(&seed("events"));
    assert!(events.accepted > 0 && events.refused > 0, "{events:?}");
    let failing = fuzz_hostapd(&seed("failing"));
    assert_eq!((failing.asked, failing.accepted, failing.refused), (0, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn changed_answers_are_parsed_or_refused(
        which in prop::sample::select(vec!["two-radios", "events", "failing"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = seed(which);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fuzz_hostapd(&bytes);
        yuzuri_testnet::attack("changed answers of hostapd", 1, "conversations", "read or refused");
    }
}
