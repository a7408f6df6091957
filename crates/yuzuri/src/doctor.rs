//! `yuzuri doctor`.

use crate::cli::DoctorArgs;
use std::io::Write;
use std::process::ExitCode;
use yuzuri_kernel::doctor::{CheckResult, Finding, examine};

/// Prints the table; fails if the kernel monitor cannot be loaded.
pub fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let mut findings = examine();
    findings.extend(yuzuri_share::examine_gate());
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &findings)?;
        writeln!(out)?;
    } else {
        table(&mut out, &findings)?;
    }
    let missing = findings.iter().any(|f| f.result == CheckResult::Missing);
    Ok(if missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn table(out: &mut impl Write, findings: &[Finding]) -> std::io::Result<()> {
    let width = findings.iter().map(|f| f.what.len()).max().unwrap_or(0);
    for finding in findings {
        let gives = if finding.gives.is_empty() { String::new() } else { format!("  [{}]", finding.gives) };
        writeln!(out, "{:<width$}  {:<8}  {}{gives}", finding.what, finding.result.name(), finding.found)?;
        if !finding.advice.is_empty() {
            writeln!(out, "{:<width$}            what to do: {}", "", finding.advice)?;
        }
    }
    Ok(())
}
