//! The command line's options and help.

mod transfer;

pub use transfer::{ReceiveArgs, SendArgs};

use crate::units::{self, ValueError};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;
use transfer::SEND_ENDS;
use yuzuri_top::ThemeChoice;
use yuzuri_trace::{Density, Filter};

/// See and steer TCP congestion control on devices that share a wireless network.
#[derive(Debug, Parser)]
#[command(name = "yuzuri", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch TCP flows live: print them, record them, or show them in a browser
    #[command(after_long_help = WATCH_ENDS)]
    Watch(WatchArgs),
    /// Watch TCP flows on a full-screen terminal display
    #[command(after_long_help = WATCH_ENDS)]
    Top(TopArgs),
    /// Show what limits each transfer, live or in a recording: application, windows, pacing or path
    #[command(after_long_help = WHY_ENDS)]
    Why(WhyArgs),
    /// Play a recording back in a browser or on the terminal
    Replay(ReplayArgs),
    /// Convert a recording to CSV, JSON lines or Parquet
    #[command(after_long_help = CONVERT_ENDS)]
    Convert(ConvertArgs),
    /// Send buffers to a receiver and report how each transfer went
    #[command(after_long_help = SEND_ENDS)]
    Send(SendArgs),
    /// Accept transfers and discard the data
    Receive(ReceiveArgs),
    /// Share the wireless link fairly with neighbouring devices: the daemon and its tools
    Share(Box<crate::share::ShareArgs>),
    /// Share an access point's uplink among stations without Yuzuri (runs on the access point)
    #[command(after_long_help = crate::ap::ENDS)]
    Ap(Box<crate::ap::ApArgs>),
    /// Run experiments with the kernel's TCP over an emulated wireless network
    #[command(disable_help_flag = true)]
    Lab(crate::program::ProgramArgs),
    /// Identify congestion control algorithms and their parameters in captures, recordings and logs
    #[command(disable_help_flag = true)]
    Identify(crate::program::ProgramArgs),
    /// Show what this kernel supports, what is missing, and how to fix it
    Doctor(DoctorArgs),
    /// Print a shell completion script
    #[command(after_long_help = COMPLETIONS_INSTALL)]
    Completions(CompletionsArgs),
    /// Show the manual page of a command
    Man(ManArgs),
}

const WATCH_ENDS: &str = "\
Exit codes: 0 success; 1 watching or recording failed, or the recording lacks records that the kernel delivered (they \
are counted as lost for the reason `recording`: the disk was full, failed or too slow); 2 usage error. Records lost in \
the kernel (`ring-full`, `nested`, `no-memory`) are counted but do not change the exit code. The last line, the page, \
--json and the end of the recording report the same counts.";

const CONVERT_ENDS: &str = "\
Exit codes: 0 the whole recording was converted (older formats do not show whether a recording is complete; a note \
says so); 1 the recording could not be read or the output not written, or the recording is truncated, unfinished or \
damaged (everything readable was converted); 2 usage error.";

const WHY_ENDS: &str = "\
Exit codes: 0 success; 1 watching or reading failed, or the recording is truncated, unfinished or damaged (everything \
readable was used); 2 usage error; 3 no sending flow was observed. Ctrl-C ends watching early, with the answer so far. \
The shares of a flow sum to 100 %; time that the records do not explain is `unknown`.";

const FILTER_HELP: &str = "\
Flows to select: port:N lport:N rport:N addr:ADDRESS[/BITS] laddr: raddr: pid:N name:PROCESS cgroup:PATH \
netns:NAME; also a port or an address alone, and \"host NAME\". A flow must match one term of each kind that is \
given. Without terms, all flows match";

const COMPLETIONS_INSTALL: &str = "\
To install the script (the Debian package does this):
  bash  yuzuri completions bash >~/.local/share/bash-completion/completions/yuzuri
  zsh   yuzuri completions zsh >FOLDER/_yuzuri, where FOLDER is in $fpath
  fish  yuzuri completions fish >~/.config/fish/completions/yuzuri.fish
`yuzuri lab` and `yuzuri identify` run separate programs with scripts of their own: `yuzuri-lab completions SHELL`, \
`yuzuri-identify --completions SHELL`.";

/// Options of both `watch` and `top`.
#[derive(Debug, Args)]
pub struct SourceArgs {
    #[arg(value_name = "FILTER", help = FILTER_HELP)]
    pub filter: Vec<String>,

    /// How often to sample each flow: `ack` for every ACK, or the minimum time between two samples
    ///
    /// State changes, retransmissions and changes of ssthresh or of the congestion control are
    /// always recorded.
    #[arg(long, value_name = "ack|TIME", default_value = "1ms", value_parser = units::density)]
    pub density: Density,

    /// Poll the kernel every 10 ms instead of loading BPF programs (needs no privilege)
    #[arg(long)]
    pub poll: bool,

    /// Size of each CPU's ring buffer [default: 4MiB, less on machines with many CPUs]
    #[arg(long, value_name = "BYTES", value_parser = units::ring_bytes)]
    pub ring: Option<u64>,

    /// Record to this file (Arrow stream, usually *.arrows)
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Replace the file of --record if it exists
    #[arg(long, requires = "record")]
    pub overwrite: bool,

    /// Stop after this time, such as 30s or 2m; a number alone means seconds
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    pub time: Option<Duration>,
}

/// Options of commands that serve the page.
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Serve the live page at this address [default: 127.0.0.1:4949]
    ///
    /// The printed address contains a token, which is new at every start. Only browsers that open
    /// this address can see the page. The process that serves it drops all privileges first.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:4949", value_parser = web_address)]
    pub web: Option<SocketAddr>,

    /// How the page shows flows at first: one at a time, several in one chart (overlay), several
    /// side by side (multiples), or the bytes of one flow over time (sequence)
    #[arg(long, value_name = "VIEW", requires = "web", value_enum, default_value_t = PageView::One)]
    pub view: PageView,

    #[arg(long, value_name = "NAME|UID[:GID]", requires = "web", help = crate::confine::USER_HELP)]
    pub user: Option<String>,
}

/// How the page shows flows at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PageView {
    One,
    Overlay,
    Multiples,
    Sequence,
}

impl PageView {
    /// The address of a page that starts in this view.
    pub fn of(self, address: &str) -> String {
        match self {
            PageView::One => address.to_owned(),
            PageView::Overlay => format!("{address}&view=overlay"),
            PageView::Multiples => format!("{address}&view=multiples"),
            PageView::Sequence => format!("{address}&view=sequence"),
        }
    }
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub web: WebArgs,

    /// Control socket of the sharing daemon whose status the page shows [default:
    /// /run/yuzuri/share.sock, on an access point /run/yuzuri/ap.sock]
    #[arg(long, value_name = "PATH", requires = "web")]
    pub share_socket: Option<PathBuf>,

    /// Identify each flow's congestion control from its window, while watching and at the end
    #[arg(long)]
    pub identify: bool,

    /// Print every record as one line of JSON
    #[arg(long, conflicts_with_all = ["quiet", "all"])]
    pub json: bool,

    /// Print every sample, not just events
    #[arg(long, conflicts_with = "quiet")]
    pub all: bool,

    /// Print only the first and last lines
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub source: SourceArgs,

    /// Colours of the screen; `auto` follows NO_COLOR, COLORFGBG and the terminal's background
    #[arg(long, value_name = "THEME", value_enum, default_value_t = ScreenTheme::Auto)]
    pub theme: ScreenTheme,
}

/// Which colours the terminal screen has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScreenTheme {
    Auto,
    Dark,
    Light,
    None,
}

impl ScreenTheme {
    pub fn of(self) -> ThemeChoice {
        match self {
            ScreenTheme::Auto => ThemeChoice::Auto,
            ScreenTheme::Dark => ThemeChoice::Dark,
            ScreenTheme::Light => ThemeChoice::Light,
            ScreenTheme::None => ThemeChoice::None,
        }
    }
}

#[derive(Debug, Args)]
pub struct WhyArgs {
    /// A recording or a packet capture, or the flows to watch (see `yuzuri watch --help` for the
    /// terms), or both: flows of the file
    #[arg(value_name = "FILE|FILTER")]
    pub words: Vec<String>,

    /// Watch for this time, such as 30s or 2m; a number alone means seconds
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = units::duration)]
    pub time: Duration,

    /// How often to sample each flow: `ack` for every ACK, or the minimum time between two samples
    #[arg(long, value_name = "ack|TIME", default_value = "ack", value_parser = units::density)]
    pub density: Density,

    /// Poll the kernel every 10 ms instead of loading BPF programs (needs no privilege)
    #[arg(long)]
    pub poll: bool,

    /// Show every flow, not only the 20 with the most data
    #[arg(long)]
    pub all: bool,

    /// Print a line of JSON for each flow, and one for the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recording
    pub file: PathBuf,

    /// Playback speed: 1 is real time, 2 is twice as fast (0.01 to 1000)
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,

    #[command(flatten)]
    pub web: WebArgs,

    /// Start paused
    #[arg(long)]
    pub paused: bool,

    /// Colours of the terminal screen, as for `yuzuri top`
    #[arg(long, value_name = "THEME", value_enum, default_value_t = ScreenTheme::Auto, conflicts_with_all = ["web", "json"])]
    pub theme: ScreenTheme,

    /// Print the records as lines of JSON at playback speed
    ///
    /// The last line has the kind `end`. Its field `complete` says whether the recording is
    /// complete; it is null for older formats, which do not record this.
    #[arg(long, conflicts_with = "web")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// The recording
    pub file: PathBuf,

    /// Output file, or - for standard output [default: the recording's name with the new extension]
    pub output: Option<PathBuf>,

    /// Output format: csv, jsonl or parquet [default: taken from the output's extension]
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<String>,

    /// Print the outcome as a line of JSON: rows, completeness, and counts of seen and lost records
    #[arg(long)]
    pub json: bool,

    /// Replace the output if it exists
    #[arg(long)]
    pub overwrite: bool,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to generate the script for
    pub shell: yuzuri_manual::Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command, such as `share run` [default: yuzuri itself]
    ///
    /// On a terminal, man(1) shows the page if it is installed. Otherwise the page's man(7) source
    /// is printed.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,

    /// Write the pages of all commands to this folder instead
    ///
    /// `lab` and `identify` are separate programs. Their pages come from
    /// `yuzuri-lab man --folder FOLDER` and `yuzuri-identify --man`.
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    pub folder: Option<PathBuf>,
}

impl SourceArgs {
    /// The filter of `yuzuri COMMAND`.
    pub fn filter(&self, command: &str) -> Filter {
        filter(command, &self.filter)
    }
}

/// The filter of `yuzuri COMMAND`, with host names looked up. An invalid filter is a usage error of
/// that command, which ends the program.
pub fn filter(command: &str, words: &[String]) -> Filter {
    Filter::parse_with(&words.join(" "), look_up).unwrap_or_else(|error| {
        let mut all = Cli::command();
        // Otherwise the usage of a command would lack the program's name.
        all.build();
        match all.find_subcommand_mut(command) {
            Some(command) => command.error(ErrorKind::ValueValidation, error).exit(),
            None => all.error(ErrorKind::ValueValidation, error).exit(),
        }
    })
}

/// The addresses of a host, from /etc/hosts and DNS.
fn look_up(name: &str) -> std::io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// `PORT`, `ADDRESS` or `ADDRESS:PORT`.
fn web_address(text: &str) -> Result<SocketAddr, ValueError> {
    const PORT: u16 = 4949;
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, PORT));
    }
    text.parse().map_err(|_| ValueError::not(text, "an address", "PORT, ADDRESS or ADDRESS:PORT"))
}

fn speed(text: &str) -> Result<f64, ValueError> {
    let speed = text.trim_end_matches('x').parse::<f64>().ok().filter(|s| (0.01..=1000.0).contains(s));
    speed.ok_or_else(|| ValueError::not(text, "a speed", "a number from 0.01 to 1000"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn web_addresses() {
        assert_eq!(web_address("8080").unwrap().to_string(), "127.0.0.1:8080");
        assert_eq!(web_address("0.0.0.0").unwrap().to_string(), "0.0.0.0:4949");
        assert_eq!(web_address("[::1]:80").unwrap().to_string(), "[::1]:80");
        assert!(web_address("nowhere").is_err());
    }
}
