//! The reasons for which messages are refused.

use std::fmt;

/// Why a message was refused. Each reason has a counter ([`Counts`](crate::Counts)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// Longer than the maximum message size.
    Oversized,
    /// Truncated, too long for its kind, or with undefined bits set.
    Malformed,
    /// Another protocol version.
    Version,
    /// Another group.
    Group,
    /// Sent without a key, but this group has one.
    Keyless,
    /// Sent with a key, but this group has none.
    Keyed,
    /// Invalid tag: another key, or modified in transit.
    Tag,
    /// Signed with a group key that was replaced to exclude a member: by that member, or by one
    /// that has not received the new key yet.
    RetiredKey,
    /// A value out of range, such as a rate above that of any radio or an invalid interval.
    Range,
    /// Inconsistent values, such as more senders than members or a share above the total.
    Contradictory,
    /// Our own message.
    Own,
    /// Addressed to another member.
    Misdirected,
    /// Seen before, or too old to know.
    Replay,
    /// From a session that has ended, or that has not proved its liveness.
    Epoch,
    /// From a session that has not answered a challenge, where that is required.
    Unproved,
    /// A report, but this member is not the leader.
    NotLeader,
    /// More members than the table holds, or than the access point has stations.
    Crowded,
    /// Rate limit exceeded: by a member that has proved its liveness, or by an address that has not
    /// (in a group without a key: by any address).
    RateLimited,
    /// A report from the address of another reporting member.
    Address,
    /// Not from the rendezvous, although this member uses one.
    Source,
    /// Claims to be the access point in a group without a key, where anybody can.
    Role,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Refusal; 21] = [
        Refusal::Oversized,
        Refusal::Malformed,
        Refusal::Version,
        Refusal::Group,
        Refusal::Keyless,
        Refusal::Keyed,
        Refusal::Tag,
        Refusal::RetiredKey,
        Refusal::Range,
        Refusal::Contradictory,
        Refusal::Own,
        Refusal::Misdirected,
        Refusal::Replay,
        Refusal::Epoch,
        Refusal::Unproved,
        Refusal::NotLeader,
        Refusal::Crowded,
        Refusal::RateLimited,
        Refusal::Address,
        Refusal::Source,
        Refusal::Role,
    ];

    /// The name in the status and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Oversized => "oversized",
            Refusal::Malformed => "malformed",
            Refusal::Version => "version",
            Refusal::Group => "group",
            Refusal::Keyless => "keyless",
            Refusal::Keyed => "keyed",
            Refusal::Tag => "tag",
            Refusal::RetiredKey => "retired-key",
            Refusal::Range => "range",
            Refusal::Contradictory => "contradictory",
            Refusal::Own => "own",
            Refusal::Misdirected => "misdirected",
            Refusal::Replay => "replay",
            Refusal::Epoch => "epoch",
            Refusal::Unproved => "unproved",
            Refusal::NotLeader => "not-leader",
            Refusal::Crowded => "crowded",
            Refusal::RateLimited => "rate-limited",
            Refusal::Address => "address",
            Refusal::Source => "source",
            Refusal::Role => "role",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for Refusal {}
