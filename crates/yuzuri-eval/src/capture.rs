//! Measures how fast captures are read.

mod count;
mod rebuild;
mod synthesise;

use clap::Subcommand;

#[derive(Subcommand)]
pub enum Command {
    /// Write a capture of downloads; the same arguments give the same file
    Synthesise(synthesise::Args),
    /// Print what is in captures, and how fast it was read
    Count(count::Args),
    /// Measure how fast a capture is read and its windows are rebuilt
    Rebuild(rebuild::Args),
}

pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Synthesise(args) => synthesise::run(args),
        Command::Count(args) => count::run(args),
        Command::Rebuild(args) => rebuild::run(args),
    }
}
