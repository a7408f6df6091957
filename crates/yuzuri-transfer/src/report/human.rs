//! Human-readable reports: a table of buffers on one output, and a progress line that overwrites
//! itself on another.

use crate::events::{Buffer, SendEvent, SendSummary, ThroughputSpread};
use crate::fetch::{FetchEvent, FetchSummary};
use crate::receive::{ReceiveEvent, ReceiveSummary};
use crate::report::Report;
use std::io::{self, IsTerminal, Write};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use yuzuri_stats::counted;

/// Maximum number of table rows per second on a terminal; suppressed rows are counted and reported.
const ROWS_PER_SECOND: u32 = 10;

/// A line that overwrites itself.
struct StatusLine<W> {
    output: Option<W>,
    shown: bool,
}

impl<W: Write> StatusLine<W> {
    /// Ignores write errors, because the line is not essential.
    fn show(&mut self, text: &str) {
        if let Some(output) = &mut self.output {
            let _ = write!(output, "\r\x1b[K{text}").and_then(|()| output.flush());
            self.shown = true;
        }
    }

    fn clear(&mut self) {
        if let Some(output) = &mut self.output
            && std::mem::take(&mut self.shown)
        {
            let _ = write!(output, "\r\x1b[K").and_then(|()| output.flush());
        }
    }
}

/// Limits rows to a number per second and counts the suppressed ones.
struct RowLimiter {
    per_second: Option<u32>,
    since: Instant,
    shown: u32,
    hidden: u64,
}

impl RowLimiter {
    fn allows(&mut self) -> bool {
        let Some(per_second) = self.per_second else { return true };
        if self.since.elapsed() >= Duration::from_secs(1) {
            self.since = Instant::now();
            self.shown = 0;
        }
        self.shown += 1;
        let through = self.shown <= per_second;
        self.hidden += u64::from(!through);
        through
    }
}

/// Prints the events of a sender as a table.
pub struct SendText<W, S> {
    output: W,
    status: StatusLine<S>,
    rows: RowLimiter,
    /// First write of the transfer, which is time 0 of the table.
    origin_mono_ns: Option<u64>,
}

impl SendText<io::Stdout, io::Stderr> {
    /// Prints the table on standard output and progress on standard error. A terminal receives at
    /// most ten rows per second; a file or a pipe receives all. Progress is shown only if standard
    /// error is a terminal.
    pub fn standard() -> Self {
        let per_second = io::stdout().is_terminal().then_some(ROWS_PER_SECOND);
        SendText::new(io::stdout(), io::stderr().is_terminal().then(io::stderr), per_second)
    }
}

impl<W: Write, S: Write> SendText<W, S> {
    /// Prints the table on `output`, limited to `rows_per_second`, and progress on `status`.
    pub fn new(output: W, status: Option<S>, rows_per_second: Option<u32>) -> Self {
        SendText {
            output,
            status: StatusLine { output: status, shown: false },
            rows: RowLimiter { per_second: rows_per_second, since: Instant::now(), shown: 0, hidden: 0 },
            origin_mono_ns: None,
        }
    }

    fn row(&mut self, buffer: &Buffer) -> io::Result<()> {
        if self.origin_mono_ns.is_none() {
            self.origin_mono_ns = Some(buffer.first_write_mono_ns);
            writeln!(
                self.output,
                "{:>4} {:>6} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>8} {:>9}",
                "conn",
                "buffer",
                "bytes",
                "write s",
                "sent s",
                "acked s",
                "Mbit/s",
                "carried",
                "cwnd",
                "ssthresh",
                "srtt ms"
            )?;
        }
        if !self.rows.allows() {
            return Ok(());
        }
        let origin = self.origin_mono_ns.unwrap_or(0);
        let seconds = |mono_ns: u64| (mono_ns as f64 - origin as f64) / 1e9;
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let mut marks = String::new();
        for (set, word) in [
            (!buffer.complete, "cut short"),
            (buffer.source == crate::BufferSource::TcpInfo, "tcp-info"),
            (buffer.clock_stepped, "clock was set"),
        ] {
            if set {
                marks.push_str("  ");
                marks.push_str(word);
            }
        }
        writeln!(
            self.output,
            "{:>4} {:>6} {:>10} {:>9.3} {:>9} {:>9.3} {:>9.2} {:>9.2} {:>7} {:>8} {:>9}{marks}",
            buffer.connection,
            buffer.index,
            buffer.bytes,
            seconds(buffer.first_write_mono_ns),
            or_dash(buffer.sent_mono_ns.map(|mono_ns| format!("{:.3}", seconds(mono_ns)))),
            seconds(buffer.acked_mono_ns),
            megabits(buffer.throughput_bps),
            megabits(buffer.carried_bps),
            buffer.cwnd,
            or_dash(buffer.ssthresh.map(|segments| segments.to_string())),
            or_dash(buffer.srtt_us.map(|us| format!("{:.2}", f64::from(us) / 1e3))),
        )
    }

    fn summary(&mut self, summary: &SendSummary) -> io::Result<()> {
        let output = &mut self.output;
        if self.rows.hidden > 0 {
            writeln!(
                output,
                "(not shown: {}; all are in --json and in a file)",
                counted(self.rows.hidden, "buffer")
            )?;
        }
        for connection in &summary.connections {
            writeln!(
                output,
                "connection {}: {} in {:.3} s, {:.2} Mbit/s, {}, {} retransmitted, {}",
                connection.connection,
                size(connection.bytes_acked),
                connection.duration_ns as f64 / 1e9,
                megabits(connection.throughput_bps),
                spread(connection.per_buffer),
                counted(connection.total_retrans, "segment"),
                connection.congestion_control,
            )?;
            let part = |us: u64| 100 * us / connection.busy_us.max(1);
            if part(connection.rwnd_limited_us) >= 10 {
                writeln!(
                    output,
                    "  its rate was limited by the receiver's window for {} % of the time",
                    part(connection.rwnd_limited_us)
                )?;
            }
            if part(connection.sndbuf_limited_us) >= 10 {
                writeln!(
                    output,
                    "  its rate was limited by the socket buffer of this host for {} % of the time (net.ipv4.tcp_wmem)",
                    part(connection.sndbuf_limited_us)
                )?;
            }
            if connection.buffers_by_tcp_info > 0 {
                writeln!(
                    output,
                    "  times of {} of {} buffers come from polling TCP_INFO",
                    connection.buffers_by_tcp_info, connection.buffers
                )?;
            }
        }
        writeln!(
            output,
            "total: {} in {:.3} s, {:.2} Mbit/s, {} retransmitted{}",
            size(summary.bytes_acked),
            summary.duration_ns as f64 / 1e9,
            megabits(summary.throughput_bps),
            counted(summary.total_retrans, "segment"),
            if summary.stopped { ", stopped" } else { "" }
        )?;
        if summary.bytes_unacknowledged > 0 {
            writeln!(output, "{} were sent and never acknowledged", size(summary.bytes_unacknowledged))?;
        }
        output.flush()
    }
}

impl<W: Write, S: Write> Report<SendEvent> for SendText<W, S> {
    fn report(&mut self, event: &SendEvent) -> io::Result<()> {
        if !matches!(event, SendEvent::Progress(_)) {
            self.status.clear();
        }
        match event {
            SendEvent::Connected(connected) => writeln!(
                self.output,
                "connection {}: {} > {}, {}{}",
                connected.connection,
                connected.local,
                connected.peer,
                connected.congestion_control,
                match connected.source {
                    crate::BufferSource::Timestamps => "",
                    crate::BufferSource::TcpInfo => ", polling TCP_INFO (no timestamps from this kernel)",
                }
            ),
            SendEvent::Buffer(buffer) => self.row(buffer),
            SendEvent::Progress(progress) => {
                let left = progress.left_ns.map(|ns| format!("  {:.1} s left", ns as f64 / 1e9));
                let done = match progress.total_bytes {
                    Some(total) => format!("{} of {}", size(progress.bytes_acked), size(total)),
                    None => size(progress.bytes_acked),
                };
                self.status.show(&format!(
                    "{:.1} s  {done}  {:.2} Mbit/s{}",
                    progress.elapsed_ns as f64 / 1e9,
                    megabits(progress.rate_bps),
                    left.unwrap_or_default()
                ));
                Ok(())
            }
            SendEvent::Note(note) => writeln!(self.output, "connection {}: {}", note.connection, note.text),
            SendEvent::Summary(summary) => self.summary(summary),
            // The caller of `send` receives the error and prints it. Warnings and sharing summaries
            // are printed by the program that records or shares.
            SendEvent::Failed { .. } | SendEvent::Warning { .. } | SendEvent::Shared(_) => Ok(()),
        }
    }
}

/// Prints the events of a transfer in reverse, one per line.
pub struct FetchText<W, S> {
    output: W,
    status: StatusLine<S>,
}

impl FetchText<io::Stdout, io::Stderr> {
    /// Prints lines on standard output, and progress on standard error if that is a terminal.
    pub fn standard() -> Self {
        FetchText::new(io::stdout(), io::stderr().is_terminal().then(io::stderr))
    }
}

impl<W: Write, S: Write> FetchText<W, S> {
    /// Prints lines on `output` and progress on `status`.
    pub fn new(output: W, status: Option<S>) -> Self {
        FetchText { output, status: StatusLine { output: status, shown: false } }
    }

    fn summary(&mut self, summary: &FetchSummary) -> io::Result<()> {
        for fetched in &summary.connections {
            writeln!(
                self.output,
                "connection {} in reverse: {} in {:.3} s, {:.2} Mbit/s",
                fetched.connection,
                size(fetched.bytes),
                fetched.duration_ns as f64 / 1e9,
                megabits(fetched.throughput_bps)
            )?;
        }
        writeln!(
            self.output,
            "total in reverse: {} in {:.3} s, {:.2} Mbit/s{}",
            size(summary.bytes),
            summary.duration_ns as f64 / 1e9,
            megabits(summary.throughput_bps),
            if summary.stopped { ", stopped" } else { "" }
        )
    }
}

impl<W: Write, S: Write> Report<FetchEvent> for FetchText<W, S> {
    fn report(&mut self, event: &FetchEvent) -> io::Result<()> {
        if !matches!(event, FetchEvent::ReverseProgress { .. }) {
            self.status.clear();
        }
        match event {
            FetchEvent::ReverseConnected { connection, local, peer, .. } => {
                writeln!(self.output, "connection {connection} in reverse: {local} < {peer}")?;
            }
            FetchEvent::ReverseProgress { elapsed_ns, bytes, rate_bps } => {
                self.status.show(&format!(
                    "{:.1} s  {}  {:.2} Mbit/s in reverse",
                    *elapsed_ns as f64 / 1e9,
                    size(*bytes),
                    megabits(*rate_bps)
                ));
            }
            FetchEvent::ReverseSummary(summary) => self.summary(summary)?,
            // The caller of `fetch` receives the error and prints it.
            FetchEvent::Failed { .. } => {}
        }
        self.output.flush()
    }
}

/// Prints the events of a receiver, one per line.
pub struct ReceiveText<W, S> {
    output: W,
    status: StatusLine<S>,
}

impl ReceiveText<io::Stdout, io::Stderr> {
    /// Prints lines on standard output, and progress on standard error if that is a terminal.
    pub fn standard() -> Self {
        ReceiveText::new(io::stdout(), io::stderr().is_terminal().then(io::stderr))
    }
}

impl<W: Write, S: Write> ReceiveText<W, S> {
    /// Prints lines on `output` and progress on `status`.
    pub fn new(output: W, status: Option<S>) -> Self {
        ReceiveText { output, status: StatusLine { output: status, shown: false } }
    }

    fn summary(&mut self, summary: &ReceiveSummary) -> io::Result<()> {
        writeln!(
            self.output,
            "total: {}{} over {} in {:.3} s, {:.2} Mbit/s, {} refused{}",
            size(summary.bytes),
            if summary.sent_bytes > 0 {
                format!(" received, {} sent in reverse,", size(summary.sent_bytes))
            } else {
                String::new()
            },
            counted(summary.accepted, "connection"),
            summary.duration_ns as f64 / 1e9,
            megabits(summary.throughput_bps),
            summary.refused,
            if summary.limit_reached {
                "; stopped at the total byte limit (--total-bytes raises it)"
            } else {
                ""
            }
        )
    }
}

impl<W: Write, S: Write> Report<ReceiveEvent> for ReceiveText<W, S> {
    fn report(&mut self, event: &ReceiveEvent) -> io::Result<()> {
        if !matches!(event, ReceiveEvent::Progress { .. }) {
            self.status.clear();
        }
        match event {
            ReceiveEvent::Listening { address, max_bytes, max_total_bytes } => {
                let at = match address.ip() {
                    IpAddr::V6(ip) if ip.is_unspecified() => ", all addresses of this host, IPv4 and IPv6",
                    IpAddr::V4(ip) if ip.is_unspecified() => ", all IPv4 addresses of this host",
                    ip if ip.is_loopback() => ", this host only",
                    _ => "",
                };
                let up_to = |limit: &Option<u64>| {
                    limit.map_or("any amount".to_owned(), |limit| format!("up to {}", size(limit)))
                };
                writeln!(
                    self.output,
                    "listening on {address}{at}; accepts {} per connection, {} in total; Ctrl-C stops",
                    up_to(max_bytes),
                    up_to(max_total_bytes)
                )?;
            }
            ReceiveEvent::Accepted { connection, peer, open, .. } => {
                writeln!(self.output, "connection {connection}: from {peer}, {open} open")?;
            }
            ReceiveEvent::Refused { peer, reason } => {
                writeln!(self.output, "refused {peer}: {reason}")?;
            }
            ReceiveEvent::Closed(received) => writeln!(
                self.output,
                "connection {}: {} in {:.3} s, {:.2} Mbit/s, {}",
                received.connection,
                size(received.bytes + received.sent_bytes),
                received.duration_ns as f64 / 1e9,
                megabits(received.throughput_bps),
                received.end.description()
            )?,
            ReceiveEvent::Progress { open, bytes, rate_bps } => {
                self.status.show(&format!(
                    "{open} open  {}  {:.2} Mbit/s",
                    size(*bytes),
                    megabits(*rate_bps)
                ));
            }
            ReceiveEvent::Note { text } => writeln!(self.output, "{text}")?,
            ReceiveEvent::Summary(summary) => self.summary(summary)?,
        }
        self.output.flush()
    }
}

fn megabits(bps: u64) -> f64 {
    bps as f64 / 1e6
}

/// Formats bytes in decimal units, like rates: 1 MB is 1,000,000 bytes.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.2} GB", bytes as f64 / 1e9),
        _ => format!("{:.2} TB", bytes as f64 / 1e12),
    }
}

fn spread(of: Option<ThroughputSpread>) -> String {
    of.map_or("no complete buffer".to_owned(), |of| {
        format!(
            "per buffer {:.2} / {:.2} / {:.2} (min / median / max)",
            megabits(of.min_bps),
            megabits(of.median_bps),
            megabits(of.max_bps)
        )
    })
}
