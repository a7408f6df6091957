//! Commands that are separate programs, so that the monitor alone stays small: this program
//! executes or starts them.

use anyhow::{Context, bail};
use clap::Args;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};

/// The program that identifies congestion control algorithms.
pub const IDENTIFY: &str = "yuzuri-identify";
/// The program's name in errors.
pub const IDENTIFY_IS: &str = "identification";
/// The laboratory's program.
pub const LAB: &str = "yuzuri-lab";
/// The program's name in errors.
pub const LAB_IS: &str = "the laboratory";

/// The arguments of such a program, passed on unchanged.
#[derive(Debug, Args)]
pub struct ProgramArgs {
    /// Arguments of the program; `--help` shows them
    #[arg(value_name = "WORDS", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl ProgramArgs {
    /// Arguments that do not come from the command line.
    pub fn of<S: Into<OsString>>(words: impl IntoIterator<Item = S>) -> Self {
        Self { words: words.into_iter().map(Into::into).collect() }
    }
}

/// Executes the program next to this one, or else the one in PATH; returns only with an error.
/// `what` names it in errors.
pub fn become_program(program: &str, what: &str, args: &ProgramArgs) -> anyhow::Result<ExitCode> {
    call(program, what, |mut command| Err(command.args(&args.words).exec()))
}

/// Starts the program next to this one, or else the one in PATH, after `prepare`.
pub fn spawn(program: &str, what: &str, prepare: impl Fn(&mut Command)) -> anyhow::Result<Child> {
    call(program, what, |mut command| {
        prepare(&mut command);
        command.spawn()
    })
}

fn call<T>(program: &str, what: &str, start: impl Fn(Command) -> std::io::Result<T>) -> anyhow::Result<T> {
    let own = std::env::current_exe().with_context(|| {
        format!(
            "finding the folder of this program, which \
        contains {what}"
        )
    })?;
    for path in [own.with_file_name(program), PathBuf::from(program)] {
        match start(Command::new(&path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            result => return result.with_context(|| format!("starting {}", path.display())),
        }
    }
    bail!(
        "{what} is a separate program, {program}, which is neither in {} nor in PATH: \
         install it, or build it with `make build`",
        own.parent().unwrap_or(&own).display()
    )
}
