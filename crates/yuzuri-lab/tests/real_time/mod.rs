//! Runs of scenarios by the tests on the real kernel in real time.
#![allow(dead_code, clippy::unwrap_used, missing_docs)] // Not every test uses all of it.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use yuzuri_lab::LabError;
use yuzuri_lab::demo;
use yuzuri_lab::run::{Clock, RunRecord, Task, run};
use yuzuri_scenario::Document;

/// Whether this machine can run the test; prints the reason if not.
pub fn can(test: &str) -> bool {
    if !nix::unistd::geteuid().is_root() {
        println!("{test}: skipped: network namespaces need root");
        return false;
    }
    demo::check().map_err(|why| println!("{test}: skipped: {why}")).is_ok()
}

pub fn task() -> Task {
    Task { point: "base".into(), labels: Vec::new(), alone: None, seed: 1, clock: Clock::Real }
}

/// Runs a scenario, whose files go to `folder`.
pub fn run_text(text: &str, folder: &Path) -> Result<RunRecord, LabError> {
    let document = Document::parse(Path::new("test.toml"), text.into()).unwrap_or_else(|p| panic!("{p}"));
    run(document.base(), &task(), folder, &AtomicBool::new(false), &mut |_| {})
}
