//! Measures how well the simulation agrees with the kernel and with ns-3, and how fast it is.

mod algorithms;
mod laboratory;
mod ns3;
mod sawtooth;
mod speed;
mod traces;

use clap::Subcommand;
use std::process::ExitCode;

#[derive(Subcommand)]
pub enum Command {
    /// Compare with the kernel's TCP on the same scenario files; exit status 1 if a setting exceeds
    /// the limits
    Laboratory(laboratory::command::Args),
    /// Compare every congestion control algorithm with Linux 6.1 on two paths
    Algorithms(algorithms::command::Args),
    /// Compare CUBIC, Reno and BBR with Linux 6.1 on 20 Mbit/s, 50 ms, 100 packets, 60 s
    Traces(traces::command::Args),
    /// Simulate the settings that ns-3.48 ran, with Linux's recovery and with ns-3's
    Ns3(ns3::command::Args),
    /// Measure simulated seconds per second of CPU time
    Speed,
}

pub fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Laboratory(args) => return laboratory::command::run(args),
        Command::Algorithms(args) => algorithms::command::run(args)?,
        Command::Traces(args) => traces::command::run(args),
        Command::Ns3(args) => ns3::command::run(args),
        Command::Speed => speed::run()?,
    }
    Ok(ExitCode::SUCCESS)
}
