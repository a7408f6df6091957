//! `yuzuri why` reports what an older recording lacks.
#![allow(clippy::unwrap_used, missing_docs)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../yuzuri-trace/tests/golden").join(name)
}

fn why(file: &Path, more: &[&str]) -> (String, String) {
    let Output { stdout, stderr, .. } =
        Command::new(env!("CARGO_BIN_EXE_yuzuri")).arg("why").arg(file).args(more).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&stdout), text(&stderr))
}

#[test]
fn columns_that_an_older_recording_lacks_are_named() {
    let (_, notes) = why(&golden("v1.arrows"), &[]);
    assert!(notes.contains("was recorded by an older version, without "), "{notes}");
    assert!(notes.contains(" sndbuf_bytes,"), "{notes}");
    let (lines, _) = why(&golden("v1.arrows"), &["--json"]);
    let end: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let missing = end["missing_columns"].as_array().unwrap();
    assert!(missing.contains(&"pacing_wait_us".into()), "{end}");
    // The newest one has all columns.
    let (lines, notes) = why(&golden("v1-chronographs.arrows"), &["--json"]);
    let end: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(end["missing_columns"], Value::Array(Vec::new()), "{end}");
    assert!(!notes.contains("older version"), "{notes}");
}
