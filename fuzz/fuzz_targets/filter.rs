//! A filter as a browser or a user may write it: read or refused, and what was read comes back from its text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use yuzuri_trace::Filter;

fuzz_target!(|text: &str| {
    if let Ok(filter) = text.parse::<Filter>() {
        assert_eq!(filter.to_string().parse(), Ok(filter));
    }
});
