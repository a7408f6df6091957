//! Sharing on the real kernel in real time. The assertions do not depend on the speed of the host.
#![allow(clippy::unwrap_used)]

use parking_lot::Mutex;
mod real_time;

use real_time::{can, run_text};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use yuzuri_lab::LabError;
use yuzuri_lab::demo;
use yuzuri_lab::run::{SHARE_FILE, Statuses};
use yuzuri_scenario::Document;

const TWO: &str = r#"
    title = "two"
    duration_s = 10
    warm_up_s = 1
    [path]
    rtt_ms = 10
    [share]
    [[terminal]]
    name = "phone"
    count = 2
    phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
"#;

/// The lines of `share.csv`, by column name.
fn lines(folder: &Path) -> Vec<std::collections::HashMap<String, String>> {
    let text = std::fs::read_to_string(folder.join(SHARE_FILE)).unwrap();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let line = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), columns.len(), "{line}");
        columns.iter().map(|c| c.to_string()).zip(cells.iter().map(|c| c.to_string())).collect()
    };
    lines.map(line).collect()
}

#[test]
fn flows_of_terminals_that_share_are_bounded() {
    if !can("flows_of_terminals_that_share_are_bounded") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = run_text(TWO, folder.path()).unwrap_or_else(|e| panic!("{e}"));
    let shared: Vec<_> = record.terminals.iter().map(|t| t.share.as_ref().unwrap()).collect();
    for (terminal, share) in record.terminals.iter().zip(&shared) {
        assert_eq!(terminal.control, share.control);
        assert!(share.control.starts_with("lab") && terminal.throughput_mbps > 0.0, "{terminal:?}");
        // They received each other's messages.
        assert!(share.messages_sent > 0 && share.messages_accepted > 0 && share.bytes_sent > 0, "{share:?}");
        assert_eq!(share.kernel_refusals, 0, "{share:?}");
    }
    // Nothing stays registered.
    let left = yuzuri_kernel::control::available();
    assert!(shared.iter().all(|share| !left.contains(&share.control)), "{left:?}");
    let lines = lines(folder.path());
    for name in ["phone-1", "phone-2"] {
        let own: Vec<_> = lines.iter().filter(|line| line["terminal"] == name).collect();
        assert!(own.iter().any(|line| line["senders"] == "2" && line["capacity_bps"] != "0"), "{own:?}");
        assert!(
            own.iter().any(|line| ["start-up", "share", "probe"].contains(&line["rule"].as_str())),
            "{own:?}"
        );
        assert!(own.iter().any(|line| line["cwnd"].parse::<u32>().is_ok_and(|cwnd| cwnd > 0)), "{own:?}");
    }
    assert!(lines.iter().any(|line| line["leads"] == "true"));
}

#[test]
fn sharing_starts_at_its_configured_time() {
    if !can("sharing_starts_at_its_configured_time") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The phones share, from the given time on; `plain` does not. The remaining time is long enough
    // for a busy machine to start two daemons.
    let text = TWO
        .replace("[share]", "[share]\n    starts_s = 3")
        .replace("duration_s = 10", "duration_s = 20")
        + "[[terminal]]\nname = \"plain\"\nshare = false\ncontrol = \"reno\"\nphy = { standard = \"g\", rate_mbps = 54 }\n";
    let record = run_text(&text, folder.path()).unwrap_or_else(|e| panic!("{e}"));
    let plain = &record.terminals[2];
    assert!(plain.share.is_none() && plain.control == "reno" && plain.throughput_mbps > 0.0, "{plain:?}");
    let lines = lines(folder.path());
    assert!(
        lines.iter().all(|line| line["time_s"].parse::<f64>().unwrap() >= 3.0 && line["terminal"] != "plain")
    );
    // The same flow continues under another congestion control.
    assert!(record.terminals[..2].iter().all(|terminal| terminal.flows == 1), "{:?}", record.terminals);
    assert!(lines.iter().any(|line| !line["flow"].is_empty()), "{:?} {lines:?}", record.lateness);
}

#[test]
fn a_stopped_run_makes_all_daemons_leave() {
    if !can("a_stopped_run_makes_all_daemons_leave") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let document = Document::parse(Path::new("t.toml"), TWO.into()).unwrap_or_else(|p| panic!("{p}"));
    let mut scenario = demo::scenario(document.base(), 2.0, true);
    scenario.share.as_mut().unwrap().starts_s = 0.0;
    let stop = AtomicBool::new(false);
    let names = Mutex::new(Vec::new());
    let seen = Mutex::new(Vec::new());
    let mut progress = |seconds: f64| {
        *seen.lock() = registered(&names.lock());
        stop.store(seconds > 1.0, Ordering::Relaxed);
    };
    let mut built = |there: &[&str]| names.lock().extend(there.iter().map(|name| name.to_string()));
    let result = demo::run(&scenario, folder.path(), &stop, &mut progress, &mut built, None);
    assert!(matches!(result, Err(LabError::Stopped)), "{result:?}");
    assert_eq!(seen.into_inner().len(), 2, "both were at work");
    let names = names.into_inner();
    assert_eq!(registered(&names), Vec::<String>::new());
    assert!(names.iter().all(|name| !Path::new("/run/netns").join(name).exists()), "{names:?}");
}

/// The congestion controls of the run with these namespaces.
fn registered(namespaces: &[String]) -> Vec<String> {
    let number = namespaces
        .first()
        .and_then(|name| name.strip_prefix("yzlab")?.split_once('-')?.0.parse::<u16>().ok());
    let prefix = format!("lab{}_s", number.unwrap());
    yuzuri_kernel::control::available().into_iter().filter(|name| name.starts_with(&prefix)).collect()
}

#[test]
fn a_demonstration_compares_both_halves() {
    if !can("a_demonstration_compares_both_halves") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = TWO.replace("[share]\n", "");
    let document = Document::parse(Path::new("t.toml"), text).unwrap_or_else(|p| panic!("{p}"));
    let scenario = demo::scenario(document.base(), 2.0, true);
    let stop = AtomicBool::new(false);
    let names = Mutex::new(Vec::new());
    // Stopped in the second half, as by Ctrl-C, once both terminals have reported; when that is,
    // and when the stop is noticed, depends on the host.
    let statuses = Statuses::starting("not yet".into());
    let mut while_plain = None;
    let mut progress = |seconds: f64| {
        if seconds < 1.0 {
            while_plain = Some(statuses.cell().read());
        }
        let reported = statuses.cell().read().interfaces.len();
        stop.store(seconds > 60.0 || (seconds > 4.0 && reported == 2), Ordering::Relaxed);
    };
    let mut built = |there: &[&str]| names.lock().extend(there.iter().map(|name| name.to_string()));
    let compared = demo::run(&scenario, folder.path(), &stop, &mut progress, &mut built, Some(&statuses));
    let table = compared.unwrap_or_else(|e| panic!("{e}")).to_string();
    for word in ["plain, 1 to 2 s", "sharing, 3 to ", "phone-1", "phone-2", "all", "Jain's index", "Mbit/s"] {
        assert!(table.contains(word), "{word}:\n{table}");
    }
    // One status covers both terminals; before they share, it contains the reason why not.
    let while_plain = while_plain.expect("the first second was seen");
    assert_eq!((while_plain.why_not.as_deref(), while_plain.interfaces.len()), (Some("not yet"), 0));
    statuses.waiting("too late: the daemons have reported".into());
    let status = statuses.cell().read();
    let interfaces: Vec<&str> = status.interfaces.iter().map(|interface| interface.name.as_str()).collect();
    assert_eq!((interfaces, status.why_not.as_ref()), (vec!["phone-1", "phone-2"], None));
    let names = names.into_inner();
    assert_eq!(names.len(), 2);
    assert_eq!(registered(&names), Vec::<String>::new());
    assert!(names.iter().all(|name| !Path::new("/run/netns").join(name).exists()), "{names:?}");
}
