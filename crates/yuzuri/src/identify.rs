//! `yuzuri identify`: becomes `yuzuri-identify`.

use crate::program::{IDENTIFY, IDENTIFY_IS, ProgramArgs, become_program};
use std::process::ExitCode;

/// Executes the program that identifies congestion control algorithms; returns only with an error.
pub fn run(args: &ProgramArgs) -> anyhow::Result<ExitCode> {
    become_program(IDENTIFY, IDENTIFY_IS, args)
}
