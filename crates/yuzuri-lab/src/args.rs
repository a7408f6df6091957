//! The command line's options and help.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use yuzuri_lab::run::Clock;
use yuzuri_lab::{guest, report};

/// Run experiments with the kernel's TCP over an emulated wireless network
#[derive(Debug, Parser)]
#[command(name = "yuzuri-lab", version, max_term_width = 100)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the scenarios in a folder
    List {
        /// Folder of scenarios
        #[arg(default_value = "scenarios")]
        folder: PathBuf,
    },
    /// Check scenarios, and show what they would do
    Check {
        /// Scenario files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Run a scenario once, without its variations
    Run(RunArgs),
    /// Run all variations and repetitions of a scenario; finished runs are not repeated
    Sweep(SweepArgs),
    /// Write the report of a results folder
    Report {
        /// Results folder
        folder: PathBuf,
    },
    /// Compare two runs on one page: their figures, and their RTT and throughput over time and as
    /// distributions, on common axes
    Compare {
        /// Folder of a run (OUT/POINT/seed-N), or a results folder with a single point
        one: PathBuf,
        /// Folder of the other run
        other: PathBuf,
        /// File for the page
        #[arg(long, value_name = "FILE", default_value = "compare.html")]
        out: PathBuf,
    },
    /// Print one figure for all points of a results folder as a Markdown table
    Table {
        /// Results folder
        folder: PathBuf,
        /// throughput_mbps, jain, jain_weighted, rtt_mean_ms, rtt_p95_ms, retransmissions,
        /// loss_percent, min_part, call_up_p99_ms, call_down_p99_ms, call_lost, or a kind of
        /// terminal (the Mbit/s of one terminal of this kind)
        #[arg(default_value = "throughput_mbps")]
        figure: String,
        /// Field whose values become the columns [default: the field with the most values]
        #[arg(long, value_name = "FIELD")]
        across: Option<String>,
        /// Print how much greater the figure is, in percent, where a field's value contains WORD
        /// than where it contains OTHER; compares runs of the same seed, which have the same losses
        #[arg(long, value_name = "WORD/OTHER")]
        beside: Option<report::PointComparison>,
        /// Print the median over the seeds instead of the mean and its interval
        #[arg(long)]
        median: bool,
    },
    /// Demonstrate sharing in real time: run a scenario first without sharing, then with it, and
    /// print a table that compares both halves
    Demo(DemoArgs),
    /// Remove what killed runs left on this host; running experiments are not touched
    Clean,
    /// Print a shell completion script
    Completions {
        /// Shell to generate the script for
        shell: yuzuri_manual::Shell,
    },
    /// Show the manual page of a command
    Man {
        /// Command [default: yuzuri-lab itself]
        ///
        /// On a terminal, man(1) shows the page if it is installed. Otherwise the page's man(7)
        /// source is printed.
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
        /// Write the pages of all commands to this folder instead
        #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
        folder: Option<PathBuf>,
    },
    /// Run an experiment inside a guest
    #[command(hide = true)]
    Inside { scenario: PathBuf, task: PathBuf, results: PathBuf },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClockName {
    /// Real time on this host: fast, but the host's load affects the figures
    Real,
    /// Virtual time in a guest (QEMU) whose clock counts instructions: the host's load has no
    /// effect
    Virtual,
    /// Simulated TCP instead of the kernel's: needs no root and is a hundred times faster, but
    /// refuses scenarios that it cannot simulate
    Simulated,
}

impl From<ClockName> for Clock {
    fn from(word: ClockName) -> Clock {
        match word {
            ClockName::Real => Clock::Real,
            ClockName::Virtual => Clock::Virtual,
            ClockName::Simulated => Clock::Simulated,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Scenario file
    pub(crate) file: PathBuf,

    /// Results folder [default: lab-results/NAME, or lab-results/NAME-simulated with --simulated]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,

    /// Override a field, as in path.rtt_ms=64 or terminal.phone.window=50
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) set: Vec<String>,

    /// Kernel of the guest, for --clock virtual
    #[arg(long, default_value = "6.12", value_parser = |text: &str| text.parse::<guest::Kernel>())]
    pub(crate) kernel: guest::Kernel,

    /// Do not write a report
    #[arg(long)]
    pub(crate) no_report: bool,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ClockFlags {
    /// The same as --clock virtual
    #[arg(long, conflicts_with = "clock")]
    pub(crate) virtual_time: bool,

    /// The same as --clock simulated
    #[arg(long, conflicts_with_all = ["clock", "virtual_time"])]
    pub(crate) simulated: bool,
}

impl ClockFlags {
    pub(crate) fn or(self, word: ClockName) -> Clock {
        match (self.virtual_time, self.simulated) {
            (true, _) => Clock::Virtual,
            (_, true) => Clock::Simulated,
            _ => word.into(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,

    /// Clock of the run
    #[arg(long, value_enum, default_value_t = ClockName::Real)]
    pub(crate) clock: ClockName,

    #[command(flatten)]
    pub(crate) flags: ClockFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,

    /// Clock of the run
    #[arg(long, value_enum, default_value_t = ClockName::Virtual)]
    pub(crate) clock: ClockName,

    #[command(flatten)]
    pub(crate) flags: ClockFlags,

    /// Only run points whose name contains WORD (path.loss=0.001, two-iw10); may be repeated
    #[arg(long, value_name = "WORD")]
    pub(crate) only: Vec<String>,

    /// Number of parallel runs [default: one per two cores in real time, else one per core]
    #[arg(long)]
    pub(crate) jobs: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Scenario file; its variations are ignored
    #[arg(default_value = "scenarios/share/eight-n.toml")]
    pub(crate) file: PathBuf,

    /// Duration of each half, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub(crate) half: f64,

    /// Continue the second half until a signal arrives
    #[arg(long)]
    pub(crate) endless: bool,

    /// Nothing runs on the terminals: the access point shares for them (`yuzuri ap`)
    #[arg(long)]
    pub(crate) access_point: bool,

    /// Write the names of the terminals' network namespaces to this file once they exist
    #[arg(long, value_name = "FILE")]
    pub(crate) names: Option<PathBuf>,

    /// Serve the status of all terminals' daemons on this control socket, for
    /// `yuzuri watch --share-socket`
    #[arg(long, value_name = "PATH")]
    pub(crate) share_socket: Option<PathBuf>,

    /// Only check whether this machine can run the demo
    #[arg(long)]
    pub(crate) check: bool,
}
