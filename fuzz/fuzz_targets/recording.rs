//! An untrusted recording: an error or items, never a panic, and bounded memory.
//!
//! `FUZZ_TARGETS=recording make fuzz` begins from the committed recordings of the tests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use yuzuri_trace::recording::{Format, Reader, convert};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = Reader::new(bytes, "input") else { return };
    while let Ok(Some(items)) = reader.next_batch() {
        std::hint::black_box(items);
    }
    // Decoded items can be written again.
    if let Ok(reader) = Reader::new(bytes, "input") {
        let _ = convert(reader, Format::JsonLines, std::io::sink(), None, |_, _| ());
    }
});
