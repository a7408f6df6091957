//! What happened to a flow, why and where, and the state of the connection at that time.

use crate::{CaState, Counts, FlowId, Place, Snapshot};
use serde::{Deserialize, Serialize};

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
        /// The state at an ACK (before the ACK is processed, as in `tcp:tcp_probe`) or at a poll.
        #[default]
        Sample = 0 "sample",
        /// `ca_state` changed, from `ca_before` to `ca_state`.
        State = 1 "state",
        /// A segment was retransmitted.
        Retransmit = 2 "retransmit",
        /// A retransmission timeout fired: a change of state from `ca_before` to Loss, or in Loss,
        /// the next timeout.
        Timeout = 3 "timeout",
        /// The kernel found that segments were reordered, not lost (`reord_seen` grew).
        Reordering = 4 "reordering",
        /// A reduction of the window was undone (`tcp_undo_cwnd_reduction`) without a change of
        /// state; if the state changes as well, that record has [`Reason::Undo`].
        Undo = 5 "undo",
        /// The connection was established.
        Open = 6 "open",
        /// The connection is closed.
        Close = 7 "close",
        /// The congestion control was changed; the flow's new identity precedes the event.
        Control = 8 "control",
    }
}

words! {
    /// The cause.
    Reason {
        /// No cause: a plain sample, or the cause could not be determined.
        #[default]
        None = 0 "",
        /// Duplicate ACKs or SACKs arrived (state change to Disorder).
        DupAck = 1 "dup-ack",
        /// The other end echoed Congestion Experienced (ECE).
        Ecn = 2 "ecn",
        /// The device's own queue refused a packet (`net_xmit` error in `__tcp_transmit_skb`).
        /// Papers call this *local device congestion*.
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
        /// Everything outstanding at the start of the recovery has been acknowledged.
        Recovered = 9 "recovered",
        /// The reduction was spurious (Eifel, DSACK, F-RTO).
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
        /// The record of the close was lost; a dump found the connection closed. The event's time
        /// is that of the dump, and only the flow is known: it closed between its previous record
        /// and then.
        CloseNotSeen = 19 "close-not-seen",
    }
}

/// Marks at this record or, if samples were thinned, since the flow's previous record.
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
    /// The record was polled from `TCP_INFO`, not taken at an event: changes between two polls are
    /// visible only as a difference.
    pub const SAMPLED: Marks = Marks(64);
    /// The application waits for room in the send buffer (SOCK_NOSPACE), and nothing is unsent.
    pub const NO_SPACE: Marks = Marks(128);
    /// The congestion window was full within the last round trip (`is_cwnd_limited`).
    pub const CWND_LIMITED: Marks = Marks(256);
    /// TCP small queues hold segments back: enough of them are in the device's queue
    /// (TSQ_THROTTLED).
    pub const THROTTLED: Marks = Marks(512);
    /// The marks that belong to [`crate::Sender`]: they are invalid if [`crate::Sender::has_marks`]
    /// is false.
    pub const OF_SENDER: Marks = Marks(128 | 256 | 512);
    /// The congestion window is at the upper bound that the window control enforces. Only valid
    /// with [`Marks::REPORTS_BOUND`].
    pub const AT_BOUND: Marks = Marks(1024);
    /// The flow's window control reports whether the window is at its bound. This mark has no word:
    /// without it, [`Marks::AT_BOUND`] is unknown.
    pub const REPORTS_BOUND: Marks = Marks(2048);
    /// Every mark with its word, in the order of their bits.
    pub const ALL: [(Marks, &'static str); 11] = [
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
        (Marks::AT_BOUND, "at-bound"),
    ];

    /// Whether all of `other` is set.
    pub fn contains(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the congestion window is at the window control's upper bound; `None` if the control
    /// does not report it.
    pub fn at_bound(self) -> Option<bool> {
        self.contains(Marks::REPORTS_BOUND).then(|| self.contains(Marks::AT_BOUND))
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

/// A record of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Event {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub mono_ns: u64,
    /// The flow.
    pub flow: FlowId,
    /// What happened.
    pub kind: Kind,
    /// The cause.
    pub reason: Reason,
    /// Where in the kernel it happened.
    pub place: Place,
    /// Congestion state (`icsk_ca_state`): for [`Kind::State`] the new one.
    pub ca_state: CaState,
    /// For [`Kind::State`] and [`Kind::Timeout`] the previous state; else the same as `ca_state`.
    pub ca_before: CaState,
    /// Marks since the previous record.
    pub marks: Marks,
    /// Counts since the previous record.
    pub counts: Counts,
    /// The connection's variables.
    pub snapshot: Snapshot,
    /// CPU on which it happened; 0 where polled.
    pub cpu: u16,
}

impl Event {
    /// The close of a flow that a dump found closed.
    pub fn close_not_seen(flow: FlowId, mono_ns: u64, place: Place) -> Event {
        let kind = Kind::Close;
        let reason = Reason::CloseNotSeen;
        Event { mono_ns, flow, kind, reason, place, snapshot: Snapshot::UNKNOWN, ..Event::default() }
    }

    /// Whether the connection's variables are known at this event; if not, [`Event::snapshot`] and
    /// the like are meaningless.
    pub fn has_snapshot(&self) -> bool {
        self.reason != Reason::CloseNotSeen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
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
}
