//! Any answers of rtnetlink, nl80211 and `TCP_INFO`: parsed or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    yuzuri_share::fuzz_kernel_answers(bytes);
});
