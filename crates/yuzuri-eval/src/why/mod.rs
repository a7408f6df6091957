//! Random transfers with a known limit, and how often the limit is found, for `make why-figures`.
#![allow(clippy::unwrap_used, reason = "a measurement program: a failure panics at its place")]

mod case;
mod judge;
mod make;
mod table;
mod transfer;

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum Command {
    /// Run transfers between two network namespaces: recorded at every ACK, in the default density
    /// and by polling, and captured at both ends
    Make(Make),
    /// Read stored transfers and print for how much of the time the reported limit is right. A fair
    /// test of a rule needs a seed that was never used before
    Judge(Judge),
}

#[derive(clap::Args)]
pub struct Make {
    /// Seed of the drawn cases
    #[arg(long)]
    seed: u64,
    /// Cases of each kind
    #[arg(long)]
    rounds: u64,
    /// The first round to run; rounds can be run one by one
    #[arg(long, default_value_t = 0)]
    first_round: u64,
    /// Kinds to run [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The program that records
    #[arg(long, default_value = "target/release/yuzuri")]
    yuzuri: PathBuf,
    /// Folder to write to
    folder: PathBuf,
}

#[derive(clap::Args)]
pub struct Judge {
    /// Print each case
    #[arg(long)]
    list: bool,
    /// Judge captures only, without recordings and tshark
    #[arg(long)]
    captures: bool,
    /// Kinds to judge [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Folders that `make` wrote
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

/// Runs the command. A failure panics at its place.
pub fn run(command: &Command) {
    match command {
        Command::Make(args) => make::all(args),
        Command::Judge(args) => judge::all(args),
    }
}
