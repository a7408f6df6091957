//! What happened to a flow, why and where, and what the connection looked like then.

use crate::{FlowId, Place};
use serde::{Deserialize, Serialize};

/// State of the sender's congestion machine (`icsk_ca_state`, `enum tcp_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaState {
    /// 0: nothing dubious.
    #[default]
    Open = 0,
    /// 1: duplicate ACKs or SACKs arrived; reordering or a first sign of loss.
    Disorder = 1,
    /// 2: the window is being reduced, by ECN or because the device's own queue refused a packet.
    Cwr = 2,
    /// 3: fast retransmission is under way.
    Recovery = 3,
    /// 4: a retransmission timeout (or SACK reneging) happened.
    Loss = 4,
}

impl CaState {
    /// Every state, in the kernel's order.
    pub const ALL: [CaState; 5] =
        [CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery, CaState::Loss];

    /// From the kernel's number.
    pub fn from_kernel(number: u8) -> Option<CaState> {
        CaState::ALL.get(number as usize).copied()
    }

    /// The kernel's name without its prefix.
    pub fn name(self) -> &'static str {
        match self {
            CaState::Open => "open",
            CaState::Disorder => "disorder",
            CaState::Cwr => "cwr",
            CaState::Recovery => "recovery",
            CaState::Loss => "loss",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<CaState> {
        CaState::ALL.into_iter().find(|state| state.name() == name)
    }
}

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $number:literal $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[repr(u8)]
        pub enum $name { $($(#[$vmeta])* $variant = $number,)* }

        impl $name {
            /// Every value.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word used in recordings and on screens.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// The value of that word.
            pub fn from_name(name: &str) -> Option<$name> {
                match name { $($word => Some($name::$variant),)* _ => None }
            }
        }
    };
}

words! {
    /// What kind of record an event is.
    Kind {
        /// The state at an ACK (before the ACK is processed, as `tcp:tcp_probe` sees it) or at a poll.
        #[default]
        Sample = 0 "sample",
        /// `ca_state` changed, from `ca_before` to `ca_state`.
        State = 1 "state",
        /// A segment was sent again.
        Retransmit = 2 "retransmit",
        /// A retransmission timeout fired: a change of state from `ca_before` to Loss; while in Loss already, the
        /// next timeout.
        Timeout = 3 "timeout",
        /// The kernel found that segments were reordered, not lost (`reord_seen` grew).
        Reordering = 4 "reordering",
        /// A reduction of the window was undone (`tcp_undo_cwnd_reduction`) without a change of state; where the
        /// state changes with it, that record has [`Reason::Undo`].
        Undo = 5 "undo",
        /// The connection was established.
        Open = 6 "open",
        /// The connection is gone.
        Close = 7 "close",
        /// The congestion control was changed; the flow's new identity precedes the event.
        Control = 8 "control",
    }
}

words! {
    /// Why.
    Reason {
        /// Nothing to say: a plain sample, or the cause could not be told.
        #[default]
        None = 0 "",
        /// Duplicate ACKs or SACKs arrived (state change to Disorder).
        DupAck = 1 "dup-ack",
        /// The other end echoed Congestion Experienced (ECE).
        Ecn = 2 "ecn",
        /// The device's own queue refused a packet (`net_xmit` error in `__tcp_transmit_skb`): the papers'
        /// *local device congestion*.
        LocalCongestion = 3 "local-congestion",
        /// Loss was inferred from duplicate ACKs, SACKs or RACK: fast retransmission.
        FastRetransmit = 4 "fast-retransmit",
        /// The retransmission timer fired.
        Timeout = 5 "timeout",
        /// Tail-loss probe.
        TailLossProbe = 6 "tail-loss-probe",
        /// Retransmission in the slow start that follows a timeout.
        LossRecovery = 7 "loss-recovery",
        /// The receiver dropped data that it had SACKed.
        SackReneging = 8 "sack-reneging",
        /// All that was outstanding when the trouble began is acknowledged.
        Recovered = 9 "recovered",
        /// The reduction was found to be needless (Eifel, DSACK, F-RTO).
        Undo = 10 "undo",
        /// Disorder ended without loss.
        Resolved = 11 "resolved",
        /// Path MTU changed (`tcp_simple_retransmit`).
        Mtu = 12 "mtu",
        /// This end opened the connection.
        Opened = 13 "opened",
        /// The other end opened the connection.
        Accepted = 14 "accepted",
        /// The socket was destroyed after an orderly close.
        Closed = 15 "closed",
        /// The connection ended by a reset or an error.
        Reset = 16 "reset",
        /// The connection ended because retransmissions were exhausted or it was idle for too long.
        TimedOut = 17 "timed-out",
        /// A program or the kernel chose another congestion control.
        Chosen = 18 "chosen",
        /// The record that told of the close was lost; a census found the connection gone. The event's time is that
        /// of the census, at which all is unknown but the flow: it closed between its record before and then.
        CloseNotSeen = 19 "close-not-seen",
    }
}

/// Signs seen at this record or, where samples were thinned, since the flow's previous record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Marks(pub u16);

impl Marks {
    /// A duplicate ACK (RFC 5681 section 2: no data, same ack number and window, data outstanding).
    pub const DUP_ACK: Marks = Marks(1);
    /// An ACK carried SACK blocks (RFC 2018).
    pub const SACK: Marks = Marks(2);
    /// An ACK reported a duplicate arrival (RFC 2883).
    pub const DSACK: Marks = Marks(4);
    /// An ACK carried ECE.
    pub const ECE: Marks = Marks(8);
    /// The last delivery-rate sample was limited by the application (`rate_app_limited`).
    pub const APP_LIMITED: Marks = Marks(16);
    /// `ssthresh` differs from the flow's previous record.
    pub const SSTHRESH: Marks = Marks(32);
    /// The record was polled from `TCP_INFO`, not taken at an event: what happened between two polls shows
    /// only as a difference.
    pub const SAMPLED: Marks = Marks(64);
    /// The application waits for room in the send buffer (SOCK_NOSPACE), and nothing is unsent.
    pub const NO_SPACE: Marks = Marks(128);
    /// The congestion window was full within the last round trip (`is_cwnd_limited`).
    pub const CWND_LIMITED: Marks = Marks(256);
    /// TCP small queues hold segments back: enough of them lie in the device's queue (TSQ_THROTTLED).
    pub const THROTTLED: Marks = Marks(512);
    /// Those that belong to [`Sender`]: they stand for nothing where [`Sender::has_marks`] is false.
    pub const OF_SENDER: Marks = Marks(128 | 256 | 512);
    /// Every mark with its word, in the order of their bits.
    pub const ALL: [(Marks, &'static str); 10] = [
        (Marks::DUP_ACK, "dup-ack"),
        (Marks::SACK, "sack"),
        (Marks::DSACK, "dsack"),
        (Marks::ECE, "ece"),
        (Marks::APP_LIMITED, "app-limited"),
        (Marks::SSTHRESH, "ssthresh"),
        (Marks::SAMPLED, "sampled"),
        (Marks::NO_SPACE, "no-space"),
        (Marks::CWND_LIMITED, "cwnd-limited"),
        (Marks::THROTTLED, "throttled"),
    ];

    /// Whether all of `other` is set.
    pub fn contains(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets all of `other`.
    pub fn insert(&mut self, other: Marks) {
        self.0 |= other.0;
    }

    /// The words of the marks that are set.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        Marks::ALL.into_iter().filter(move |(mark, _)| self.contains(*mark)).map(|(_, word)| word)
    }
}

/// How often something happened since the flow's previous record (saturating).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Segments received that passed `tcp:tcp_probe`, this one included: ACKs for a sender, data for a receiver.
    pub acks: u16,
    /// Duplicate ACKs.
    pub dup_acks: u16,
    /// ACKs with SACK blocks.
    pub sacks: u16,
    /// ACKs with a DSACK.
    pub dsacks: u16,
}

/// The connection's variables, under the kernel's names (`struct tcp_sock`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Congestion window, segments (`snd_cwnd`).
    pub cwnd: u32,
    /// Slow start threshold, segments (`snd_ssthresh`); `Snapshot::SSTHRESH_INFINITE` until the first reduction.
    pub ssthresh: u32,
    /// Smoothed RTT, microseconds (`srtt_us >> 3`); 0 before the first measurement.
    pub srtt_us: u32,
    /// Mean deviation of the RTT, microseconds (`mdev_us >> 2`, as `TCP_INFO` reports `tcpi_rttvar`).
    pub rttvar_us: u32,
    /// Minimum RTT within the kernel's window (`rtt_min`, 300 s by default), microseconds; `u32::MAX` before the first.
    pub min_rtt_us: u32,
    /// Segments sent and not yet cumulatively acknowledged (`packets_out`).
    pub packets_out: u32,
    /// Segments selectively acknowledged (`sacked_out`).
    pub sacked_out: u32,
    /// Segments held lost (`lost_out`).
    pub lost_out: u32,
    /// Retransmitted segments outstanding (`retrans_out`).
    pub retrans_out: u32,
    /// Maximum segment size for sending, bytes (`mss_cache`).
    pub mss: u32,
    /// The other end's advertised window, bytes (`snd_wnd`).
    pub snd_wnd: u32,
    /// Our advertised window, bytes (`rcv_wnd`).
    pub rcv_wnd: u32,
    /// Memory of the send queue, bytes, with the kernel's overhead (`sk_wmem_queued`); 0 where polled.
    pub wmem_queued: u32,
    /// Bytes written by the application and not yet sent (`write_seq - snd_nxt`).
    pub notsent: u32,
    /// Bytes acknowledged since the start (`bytes_acked`).
    pub bytes_acked: u64,
    /// Bytes received in order since the start (`bytes_received`).
    pub bytes_received: u64,
    /// Delivery rate of the last sample, bits per second of payload (`rate_delivered` × mss / `rate_interval_us`).
    pub delivery_rate_bps: u64,
    /// Pacing rate, bits per second (`sk_pacing_rate`); `u64::MAX` when unlimited.
    pub pacing_rate_bps: u64,
    /// Retransmissions since the start (`total_retrans`).
    pub total_retrans: u32,
    /// The kernel's measure of reordering, segments (`reordering`).
    pub reordering: u32,
    /// What keeps the sender from sending.
    pub sender: Sender,
}

/// What keeps a sender from sending: its buffer, its pacing, what its windows once were. Polled sockets tell a part of it,
/// recordings of before nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sender {
    /// Limit of the send queue's memory, bytes (`sk_sndbuf`); 0 where unknown.
    pub sndbuf: u32,
    /// Memory of what lies in the device and its queueing discipline, bytes (`sk_wmem_alloc`); `u32::MAX` where unknown.
    pub wmem_alloc: u32,
    /// Bytes sent and not cumulatively acknowledged (`snd_nxt - snd_una`); `u32::MAX` where unknown.
    pub outstanding_bytes: u32,
    /// The largest window that the other end ever advertised, bytes (`max_window`); 0 where unknown.
    pub max_window: u32,
    /// Congestion window before the last loss, segments (`prior_cwnd`), 0 before the first; `u32::MAX` where unknown.
    pub prior_cwnd: u32,
    /// For how long pacing still holds the next segment, microseconds (`tcp_wstamp_ns`), 0 where it does not;
    /// `u32::MAX` where unknown.
    pub pacing_wait_us: u32,
}

impl Sender {
    /// Nothing is known.
    pub const UNKNOWN: Sender = Sender {
        sndbuf: 0,
        wmem_alloc: u32::MAX,
        outstanding_bytes: u32::MAX,
        max_window: 0,
        prior_cwnd: u32::MAX,
        pacing_wait_us: u32::MAX,
    };

    /// Whether whoever made the record also looked for [`Marks::OF_SENDER`].
    pub fn has_marks(&self) -> bool {
        self.pacing_wait_us != u32::MAX
    }
}

impl Default for Sender {
    fn default() -> Self {
        Sender::UNKNOWN
    }
}

impl Snapshot {
    /// Nothing is known.
    pub const UNKNOWN: Snapshot = Snapshot {
        cwnd: 0,
        ssthresh: Snapshot::SSTHRESH_INFINITE,
        srtt_us: 0,
        rttvar_us: 0,
        min_rtt_us: u32::MAX,
        packets_out: 0,
        sacked_out: 0,
        lost_out: 0,
        retrans_out: 0,
        mss: 0,
        snd_wnd: 0,
        rcv_wnd: 0,
        wmem_queued: 0,
        notsent: 0,
        bytes_acked: 0,
        bytes_received: 0,
        delivery_rate_bps: 0,
        pacing_rate_bps: u64::MAX,
        total_retrans: 0,
        reordering: 0,
        sender: Sender::UNKNOWN,
    };

    /// `TCP_INFINITE_SSTHRESH`.
    pub const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;

    /// Segments in flight: `packets_out - (sacked_out + lost_out) + retrans_out`
    /// (`tcp_packets_in_flight`, RFC 6675's pipe).
    pub fn in_flight(&self) -> u32 {
        self.packets_out
            .saturating_add(self.retrans_out)
            .saturating_sub(self.sacked_out.saturating_add(self.lost_out))
    }

    /// ssthresh where there is one.
    pub fn finite_ssthresh(&self) -> Option<u32> {
        (self.ssthresh < Self::SSTHRESH_INFINITE).then_some(self.ssthresh)
    }

    /// Smoothed RTT where one was measured.
    pub fn measured_srtt_us(&self) -> Option<u32> {
        (self.srtt_us > 0).then_some(self.srtt_us)
    }

    /// Minimum RTT where one was measured.
    pub fn measured_min_rtt_us(&self) -> Option<u32> {
        (self.min_rtt_us != u32::MAX && self.min_rtt_us > 0).then_some(self.min_rtt_us)
    }
}

/// A record of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Event {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub mono_ns: u64,
    /// Whose.
    pub flow: FlowId,
    /// What.
    pub kind: Kind,
    /// Why.
    pub reason: Reason,
    /// Where in the kernel.
    pub place: Place,
    /// State of the congestion machine: for [`Kind::State`] the new one.
    pub ca_state: CaState,
    /// For [`Kind::State`] and [`Kind::Timeout`] the former one; else the same as `ca_state`.
    pub ca_before: CaState,
    /// Signs since the previous record.
    pub marks: Marks,
    /// Counts since the previous record.
    pub counts: Counts,
    /// The connection's variables.
    pub snapshot: Snapshot,
    /// CPU on which it happened; 0 where polled.
    pub cpu: u16,
}

impl Event {
    /// The close of a flow that a census found gone.
    pub fn close_not_seen(flow: FlowId, mono_ns: u64, place: Place) -> Event {
        let kind = Kind::Close;
        let reason = Reason::CloseNotSeen;
        Event { mono_ns, flow, kind, reason, place, snapshot: Snapshot::UNKNOWN, ..Event::default() }
    }

    /// Whether the connection's variables are known at this event; if not, [`Event::snapshot`] and the like stand
    /// for nothing.
    pub fn has_snapshot(&self) -> bool {
        self.reason != Reason::CloseNotSeen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for &kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
        }
        for &reason in Reason::ALL {
            assert_eq!(Reason::from_name(reason.name()), Some(reason));
        }
        for state in CaState::ALL {
            assert_eq!(CaState::from_name(state.name()), Some(state));
            assert_eq!(CaState::from_kernel(state as u8), Some(state));
        }
        assert_eq!(CaState::from_kernel(5), None);
    }

    #[test]
    fn in_flight_is_rfc_6675_pipe() {
        let snapshot =
            Snapshot { packets_out: 10, sacked_out: 3, lost_out: 2, retrans_out: 1, ..Default::default() };
        assert_eq!(snapshot.in_flight(), 6);
    }
}
