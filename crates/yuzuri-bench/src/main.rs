//! Measures the figures that Yuzuri must reach, with the real kernel, real sockets and the real
//! command: cost per event, events per second without loss, efficiency of a watched transfer, and
//! resources of the command.
//!
//! All traffic runs in temporary network namespaces, with limits on bytes and time. The program
//! removes everything that it creates.

mod agent;
mod control;
mod cpu;
mod daemon;
mod efficiency;
mod ends;
mod figure;
mod inject;
mod kernel_cost;
mod load;
mod machine;
mod many;
mod messages;
mod observers;
mod programs;
mod reading;
mod rpc;
mod throughput;
mod tidy;

use anyhow::{Context, ensure};
use clap::{Args, Parser, Subcommand};
use figure::Section;
use machine::Machine;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure the figures that Yuzuri must reach
#[derive(Debug, Parser)]
#[command(name = "yuzuri-bench", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Total cost of an event in the kernel, in default density and at every ACK
    KernelCost(Options),
    /// Cost of a hook run with 200 to 50,000 flows
    Flows(Options),
    /// Transactions of small messages per CPU-second with the monitor, alone and beside bulk flows,
    /// relative to without
    Messages(Options),
    /// Events per second without loss, with and without a recording
    Throughput(Options),
    /// Bits per CPU-second with the monitor, bpftrace and ss, relative to without
    Efficiency(Options),
    /// Memory, size and start-up time of the command
    Agent(Options),
    /// Bits per CPU-second under Yuzuri's congestion control, relative to the kernel's CUBIC
    Control(Options),
    /// CPU, memory and status of the sharing daemon with 18,000 flows
    Daemon(Options),
    /// All of these
    All(Options),
    /// Generates bulk traffic for the other subcommands
    #[command(hide = true)]
    Load(load::LoadArgs),
    /// Generates small messages for the other subcommands
    #[command(hide = true, name = "load-messages")]
    LoadMessages(messages::MessageArgs),
}

#[derive(Debug, Clone, Args)]
struct Options {
    /// The command to measure
    #[arg(long, value_name = "FILE", default_value = "target/release/yuzuri")]
    yuzuri: PathBuf,

    /// Fewer and shorter runs: shows that everything works, not what it costs
    #[arg(long)]
    quick: bool,

    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,

    /// Also write the JSON into this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Measure the cost per hook run for this number of flows only
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    flows: Option<u32>,

    /// Measure the efficiency in this traffic setting only: 1 to 3, in the order of the table
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=3))]
    setting: Option<u8>,

    /// Measure the efficiency of the command only, not that of other tools
    #[arg(long)]
    no_others: bool,

    /// Folder for recordings in memory
    #[arg(long, value_name = "FOLDER", default_value = "/dev/shm")]
    memory: PathBuf,

    /// Folder for recordings on a disk
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    disk: PathBuf,
}

/// The command to measure, and the folders for files.
struct Paths {
    yuzuri: PathBuf,
    memory: PathBuf,
    disk: PathBuf,
}

/// The extent of the measurements.
#[derive(Debug, Clone, Copy)]
struct Scale {
    quick: bool,
    flows: Option<u32>,
    setting: Option<u8>,
    no_others: bool,
}

impl Scale {
    fn of(self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

type Bench = fn(&Paths, Scale, &tidy::Stop) -> anyhow::Result<Section>;

fn main() -> ExitCode {
    let (options, benches): (_, &[Bench]) = match Cli::parse().command {
        Command::Load(args) => return exit_code(load::serve(&args).map(|()| true)),
        Command::LoadMessages(args) => return exit_code(messages::serve(&args).map(|()| true)),
        Command::KernelCost(options) => (options, &[kernel_cost]),
        Command::Flows(options) => (options, &[flows]),
        Command::Messages(options) => (options, &[rpc::run]),
        Command::Throughput(options) => (options, &[throughput::run]),
        Command::Efficiency(options) => (options, &[efficiency::run]),
        Command::Agent(options) => (options, &[agent::run]),
        Command::Control(options) => (options, &[control::run]),
        Command::Daemon(options) => (options, &[daemon::run]),
        Command::All(options) => (
            options,
            &[
                kernel_cost,
                flows,
                rpc::run,
                throughput::run,
                efficiency::run,
                agent::run,
                control::run,
                daemon::run,
            ],
        ),
    };
    exit_code(measure(&options, benches))
}

fn kernel_cost(_: &Paths, scale: Scale, stop: &tidy::Stop) -> anyhow::Result<Section> {
    kernel_cost::run(scale, stop)
}

fn flows(_: &Paths, scale: Scale, stop: &tidy::Stop) -> anyhow::Result<Section> {
    many::run(scale, stop)
}

/// Exit status 0 if all targets are met, 2 if one is missed, 1 if a measurement failed.
fn exit_code(result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => yuzuri_exit::failed("yuzuri-bench", error.as_ref()),
    }
}

fn measure(options: &Options, benches: &[Bench]) -> anyhow::Result<bool> {
    ensure!(nix::unistd::geteuid().is_root(), "network namespaces and BPF need root: run it with sudo");
    let yuzuri = options.yuzuri.canonicalize().with_context(|| {
        format!(
            "{}: build it with `cargo build --release -p yuzuri`, or name it with --yuzuri",
            options.yuzuri.display()
        )
    })?;
    let paths = Paths { yuzuri, memory: options.memory.clone(), disk: options.disk.clone() };
    let stop = tidy::Stop::on_signals()?;
    tidy::remove_orphaned_namespaces();
    let scale = Scale {
        quick: options.quick,
        flows: options.flows,
        setting: options.setting,
        no_others: options.no_others,
    };
    let machine = Machine::read();
    if !options.json {
        println!("{machine}");
    }
    let mut sections = Vec::new();
    for bench in benches {
        let section = bench(&paths, scale, &stop)?;
        if !options.json {
            print!("{}", section.table());
        }
        sections.push(section);
    }
    let missed: usize = sections.iter().map(Section::missed).sum();
    let report = serde_json::json!({
        "machine": machine, "quick": options.quick, "missed": missed, "sections": sections,
    });
    let report = serde_json::to_string_pretty(&report)?;
    if let Some(path) = &options.output {
        std::fs::write(path, format!("{report}\n")).with_context(|| format!("writing {}", path.display()))?;
    }
    if options.json {
        println!("{report}");
    } else if missed > 0 {
        println!("\n{missed} targets missed");
    } else {
        println!("\nall targets met");
    }
    Ok(missed == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
