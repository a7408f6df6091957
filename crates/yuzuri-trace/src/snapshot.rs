//! The numbers of a record: one list, from which the structs, a recording's columns, their table in
//! the documentation and the JSON lines are generated.

use crate::Event;
use serde::{Deserialize, Serialize};

/// Passes the list to a macro. An entry is the field and its type, then its column in a recording:
/// name, unit, source (the kernel's field, of `struct tcp_sock` unless stated otherwise), and if it
/// can be missing, the value for "missing" and the meaning of null. The order is that of the file.
macro_rules! numbers {
    ($then:ident) => {
        $then! {
            /// The connection's variables.
            #[derive(Default)]
            Snapshot (snapshot) [sender: Sender] {
                /// Congestion window.
                cwnd: u32 => cwnd, "segments", "snd_cwnd";
                /// Slow start threshold; `Snapshot::SSTHRESH_INFINITE` until the first reduction.
                ssthresh: u32 => ssthresh, "segments", "snd_ssthresh", null Snapshot::SSTHRESH_INFINITE, "infinite: no reduction so far";
                /// Smoothed RTT; 0 before the first measurement.
                srtt_us: u32 => srtt_us, "us", "srtt_us >> 3", null 0, "not measured yet";
                /// Mean deviation of the RTT, as `TCP_INFO` reports `tcpi_rttvar`.
                rttvar_us: u32 => rttvar_us, "us", "mdev_us >> 2";
                /// Minimum RTT within the kernel's window (300 s by default); `u32::MAX` before the
                /// first.
                min_rtt_us: u32 => min_rtt_us, "us", "rtt_min", null u32::MAX, "not measured yet";
                /// Delivery rate of the last sample, payload.
                delivery_rate_bps: u64 => delivery_rate_bps, "bit/s", "rate_delivered * mss_cache * 8 / rate_interval_us";
                /// Pacing rate; `u64::MAX` when unlimited.
                pacing_rate_bps: u64 => pacing_rate_bps, "bit/s", "sk_pacing_rate * 8", null u64::MAX, "unlimited";
                /// Segments sent and not yet cumulatively acknowledged.
                packets_out: u32 => packets_out, "segments", "packets_out";
                /// Segments selectively acknowledged.
                sacked_out: u32 => sacked_out, "segments", "sacked_out";
                /// Segments marked lost.
                lost_out: u32 => lost_out, "segments", "lost_out";
                /// Retransmitted segments outstanding.
                retrans_out: u32 => retrans_out, "segments", "retrans_out";
                /// Retransmissions since the start.
                total_retrans: u32 => total_retrans, "segments", "total_retrans";
                /// The kernel's measure of reordering.
                reordering: u32 => reordering, "segments", "reordering";
                /// Maximum segment size for sending.
                mss: u32 => mss_bytes, "bytes", "mss_cache";
                /// The other end's advertised window; `u32::MAX` where unknown, or where it never
                /// limits (a simulated receiver).
                snd_wnd: u32 => snd_wnd_bytes, "bytes", "snd_wnd", null u32::MAX, "unknown, or never limits (simulated)";
                /// Our advertised window.
                rcv_wnd: u32 => rcv_wnd_bytes, "bytes", "rcv_wnd";
                /// Memory of the send queue, with the kernel's overhead.
                wmem_queued: u32 => wmem_queued_bytes, "bytes", "sk_wmem_queued";
                /// Written by the application and not yet sent; `u32::MAX` where unknown.
                notsent: u32 => notsent_bytes, "bytes", "write_seq - snd_nxt", null u32::MAX, "unknown";
                /// Acknowledged since the start.
                bytes_acked: u64 => bytes_acked, "bytes", "bytes_acked";
                /// Received in order since the start.
                bytes_received: u64 => bytes_received, "bytes", "bytes_received";
            }
            /// What can limit a sender: its send buffer, its pacing, the largest of its windows.
            /// Polled sockets report some of these values, older recordings none.
            Sender (snapshot.sender) [] {
                /// Limit of the send queue's memory; 0 where unknown.
                sndbuf: u32 => sndbuf_bytes, "bytes", "sk_sndbuf: limit of wmem_queued_bytes", null 0, "unknown";
                /// Memory of the segments in the device and its queueing discipline; `u32::MAX`
                /// where unknown.
                wmem_alloc: u32 => wmem_alloc_bytes, "bytes", "sk_wmem_alloc: memory of what the device holds", null u32::MAX, "unknown";
                /// Sent and not cumulatively acknowledged; `u32::MAX` where unknown.
                outstanding_bytes: u32 => outstanding_bytes, "bytes", "snd_nxt - snd_una; not where polled", null u32::MAX, "unknown";
                /// The largest window that the other end ever advertised; 0 where unknown.
                max_window: u32 => max_window_bytes, "bytes", "max_window: the largest snd_wnd; not where polled", null 0, "unknown";
                /// Congestion window before the last loss, 0 before the first; `u32::MAX` where
                /// unknown.
                prior_cwnd: u32 => prior_cwnd, "segments", "prior_cwnd: cwnd before the last loss, 0 before the first; not where polled", null u32::MAX, "unknown";
                /// For how long pacing still delays the next segment; `u32::MAX` where unknown.
                pacing_wait_us: u32 => pacing_wait_us, "us", "tcp_wstamp_ns: how long pacing still holds the next segment; not where polled", null u32::MAX, "unknown";
                /// The shift of the other end's window; `u32::MAX` where unknown.
                snd_wscale: u32 => snd_wscale, "bits", "rx_opt.snd_wscale, 0 without window scaling; only where polled", null u32::MAX, "unknown";
                /// The kernel's chronographs since the connection began: for how long data was
                /// unsent or unacknowledged; `u64::MAX` where unknown.
                busy_us: u64 => busy_us, "us", "chrono_stat: unsent or unacknowledged data; only where polled", null u64::MAX, "unknown";
                /// Of this, for how long the receiver's window was full.
                rwnd_limited_us: u64 => rwnd_limited_us, "us", "chrono_stat: the receiver's window was full; only where polled", null u64::MAX, "unknown";
                /// Of this, for how long the send buffer was full.
                sndbuf_limited_us: u64 => sndbuf_limited_us, "us", "chrono_stat: the send buffer was full; only where polled", null u64::MAX, "unknown";
            }
            /// How often something happened since the flow's previous record (saturating).
            #[derive(Default)]
            Counts (counts) [] {
                /// Segments received that passed `tcp:tcp_probe`: ACKs for a sender, data for a
                /// receiver.
                acks: u16 => acks, "segments", "segments received since the flow's previous record, this one included";
                /// Duplicate ACKs.
                dup_acks: u16 => dup_acks, "segments", "duplicate ACKs since the previous record";
                /// ACKs with SACK blocks.
                sacks: u16 => sacks, "segments", "ACKs with SACK blocks since the previous record";
                /// ACKs with a DSACK.
                dsacks: u16 => dsacks, "segments", "ACKs with a DSACK since the previous record";
            }
        }
    };
}
pub(crate) use numbers;

/// The value for "missing": the entry's own, else 0.
macro_rules! absent {
    () => {
        0
    };
    ($null:expr) => {
        $null
    };
}
pub(crate) use absent;

/// The part of an event that a group of entries describes.
macro_rules! of {
    ($event:expr, ($($path:ident).+)) => {
        $event.$($path).+
    };
}
pub(crate) use of;

macro_rules! structs {
    ($(
        $(#[$about:meta])*
        $type:ident $path:tt [$($part:ident: $part_type:ident)?] {$(
            $(#[$field_about:meta])*
            $field:ident: $native:ty => $column:ident, $unit:literal, $source:literal $(, null $null:expr, $meaning:literal)?;
        )*}
    )*) => {
        $(
            $(#[$about])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
            pub struct $type {
                $(
                    $(#[$field_about])*
                    #[doc = concat!("\n\nUnit: ", $unit, ". Source: `", $source, "`.")]
                    pub $field: $native,
                )*
                $(
                    #[doc = concat!("See [`", stringify!($part_type), "`].")]
                    pub $part: $part_type,
                )?
            }

            impl $type {
                /// All values unknown.
                pub const UNKNOWN: $type = $type {
                    $($field: absent!($($null)?),)*
                    $($part: $part_type::UNKNOWN,)?
                };
            }
        )*

        impl Event {
            /// Every number of the record by its column's name (docs/recording-format.md); `None`
            /// where it is missing.
            pub fn numbers(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> {
                [$($({
                    let value = of!(self, $path).$field;
                    #[allow(unused_mut, unused_assignments)]
                    let mut known = true;
                    $(known = value != $null;)?
                    (stringify!($column), known.then_some(u64::from(value)))
                },)*)*]
                .into_iter()
            }

            /// Sets every number to the result of `value` for its column's name, truncated to the
            /// field's type.
            pub fn set_numbers(&mut self, mut value: impl FnMut(&'static str) -> u64) {
                $({
                    let part = &mut of!(self, $path);
                    $(part.$field = value(stringify!($column)) as $native;)*
                })*
            }
        }
    };
}

numbers!(structs);

impl Sender {
    /// Whether the source of the record also checked [`crate::Marks::OF_SENDER`].
    pub fn has_marks(&self) -> bool {
        self.pacing_wait_us != u32::MAX
    }

    /// Whether the source of the record has read the kernel's chronographs (`TCP_INFO`).
    pub fn has_chronographs(&self) -> bool {
        self.busy_us != u64::MAX
    }
}

impl Default for Sender {
    fn default() -> Self {
        Sender::UNKNOWN
    }
}

impl Snapshot {
    /// `TCP_INFINITE_SSTHRESH`.
    pub const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;

    /// Segments in flight: `packets_out - (sacked_out + lost_out) + retrans_out`
    /// (`tcp_packets_in_flight`, RFC 6675's pipe).
    pub fn in_flight(&self) -> u32 {
        self.packets_out
            .saturating_add(self.retrans_out)
            .saturating_sub(self.sacked_out.saturating_add(self.lost_out))
    }

    /// ssthresh, if it is finite.
    pub fn finite_ssthresh(&self) -> Option<u32> {
        (self.ssthresh < Self::SSTHRESH_INFINITE).then_some(self.ssthresh)
    }

    /// Smoothed RTT, if it was measured.
    pub fn measured_srtt_us(&self) -> Option<u32> {
        (self.srtt_us > 0).then_some(self.srtt_us)
    }

    /// Written by the application and not yet sent, bytes, if it is known.
    pub fn known_notsent_bytes(&self) -> Option<u32> {
        (self.notsent != u32::MAX).then_some(self.notsent)
    }

    /// The other end's advertised window, bytes, if it is known and can limit.
    pub fn known_snd_wnd_bytes(&self) -> Option<u32> {
        (self.snd_wnd != u32::MAX).then_some(self.snd_wnd)
    }

    /// Minimum RTT, if it was measured.
    pub fn measured_min_rtt_us(&self) -> Option<u32> {
        (self.min_rtt_us != u32::MAX && self.min_rtt_us > 0).then_some(self.min_rtt_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_flight_is_rfc_6675_pipe() {
        let snapshot =
            Snapshot { packets_out: 10, sacked_out: 3, lost_out: 2, retrans_out: 1, ..Default::default() };
        assert_eq!(snapshot.in_flight(), 6);
    }

    #[test]
    fn unknown_values_are_missing_where_the_list_has_a_word_for_it() {
        let event = Event { snapshot: Snapshot::UNKNOWN, ..Event::default() };
        for (name, value) in event.numbers() {
            let column = crate::recording::COLUMNS.iter().find(|column| column.name == name);
            assert_eq!(column.map(|column| column.null.is_empty()), Some(value.is_some()), "{name}");
        }
    }

    #[test]
    fn numbers_that_are_set_are_listed() {
        let mut event = Event::default();
        event.set_numbers(|name| name.len() as u64);
        assert_eq!(event.snapshot.cwnd, 4);
        assert_eq!(event.snapshot.sender.prior_cwnd, 10);
        assert!(event.numbers().all(|(name, value)| value == Some(name.len() as u64)));
    }
}
