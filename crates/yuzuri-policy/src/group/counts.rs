//! Counters of received, refused and sent messages.

use crate::{Kind, Refusal};

/// Counters since the member was created. `received = accepted + refused`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    accepted: [u64; Kind::ALL.len()],
    sent: [u64; Kind::ALL.len()],
    refused: [u64; Refusal::ALL.len()],
    /// Datagrams received.
    pub received: u64,
    /// Rendezvous cookies accepted; counted in neither sum.
    pub cookies: u64,
    /// Messages accepted under the second key; part of `accepted`.
    pub by_other_key: u64,
    /// Bytes sent, excluding UDP and IP headers.
    pub sent_bytes: u64,
    /// Outgoing messages dropped because the queue was full.
    pub overflowed: u64,
    /// How often this member became leader.
    pub led: u64,
    /// How often it drew a new ID because another member had the same.
    pub redrawn: u64,
}

impl Counts {
    /// Accepted messages of one kind.
    pub fn accepted(&self, kind: Kind) -> u64 {
        self.accepted[kind as usize]
    }

    /// Sent messages of one kind.
    pub fn sent(&self, kind: Kind) -> u64 {
        self.sent[kind as usize]
    }

    /// Messages refused for one reason.
    pub fn refused(&self, why: Refusal) -> u64 {
        self.refused[why as usize]
    }

    /// All accepted messages.
    pub fn accepted_total(&self) -> u64 {
        self.accepted.iter().sum()
    }

    /// All sent messages.
    pub fn sent_total(&self) -> u64 {
        self.sent.iter().sum()
    }

    /// All refused messages.
    pub fn refused_total(&self) -> u64 {
        self.refused.iter().sum()
    }

    pub(super) fn accept(&mut self, kind: Kind) {
        self.accepted[kind as usize] += 1;
    }

    pub(super) fn send(&mut self, kind: Kind, bytes: usize) {
        self.sent[kind as usize] += 1;
        self.sent_bytes += bytes as u64;
    }

    pub(super) fn refuse(&mut self, why: Refusal) {
        self.refused[why as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_counter() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
        for (place, why) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, place);
        }
    }
}
