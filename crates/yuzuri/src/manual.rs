//! `yuzuri completions` and `yuzuri man`.

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::program::{IDENTIFY, IDENTIFY_IS, LAB, LAB_IS, ProgramArgs, become_program};
use clap::CommandFactory;
use std::process::ExitCode;
use yuzuri_exit::UsageError;
use yuzuri_manual::ManualError;

/// Commands that are separate programs, with their own pages.
const PROGRAMS: [&str; 2] = ["identify", "lab"];

/// Prints the script that completes this command line.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    yuzuri_manual::print(&yuzuri_manual::completions(Cli::command(), args.shell))?;
    Ok(ExitCode::SUCCESS)
}

/// Shows a page, or writes all of them.
pub fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.folder {
        yuzuri_manual::write(&yuzuri_manual::pages(Cli::command(), &PROGRAMS), folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    match args.command.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("identify", [])) => become_program(IDENTIFY, IDENTIFY_IS, &ProgramArgs::of(["--man"])),
        Some(("lab", path)) => {
            let words = ["man"].into_iter().chain(path.iter().map(String::as_str));
            become_program(LAB, LAB_IS, &ProgramArgs::of(words))
        }
        _ => match yuzuri_manual::page(Cli::command(), &args.command) {
            Ok(page) => {
                yuzuri_manual::show(&page)?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error @ ManualError::UnknownCommand { .. }) => Err(UsageError::new(error.to_string()).into()),
            Err(error) => Err(error.into()),
        },
    }
}
