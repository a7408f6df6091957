//! All steps from a file's bytes to the printed answer: file type, decompression, packets, flows,
//! rounds, algorithms, table and JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::AtomicBool;
use yuzuri_identify::analyse::{Options, Outcome, analyse};
use yuzuri_identify::json;
use yuzuri_identify::table::{Table, anomalies, sentence};

thread_local! {
    static FILE: RefCell<File> = RefCell::new(yuzuri_fuzz::memory_file());
}

fuzz_target!(|bytes: &[u8]| {
    let options = Options { min_segments: 1, threads: 1, ..Options::default() };
    let outcome = FILE.with_borrow_mut(|file| {
        let path = yuzuri_fuzz::rewrite(file, |file| file.write_all(bytes));
        analyse(&path, &options, &AtomicBool::new(false), &|_| ())
    });
    let Outcome::Read(mut report) = outcome else { return };
    assert!(!report.stopped);
    let mut table = Table::default();
    table.add(&report);
    let text = table.text(Some(80));
    assert!(!text.is_empty() && !text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    let _ = anomalies(&report);
    let mut document = json::Document::new(Vec::new(), true).expect("memory takes it");
    document.add(&mut report).expect("memory takes it");
    for flow in report.flows {
        assert!(!sentence(&flow).is_empty());
        assert!(flow.probability().is_none_or(|probability| (0.0..=1.0).contains(&probability)));
        assert!(json::line(flow, true).expect("memory takes it").ends_with('\n'));
    }
});
