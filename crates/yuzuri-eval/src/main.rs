//! The evaluation programs that scripts run, and that fill the tables of docs/.

mod access_point;
mod capture;
mod identify;
mod sharing;
mod simulation;
mod why;
mod windows;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The same allocator as `yuzuri-identify`, whose speed is measured here.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Evaluate identification, limits, simulation and capture reading, and print tables
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Count how often the right congestion control algorithm is named, on runs of the laboratory
    /// with captures at both ends
    Identify(identify::tally::Args),
    /// Print the ranking of each capture's largest flow in a folder
    Rank(identify::rank::Args),
    /// Write the window trace of a capture's largest flow as compressed JSON: a fixture for tests
    WindowTrace(identify::window_trace::Args),
    /// Simulate a matrix of settings, or random settings, with CUBIC, BBR, the published rules,
    /// Yuzuri's policy and an oracle
    Sharing(sharing::Args),
    /// Simulate sharing at the access point beside CUBIC, BBR, FQ-CoDel and the daemon on the
    /// terminals
    AccessPoint(access_point::Args),
    /// Compare the simulation with the kernel or with ns-3, or measure its speed
    #[command(subcommand)]
    Simulation(simulation::Command),
    /// Generate captures, and measure how fast they are read
    #[command(subcommand)]
    Capture(capture::Command),
    /// Run random transfers with a known limit, and measure how often the limit is found
    #[command(subcommand)]
    Why(why::Command),
    /// Compare the windows of two recordings round trip by round trip, in segments
    Windows(windows::Args),
}

fn main() -> ExitCode {
    let done = match &Args::parse().command {
        Command::Identify(args) => identify::tally::run(args),
        Command::Rank(args) => identify::rank::run(args),
        Command::WindowTrace(args) => identify::window_trace::run(args),
        Command::Sharing(args) => sharing::run(args),
        Command::AccessPoint(args) => access_point::run(args),
        Command::Simulation(command) => return ended(simulation::run(command)),
        Command::Capture(command) => capture::run(command),
        Command::Why(command) => {
            why::run(command);
            Ok(())
        }
        Command::Windows(args) => windows::run(args),
    };
    ended(done.map(|()| ExitCode::SUCCESS))
}

fn ended(done: anyhow::Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| yuzuri_exit::failed("yuzuri-eval", error.as_ref()))
}
