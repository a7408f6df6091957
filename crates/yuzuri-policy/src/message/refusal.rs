//! Why a message was not believed.

use std::fmt;

/// Why a message was refused. Each has a counter ([`Counts`](crate::Counts)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// Longer than any message is.
    Oversized,
    /// Cut short, too long for its kind, or with bits that mean nothing.
    Malformed,
    /// Another version of the protocol.
    Version,
    /// Another group's.
    Group,
    /// Without a key, but this group has one.
    Keyless,
    /// With a key, but this group has none.
    Keyed,
    /// The tag is wrong: another key, or changed on its way.
    Tag,
    /// Under a key that was replaced to shut a member out: of that member, or of one that was not told the new key yet.
    RetiredKey,
    /// A value that cannot be: a rate beyond any radio's, an interval out of range.
    Range,
    /// Values that do not go together: more senders than members, a share above the whole.
    Contradictory,
    /// Our own, come back.
    Own,
    /// For another member.
    Misdirected,
    /// Seen before, or so old that nobody knows whether it was.
    Replay,
    /// Of a session that is over, or that has not proved yet that it is not.
    Epoch,
    /// Of a session that has not answered a challenge, where that matters.
    Unproved,
    /// A report, but this member does not lead.
    NotLeader,
    /// More members than this one keeps, or than the access point has stations.
    Crowded,
    /// More than any member says: from a member that proved itself, or from an address that did not (in a group without a key: from any address).
    RateLimited,
    /// A report from the address of another member that reports.
    Address,
    /// Not from the rendezvous, but this member hears nobody else.
    Source,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Refusal; 20] = [
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
    ];

    /// The word for it on screens and in metrics.
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
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for Refusal {}
