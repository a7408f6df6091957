//! `yuzuri lab`: becomes `yuzuri-lab`.

use crate::program::{LAB, LAB_IS, ProgramArgs, become_program};
use std::process::ExitCode;

/// Executes the laboratory's program; returns only with an error.
pub fn run(args: &ProgramArgs) -> anyhow::Result<ExitCode> {
    become_program(LAB, LAB_IS, args)
}
