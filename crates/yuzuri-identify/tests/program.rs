//! The program as called by users: arguments, tables, documents, exit codes, and invalid inputs.

#![allow(clippy::unwrap_used)]

mod common;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use common::{LINE, Line, run};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use yuzuri_capture::{Framing, NewSegment, PcapWriter};
use yuzuri_sim::cc::Algorithm;

/// Runs the program in a folder, so that names in outputs are short.
fn identify(folder: &Path, words: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_yuzuri-identify");
    Command::new(program).args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A folder with a CUBIC capture in it.
fn with_capture() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cubic.pcap"), run(Algorithm::Cubic, LINE).pcap(0)).unwrap();
    folder
}

/// Compares with a golden file; `UPDATE_GOLDEN=1` writes it.
fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(found, expected, "{}: UPDATE_GOLDEN=1 writes it anew", path.display());
}

/// Replaces numbers by `#`: the inference determines their values, not the form of the output.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_inclusive([' ', '\n', '(', ')']) {
        let bare = word.trim_end_matches([' ', '\n', '(', ')', ',', ':', ';', '%']);
        match bare.parse::<f64>() {
            Ok(_) => out += &word.replacen(bare, "#", 1),
            Err(_) => out += word,
        }
    }
    // Widths of columns follow the numbers.
    out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}

#[test]
fn the_table_has_its_form() {
    let folder = with_capture();
    let out = identify(folder.path(), &["cubic.pcap"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert_eq!(text(&out.stderr), "");
    let table = text(&out.stdout);
    assert!(table.lines().nth(2).unwrap().contains(" cubic "), "{table}");
    // The evidence comes from the inference: only the table and the first lines are fixed.
    let head: Vec<&str> = table.lines().take(5).collect();
    golden("table.txt", &without_numbers(&(head.join("\n") + "\n")));
}

/// Replaces all values of a document by their types; of a list only the first element stays.
fn form(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) => "bool".into(),
        Value::Number(number) => if number.is_f64() { "float" } else { "integer" }.into(),
        Value::String(_) => "text".into(),
        Value::Array(values) => values.iter().take(1).map(form).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), form(value))).collect())
        }
    }
}

#[test]
fn the_document_has_its_form() {
    let folder = with_capture();
    let out = identify(folder.path(), &["--json", "--all-rounds", "cubic.pcap"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["format"], 1);
    let flow = &document["files"][0]["flows"][0];
    assert_eq!(flow["answer"]["name"], "cubic");
    assert!(flow["window_trace"]["rounds"].as_array().unwrap().len() > 100);
    // The keys that readers rely on; the verdict's inner parts belong to the inference and may
    // grow.
    for key in [
        "from",
        "to",
        "answer",
        "ranked",
        "evidence",
        "notes",
        "constants",
        "seen",
        "capture_point",
        "window_trace",
        "predicted",
        "summary",
        "kernel_name",
    ] {
        assert!(flow.get(key).is_some(), "{key}");
    }
    let mut outer = form(&document);
    let flow = outer["files"][0]["flows"][0].as_object_mut().unwrap();
    flow.retain(|key, _| {
        ["answer", "from", "to", "summary", "capture_point", "kernel_name", "window_trace"]
            .contains(&key.as_str())
    });
    golden("document.json", &(serde_json::to_string_pretty(&outer).unwrap() + "\n"));

    let short = identify(folder.path(), &["--json", "cubic.pcap"]);
    let short: Value = serde_json::from_slice(&short.stdout).unwrap();
    let flow = &short["files"][0]["flows"][0];
    assert_eq!(flow["window_trace"]["rounds"], Value::Array(Vec::new()));
    assert_eq!(flow["summary"], document["files"][0]["flows"][0]["summary"]);
}

#[test]
fn parquet_holds_what_the_document_holds() {
    let folder = with_capture();
    let out = identify(folder.path(), &["--json", "--all-rounds", "--parquet", "tables", "cubic.pcap"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    let flow = &document["files"][0]["flows"][0];
    let read = |name: &str| {
        let file = File::open(folder.path().join("tables").join(name)).unwrap();
        let mut batches = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let batch = batches.next().unwrap().unwrap();
        assert!(batches.next().is_none());
        batch
    };
    let flows = read("flows.parquet");
    assert_eq!(flows.num_rows(), 1);
    assert_eq!(flows.column_by_name("name").unwrap().as_string::<i32>().value(0), "cubic");
    let c = flows.column_by_name("cubic_c").unwrap().as_primitive::<Float64Type>().value(0);
    assert_eq!(Some(c), flow["constants"]["cubic_c"]["median"].as_f64());
    let rounds = read("rounds.parquet");
    let wanted = flow["window_trace"]["rounds"].as_array().unwrap();
    assert_eq!(rounds.num_rows(), wanted.len());
    let acks = rounds.column_by_name("acks").unwrap().as_primitive::<UInt32Type>();
    assert!(wanted.iter().enumerate().all(|(row, round)| round["acks"] == acks.value(row)));
    // Nothing else is left behind.
    assert_eq!(std::fs::read_dir(folder.path().join("tables")).unwrap().count(), 2);
}

/// A capture's segments, one by one.
#[test]
fn each_flow_has_a_time_sequence_graph() {
    let folder = with_capture();
    let out = identify(folder.path(), &["--quiet", "--xplot", "graphs", "cubic.pcap"]);
    assert_eq!((out.status.code(), text(&out.stdout), text(&out.stderr)), (Some(0), "", ""));
    let graphs: Vec<_> =
        std::fs::read_dir(folder.path().join("graphs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(graphs.len(), 1, "{graphs:?}");
    let graph = std::fs::read_to_string(&graphs[0]).unwrap();
    assert!(graph.starts_with("timeval unsigned\ntitle\n") && graph.ends_with("\ngo\n"));
    let document = identify(folder.path(), &["--json", "cubic.pcap"]);
    let document: Value = serde_json::from_slice(&document.stdout).unwrap();
    let trace = &document["files"][0]["flows"][0]["window_trace"];
    let strokes = |colour: &str| graph.lines().filter(|line| *line == colour).count() as u64;
    // Each segment with data once, those that were sent again in red.
    assert_eq!(strokes("white") + strokes("red"), trace["segments"].as_u64().unwrap());
    assert!(strokes("red") > 0 && strokes("green") > 100);
}

#[test]
fn the_page_is_one_file_with_its_pictures() {
    let folder = with_capture();
    let out = identify(folder.path(), &["--quiet", "--html", "page.html", "cubic.pcap"]);
    assert_eq!((out.status.code(), text(&out.stdout), text(&out.stderr)), (Some(0), "", ""));
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.ends_with("</html>\n"));
    // The window with its differences, throughput and RTT, the time-sequence graph, and at least
    // one cycle.
    assert!(page.contains("aria-label=\"Throughput and round-trip time over time\""));
    assert!(page.contains("aria-label=\"Time-sequence graph\""));
    assert!(page.matches("<svg ").count() >= 5, "{} pictures", page.matches("<svg ").count());
    assert_eq!(page.matches("<svg ").count(), page.matches("</svg>").count());
    assert!(page.contains("Wmax = ") && page.contains("K = ") && page.contains("prefers-color-scheme:dark"));
    for foreign in ["<script ", "src=", "url(", "@import", "<link"] {
        let own = if foreign == "<script " { 1 } else { 0 };
        assert_eq!(page.matches(foreign).count(), own, "{foreign}");
    }
    assert!(page.contains("<script type=\"application/json\"") && page.contains("default-src 'none'"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn folders_are_read_recursively_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let line = Line { seconds: 20, ..LINE };
    let inner = folder.path().join("a/b");
    std::fs::create_dir_all(&inner).unwrap();
    let one = run(Algorithm::Reno, line);
    for number in 0..6 {
        std::fs::write(inner.join(format!("{number}.pcap")), one.pcap(number)).unwrap();
    }
    std::fs::write(folder.path().join("probe.csv"), one.probe_csv()).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "nothing of interest\n").unwrap();
    std::os::unix::fs::symlink(folder.path(), inner.join("loop")).unwrap();
    let alone = identify(folder.path(), &["--json", "--jobs", "1", "."]);
    let four = identify(folder.path(), &["--json", "--jobs", "4", "."]);
    assert_eq!(alone.status.code(), Some(0), "{}", text(&alone.stderr));
    assert_eq!(text(&alone.stdout), text(&four.stdout));
    let document: Value = serde_json::from_slice(&alone.stdout).unwrap();
    let paths: Vec<&str> =
        document["files"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap()).collect();
    let wanted = [
        "./a/b/0.pcap",
        "./a/b/1.pcap",
        "./a/b/2.pcap",
        "./a/b/3.pcap",
        "./a/b/4.pcap",
        "./a/b/5.pcap",
        "./probe.csv",
    ];
    assert_eq!(paths, wanted);
    assert_eq!(document["totals"]["others"], 1);
}

#[test]
fn the_flows_of_a_capture_on_many_threads_are_what_they_are_on_one() {
    let folder = tempfile::tempdir().unwrap();
    let line = Line { seconds: 20, ..LINE };
    let mut writer = PcapWriter::new(Vec::new(), Framing::Ethernet, 128).unwrap();
    let runs = [Algorithm::Reno, Algorithm::Cubic].map(|control| run(control, line));
    for number in 0..5 {
        runs[usize::from(number) % 2].write_pcap(&mut writer, number);
    }
    let bytes = writer.into_inner();
    std::fs::write(folder.path().join("five.pcap.zst"), zstd::encode_all(&bytes[..], 1).unwrap()).unwrap();
    std::fs::write(folder.path().join("five.pcap"), bytes).unwrap();
    let one = identify(folder.path(), &["--json", "--all-rounds", "--jobs", "1", "five.pcap"]);
    assert_eq!(one.status.code(), Some(0), "{}", text(&one.stderr));
    let document: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(document["files"][0]["flows"].as_array().unwrap().len(), 5);
    for jobs in ["2", "3", "8"] {
        let many = identify(folder.path(), &["--json", "--all-rounds", "--jobs", jobs, "five.pcap"]);
        assert_eq!(text(&one.stdout), text(&many.stdout), "{jobs} threads");
        // One thread decompresses, and distributes.
        let packed = identify(folder.path(), &["--json", "--all-rounds", "--jobs", jobs, "five.pcap.zst"]);
        let packed: Value = serde_json::from_slice(&packed.stdout).unwrap();
        assert_eq!(packed["files"][0]["flows"], document["files"][0]["flows"], "{jobs} threads, packed");
    }
}

#[test]
fn files_of_other_kinds_are_reported_and_the_rest_is_read() {
    let folder = with_capture();
    let here = folder.path();
    std::fs::write(here.join("empty"), "").unwrap();
    std::fs::write(here.join("words.txt"), "once upon a time\n").unwrap();
    std::fs::create_dir(here.join("nothing")).unwrap();
    std::fs::write(here.join("nothing/words.txt"), "the same\n").unwrap();
    for (word, why) in [
        ("missing.pcap", "No such file"),
        ("empty", "is an empty file"),
        ("words.txt", "is text"),
        ("nothing", "1 other files"),
    ] {
        let out = identify(here, &[word, "cubic.pcap"]);
        assert_eq!(out.status.code(), Some(1), "{word}");
        assert!(
            text(&out.stderr).contains(word) && text(&out.stderr).contains(why),
            "{word}: {}",
            text(&out.stderr)
        );
        assert!(text(&out.stdout).contains(" cubic "), "{word}: {}", text(&out.stdout));
        let json = identify(here, &["--json", word, "cubic.pcap"]);
        let document: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(document["totals"]["failed"], 1, "{word}");
    }
}

#[test]
fn a_truncated_capture_is_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = run(Algorithm::Reno, LINE).pcap(0);
    let part = &bytes[..bytes.len() * 2 / 3 + 5];
    std::fs::write(folder.path().join("cut.pcap"), part).unwrap();
    // A compressed stream that ends early is the same.
    let mut packed = zstd::encode_all(&bytes[..], 3).unwrap();
    packed.truncate(packed.len() * 2 / 3);
    std::fs::write(folder.path().join("cut.pcap.zst"), packed).unwrap();
    for (name, odd) in [("cut.pcap", "cut within a packet"), ("cut.pcap.zst", "compression ends early")] {
        let out = identify(folder.path(), &[name]);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        assert!(text(&out.stdout).contains(odd), "{}", text(&out.stdout));
        assert!(text(&out.stdout).contains("reno"), "{}", text(&out.stdout));
    }
}

#[test]
fn without_tcp_or_without_data_there_is_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = PcapWriter::new(Vec::new(), Framing::Ethernet, 128).unwrap();
    // An ARP request and the like.
    for n in 0..20 {
        writer.write(1_000_000 * n, &[0xff; 60], 60).unwrap();
    }
    std::fs::write(folder.path().join("arp.pcap"), writer.into_inner()).unwrap();
    let out = identify(folder.path(), &["arp.pcap"]);
    assert_eq!(out.status.code(), Some(0));
    assert!(
        text(&out.stdout).contains("20 packets, 0 TCP flows; 20 packets not TCP"),
        "{}",
        text(&out.stdout)
    );

    let short = run(Algorithm::Reno, Line { seconds: 1, rate_bps: 300_000, ..LINE });
    std::fs::write(folder.path().join("short.pcap"), short.pcap(0)).unwrap();
    let out = identify(folder.path(), &["short.pcap"]);
    assert_eq!(out.status.code(), Some(0));
    assert!(text(&out.stdout).contains("1 TCP flow, 1 with little data"), "{}", text(&out.stdout));
    // If it is requested explicitly, it is analysed, and the answer is unknown.
    let out = identify(folder.path(), &["--all", "short.pcap"]);
    assert_eq!(out.status.code(), Some(3), "{}", text(&out.stdout));
    assert!(text(&out.stdout).contains("unknown"), "{}", text(&out.stdout));
}

#[test]
fn filters_choose_flows() {
    let folder = tempfile::tempdir().unwrap();
    let line = Line { seconds: 20, ..LINE };
    let mut writer = PcapWriter::new(Vec::new(), Framing::Ethernet, 128).unwrap();
    run(Algorithm::Reno, line).write_pcap(&mut writer, 1);
    run(Algorithm::Cubic, line).write_pcap(&mut writer, 2);
    std::fs::write(folder.path().join("two.pcap"), writer.into_inner()).unwrap();
    let flows = |words: &[&str]| {
        let out = identify(folder.path(), &[&["--json", "two.pcap"], words].concat());
        let document: Value = serde_json::from_slice(&out.stdout).unwrap();
        let flows = document["files"][0]["flows"].as_array().unwrap().clone();
        flows.iter().map(|flow| flow["from"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(flows(&[]), ["10.0.1.2:40001", "10.0.1.2:40002"]);
    assert_eq!(flows(&["--flow", "port:40002"]), ["10.0.1.2:40002"]);
    assert_eq!(flows(&["--flow", "lport:40001", "--flow", "raddr:10.0.2.0/24"]), ["10.0.1.2:40001"]);
    assert!(flows(&["--flow", "rport:40001"]).is_empty());
    let out = identify(folder.path(), &["--flow", "port:x", "two.pcap"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--flow"), "{}", text(&out.stderr));
}

#[test]
fn standard_input_is_read_and_words_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_yuzuri-identify");
    let bytes = run(Algorithm::Reno, Line { seconds: 20, ..LINE }).pcap(0);
    let mut child =
        Command::new(program).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0));
    assert!(text(&out.stdout).starts_with("standard input: pcap with"), "{}", text(&out.stdout));
    for words in [&[][..], &["--jobs", "0", "x"], &["--nonsense", "x"], &["--all-rounds", "x"]] {
        assert_eq!(identify(folder.path(), words).status.code(), Some(2), "{words:?}");
    }
    let help = identify(folder.path(), &["--help"]);
    assert!(text(&help.stdout).contains("Exit codes:"));
}

#[test]
fn an_output_that_cannot_be_written_is_reported() {
    let folder = with_capture();
    for words in [["--html", "missing/page.html"], ["--parquet", "cubic.pcap/x"]] {
        let out = identify(folder.path(), &[&words[..], &["cubic.pcap"]].concat());
        assert_eq!(out.status.code(), Some(1));
        assert!(text(&out.stderr).contains("writing"), "{}", text(&out.stderr));
    }
}

#[test]
fn live_verdicts_come_while_the_file_is_written() {
    let capture = run(Algorithm::Cubic, LINE).pcap(0);
    let program = env!("CARGO_BIN_EXE_yuzuri-identify");
    let start = |words: &[&str]| {
        let mut command = Command::new(program);
        let piped = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        piped.spawn().unwrap()
    };
    let mut words = start(&["--live", "-"]);
    let mut stdin = words.stdin.take().unwrap();
    // The whole is in the pipe or read, and more could come: a verdict is reported before the end
    // is known.
    let writing = std::thread::spawn(move || {
        stdin.write_all(&capture).unwrap();
        (stdin, capture)
    });
    let mut stderr = std::io::BufReader::new(words.stderr.take().unwrap());
    let mut news = String::new();
    std::io::BufRead::read_line(&mut stderr, &mut news).unwrap();
    assert!(news.contains("with probability") && news.contains("reduction"), "{news}");
    let (stdin, capture) = writing.join().unwrap();
    drop(stdin);
    let ended = words.wait_with_output().unwrap();
    assert!(ended.status.success());
    assert!(text(&ended.stdout).contains("cubic, with probability"), "{}", text(&ended.stdout));

    let mut lines = start(&["--live", "--json", "-"]);
    lines.stdin.take().unwrap().write_all(&capture).unwrap();
    let ended = lines.wait_with_output().unwrap();
    let lines: Vec<Value> =
        text(&ended.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, before) = lines.split_last().unwrap();
    assert_eq!(
        (&last["kind"], &last["last"], &last["answer"]["name"]),
        (&"verdict".into(), &true.into(), &"cubic".into())
    );
    assert!(!before.is_empty() && before.iter().all(|line| line["last"] == false));
    let names: Vec<&Value> = before.iter().map(|line| &line["answer"]["name"]).collect();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "only changes are reported: {names:?}");
    assert!(identify(Path::new("."), &["--live", "--json", "--all-rounds", "-"]).status.code() == Some(2));
}

/// The page needs the flows themselves, so that they are not written to disk. The document is the
/// same.
#[test]
fn the_document_is_the_same_whether_flows_were_written_away() {
    let folder = with_capture();
    for words in [&["--json"][..], &["--json", "--all-rounds"], &["--json", "--all", "--jobs", "2"]] {
        let written = identify(folder.path(), &[words, &["cubic.pcap"]].concat());
        let kept = identify(folder.path(), &[words, &["--html", "page.html", "cubic.pcap"]].concat());
        assert_eq!((written.status.code(), kept.status.code()), (Some(0), Some(0)), "{words:?}");
        assert!(written.stdout == kept.stdout, "{words:?}");
        let document: Value = serde_json::from_slice(&written.stdout).unwrap();
        assert_eq!(document["totals"]["flows"], document["files"][0]["flows"].as_array().unwrap().len());
        assert_eq!(document["totals"]["named"], 1, "{words:?}");
    }
}

#[test]
fn a_temporary_file_that_cannot_be_created_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    // Enough flows for more than a block.
    let mut writer = PcapWriter::new(Vec::new(), Framing::Ethernet, 128).unwrap();
    let mut frame = Vec::new();
    for port in 1..2000 {
        let (near, far) = (([192, 0, 2, 1], port).into(), ([192, 0, 2, 2], 443).into());
        let segment = NewSegment { payload_bytes: 100, ..NewSegment::new(near, far) };
        frame.clear();
        let bytes = segment.encode(Framing::Ethernet, &mut frame);
        writer.write(i64::from(port), &frame, bytes).unwrap();
    }
    std::fs::write(folder.path().join("many.pcap"), writer.into_inner()).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_yuzuri-identify"))
        .args(["--json", "--all", "many.pcap"])
        .current_dir(folder.path())
        .env("TMPDIR", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("temporary file in /nonexistent"), "{}", text(&out.stderr));
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(document["files"][0]["error"].is_string());
}
