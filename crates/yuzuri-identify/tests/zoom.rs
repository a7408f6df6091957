//! The page of `--html` in a real Chromium: its pictures over time zoom together.

#![allow(clippy::unwrap_used)]

mod common;

use common::{LINE, Line, run};
use std::path::Path;
use std::process::Command;
use yuzuri_sim::cc::Algorithm;

#[test]
fn pictures_over_time_zoom_together() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("cubic.pcap");
    std::fs::write(&capture, run(Algorithm::Cubic, Line { seconds: 12, ..LINE }).pcap(0)).unwrap();
    let html = folder.path().join("page.html");
    let identified = Command::new(env!("CARGO_BIN_EXE_yuzuri-identify"))
        .args(["--quiet", "--html"])
        .arg(&html)
        .arg(&capture)
        .output()
        .unwrap();
    assert!(html.is_file(), "{identified:?}");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/report-test.sh");
    let tested = Command::new(script).arg(&html).output().unwrap();
    print!("{}", String::from_utf8_lossy(&tested.stdout));
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
}
