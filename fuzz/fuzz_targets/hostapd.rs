//! Whatever hostapd's control socket may answer or report: read or refused, and no answer ends up as a command in a question.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    yuzuri_share::fuzz_hostapd(bytes);
});
