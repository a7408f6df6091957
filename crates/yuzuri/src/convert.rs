//! `yuzuri convert`.

use crate::cli::ConvertArgs;
use anyhow::{Context, bail};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use yuzuri_exit::UsageError;
use yuzuri_limits::Limit;
use yuzuri_stats::counted;
use yuzuri_trace::recording::{Converted, ExtraColumn, Format, Reader, Tail, convert, is_being_written};
use yuzuri_view::LimitedBy;

/// Converts a recording. A truncated, unfinished or damaged one is converted as far as possible;
/// that is reported, and the exit code is 1.
pub fn run(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    if args.json && to_stdout {
        bail!(UsageError::new(
            "--json and the converted rows cannot both go to standard output: name a file for the rows"
        ));
    }
    let ending = args.output.as_deref().and_then(Path::extension).and_then(|e| e.to_str());
    let Some(word) = args.to.as_deref().or(ending) else {
        bail!(UsageError::new(
            "no output format: choose one by --to csv, jsonl or parquet, or by the extension of the output file"
        ));
    };
    let Some(format) = Format::from_name(word) else {
        bail!(UsageError::new(format!(
            "unknown output format '{word}': choose csv, jsonl or parquet by --to"
        )));
    };
    let reader = Reader::open(&args.file)?;
    let length = std::fs::metadata(&args.file).map(|m| m.len()).unwrap_or(0);
    let shown = std::io::stderr().is_terminal();
    let progress = |read: u64, rows: u64| {
        if shown {
            eprint!("\r{:3} %  {} ", read * 100 / length.max(1), counted(rows, "row"));
        }
    };
    let mut limited = LimitedBy::default();
    let mut limited_by = |item: &_| limited.limit_of(item).map(Limit::name);
    let beside =
        Some(ExtraColumn { name: "limited_by", source: LimitedBy::SOURCE, value_of: &mut limited_by });
    let converted = if to_stdout {
        convert(reader, format, BufWriter::new(std::io::stdout()), beside, progress)?
    } else {
        let output = args.output.clone().unwrap_or_else(|| args.file.with_extension(format.name()));
        let (mut part, file) = Part::create(&output, args.overwrite)?;
        let converted = convert(reader, format, BufWriter::new(file), beside, progress)?;
        part.keep()?;
        converted
    };
    if shown {
        yuzuri_exit::note!("\r{}", counted(converted.rows, "row"));
    }
    Ok(report(args, &converted))
}

/// Reports the recording's completeness.
fn report(args: &ConvertArgs, converted: &Converted) -> ExitCode {
    let name = args.file.display();
    if let Some(account) = &converted.account {
        yuzuri_exit::note!("yuzuri: {account}");
    }
    if converted.unknown_rows > 0 {
        let rows = counted(converted.unknown_rows, "row");
        yuzuri_exit::note!("yuzuri: skipped {rows} of kinds that this version does not know");
    }
    match (&converted.broke, converted.tail) {
        (Some(error), _) => yuzuri_exit::note!("yuzuri: {error}"),
        (None, Some(Tail::Unfinished)) if is_being_written(&args.file) => {
            yuzuri_exit::note!("yuzuri: {name} is still being written: this is its content so far");
        }
        (None, Some(tail)) if tail != Tail::Complete => yuzuri_exit::note!("yuzuri: {name} {tail}"),
        _ => {}
    }
    if args.json {
        let ending = match (&converted.broke, converted.tail) {
            (Some(_), _) => "damaged",
            (None, tail) => tail.unwrap_or(Tail::Unknown).name(),
        };
        let account = converted.account.as_ref();
        println!(
            "{}",
            json!({
                "recording": args.file.to_string_lossy(),
                "rows": converted.rows,
                "unknown_rows": converted.unknown_rows,
                "complete": converted.complete(),
                "ending": ending,
                "error": converted.broke.as_ref().map(ToString::to_string),
                "seen": account.map(|a| a.seen()),
                "kept": account.map(|a| a.kept()),
                "lost": account.map(|a| a.lost()),
                "thinned": account.map(|a| a.thinned()),
                "lost_by_reason": account.map(|a| {
                    let reasons = a.lost_by_reason().into_iter();
                    reasons.map(|(reason, n)| (reason.name().to_owned(), n.into())).collect::<serde_json::Map<_, _>>()
                }),
            })
        );
    }
    if converted.complete() == Some(false) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The output under a temporary name until it is complete, so that nobody mistakes a part of the
/// file for the whole.
struct Part {
    partial: PathBuf,
    target: PathBuf,
    kept: bool,
}

impl Part {
    fn create(target: &Path, overwrite: bool) -> anyhow::Result<(Part, std::fs::File)> {
        if target.exists() && !overwrite {
            bail!("{} exists: choose another name, or --overwrite", target.display());
        }
        let mut name = target.as_os_str().to_owned();
        name.push(".part");
        let partial = PathBuf::from(name);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&partial);
        let file = file.with_context(|| format!("creating {}", partial.display()))?;
        Ok((Part { partial, target: target.to_owned(), kept: false }, file))
    }

    fn keep(&mut self) -> anyhow::Result<()> {
        std::fs::rename(&self.partial, &self.target)
            .with_context(|| format!("renaming {} to {}", self.partial.display(), self.target.display()))?;
        self.kept = true;
        let _ = std::io::stdout().flush();
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}
