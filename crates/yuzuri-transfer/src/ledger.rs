//! The buffers of one connection that are in flight, and what is known about each.

use crate::clock::{Clock, Reading};
use crate::events::{Buffer, BufferSource, ca_state_name, rate_bps};
use crate::stamps::{Stamp, StampEvent, Stats};
use crate::tcp_info::TcpInfo;
use std::collections::VecDeque;

/// `TCP_INFINITE_SSTHRESH`.
const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;

/// A buffer whose bytes have been written to the socket, at least in part.
#[derive(Debug, Clone)]
pub(crate) struct PendingBuffer {
    pub index: u64,
    /// Stream offset of its first byte.
    pub start: u64,
    /// Stream offset just past its last byte.
    pub end: u64,
    pub complete: bool,
    /// Whether a timestamp was requested for its last packet.
    pub stamped: bool,
    pub first_write: Reading,
    /// Bytes of the connection that were acknowledged at the first write.
    pub acked_at_first_write: u64,
}

#[derive(Debug)]
struct Entry {
    buffer: PendingBuffer,
    sent: Option<(u64, Stats)>,
    wire: Option<u64>,
    /// Whether `sent` comes from polling.
    polled: bool,
}

/// One `TCP_INFO` reading.
#[derive(Debug)]
pub(crate) struct Polled {
    pub info: TcpInfo,
    /// When it was read, `CLOCK_MONOTONIC`, nanoseconds.
    pub mono_ns: u64,
    /// Bytes of the stream sent at least once; `None` when kernel timestamps provide the sending
    /// time.
    pub sent: Option<u64>,
    /// Bytes of the stream acknowledged.
    pub acked: u64,
}

/// The buffers in flight, in stream order.
#[derive(Debug)]
pub(crate) struct Ledger {
    connection: u32,
    entries: VecDeque<Entry>,
    /// Number of entries for which a timestamp was requested.
    stamped_entries: usize,
    /// Bytes known to be acknowledged.
    acked: u64,
    /// When `acked` last increased, `CLOCK_MONOTONIC`, nanoseconds.
    last_ack_mono_ns: Option<u64>,
    /// Whether the kernel has timestamped any acknowledgement.
    stamped: bool,
}

impl From<&TcpInfo> for Stats {
    fn from(info: &TcpInfo) -> Stats {
        Stats {
            cwnd: Some(info.cwnd),
            ssthresh: Some(info.ssthresh),
            srtt_us: Some(info.srtt_us),
            min_rtt_us: Some(info.min_rtt_us),
            ca_state: Some(info.ca_state),
            total_retrans: Some(info.total_retrans.into()),
            delivery_rate_bytes_per_s: Some(info.delivery_rate_bytes_per_s),
        }
    }
}

impl Stats {
    /// Fills missing values from `other`.
    fn or(self, other: Stats) -> Stats {
        Stats {
            cwnd: self.cwnd.or(other.cwnd),
            ssthresh: self.ssthresh.or(other.ssthresh),
            srtt_us: self.srtt_us.or(other.srtt_us),
            min_rtt_us: self.min_rtt_us.or(other.min_rtt_us),
            ca_state: self.ca_state.or(other.ca_state),
            total_retrans: self.total_retrans.or(other.total_retrans),
            delivery_rate_bytes_per_s: self.delivery_rate_bytes_per_s.or(other.delivery_rate_bytes_per_s),
        }
    }
}

impl Ledger {
    pub(crate) fn new(connection: u32) -> Ledger {
        Ledger {
            connection,
            entries: VecDeque::new(),
            stamped_entries: 0,
            acked: 0,
            last_ack_mono_ns: None,
            stamped: false,
        }
    }

    /// Adds a buffer.
    pub(crate) fn add(&mut self, buffer: PendingBuffer) {
        self.stamped_entries += usize::from(buffer.stamped);
        self.entries.push_back(Entry { buffer, sent: None, wire: None, polled: false });
    }

    /// Number of buffers in flight for which a timestamp was requested.
    pub(crate) fn stamped_entries(&self) -> usize {
        self.stamped_entries
    }

    /// Whether no buffer is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes known to be acknowledged.
    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    /// When the latest known acknowledgement arrived, `CLOCK_MONOTONIC`, nanoseconds.
    pub(crate) fn last_ack_mono_ns(&self) -> Option<u64> {
        self.last_ack_mono_ns
    }

    /// Whether the kernel has timestamped any acknowledgement.
    pub(crate) fn stamped(&self) -> bool {
        self.stamped
    }

    fn note_acked(&mut self, acked: u64, mono_ns: u64) {
        if acked > self.acked {
            self.acked = acked;
            self.last_ack_mono_ns = self.last_ack_mono_ns.max(Some(mono_ns));
        }
    }

    /// Records a timestamp and returns the buffers that it completes. Timestamps of other bytes are
    /// ignored; they occur when the kernel accepted a write in two parts.
    ///
    /// A buffer that precedes the timestamped one lost its own timestamp; `now` supplies its
    /// missing values.
    pub(crate) fn stamp(&mut self, stamp: &Stamp, clock: &Clock, now: impl Fn() -> Stats) -> Vec<Buffer> {
        let found = self.entries.iter().position(|entry| (entry.buffer.end - 1) as u32 == stamp.byte);
        let Some(at) = found else { return Vec::new() };
        let entry = &mut self.entries[at];
        let mono_ns = clock.to_mono(stamp.unix_ns, entry.buffer.first_write.mono_ns);
        match stamp.event {
            // Retransmissions are timestamped again; the first transmission counts.
            StampEvent::Sent => {
                entry.sent.get_or_insert((mono_ns, stamp.stats));
                Vec::new()
            }
            StampEvent::Wire => {
                entry.wire.get_or_insert(mono_ns);
                Vec::new()
            }
            StampEvent::Acked => {
                self.stamped = true;
                let end = entry.buffer.end;
                self.note_acked(end, mono_ns);
                let last = at;
                let mut finished = Vec::with_capacity(at + 1);
                for (at, entry) in self.entries.drain(..=last).enumerate().collect::<Vec<_>>() {
                    let source = if at == last && !entry.polled && entry.sent.is_some() {
                        BufferSource::Timestamps
                    } else {
                        BufferSource::TcpInfo
                    };
                    finished.push(self.finish(entry, mono_ns, source, clock, &now));
                }
                finished
            }
        }
    }

    /// Records a `TCP_INFO` reading and returns the buffers that it completes.
    ///
    /// With kernel timestamps, the error queue must be read between the `TCP_INFO` call and this
    /// one. A buffer that is still incomplete then has lost its timestamp.
    pub(crate) fn poll(&mut self, polled: &Polled, clock: &Clock) -> Vec<Buffer> {
        let ago = u64::from(polled.info.last_ack_recv_ms) * 1_000_000;
        self.note_acked(polled.acked, polled.mono_ns.saturating_sub(ago));
        let stats = Stats::from(&polled.info);
        if let Some(sent) = polled.sent {
            for entry in self.entries.iter_mut().filter(|entry| entry.buffer.end <= sent) {
                if entry.sent.is_none() {
                    entry.sent = Some((polled.mono_ns, stats));
                    entry.polled = true;
                }
            }
        }
        let mut finished = Vec::new();
        while self.entries.front().is_some_and(|entry| entry.buffer.end <= polled.acked) {
            if let Some(entry) = self.entries.pop_front() {
                finished.push(self.finish(entry, polled.mono_ns, BufferSource::TcpInfo, clock, &|| stats));
            }
        }
        finished
    }

    fn finish(
        &mut self,
        entry: Entry,
        acked_mono_ns: u64,
        source: BufferSource,
        clock: &Clock,
        now: &impl Fn() -> Stats,
    ) -> Buffer {
        let Entry { buffer, sent, wire, .. } = entry;
        self.stamped_entries -= usize::from(buffer.stamped);
        let first_write_mono_ns = buffer.first_write.mono_ns;
        let acked_mono_ns = acked_mono_ns.max(first_write_mono_ns);
        let stats = match sent {
            Some((_, stats)) if stats.cwnd.is_some() && stats.srtt_us.is_some() => stats,
            Some((_, stats)) => stats.or(now()),
            None => now(),
        };
        let bytes = buffer.end - buffer.start;
        let duration_ns = acked_mono_ns - first_write_mono_ns;
        let carried = buffer.end.saturating_sub(buffer.acked_at_first_write);
        Buffer {
            connection: self.connection,
            index: buffer.index,
            bytes,
            complete: buffer.complete,
            first_write_mono_ns,
            first_write_unix_ns: buffer.first_write.unix_ns(),
            sent_mono_ns: sent.map(|(mono, _)| mono.min(acked_mono_ns)),
            wire_mono_ns: wire.map(|mono| mono.min(acked_mono_ns)),
            acked_mono_ns,
            throughput_bps: rate_bps(bytes, duration_ns),
            carried_bps: rate_bps(carried, duration_ns),
            cwnd: stats.cwnd.unwrap_or(0),
            ssthresh: stats.ssthresh.filter(|&segments| segments < SSTHRESH_INFINITE),
            srtt_us: stats.srtt_us.filter(|&us| us > 0),
            min_rtt_us: stats.min_rtt_us.filter(|&us| us > 0 && us < u32::MAX),
            ca_state: ca_state_name(stats.ca_state.unwrap_or(u8::MAX)),
            delivery_rate_bps: stats.delivery_rate_bytes_per_s.unwrap_or(0).saturating_mul(8),
            total_retrans: stats.total_retrans.unwrap_or(0),
            source,
            clock_stepped: source == BufferSource::Timestamps && clock.stepped_since(first_write_mono_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSET: i64 = 1_700_000_000_000_000_000;

    fn reading(mono_ns: u64) -> Reading {
        Reading { mono_ns, offset_ns: OFFSET, uncertainty_ns: 50 }
    }

    fn pending_buffer(index: u64, start: u64, end: u64, at: u64) -> PendingBuffer {
        PendingBuffer {
            index,
            start,
            end,
            complete: true,
            stamped: true,
            first_write: reading(at),
            acked_at_first_write: start / 2,
        }
    }

    fn stamp(event: StampEvent, byte: u64, at: u64, cwnd: u32) -> Stamp {
        let stats = Stats { cwnd: Some(cwnd), srtt_us: Some(1000), ..Default::default() };
        Stamp { event, byte: byte as u32, unix_ns: OFFSET + at as i64, stats }
    }

    fn unused_stats() -> Stats {
        panic!("nothing was missing")
    }

    #[test]
    fn a_buffer_lasts_from_its_first_transmission_to_its_last_ack() {
        // Beyond 4 GiB the kernel's byte numbers have wrapped.
        let start = 5 << 32;
        let clock = Clock::new(reading(10_000_000_000));
        let mut ledger = Ledger::new(3);
        ledger.add(pending_buffer(7, start, start + 1_000_000, 1_000_000_000));
        let last = start + 999_999;
        assert!(
            ledger.stamp(&stamp(StampEvent::Sent, last, 1_600_000_000, 40), &clock, unused_stats).is_empty()
        );
        assert!(
            ledger.stamp(&stamp(StampEvent::Wire, last, 1_610_000_000, 40), &clock, unused_stats).is_empty()
        );
        assert!(
            ledger.stamp(&stamp(StampEvent::Sent, last, 1_700_000_000, 1), &clock, unused_stats).is_empty()
        );
        assert!(
            ledger
                .stamp(&stamp(StampEvent::Acked, last - 1, 1_750_000_000, 1), &clock, unused_stats)
                .is_empty()
        );
        let finished = ledger.stamp(&stamp(StampEvent::Acked, last, 1_800_000_000, 2), &clock, unused_stats);
        assert_eq!(finished.len(), 1);
        let buffer = &finished[0];
        assert_eq!((buffer.connection, buffer.index, buffer.bytes, buffer.cwnd), (3, 7, 1_000_000, 40));
        assert_eq!(buffer.sent_mono_ns, Some(1_600_000_000));
        assert_eq!(buffer.wire_mono_ns, Some(1_610_000_000));
        assert_eq!(buffer.acked_mono_ns, 1_800_000_000);
        assert_eq!(buffer.throughput_bps, 10_000_000);
        assert_eq!(buffer.source, BufferSource::Timestamps);
        assert_eq!((ledger.acked(), ledger.is_empty()), (start + 1_000_000, true));
    }

    #[test]
    fn carried_bytes_include_those_before_the_buffer() {
        let clock = Clock::new(reading(10_000_000_000));
        let mut ledger = Ledger::new(0);
        ledger.add(PendingBuffer {
            acked_at_first_write: 800_000,
            ..pending_buffer(1, 1_000_000, 2_000_000, 0)
        });
        ledger.stamp(&stamp(StampEvent::Sent, 1_999_999, 900_000_000, 9), &clock, unused_stats);
        let finished =
            ledger.stamp(&stamp(StampEvent::Acked, 1_999_999, 1_000_000_000, 9), &clock, unused_stats);
        assert_eq!((finished[0].throughput_bps, finished[0].carried_bps), (8_000_000, 9_600_000));
    }

    #[test]
    fn a_lost_timestamp_is_replaced_and_marked() {
        let clock = Clock::new(reading(10_000_000_000));
        let mut ledger = Ledger::new(0);
        ledger.add(pending_buffer(0, 0, 100, 0));
        ledger.add(pending_buffer(1, 100, 200, 10));
        ledger.stamp(&stamp(StampEvent::Sent, 199, 500, 8), &clock, unused_stats);
        let tcp_info_stats = || Stats { cwnd: Some(5), ..Default::default() };
        let finished = ledger.stamp(&stamp(StampEvent::Acked, 199, 1000, 8), &clock, tcp_info_stats);
        assert_eq!(finished.len(), 2);
        assert_eq!(
            (finished[0].source, finished[0].cwnd, finished[0].sent_mono_ns),
            (BufferSource::TcpInfo, 5, None)
        );
        assert_eq!((finished[1].source, finished[1].cwnd), (BufferSource::Timestamps, 8));
    }

    #[test]
    fn polling_reports_sending_and_acknowledgement() {
        let clock = Clock::new(reading(0));
        let mut ledger = Ledger::new(0);
        ledger.add(pending_buffer(0, 0, 1000, 5));
        let polled = |cwnd, sent, acked, mono_ns| Polled {
            info: TcpInfo { cwnd, ssthresh: SSTHRESH_INFINITE, ..Default::default() },
            mono_ns,
            sent: Some(sent),
            acked,
        };
        assert!(ledger.poll(&polled(10, 999, 500, 100), &clock).is_empty());
        assert!(ledger.poll(&polled(11, 1000, 600, 200), &clock).is_empty());
        assert!(ledger.poll(&polled(12, 1000, 999, 300), &clock).is_empty());
        let finished = ledger.poll(&polled(13, 1000, 1000, 405), &clock);
        let buffer = &finished[0];
        assert_eq!((buffer.cwnd, buffer.sent_mono_ns, buffer.acked_mono_ns), (11, Some(200), 405));
        assert_eq!((buffer.ssthresh, buffer.source), (None, BufferSource::TcpInfo));
    }
}
