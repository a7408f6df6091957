//! `yuzuri lab`: becomes `yuzuri-lab`, a program of its own, so that whoever only watches does not carry the laboratory.

use anyhow::{Context, bail};
use clap::Args;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

const PROGRAM: &str = "yuzuri-lab";

#[derive(Debug, Args)]
pub struct LabWords {
    /// Words for the laboratory; `yuzuri lab --help` shows them
    #[arg(value_name = "WORDS", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the laboratory's program beside this one, or else the one in PATH; returns only with an error.
pub fn run(args: LabWords) -> anyhow::Result<ExitCode> {
    let own = std::env::current_exe().context("finding this program, beside which the laboratory's lies")?;
    let beside = own.with_file_name(PROGRAM);
    for program in [beside.as_os_str(), PROGRAM.as_ref()] {
        let error = Command::new(program).args(&args.words).exec();
        if error.kind() != ErrorKind::NotFound {
            return Err(error).with_context(|| format!("starting {}", program.display()));
        }
    }
    bail!(
        "the laboratory is a program of its own, {PROGRAM}, which is neither in {} nor in PATH: \
         install it, or build it with `make build`",
        own.parent().unwrap_or(&own).display()
    )
}
