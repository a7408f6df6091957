//! One connection of the sender: writes buffers, reads timestamps and monitors progress.

mod other_end;
mod outcome;

pub(crate) use outcome::{Failure, Outcome, throughput_spread};

use crate::clock::{Clock, Reading, mono_ns};
use crate::events::{Buffer, BufferSource, Connected};
use crate::gate::Gate;
use crate::ledger::{Ledger, PendingBuffer, Polled};
use crate::options::{Budget, SendOptions, ShownConnection};
use crate::payload::piece;
use crate::stamps::{Stats, decode};
use crate::sys::{self, PollFd, StampKind, poll_fd};
use crate::tcp_info::TcpInfo;
use crate::throughput_histogram::RateHistogram;
use parking_lot::Mutex;
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Interval of the `TCP_INFO` progress check when buffer times come from kernel timestamps.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of `TCP_INFO` polling when no kernel timestamps are available.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Bounds of the interval at which a closed gate is checked again: long enough to keep the cost
/// low, short enough to keep the path from running empty.
const MIN_GATE_CHECK: Duration = Duration::from_millis(1);
const MAX_GATE_CHECK: Duration = Duration::from_millis(10);
/// Number of buffers without a timestamp after which the sender assumes that the kernel accepts
/// `SO_TIMESTAMPING` but does not deliver timestamps.
const MAX_MISSED_STAMPS: u32 = 3;
/// Maximum number of consecutive writes before timestamps are read and the flags are checked.
const MAX_CONSECUTIVE_WRITES: u32 = 16;
/// Maximum number of buffers per connection that may await timestamps, and the receive buffer size
/// requested for the error queue, bytes. Each buffer produces three timestamps of about 1.3 kB;
/// timestamps that do not fit are lost. Only buffers much smaller than the congestion window reach
/// this limit. Further buffers are sent without timestamps so that the path does not have to wait.
const MAX_STAMPED: usize = 64;
const ERROR_QUEUE_BYTES: usize = 1 << 20;

/// Values of `TCP_NOTSENT_LOWAT`, the amount of unsent data above which the socket is not writable.
/// It is small, so that a buffer's first write comes shortly before its first packet, and large
/// enough to last until this process runs again.
mod lowat {
    /// Initial value, used before the delivery rate is known.
    pub(super) const START: u32 = 128 << 10;
    const MIN: u64 = 32 << 10;
    const MAX: u64 = 2 << 20;

    /// Bytes that the connection sends in 20 ms at this rate, clamped to `MIN` and `MAX`.
    pub(super) fn for_rate(bytes_per_s: u64) -> u32 {
        (bytes_per_s / 50).clamp(MIN, MAX) as u32
    }
}

/// State shared by all connections of a transfer.
pub(crate) struct Shared<'a> {
    pub options: &'a SendOptions,
    pub budget: Mutex<Budget>,
    /// The caller's stop flag.
    pub stop: &'a AtomicBool,
    /// Set when a connection fails or the report cannot be written; all connections then end.
    pub cancelled: AtomicBool,
    pub deadline: Option<Instant>,
    /// Bytes acknowledged on all connections.
    pub acked: AtomicU64,
}

impl Shared<'_> {
    fn must_end(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.cancelled.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Message from a connection to the reporting thread.
pub(crate) enum Message {
    Buffer(Box<Buffer>),
    Note(u32, String),
    Finished(Box<Outcome>),
}

/// The buffer being written, and how many of its bytes the kernel has accepted.
struct Writing {
    buffer: PendingBuffer,
    written: u64,
}

impl Writing {
    fn remaining(&self) -> u64 {
        self.buffer.end - self.buffer.start - self.written
    }
}

pub(crate) struct Connection<'a> {
    number: u32,
    socket: Arc<Socket>,
    gate: Arc<Gate>,
    /// While set, the gate is closed; it is checked again at this time.
    gate_closed_until: Option<Instant>,
    connected: Connected,
    shared: &'a Shared<'a>,
    report: &'a dyn Fn(Message),
    /// `None` if the kernel delivers no timestamps and `TCP_INFO` is polled instead.
    stamps: Option<StampKind>,
    clock: Clock,
    ledger: Ledger,
    writing: Option<Writing>,
    next_index: u64,
    /// Bytes written to the socket.
    written: u64,
    /// `tcpi_bytes_acked` before the first write; it counts the SYN.
    acked_before: u64,
    first_write_mono_ns: Option<u64>,
    budget_spent: bool,
    lowat: u32,
    missed_stamps: u32,
    last_progress: Instant,
    reported_acked: u64,
    input_open: bool,
    peer_text: Vec<u8>,
    throughput_histogram: RateHistogram,
    buffers: u64,
    buffers_by_tcp_info: u64,
}

/// A connected socket with timestamping enabled, which starts the numbering of its bytes.
pub(crate) struct Opened {
    pub socket: Arc<Socket>,
    gate: Arc<Gate>,
    pub connected: Connected,
    stamps: Option<StampKind>,
    acked_before: u64,
}

impl Opened {
    /// Enables timestamping. Nothing may have been written to the socket before.
    pub(crate) fn new(
        number: u32,
        socket: Socket,
        peer: SocketAddr,
        options: &SendOptions,
    ) -> io::Result<Opened> {
        let local = socket.local_addr()?.as_socket().unwrap_or(peer);
        // The receive buffer also limits the error queue, which is almost all this socket receives.
        // The kernel caps the size at `net.core.rmem_max`; a smaller buffer is acceptable.
        let _ = socket.set_recv_buffer_size(ERROR_QUEUE_BYTES);
        let stamps = if options.stamps { sys::enable_stamps(&socket).ok() } else { None };
        // Kernels without this option accept the first write of a buffer earlier; nothing else
        // changes.
        let _ = sys::set_notsent_lowat(&socket, lowat::START);
        let connected = Connected {
            connection: number,
            cookie: sys::cookie(&socket).unwrap_or(0),
            local,
            peer,
            congestion_control: sys::congestion_control(&socket).unwrap_or_default(),
            source: if stamps.is_some() { BufferSource::Timestamps } else { BufferSource::TcpInfo },
        };
        let acked_before = sys::tcp_info(&socket)?.bytes_acked;
        let socket = Arc::new(socket);
        let gate = Arc::new(Gate::default());
        if let Some(shown) = &options.shown {
            let socket: Weak<Socket> = Arc::downgrade(&socket);
            shown.show(ShownConnection { socket, gate: gate.clone() });
        }
        Ok(Opened { socket, gate, connected, stamps, acked_before })
    }
}

impl<'a> Connection<'a> {
    pub(crate) fn new(opened: Opened, shared: &'a Shared<'a>, report: &'a dyn Fn(Message)) -> Connection<'a> {
        let number = opened.connected.connection;
        Connection {
            number,
            socket: opened.socket,
            gate: opened.gate,
            gate_closed_until: None,
            connected: opened.connected,
            shared,
            report,
            stamps: opened.stamps,
            clock: Clock::new(Reading::now()),
            ledger: Ledger::new(number),
            writing: None,
            next_index: 0,
            written: 0,
            acked_before: opened.acked_before,
            first_write_mono_ns: None,
            budget_spent: false,
            lowat: lowat::START,
            missed_stamps: 0,
            last_progress: Instant::now(),
            reported_acked: 0,
            input_open: true,
            peer_text: Vec::new(),
            throughput_histogram: RateHistogram::default(),
            buffers: 0,
            buffers_by_tcp_info: 0,
        }
    }

    /// Sends until a limit is reached, the stop flag is set or the connection fails.
    pub(crate) fn run(mut self) -> Outcome {
        let failure = self.transfer().err();
        if failure.is_some() {
            self.shared.cancelled.store(true, Ordering::Relaxed);
        }
        self.close(failure)
    }

    fn transfer(&mut self) -> Result<(), Failure> {
        let mut next_check = Instant::now();
        let mut ended_at: Option<Instant> = None;
        loop {
            if ended_at.is_none() && self.shared.must_end() {
                ended_at = Some(Instant::now());
                self.end_current_buffer();
            }
            if ended_at.is_some_and(|since| since.elapsed() >= self.shared.options.linger) {
                return Ok(());
            }
            if ended_at.is_none() {
                self.start_next_buffer();
            }
            if self.writing.is_none() && self.ledger.is_empty() && (ended_at.is_some() || self.budget_spent) {
                return Ok(());
            }
            let mut fds = [self.poll_entry()];
            sys::poll(&mut fds, self.wait_time(next_check, ended_at)).map_err(Failure::Network)?;
            let revents = fds[0].revents;
            if revents & (libc::POLLERR | libc::POLLHUP) != 0 {
                self.read_stamps()?;
                self.check_closed(revents)?;
            }
            if revents & libc::POLLIN != 0 {
                self.read_input()?;
            }
            let gate_opens = self.gate_closed_until.take_if(|until| *until <= Instant::now()).is_some();
            if gate_opens || revents & libc::POLLOUT != 0 {
                self.write()?;
            }
            if Instant::now() >= next_check {
                self.check_progress()?;
                next_check =
                    Instant::now() + if self.stamps.is_some() { CHECK_INTERVAL } else { POLL_INTERVAL };
            }
        }
    }

    fn poll_entry(&self) -> PollFd {
        let output =
            if self.writing.is_some() && self.gate_closed_until.is_none() { libc::POLLOUT } else { 0 };
        let input = if self.input_open { libc::POLLIN } else { 0 };
        poll_fd(self.socket.as_raw_fd(), output | input)
    }

    fn wait_time(&self, next_check: Instant, ended_at: Option<Instant>) -> Duration {
        let now = Instant::now();
        let mut wait = next_check.saturating_duration_since(now);
        if let Some(gate_closed_until) = self.gate_closed_until {
            wait = wait.min(gate_closed_until.saturating_duration_since(now));
        }
        if let (None, Some(deadline)) = (ended_at, self.shared.deadline) {
            wait = wait.min(deadline.saturating_duration_since(now));
        }
        wait
    }

    /// Starts the next buffer if none is being written, the budget allows one, and, with
    /// `wait_ack`, no buffer awaits its ACK.
    fn start_next_buffer(&mut self) {
        let waiting = self.shared.options.wait_ack && !self.ledger.is_empty();
        if self.writing.is_some() || self.budget_spent || waiting {
            return;
        }
        let next = self.shared.budget.lock().take();
        let Some(bytes) = next else {
            self.budget_spent = true;
            return;
        };
        let buffer = PendingBuffer {
            index: self.next_index,
            start: self.written,
            end: self.written + bytes,
            complete: true,
            stamped: false,
            first_write: Reading::now(),
            acked_at_first_write: self.ledger.acked(),
        };
        self.next_index += 1;
        self.writing = Some(Writing { buffer, written: 0 });
    }

    /// Ends the buffer being written after one more byte, which carries the timestamp request. A
    /// buffer of which nothing has been written is dropped.
    fn end_current_buffer(&mut self) {
        match &mut self.writing {
            Some(writing) if writing.written > 0 => {
                writing.buffer.complete = writing.remaining() == 1;
                writing.buffer.end = writing.buffer.start + writing.written + 1;
            }
            _ => self.writing = None,
        }
    }

    fn info(&self) -> Result<TcpInfo, Failure> {
        sys::tcp_info(&self.socket).map_err(Failure::Network)
    }

    /// Number of written bytes that have been acknowledged.
    fn acked_in(&self, info: &TcpInfo) -> u64 {
        info.bytes_acked.saturating_sub(self.acked_before).min(self.written)
    }

    fn write(&mut self) -> Result<(), Failure> {
        for _ in 0..MAX_CONSECUTIVE_WRITES {
            let Some(writing) = &self.writing else { return Ok(()) };
            if writing.written == 0 {
                let info = self.info()?;
                let acked = self.acked_in(&info);
                self.adjust_notsent_lowat(info.delivery_rate_bytes_per_s);
                if let Some(writing) = &mut self.writing {
                    writing.buffer.acked_at_first_write = acked.max(self.ledger.acked());
                    writing.buffer.first_write = Reading::now();
                }
            }
            let Some(writing) = &self.writing else { return Ok(()) };
            let room = self.allowed_bytes(writing.remaining())?;
            let Some(writing) = &mut self.writing else { return Ok(()) };
            let mut data = piece(writing.written, writing.remaining());
            if room < data.len() as u64 {
                data = &data[..room as usize];
            }
            if data.is_empty() {
                return Ok(());
            }
            let last = data.len() as u64 == writing.remaining();
            writing.buffer.stamped =
                last && self.stamps.is_some() && self.ledger.stamped_entries() < MAX_STAMPED;
            let stamp = self.stamps.filter(|_| writing.buffer.stamped);
            let accepted = match sys::write(&self.socket, data, stamp) {
                Ok(accepted) => accepted as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
                Err(error) => return Err(self.failure(error)),
            };
            if writing.written == 0 && self.written == self.ledger.acked() {
                // Nothing was outstanding, so the stall timeout starts now.
                self.last_progress = Instant::now();
            }
            if self.first_write_mono_ns.is_none() {
                self.first_write_mono_ns = Some(writing.buffer.first_write.mono_ns);
            }
            writing.written += accepted;
            self.written += accepted;
            if writing.remaining() == 0
                && let Some(writing) = self.writing.take()
            {
                self.ledger.add(writing.buffer);
                if self.shared.must_end() {
                    return Ok(());
                }
                self.start_next_buffer();
            }
        }
        Ok(())
    }

    /// Number of bytes that the gate allows to be written. If this is 0, the gate is checked again
    /// after an eighth of the RTT, clamped to [`MIN_GATE_CHECK`] and [`MAX_GATE_CHECK`].
    fn allowed_bytes(&mut self, remaining: u64) -> Result<u64, Failure> {
        // Avoids a `TCP_INFO` system call when the gate is not in use.
        if !self.gate.is_limited() {
            return Ok(u64::MAX);
        }
        let info = self.info()?;
        let outstanding = self.written - self.acked_in(&info);
        let room = self.gate.allowed_bytes(outstanding, remaining, info.mss);
        if room == 0 {
            let eighth_of_rtt = Duration::from_micros(u64::from(info.srtt_us) / 8);
            self.gate_closed_until =
                Some(Instant::now() + eighth_of_rtt.clamp(MIN_GATE_CHECK, MAX_GATE_CHECK));
        }
        Ok(room)
    }

    /// Keeps `TCP_NOTSENT_LOWAT` at 20 ms of data. Updates it only when it is off by more than a
    /// quarter.
    fn adjust_notsent_lowat(&mut self, bytes_per_s: u64) {
        if bytes_per_s == 0 {
            return;
        }
        let wanted = lowat::for_rate(bytes_per_s);
        if wanted.abs_diff(self.lowat) > self.lowat / 4
            && sys::set_notsent_lowat(&self.socket, wanted).is_ok()
        {
            self.lowat = wanted;
        }
    }

    /// Reads all timestamps from the error queue.
    fn read_stamps(&mut self) -> Result<(), Failure> {
        loop {
            let stamp = match sys::read_error_queue(&self.socket, decode) {
                Ok(Some(stamp)) => stamp,
                Ok(None) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.failure(error)),
            };
            let Some(stamp) = stamp else { continue };
            self.clock.update(Reading::now());
            let socket = &self.socket;
            let now = || sys::tcp_info(socket).map(|info| Stats::from(&info)).unwrap_or_default();
            let finished = self.ledger.stamp(&stamp, &self.clock, now);
            self.finish(finished);
        }
    }

    fn finish(&mut self, buffers: Vec<Buffer>) {
        for buffer in buffers {
            self.buffers += 1;
            self.buffers_by_tcp_info += u64::from(buffer.source == BufferSource::TcpInfo);
            if buffer.complete {
                self.throughput_histogram.add(buffer.throughput_bps);
            }
            (self.report)(Message::Buffer(Box::new(buffer)));
        }
        self.note_progress();
    }

    /// Adds the newly acknowledged bytes to the total of the transfer and restarts the stall
    /// timeout.
    fn note_progress(&mut self) {
        let acked = self.ledger.acked();
        if acked > self.reported_acked {
            self.shared.acked.fetch_add(acked - self.reported_acked, Ordering::Relaxed);
            self.reported_acked = acked;
            self.last_progress = Instant::now();
        }
    }

    fn check_progress(&mut self) -> Result<(), Failure> {
        let info = self.info()?;
        let unsent = u64::from(info.notsent_bytes);
        let polled = Polled {
            mono_ns: mono_ns(),
            sent: self.stamps.is_none().then(|| self.written.saturating_sub(unsent)),
            acked: self.acked_in(&info),
            info,
        };
        // The kernel queues the timestamp of an ACK before the ACK becomes visible in TCP_INFO.
        if self.stamps.is_some() {
            self.read_stamps()?;
        }
        let finished = self.ledger.poll(&polled, &self.clock);
        if self.stamps.is_some() {
            self.count_missing_stamps(finished.len());
        }
        self.finish(finished);
        let outstanding = self.written > self.ledger.acked();
        if !outstanding {
            self.last_progress = Instant::now();
        }
        let silent_for = self.last_progress.elapsed();
        if outstanding && silent_for >= self.shared.options.stall_timeout {
            let window_closed = info.snd_wnd.map_or(info.probes > 0, |window| window < info.mss.max(1));
            return Err(Failure::Stalled { silent_for, window_closed });
        }
        Ok(())
    }

    fn count_missing_stamps(&mut self, missing: usize) {
        if missing == 0 || self.ledger.stamped() {
            return;
        }
        self.missed_stamps += missing as u32;
        if self.missed_stamps >= MAX_MISSED_STAMPS {
            self.stamps = None;
            let text = "the kernel accepted the timestamp request but delivers no timestamps: polling TCP_INFO instead";
            (self.report)(Message::Note(self.number, text.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notsent_lowat_is_20_ms_of_data() {
        assert_eq!(lowat::for_rate(12_500_000), 250_000);
        assert_eq!(lowat::for_rate(1), 32 << 10);
        assert_eq!(lowat::for_rate(u64::MAX), 2 << 20);
    }
}
