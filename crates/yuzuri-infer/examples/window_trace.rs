//! The window trace of a capture's largest flow as JSON, compressed: `window_trace CAPTURE INTO.json.zst`. Makes the fixtures of tests/kernel.rs.

mod shared;

use anyhow::{Context, Result};
use std::path::Path;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(from), Some(into)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: window trace CAPTURE INTO.json.zst");
    };
    let ended = shared::largest(Path::new(&from), u64::MAX, shared::Otherwise::default())?;
    let window_trace = ended.as_ref().and_then(|ended| ended.main()).context("no flow with data")?.1;
    let json = serde_json::to_vec(window_trace)?;
    std::fs::write(&into, zstd::encode_all(json.as_slice(), 19)?)?;
    Ok(())
}
