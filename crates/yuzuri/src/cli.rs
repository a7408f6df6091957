//! The words of the command line.

use crate::units;
use clap::{Args, Parser, Subcommand};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use yuzuri_trace::Density;
use yuzuri_transfer::Target;

/// See and steer TCP congestion control on devices that share a wireless network.
#[derive(Debug, Parser)]
#[command(name = "yuzuri", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch TCP flows as the kernel runs them: print, record, show in a browser
    #[command(after_long_help = WATCH_ENDS)]
    Watch(WatchArgs),
    /// Watch TCP flows on the terminal screen
    #[command(after_long_help = WATCH_ENDS)]
    Top(TopArgs),
    /// Show a recording in a browser or on the terminal screen as if live
    Replay(ReplayArgs),
    /// Make CSV, JSON lines or Parquet of a recording
    #[command(after_long_help = CONVERT_ENDS)]
    Convert(ConvertArgs),
    /// Send buffers to a receiver and tell of each how it went
    #[command(after_long_help = SEND_ENDS)]
    Send(SendArgs),
    /// Receive what senders send, and throw it away
    Receive(ReceiveArgs),
    /// Let this device's uploads share the air with those of its neighbours: the daemon and its tools
    Share(Box<crate::share::ShareArgs>),
    /// Experiments with the kernel's TCP over an emulated wireless cell
    #[command(disable_help_flag = true)]
    Lab(crate::program::Words),
    /// Tell which congestion control is in captures, recordings and logs, and with which constants
    #[command(disable_help_flag = true)]
    Identify(crate::program::Words),
    /// Show what this kernel offers, what is missing, and what to do
    Doctor(DoctorArgs),
    /// Print the script that completes commands and options in a shell
    #[command(after_long_help = COMPLETIONS_INSTALL)]
    Completions(CompletionsArgs),
    /// Show the manual page of a command
    Man(ManArgs),
}

const WATCH_ENDS: &str = "\
Exit codes: 0 all went well; 1 watching or recording failed, or the recording lacks records that the kernel delivered \
(lost for the reason `recording`: its disk was full, failed or too slow); 2 usage errors. Records that were lost in the \
kernel (`ring-full`, `nested`, `no-memory`) are counted in the account and do not change the exit code. The account in \
the last line, on the page, in --json and at the end of the recording is the same.";

const CONVERT_ENDS: &str = "\
Exit codes: 0 all of the recording was converted (also where an older format does not tell whether it was finished, \
which is said); 1 it could not be read or written, or it is cut, unfinished or damaged: then all that there is was \
converted; 2 usage errors.";

const SEND_ENDS: &str = "\
Exit codes: 0 all went well; 1 the transfer failed; 2 usage errors; 3 the transfer was made, but the recording or \
the sharing that was asked for beside it was not, or not wholly.";

const FILTER_HELP: &str = "\
Which flows: port:N lport:N rport:N addr:ADDRESS[/BITS] laddr: raddr: pid:N name:PROCESS cgroup:PATH
netns:NAME. Terms of one kind are alternatives, kinds must all hold; without terms, all flows";

const COMPLETIONS_INSTALL: &str = "\
To install it (the Debian package does so already):
  bash  yuzuri completions bash >~/.local/share/bash-completion/completions/yuzuri
  zsh   yuzuri completions zsh >FOLDER/_yuzuri, where FOLDER is in $fpath
  fish  yuzuri completions fish >~/.config/fish/completions/yuzuri.fish
The programs behind `yuzuri lab` and `yuzuri identify` have their own: `yuzuri-lab completions SHELL`, \
`yuzuri-identify --completions SHELL`.";

/// What `watch` and `top` share.
#[derive(Debug, Args)]
pub struct SourceArgs {
    #[arg(value_name = "FILTER", help = FILTER_HELP, value_parser = filter_terms)]
    pub filter: Vec<String>,

    /// Samples of a flow: `ack` for one at every ACK, or the least time between two
    ///
    /// State changes, retransmissions and changes of ssthresh or congestion control come in any case.
    #[arg(long, value_name = "ack|TIME", default_value = "1ms", value_parser = units::density)]
    pub density: Density,

    /// Do not load anything into the kernel: ask it every 10 ms instead (no privilege needed)
    #[arg(long)]
    pub poll: bool,

    /// Size of each CPU's ring [default: 4MiB, less on many CPUs]
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    pub ring: Option<u64>,

    /// Record into this file (Arrow stream, usually *.arrows)
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Replace the file of --record if it exists
    #[arg(long, requires = "record")]
    pub overwrite: bool,

    /// End by itself after this time
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    pub time: Option<Duration>,
}

/// Where a page is served.
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Serve the live page, at 127.0.0.1:4949 or another address
    ///
    /// Only whoever has the token sees it: it is part of the address that is printed, and another one each time. The process
    /// that serves the page gives up all privileges once the hooks are attached.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:4949", value_parser = web_address)]
    pub web: Option<SocketAddr>,

    #[arg(long, value_name = "NAME|UID[:GID]", requires = "web", help = crate::confine::USER_HELP)]
    pub user: Option<String>,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub web: WebArgs,

    /// Socket of the sharing daemon whose state the page shows [default: /run/yuzuri/share.sock]
    #[arg(long, value_name = "PATH", requires = "web")]
    pub share_socket: Option<PathBuf>,

    /// Tell which congestion control each flow shows, as far as its windows tell, while they are watched and at the end
    #[arg(long)]
    pub identify: bool,

    /// Print every record as a line of JSON
    #[arg(long, conflicts_with_all = ["quiet", "all"])]
    pub json: bool,

    /// Print every sample, not only events
    #[arg(long, conflicts_with = "quiet")]
    pub all: bool,

    /// Print nothing but the beginning and the end
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub source: SourceArgs,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recording
    pub file: PathBuf,

    /// How many times faster than it was recorded
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,

    #[command(flatten)]
    pub web: WebArgs,

    /// Begin paused
    #[arg(long)]
    pub paused: bool,

    /// Print the records as lines of JSON at the speed of the recording
    ///
    /// The last line, of the kind `end`, says whether the recording is `complete`: true, false, or null where an older format
    /// does not tell.
    #[arg(long, conflicts_with = "web")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// The recording
    pub file: PathBuf,

    /// Where to: a file, or - for standard output [default: the recording's name with the new ending]
    pub output: Option<PathBuf>,

    /// csv, jsonl or parquet [default: by the output's ending]
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<String>,

    /// Print what became of it as a line of JSON: rows, whether the recording is complete, its account
    #[arg(long)]
    pub json: bool,

    /// Replace the output if it exists
    #[arg(long)]
    pub overwrite: bool,
}

#[derive(Debug, Args)]
pub struct SendArgs {
    /// Where to: HOST or HOST:PORT
    pub target: Target,

    /// Bytes of a buffer
    #[arg(long, default_value = "1MB", value_parser = units::bytes)]
    pub buffer: u64,

    /// Connections side by side
    #[arg(long, short = 'P', default_value_t = 1)]
    pub connections: u32,

    /// End after this many buffers
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub buffers: Option<u64>,

    /// End after this many bytes
    #[arg(long, value_parser = units::bytes)]
    pub bytes: Option<u64>,

    /// End after this time; 0 for none [default: 10s where neither --buffers nor --bytes is given]
    #[arg(long, short = 't', value_parser = units::duration)]
    pub time: Option<Duration>,

    /// Congestion control of the connections
    #[arg(long, short = 'C', value_name = "NAME")]
    pub control: Option<String>,

    /// Write a buffer only when the one before it is acknowledged
    #[arg(long)]
    pub wait_ack: bool,

    /// Send from this address
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,

    /// Send through this interface
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,

    /// Use IPv4 only
    #[arg(long, short = '4', conflicts_with = "v6")]
    pub v4: bool,

    /// Use IPv6 only
    #[arg(long, short = '6')]
    pub v6: bool,

    /// Print a line of JSON for each buffer and the summary
    ///
    /// Each has its `type`: connected, buffer, progress, note, warning, summary, shared, failed. A failure and a warning have
    /// a `kind` that programs may rely on, beside a sentence for people.
    #[arg(long)]
    pub json: bool,

    /// Record these connections into this file (Arrow stream, usually *.arrows), which `yuzuri replay` shows
    ///
    /// Asked for every 10 ms; `yuzuri watch --record` records every ACK, with privilege. A file that cannot be written does not
    /// hold the transfer up: that is said once, and told by exit code 3.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Replace the file of --record if it exists
    #[arg(long, requires = "record")]
    pub overwrite: bool,

    #[command(flatten, next_help_heading = "Sharing")]
    pub share: crate::own_share::OwnShareArgs,
}

#[derive(Debug, Args)]
pub struct ReceiveArgs {
    /// Port to listen at
    #[arg(long, short, default_value_t = yuzuri_transfer::DEFAULT_PORT)]
    pub port: u16,

    /// Address to listen at, such as 127.0.0.1 or ::1 for this host alone [default: all of this host's, so whoever reaches the port may send]
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,

    /// End when the first senders are done
    #[arg(long)]
    pub once: bool,

    /// Most connections at once
    #[arg(long, default_value_t = 256)]
    pub connections: usize,

    /// Close a connection after this many bytes; none: no limit
    #[arg(long, default_value = "100GB", value_parser = units::max_bytes)]
    pub bytes: units::Maximum,

    /// End after this many bytes on all connections; none: no limit
    #[arg(long, value_name = "BYTES", default_value = "1TB", value_parser = units::max_bytes)]
    pub total_bytes: units::Maximum,

    /// Write this many lines at most, then only count; none: no limit
    ///
    /// The summary at the end is written in any case, and tells how many lines are missing.
    #[arg(long, value_name = "COUNT", default_value = "100000", value_parser = units::max_count)]
    pub lines: units::Maximum,

    /// Close a connection after this time
    #[arg(long, short = 't', value_parser = units::duration)]
    pub time: Option<Duration>,

    /// Print a line of JSON for each connection and the summary
    #[arg(long)]
    pub json: bool,

    #[arg(long, value_name = "NAME|UID[:GID]", help = crate::confine::USER_HELP)]
    pub user: Option<String>,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: yuzuri_manual::Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command, such as `share run` [default: yuzuri itself]
    ///
    /// On a terminal the page is shown by man(1) where that is installed; otherwise it is printed in the language of man(7).
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,

    /// Write the pages of all commands into this folder instead
    ///
    /// Not those of `lab` and `identify`, which are programs of their own: `yuzuri-lab man --folder FOLDER`,
    /// `yuzuri-identify --man`.
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    pub folder: Option<PathBuf>,
}

/// Terms of a filter, as they are.
fn filter_terms(text: &str) -> Result<String, yuzuri_trace::FilterError> {
    text.parse::<yuzuri_trace::Filter>().map(|_| text.to_owned())
}

/// `PORT`, `ADDRESS` or `ADDRESS:PORT`.
fn web_address(text: &str) -> Result<SocketAddr, String> {
    const PORT: u16 = 4949;
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, PORT));
    }
    text.parse().map_err(|_| format!("'{text}' is no address: write PORT, ADDRESS or ADDRESS:PORT"))
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.trim_end_matches('x').parse::<f64>().ok().filter(|s| (0.01..=1000.0).contains(s));
    speed.ok_or_else(|| format!("'{text}' is no speed: write a number from 0.01 to 1000"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_words_are_consistent() {
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
