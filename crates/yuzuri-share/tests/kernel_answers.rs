//! Decodes recorded and mutated kernel replies.
#![allow(clippy::unwrap_used, missing_docs)]
// The entry point does not exist in release builds.
#![cfg(debug_assertions)]

use proptest::prelude::*;
use std::path::PathBuf;
use yuzuri_share::fuzz_kernel_answers;

fn seeds() -> Vec<(String, Vec<u8>)> {
    let folder: PathBuf = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/kernel_answers").into();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect()
}

/// The fuzzer's seeds are real kernel replies and cover everything that is decoded.
#[test]
fn the_seed_inputs_are_valid_answers() {
    let seeds = seeds();
    for of in [
        "routes-v4",
        "routes-v6",
        "neighbours-v4",
        "neighbours-v6",
        "station",
        "interface",
        "family",
        "tcp-info",
    ] {
        let (_, bytes) = seeds.iter().find(|(name, _)| name == of).unwrap();
        assert!(fuzz_kernel_answers(bytes) > 0, "{of}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn changed_answers_are_parsed_or_refused(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = which.get(&seeds()).1.clone();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fuzz_kernel_answers(&bytes);
        yuzuri_testnet::attack("changed answers of rtnetlink, nl80211 and TCP_INFO", 1, "datagrams", "read or refused");
    }
}
