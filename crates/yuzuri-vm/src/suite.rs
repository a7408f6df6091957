//! Runs compiled test programs under several kernels and prints a table of the results.

use crate::report::{Report, Verdict};
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use yuzuri_vm::{Arch, Guest, Kernel, Progress, Time};

/// A test suite.
pub struct Suite {
    /// Kernels, tested one after the other.
    pub kernels: Vec<Kernel>,
    /// Folder of the programs for each architecture. Their output has the format of Rust test
    /// programs.
    pub programs: BTreeMap<Arch, PathBuf>,
    /// Clock of the guests.
    pub time: Time,
    /// Memory of a guest, MB.
    pub memory_mb: u32,
    /// Time limit of each program, seconds of the guest's clock.
    pub limit_s: u32,
    /// Text that the name of a program must contain to be run.
    pub only: Option<String>,
    /// Arguments for each program (`--exact NAME`).
    pub words: Vec<String>,
    /// Folder for the guests' complete output.
    pub logs: Option<PathBuf>,
}

/// Shell script that runs all programs in the guest, one test at a time, and marks where each
/// begins and ends.
const RUNNER: &str = r#"
for program in /root/tests/*; do
    [ -x "$program" ] || continue
    printf '\n@program %s\n' "${program##*/}"
    timeout -k 5 "$LIMIT_S" "$program" "$@" 2>&1
    printf '\n@code %s\n' $?
done
"#;

impl Suite {
    /// Runs the suite. Returns true if every test passed or was skipped with a reason.
    pub fn run(&self, stop: &AtomicBool, say: &dyn Fn(&str)) -> anyhow::Result<bool> {
        let mut reports = Vec::new();
        for kernel in &self.kernels {
            say(&format!("=== kernel {kernel}"));
            let report = self.one(*kernel, stop, say).with_context(|| format!("kernel {kernel}"))?;
            reports.push((*kernel, report));
        }
        print!("{}", table(&reports));
        Ok(reports.iter().all(|(_, report)| report.passed()))
    }

    fn folder(&self, arch: Arch) -> anyhow::Result<&Path> {
        let folder = self.programs.get(&arch);
        let folder =
            folder.with_context(|| format!("no folder of programs for {} was named", arch.debian()))?;
        Ok(folder)
    }

    fn one(&self, kernel: Kernel, stop: &AtomicBool, say: &dyn Fn(&str)) -> anyhow::Result<Report> {
        let folder = self.folder(kernel.arch())?;
        let mut guest = Guest::new(kernel).time(self.time).memory_mb(self.memory_mb);
        let mut programs = Vec::new();
        let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
        for path in entries.filter_map(Result::ok).map(|e| e.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // `bin` contains programs that the tests call.
            if path.is_dir() {
                guest = guest.file(path, format!("/usr/local/{name}"));
            } else if self.only.as_ref().is_none_or(|only| name.contains(only)) {
                guest = guest.file(path, format!("/root/tests/{name}"));
                programs.push(name);
            }
        }
        if programs.is_empty() {
            bail!("there is nothing to run in {}", folder.display());
        }
        let words = ["sh", "-c", RUNNER, "sh"].map(str::to_owned).into_iter();
        let words = words.chain(["--test-threads=1", "--show-output"].map(str::to_owned));
        let guest = guest
            .program(words.chain(self.words.iter().cloned()))
            .env("LIMIT_S", self.limit_s.to_string())
            .env("RUST_BACKTRACE", "0")
            .timeout(Duration::from_secs(7200));
        let mut text = String::new();
        let outcome = guest.run(
            &mut |progress| match progress {
                Progress::Output(more) => {
                    text.push_str(more);
                    // Shows only which program runs.
                    for line in more.lines().filter(|l| l.starts_with("@program")) {
                        say(line.trim_start_matches("@program "));
                    }
                }
                Progress::Doing(doing) => say(doing),
                Progress::Booted { cpu_s } => say(&format!("booted in {cpu_s:.1} s of CPU")),
                Progress::Clock { .. } | Progress::Cost { .. } => {}
            },
            stop,
        );
        if let Some(logs) = &self.logs {
            std::fs::create_dir_all(logs).with_context(|| format!("making {}", logs.display()))?;
            let path = logs.join(format!("{kernel}.log"));
            std::fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
        }
        let mut report = Report::read(&text);
        match outcome {
            Ok(outcome) => say(&format!(
                "{kernel}: {:.0} s of the guest's time, {:.0} s of CPU, {:.0} s wall-clock",
                outcome.guest_s, outcome.cpu_s, outcome.wall_s
            )),
            // The results up to the failure are kept.
            Err(error) => report.broken(&programs, &error.to_string()),
        }
        Ok(report)
    }
}

/// Formats a table with tests in rows and kernels in columns, followed by the reasons of failures
/// and skips.
fn table(reports: &[(Kernel, Report)]) -> String {
    let mut names: Vec<&str> =
        reports.iter().flat_map(|(_, r)| r.tests.iter().map(|t| t.name.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    let width = names.iter().map(|n| n.len()).max().unwrap_or(0);
    let mut text = format!("\n{:width$}", "");
    for (kernel, _) in reports {
        text.push_str(&format!("  {:>11}", kernel.to_string()));
    }
    text.push('\n');
    for name in &names {
        text.push_str(&format!("{name:width$}"));
        for (_, report) in reports {
            let word = report.tests.iter().find(|t| t.name == *name).map_or("-", |t| t.verdict.word());
            text.push_str(&format!("  {word:>11}"));
        }
        text.push('\n');
    }
    for (kernel, report) in reports {
        let count = |word: &str| report.tests.iter().filter(|t| t.verdict.word() == word).count();
        text.push_str(&format!(
            "\n{kernel}: {} passed, {} failed, {} skipped\n",
            count("passed"),
            count("FAILED"),
            count("skipped")
        ));
        for test in &report.tests {
            match &test.verdict {
                Verdict::Passed => {}
                Verdict::Skipped(why) => text.push_str(&format!("  {}: skipped: {why}\n", test.name)),
                Verdict::Failed(why) => {
                    text.push_str(&format!("  {}: FAILED:\n{}\n", test.name, indented(why)))
                }
            }
        }
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("      {line}")).collect::<Vec<_>>().join("\n")
}
