//! Runs in virtual time: the same program, in a guest whose clock counts instructions.

use crate::LabError;
use crate::batch::{Executor, Planned};
use crate::run::{RunRecord, SCENARIO_FILE, scenario_text};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use yuzuri_vm::{Guest, Progress, Time, VmError};

pub use yuzuri_vm::Kernel;

/// Name of the task file in the guest, next to the scenario.
pub const TASK_FILE: &str = "task.json";
const FOLDER: &str = "/lab";
const PROGRAM: &str = "/lab/yuzuri-lab";
const TOOLS: [&str; 1] = ["/usr/bin/iperf3"];

/// Executes runs in a guest.
#[derive(Debug, Clone)]
pub struct GuestExecutor {
    /// The program that the guest runs with `inside SCENARIO TASK RESULTS`: `yuzuri-lab` itself.
    pub program: PathBuf,
    /// The guest's kernel.
    pub kernel: Kernel,
    /// The guest's memory, MB.
    pub memory_mb: u32,
}

impl Executor for GuestExecutor {
    fn execute(
        &self,
        planned: &Planned,
        folder: &Path,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<RunRecord, LabError> {
        let inputs = folder.join("inputs");
        std::fs::create_dir_all(&inputs).map_err(LabError::file(&inputs))?;
        let (scenario, task) = (inputs.join(SCENARIO_FILE), inputs.join(TASK_FILE));
        std::fs::write(&scenario, scenario_text(&planned.scenario)?).map_err(LabError::file(&scenario))?;
        let text = serde_json::to_vec(&planned.task).map_err(|e| LabError::Run(e.to_string()))?;
        std::fs::write(&task, text).map_err(LabError::file(&task))?;
        let there = |name: &str| format!("{FOLDER}/{name}");
        let mut guest = Guest::new(self.kernel)
            .file(&self.program, PROGRAM)
            .file(&scenario, there(SCENARIO_FILE))
            .file(&task, there(TASK_FILE))
            .program([PROGRAM, "inside", &there(SCENARIO_FILE), &there(TASK_FILE), "/results"])
            .memory_mb(self.memory_mb)
            .time(Time::Virtual { processor: planned.scenario.processor_mips, seed: planned.task.seed })
            .timeout(std::time::Duration::from_secs(24 * 3600))
            .results(folder);
        for tool in TOOLS.into_iter().filter(|tool| Path::new(tool).exists()) {
            guest = guest.file(tool, tool);
        }
        let mut show_progress = |p: Progress<'_>| {
            if let Progress::Clock { guest_s } = p {
                progress(guest_s);
            }
        };
        let outcome = guest.run(&mut show_progress, stop).map_err(|error| match error {
            VmError::Stopped => LabError::Stopped,
            VmError::Tool { .. } => LabError::Tool(error.to_string()),
            other if stop.load(Ordering::Relaxed) => LabError::Run(format!("stopped: {other}")),
            other => LabError::Run(other.to_string()),
        })?;
        let _ = std::fs::remove_dir_all(&inputs);
        if outcome.code != 0 {
            let last: Vec<&str> = outcome.output.lines().rev().take(5).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            return Err(LabError::Run(format!(
                "in the guest, exit code {}: {}",
                outcome.code,
                last.join("\n")
            )));
        }
        RunRecord::open(folder)
    }
}

/// The part that runs in the guest: reads the scenario and the task, executes the run and writes
/// the results.
///
/// # Errors
/// As [`crate::run::run`].
pub fn inside(
    scenario: &Path,
    task: &Path,
    results: &Path,
    stop: &AtomicBool,
) -> Result<RunRecord, LabError> {
    let read = |path: &Path| std::fs::read_to_string(path).map_err(LabError::file(path));
    let wrong = |path: &Path, why: String| LabError::Results { path: path.to_owned(), why };
    let parsed = toml::from_str(&read(scenario)?).map_err(|e| wrong(scenario, e.to_string()))?;
    let wanted = serde_json::from_str(&read(task)?).map_err(|e| wrong(task, e.to_string()))?;
    crate::run::run(&parsed, &wanted, results, stop, &mut |_| {})
}
