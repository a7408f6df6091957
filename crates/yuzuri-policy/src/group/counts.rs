//! What a member heard, refused and said.

use crate::{Kind, Refusal};

/// Counters since the member began. `received = accepted + refused`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    accepted: [u64; Kind::ALL.len()],
    sent: [u64; Kind::ALL.len()],
    refused: [u64; Refusal::ALL.len()],
    /// Datagrams that were handed in.
    pub received: u64,
    /// Cookies of a rendezvous that were taken; part of neither sum.
    pub cookies: u64,
    /// Messages that were believed under the key that is accepted besides the own one; part of `accepted`.
    pub by_other_key: u64,
    /// Bytes of the messages that were sent, without UDP and IP.
    pub sent_bytes: u64,
    /// Messages that nobody fetched in time.
    pub overflowed: u64,
    /// Times this member began to lead.
    pub led: u64,
    /// Times it drew another id because somebody had the same.
    pub redrawn: u64,
}

impl Counts {
    /// Messages of a kind that were believed.
    pub fn accepted(&self, kind: Kind) -> u64 {
        self.accepted[kind as usize]
    }

    /// Messages of a kind that were sent.
    pub fn sent(&self, kind: Kind) -> u64 {
        self.sent[kind as usize]
    }

    /// Messages refused for a reason.
    pub fn refused(&self, why: Refusal) -> u64 {
        self.refused[why as usize]
    }

    /// Messages that were believed.
    pub fn accepted_total(&self) -> u64 {
        self.accepted.iter().sum()
    }

    /// Messages that were sent.
    pub fn sent_total(&self) -> u64 {
        self.sent.iter().sum()
    }

    /// Messages refused.
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
    fn each_has_its_place() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
        for (place, why) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, place);
        }
    }
}
