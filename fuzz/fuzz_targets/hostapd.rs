//! Any answers and events of hostapd's control socket: parsed or refused, and no answer is injected
//! as a command into a request.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    yuzuri_share::fuzz_hostapd(bytes);
});
