//! The options of `send` and `receive`.

use crate::units;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use yuzuri_transfer::Target;

pub(super) const SEND_ENDS: &str = "\
Exit codes: 0 success; 1 the transfer failed; 2 usage error; 3 the transfer succeeded, but the requested recording or \
sharing failed or is incomplete.";

#[derive(Debug, Args)]
pub struct SendArgs {
    /// Receiver: HOST or HOST:PORT
    pub target: Target,

    /// Size of each buffer
    #[arg(long, value_name = "BYTES", default_value = "1MB", value_parser = units::some_bytes)]
    pub buffer: u64,

    /// Number of parallel connections
    #[arg(long, short = 'P', default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,

    /// Stop after this many buffers
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub buffers: Option<u64>,

    /// Stop after this many bytes
    #[arg(long, value_parser = units::bytes)]
    pub bytes: Option<u64>,

    /// Stop after this time; 0 means no limit [default: 10s, or no limit with --buffers or --bytes]
    #[arg(long, short = 't', value_parser = units::duration)]
    pub time: Option<Duration>,

    /// Congestion control algorithm of the connections
    #[arg(long, short = 'C', value_name = "NAME")]
    pub control: Option<String>,

    /// Receive instead: the receiver sends, if it was started with --reverse
    ///
    /// The limits are those of --bytes or --buffers, and --time. The receiver chooses all other
    /// settings of its transfer itself.
    #[arg(long, short = 'R', conflicts_with_all = ["wait_ack", "control", "record", "probe", "share", "two_way"])]
    pub reverse: bool,

    /// Send, and receive as with --reverse on as many other connections at the same time
    #[arg(long)]
    pub two_way: bool,

    /// Send each buffer only after the previous one is acknowledged
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

    /// Measure the latency during the transfer, by a handshake with the receiver every 200 ms
    ///
    /// The receiver lists each handshake as a connection without data.
    #[arg(long, conflicts_with_all = ["bind", "interface"])]
    pub probe: bool,

    /// Print a line of JSON for each buffer, and one for the summary
    ///
    /// Each line has a `type`: connected, buffer, progress, note, warning, summary, latency, shared
    /// or failed, and in reverse reverse-connected, reverse-progress or reverse-summary. Failures
    /// and warnings have a stable `kind` for programs and a message for people.
    #[arg(long)]
    pub json: bool,

    /// Record these connections to this file (Arrow stream, usually *.arrows) for `yuzuri replay`
    ///
    /// The connections are polled every 10 ms. `yuzuri watch --record` records every ACK but needs
    /// privileges. If the file cannot be written, the transfer continues, a warning is printed, and
    /// the exit code is 3.
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
    /// Port to listen on
    #[arg(long, short, default_value_t = yuzuri_transfer::DEFAULT_PORT)]
    pub port: u16,

    /// Address to listen on, such as 127.0.0.1 or ::1 for this host only [default: all addresses:
    /// anybody who can reach the port may send]
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,

    /// Stop when the first sender has finished
    #[arg(long)]
    pub once: bool,

    /// Also send to clients that request it by `yuzuri send --reverse` or --two-way, within the
    /// same limits
    ///
    /// Anybody who can reach the port can then make this host send.
    #[arg(long)]
    pub reverse: bool,

    /// Maximum number of simultaneous connections
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,

    /// Close a connection after this many bytes; `none` means no limit
    #[arg(long, default_value = "100GB", value_parser = units::max_bytes)]
    pub bytes: units::Maximum,

    /// Stop after this many bytes over all connections; `none` means no limit
    #[arg(long, value_name = "BYTES", default_value = "1TB", value_parser = units::max_bytes)]
    pub total_bytes: units::Maximum,

    /// Maximum number of lines to print; `none` means no limit
    ///
    /// The final summary is always printed and shows how many lines were omitted.
    #[arg(long, value_name = "COUNT", default_value = "100000", value_parser = units::max_count)]
    pub lines: units::Maximum,

    /// Close a connection after this time
    #[arg(long, short = 't', value_parser = units::duration)]
    pub time: Option<Duration>,

    /// Print a line of JSON for each connection, and one for the summary
    #[arg(long)]
    pub json: bool,

    #[arg(long, value_name = "NAME|UID[:GID]", help = crate::confine::USER_HELP)]
    pub user: Option<String>,
}
