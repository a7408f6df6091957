//! `yuzuri convert`.

use crate::cli::ConvertArgs;
use anyhow::{Context, bail};
use std::fs::OpenOptions;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use yuzuri_trace::recording::{Format, Reader, Tail, convert};

/// Converts; a recording that was cut off is converted as far as it goes, and said to be so.
pub fn run(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    let ending = args.output.as_deref().and_then(Path::extension).and_then(|e| e.to_str());
    let Some(word) = args.to.as_deref().or(ending) else {
        bail!("no format to convert to: name it with --to csv, jsonl or parquet, or by the output's ending");
    };
    let Some(format) = Format::from_name(word) else {
        bail!("'{word}' is no format to convert to: choose csv, jsonl or parquet (--to)");
    };
    let reader = Reader::open(&args.file)?;
    let length = std::fs::metadata(&args.file).map(|m| m.len()).unwrap_or(0);
    let shown = std::io::stderr().is_terminal();
    let progress = |read: u64, rows: u64| {
        if shown {
            eprint!("\r{:3} %  {rows} rows ", read * 100 / length.max(1));
        }
    };
    let converted = if args.output.as_deref() == Some(Path::new("-")) {
        convert(reader, format, BufWriter::new(std::io::stdout()), progress)?
    } else {
        let output = args.output.clone().unwrap_or_else(|| args.file.with_extension(format.name()));
        let (mut part, file) = Part::create(&output, args.overwrite)?;
        let converted = convert(reader, format, BufWriter::new(file), progress)?;
        part.keep()?;
        converted
    };
    if shown {
        eprintln!("\r{} rows", converted.rows);
    }
    if let Tail::Truncated { .. } = converted.tail {
        eprintln!("yuzuri: {} was cut off: all up to its last whole batch is converted", args.file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The output under another name until it is whole, so that nobody takes half a file for all of it.
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
