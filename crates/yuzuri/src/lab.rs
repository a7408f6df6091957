//! `yuzuri lab`: becomes `yuzuri-lab`.

use crate::program::{Words, become_program};
use std::process::ExitCode;

/// Becomes the laboratory's program; returns only with an error.
pub fn run(args: &Words) -> anyhow::Result<ExitCode> {
    become_program("yuzuri-lab", "the laboratory", args)
}
