//! Batches: which runs are kept, which are repeated, and what a report contains.
#![allow(clippy::unwrap_used)]

use parking_lot::Mutex;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use yuzuri_lab::LabError;
use yuzuri_lab::batch::{self, Event, Executor, OutLock, Planned, State};
use yuzuri_lab::run::{Clock, RunRecord};
use yuzuri_scenario::Document;

const SCENARIO: &str = r#"
title = "three points"
duration_s = 1
repetitions = 2
[[terminal]]
name = "phone"
phy = { standard = "g", rate_mbps = 54 }
[sweep]
"path.rtt_ms" = [1, 2, 3]
"#;

/// Writes a folder like that of a run without running anything, to test the bookkeeping.
#[derive(Default)]
struct Responder {
    /// Runs that fail.
    fails: Vec<String>,
    /// Runs that are invalid.
    invalid: Vec<String>,
    stop_after: Option<usize>,
    ran: Mutex<Vec<String>>,
}

impl Executor for Responder {
    fn execute(
        &self,
        planned: &Planned,
        folder: &Path,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<RunRecord, LabError> {
        assert!(folder.to_string_lossy().ends_with(".partial"));
        progress(0.5);
        let mut ran = self.ran.lock();
        ran.push(planned.name());
        if self.fails.contains(&planned.name()) {
            return Err(LabError::Run("on purpose".into()));
        }
        if self.stop_after.is_some_and(|most| ran.len() > most) {
            stop.store(true, Ordering::Relaxed);
            return Err(LabError::Stopped);
        }
        let text = yuzuri_lab::run::scenario_text(&planned.scenario)?;
        std::fs::write(folder.join("scenario.toml"), text).unwrap();
        let json = serde_json::json!({
            "format": 1, "task": planned.task, "title": "t", "yuzuri": "0", "started_unix_ns": 0, "origin_mono_ns": 0,
            "host": { "name": "h", "kernel": "k", "machine": "m", "cpus": 1 },
            "valid": !self.invalid.contains(&planned.name()), "invalid_because": [], "notes": [],
            "lateness": { "delivered": 0, "late": 0, "worst_ns": 0, "within_us": vec![0; 24], "refused": 0 },
            "watched": { "seen": 3, "kept": 2, "lost": 1 }, "driver_cpu_s": 0.0, "process_cpu_s": 0.0, "wall_s": 0.0,
            "from_s": 0.0, "to_s": 1.0, "terminals": [], "busy": 0.0,
            "totals": { "throughput_mbps": 1.0, "jain": null, "rtt_mean_ms": null, "rtt_p95_ms": null, "retransmissions": 0, "drops": 0 },
            "ap": { "airtime": 0.0, "sent": 0, "queue_drops": 0, "retry_drops": 0, "mpdus": 0, "retries": 0, "collisions": 0, "queue_mean": 0.0, "queue_max": 0 },
            "wire_up": { "delivered": 0, "queue_drops": 0, "lost": 0, "busy": 0.0, "queue_max": 0 },
            "wire_down": { "delivered": 0, "queue_drops": 0, "lost": 0, "busy": 0.0, "queue_max": 0 },
        });
        let record: RunRecord = serde_json::from_value(json).unwrap();
        record.write(folder)?;
        Ok(record)
    }
}

fn quiet(_: Event<'_>) {}

fn planned(out: &Path) -> Vec<Planned> {
    let document = Document::parse(Path::new("s.toml"), SCENARIO.into()).unwrap();
    batch::plan(&document, Clock::Real, out).unwrap()
}

fn todo(out: &Path) -> Vec<Planned> {
    planned(out).into_iter().filter(|p| p.state() != State::Finished).collect()
}

#[test]
fn an_interrupted_sweep_resumes() {
    let out = tempfile::tempdir().unwrap();
    let responder = Responder { stop_after: Some(4), ..Responder::default() };
    let stop = AtomicBool::new(false);
    let outcome = batch::execute(&planned(out.path()), &responder, 1, &stop, &quiet);
    assert_eq!((outcome.done, outcome.stopped, outcome.failed.len()), (4, true, 0));
    // Every point was run once before any point was run twice.
    assert!(responder.ran.lock()[..3].iter().all(|name| name.ends_with("/seed-1")));
    let rest = todo(out.path());
    assert_eq!(rest.len(), 2);
    let outcome = batch::execute(&rest, &Responder::default(), 2, &AtomicBool::new(false), &quiet);
    assert_eq!((outcome.done, outcome.stopped), (2, false));
    assert!(todo(out.path()).is_empty());
    assert_eq!(batch::finished(out.path()).unwrap().len(), 6);
}

#[test]
fn more_repetitions_and_a_changed_description_repeat_no_finished_run() {
    let out = tempfile::tempdir().unwrap();
    let planned_of = |from: &str, to: &str| {
        let text = SCENARIO.replace(from, to);
        let document = Document::parse(Path::new("s.toml"), text).unwrap();
        batch::plan(&document, Clock::Real, out.path()).unwrap()
    };
    let missing = |planned: Vec<Planned>| {
        planned.iter().filter(|p| p.state() == State::Missing).map(Planned::name).collect::<Vec<_>>()
    };
    batch::execute(&planned(out.path()), &Responder::default(), 1, &AtomicBool::new(false), &quiet);
    assert!(missing(planned_of("title = \"three", "about = \"why\"\ntitle = \"the three")).is_empty());
    let third = missing(planned_of("repetitions = 2", "repetitions = 3"));
    assert_eq!(third.len(), 3);
    assert!(third.iter().all(|name| name.ends_with("seed-3")), "{third:?}");
    assert_eq!(missing(planned_of("rate_mbps = 54", "rate_mbps = 48")).len(), 6);
}

#[test]
fn failed_and_invalid_runs_are_repeated() {
    let out = tempfile::tempdir().unwrap();
    let all = planned(out.path());
    let responder =
        Responder { fails: vec![all[0].name()], invalid: vec![all[1].name()], ..Responder::default() };
    let outcome = batch::execute(&all, &responder, 2, &AtomicBool::new(false), &quiet);
    assert_eq!((outcome.done, outcome.invalid, outcome.failed.len()), (5, 1, 1));
    assert_eq!(outcome.failed[0].0, all[0].name());
    assert_eq!(all[1].state(), State::Invalid);
    let rest: Vec<String> = todo(out.path()).iter().map(Planned::name).collect();
    assert_eq!(rest, [all[0].name(), all[1].name()]);
    let page = yuzuri_lab::report::write(out.path()).unwrap();
    let text = std::fs::read_to_string(page).unwrap_or_default();
    assert!(text.contains("Not valid, and in no mean"));
}

#[test]
fn results_of_another_scenario_do_not_count_as_finished() {
    let out = tempfile::tempdir().unwrap();
    batch::execute(&planned(out.path()), &Responder::default(), 1, &AtomicBool::new(false), &quiet);
    let text = SCENARIO.replace("duration_s = 1", "duration_s = 2");
    let other = Document::parse(Path::new("s.toml"), text).unwrap();
    let all = batch::plan(&other, Clock::Real, out.path()).unwrap();
    assert!(all.iter().all(|p| p.state() == State::Missing));
}

#[test]
fn a_killed_runs_folder_is_not_a_result() {
    let out = tempfile::tempdir().unwrap();
    let all = planned(out.path());
    batch::execute(&all[..1], &Responder::default(), 1, &AtomicBool::new(false), &quiet);
    let partial = all[1].folder.with_file_name("seed-1.partial");
    std::fs::create_dir_all(&partial).unwrap();
    std::fs::copy(all[0].folder.join("run.json"), partial.join("run.json")).unwrap();
    assert_eq!(batch::finished(out.path()).unwrap().len(), 1);
    batch::execute(&todo(out.path()), &Responder::default(), 1, &AtomicBool::new(false), &quiet);
    assert!(!partial.exists());
}

#[test]
fn each_run_has_a_separate_folder() {
    let out = tempfile::tempdir().unwrap();
    let all = planned(out.path());
    assert!(all.iter().all(|p| p.state() == State::Missing));
    let mut folders: Vec<_> = all.iter().map(|p| &p.folder).collect();
    folders.sort();
    folders.dedup();
    assert_eq!(folders.len(), all.len());
}

#[test]
fn a_folder_of_results_has_one_writer() {
    let out = tempfile::tempdir().unwrap();
    let claim = OutLock::claim(out.path()).unwrap();
    assert!(OutLock::claim(out.path()).unwrap_err().to_string().contains("in use by another"));
    drop(claim);
    OutLock::claim(out.path()).unwrap();
}
