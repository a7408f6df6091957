//! An untrusted scenario of the laboratory: parsed or refused, expanded within limits, never a
//! panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use yuzuri_scenario::Document;

fuzz_target!(|text: &str| {
    match Document::parse(Path::new("scenario.toml"), text.to_owned()) {
        Ok(document) => drop(document.points()),
        Err(problems) => assert!(problems.to_string().starts_with("scenario.toml")),
    }
});
