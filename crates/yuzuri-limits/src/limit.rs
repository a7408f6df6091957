//! The limits: one for each cause that can keep a sender from sending more.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What keeps a sender from sending more at a given moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The application has no more data to send (the send queue holds no unsent data).
    Application,
    /// The application has more, but waits for room in the send buffer (`sk_sndbuf`, SOCK_NOSPACE).
    SendBuffer,
    /// The receiver's advertised window is full, and it was never much larger: its buffer is small.
    ReceiverWindow,
    /// The receiver's advertised window is full, and it was larger before or is zero: the receiving
    /// application reads slowly.
    SlowReader,
    /// The receiver's advertised window is full, and the observer does not know whether its buffer
    /// is small or its application reads slowly.
    Receiver,
    /// The congestion window is full, in slow start (cwnd below ssthresh, RFC 5681).
    SlowStart,
    /// The congestion window is full and grows in congestion avoidance, and no earlier loss limits
    /// it.
    CongestionAvoidance,
    /// The congestion window is full, and smaller than before the last loss reduced it.
    Loss,
    /// The congestion window is full at the bound that a sharing group set.
    Sharing,
    /// Fast recovery: retransmissions and segments admitted by PRR (RFC 6675, RFC 6937).
    Recovery,
    /// The retransmission timer has expired (RFC 6298), or the sender waits for it.
    Timeout,
    /// The pacing rate (SO_MAX_PACING_RATE, or the algorithm's own): data and windows have room,
    /// and the next segment waits for its time.
    Pacing,
    /// The queue of the sender's own device: CWR without ECN, or segments held back by TCP small
    /// queues.
    OwnDevice,
    /// Pacing or the sender's own device, which the observer cannot distinguish: the sender has a
    /// rate of its own, determined neither by acknowledgements nor by the path.
    SenderRate,
    /// The path: a window is full and the RTT exceeds its minimum, so a queue holds the rest.
    Path,
    /// The observations do not show it.
    Unknown,
}

impl Limit {
    /// Every limit, in the order of tables and legends.
    pub const ALL: [Limit; 16] = [
        Limit::Application,
        Limit::SendBuffer,
        Limit::ReceiverWindow,
        Limit::SlowReader,
        Limit::Receiver,
        Limit::SlowStart,
        Limit::CongestionAvoidance,
        Limit::Loss,
        Limit::Sharing,
        Limit::Recovery,
        Limit::Timeout,
        Limit::Pacing,
        Limit::OwnDevice,
        Limit::SenderRate,
        Limit::Path,
        Limit::Unknown,
    ];

    /// Its name in JSON, CSV and recordings.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Application => "application",
            Limit::SendBuffer => "send-buffer",
            Limit::ReceiverWindow => "receiver-window",
            Limit::SlowReader => "slow-reader",
            Limit::Receiver => "receiver",
            Limit::SlowStart => "slow-start",
            Limit::CongestionAvoidance => "congestion-avoidance",
            Limit::Loss => "loss",
            Limit::Sharing => "sharing",
            Limit::Recovery => "recovery",
            Limit::Timeout => "timeout",
            Limit::Pacing => "pacing",
            Limit::OwnDevice => "own-device",
            Limit::SenderRate => "sender-rate",
            Limit::Path => "path",
            Limit::Unknown => "unknown",
        }
    }

    /// Whether something other than the path and the congestion window kept the sender from
    /// sending: then its data in flight is no evidence of its congestion control algorithm.
    pub const fn is_elsewhere(self) -> bool {
        matches!(
            self,
            Limit::Application
                | Limit::SendBuffer
                | Limit::ReceiverWindow
                | Limit::SlowReader
                | Limit::Receiver
                | Limit::Pacing
                | Limit::OwnDevice
                | Limit::SenderRate
        )
    }

    /// Whether the congestion window limited the sender, so that its size is informative about the
    /// congestion control algorithm.
    pub const fn is_congestion_window(self) -> bool {
        matches!(self, Limit::SlowStart | Limit::CongestionAvoidance | Limit::Loss | Limit::Path)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is not in [`Limit::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseLimitError(pub String);

impl fmt::Display for ParseLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no limit `{}`; the names are", self.0)?;
        Limit::ALL.iter().try_for_each(|limit| write!(f, " {limit}"))
    }
}

impl std::error::Error for ParseLimitError {}

impl FromStr for Limit {
    type Err = ParseLimitError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|limit| limit.name() == name)
            .ok_or_else(|| ParseLimitError(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_read_back() {
        for limit in Limit::ALL {
            assert_eq!(limit.name().parse(), Ok(limit));
        }
        assert_eq!(
            Limit::ALL.iter().map(|limit| *limit as usize).collect::<Vec<_>>(),
            (0..Limit::ALL.len()).collect::<Vec<_>>(),
            "ALL lists each variant once, in the order of the enumeration"
        );
        let error = "window".parse::<Limit>().map_err(|error| error.to_string());
        assert!(error.is_err_and(|error| error.contains("receiver-window")));
    }
}
