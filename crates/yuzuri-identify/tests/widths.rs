//! The page of `--html` in a real Chromium: on a phone and at 1280 pixels nothing of it is cut.

#![allow(clippy::unwrap_used)]

mod common;

use common::{LINE, Line, run};
use std::path::Path;
use std::process::{Command, Stdio};
use yuzuri_sim::cc::Algorithm;

/// Measures the page in a frame, with all details open. Sends the parent the width of the page, and
/// for each table that extends beyond the frame whether it can be scrolled.
const MEASURE: &str = r#"<script>
for (const details of document.querySelectorAll("details")) details.open = true;
const width = document.documentElement.clientWidth;
const scrolls = (e) => e && (["auto", "scroll"].includes(getComputedStyle(e).overflowX) ? e.getBoundingClientRect().right <= width : scrolls(e.parentElement));
const tables = [...document.querySelectorAll("table")];
const cut = tables.filter((table) => table.getBoundingClientRect().right > width && !scrolls(table));
const words = cut.slice(0, 3).map((table) => table.textContent.slice(0, 40));
parent.document.title = JSON.stringify({ width, page: document.documentElement.scrollWidth, tables: tables.length, cut: words });
</script>"#;

/// The result of [`MEASURE`] for a page in a frame of this width.
fn measured(chromium: &Path, folder: &Path, page: &str, width: u32) -> serde_json::Value {
    let escaped = format!("{page}{MEASURE}").replace('&', "&amp;").replace('"', "&quot;");
    let frame = format!(
        "<!doctype html><title>-</title><iframe style=\"width:{width}px;height:800px;border:0\" srcdoc=\"{escaped}\"></iframe>"
    );
    let file = folder.join(format!("{width}.html"));
    std::fs::write(&file, frame).unwrap();
    let profile = folder.join(format!("profile-{width}"));
    let out = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", file.display()))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&out.stdout);
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).unwrap_or("-");
    serde_json::from_str(&title.replace("&amp;", "&")).unwrap_or_else(|e| panic!("{title}: {e}"))
}

#[test]
fn nothing_is_cut_on_a_phone_and_at_1280() {
    let find = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/chromium.sh");
    let found = Command::new(find).stderr(Stdio::null()).output().unwrap();
    let chromium = String::from_utf8(found.stdout).unwrap();
    if chromium.trim().is_empty() {
        eprintln!("skipped: no Chromium is installed (scripts/chromium.sh)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let short = Line { seconds: 20, ..LINE };
    for (name, algorithm) in
        [("cubic", Algorithm::Cubic), ("a-long-name-of-a-capture-with-bbr", Algorithm::Bbr)]
    {
        std::fs::write(folder.path().join(format!("{name}.pcap")), run(algorithm, short).pcap(0)).unwrap();
    }
    let html = folder.path().join("page.html");
    let finished = Command::new(env!("CARGO_BIN_EXE_yuzuri-identify"))
        .args(["--quiet", "--html"])
        .arg(&html)
        .arg(folder.path())
        .output()
        .unwrap();
    let page = std::fs::read_to_string(&html).unwrap_or_else(|e| panic!("{e}: {finished:?}"));
    for width in [390, 1280] {
        let measured = measured(Path::new(chromium.trim()), folder.path(), &page, width);
        // A scroll bar takes some of the frame.
        let inside = measured["width"].as_u64().unwrap();
        assert!((u64::from(width) - 20..=u64::from(width)).contains(&inside), "{measured}");
        assert!(measured["tables"].as_u64() > Some(2), "{measured}");
        assert_eq!(measured["cut"].as_array().map(Vec::len), Some(0), "at {width}: {measured}");
        assert!(measured["page"].as_u64().unwrap() <= inside, "at {width}: {measured}");
    }
}
