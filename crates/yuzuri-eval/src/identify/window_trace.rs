//! Writes the fixtures of yuzuri-infer's tests/kernel.rs.

use super::largest::{ReadSettings, largest};
use anyhow::{Context, Result};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    capture: PathBuf,
    /// File to write, compressed with zstd
    #[arg(value_name = "INTO.json.zst")]
    into: PathBuf,
}

/// Writes the window trace of the capture's largest flow.
pub fn run(args: &Args) -> Result<()> {
    let ended = largest(&args.capture, u64::MAX, ReadSettings::default())?;
    let window_trace = ended.as_ref().and_then(|ended| ended.main()).context("no flow with data")?.1;
    let json = serde_json::to_vec(window_trace)?;
    std::fs::write(&args.into, zstd::encode_all(json.as_slice(), 19)?)
        .with_context(|| format!("writing {}", args.into.display()))
}
