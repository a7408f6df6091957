//! Commands that are programs of their own, so that whoever only watches does not carry them: this program becomes them.

use anyhow::{Context, bail};
use clap::Args;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Words for such a program, as they are.
#[derive(Debug, Args)]
pub struct Words {
    /// Words for the program; `--help` shows them
    #[arg(value_name = "WORDS", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the program beside this one, or else the one in PATH; returns only with an error. `what` names it in errors.
pub fn become_program(program: &str, what: &str, args: &Words) -> anyhow::Result<ExitCode> {
    let own =
        std::env::current_exe().with_context(|| format!("finding this program, beside which {what} lies"))?;
    let beside = own.with_file_name(program);
    for path in [beside.as_os_str(), program.as_ref()] {
        let error = Command::new(path).args(&args.words).exec();
        if error.kind() != ErrorKind::NotFound {
            return Err(error).with_context(|| format!("starting {}", path.display()));
        }
    }
    bail!(
        "{what} is a program of its own, {program}, which is neither in {} nor in PATH: \
         install it, or build it with `make build`",
        own.parent().unwrap_or(&own).display()
    )
}
