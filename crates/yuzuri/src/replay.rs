//! `yuzuri replay`.
use crate::cli::ReplayArgs;
use std::process::ExitCode;
/// x
pub fn run(_args: ReplayArgs) -> anyhow::Result<ExitCode> { anyhow::bail!("soon") }
