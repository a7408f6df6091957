//! A filter from a browser or a user: parsed or refused, and its text parses to the same filter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use yuzuri_trace::Filter;

fuzz_target!(|text: &str| {
    if let Ok(filter) = text.parse::<Filter>() {
        assert_eq!(filter.to_string().parse(), Ok(filter));
    }
});
