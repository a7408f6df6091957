//! The daemon's configuration: parsed or refused with a position, and a parsed one can be converted
//! to settings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use yuzuri_share::{ShareConfig, read_config};

thread_local! {
    static FILE: RefCell<File> = RefCell::new(yuzuri_fuzz::memory_file());
}

fuzz_target!(|bytes: &[u8]| {
    FILE.with_borrow_mut(|file| {
        let path = yuzuri_fuzz::rewrite(file, |file| file.write_all(bytes));
        match read_config(&path) {
            Ok(config) => config.apply(&mut ShareConfig::default()),
            Err(error) => assert!(error.to_string().contains(path.to_str().expect("digits"))),
        }
    });
});
