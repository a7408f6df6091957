//! A member's settings, and the group's timers.

use super::Randomness;
use crate::{GroupId, Key, NodeId, Notices};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Most members that a member keeps; the others are refused and counted.
pub const MAX_MEMBERS: usize = 1024;
/// Rank of a member that nobody gave another one.
pub const COMMON_RANK: u8 = 128;

/// Settings of a [`Member`](super::Member).
#[derive(Debug, Clone)]
pub struct MemberConfig {
    /// Who this is; not 0. Drawn at random once and kept.
    pub node: NodeId,
    /// The group: the access point it is behind.
    pub group: GroupId,
    /// What proves membership.
    pub key: Option<Key>,
    /// A second key that is accepted, and nothing is sent with: [`Keys::accepts`](super::Keys).
    pub accepts: Option<Key>,
    /// What tells others the group's next key: [`Keys::notices`](super::Keys).
    pub notices: Option<Arc<Notices>>,
    /// Without a key, be in a group of those that have none: anybody on the network can then say anything. Ignored with a key.
    pub allow_keyless: bool,
    /// This session: another one after each start ([`epoch`](crate::epoch) makes one).
    pub epoch: u64,
    /// What random numbers come from.
    pub random: Randomness,
    /// The lower, the rather it leads among those that send: for terminals on mains power, say.
    pub rank: u8,
    /// Stations of the access point as it tells (BSS Load element, vendor interfaces), this one included, where it does: no more are
    /// believed to send.
    pub station_count: Option<u16>,
    /// A relay for networks where terminals do not hear each other. Everything is then sent there, and nothing heard from elsewhere.
    pub rendezvous: Option<SocketAddr>,
}

impl MemberConfig {
    /// The usual settings.
    pub fn new(
        node: NodeId,
        group: GroupId,
        key: Option<Key>,
        epoch: u64,
        random: impl Into<Randomness>,
    ) -> MemberConfig {
        let (allow_keyless, station_count, rendezvous) = (false, None, None);
        MemberConfig {
            node,
            group,
            key,
            accepts: None,
            notices: None,
            allow_keyless,
            epoch,
            random: random.into(),
            rank: COMMON_RANK,
            station_count,
            rendezvous,
        }
    }
}

/// Why there is no member with such settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// Neither a key nor leave to do without.
    #[error(
        "joining the group: no key is configured; give a passphrase or a key file, or explicitly allow a group without a key"
    )]
    NoKey,
    /// The node's id is 0.
    #[error("joining the group: the node id is 0, which is not valid; generate another one")]
    NoNode,
}

/// Trickle (RFC 6206): first and longest interval, redundancy.
pub(super) const TRICKLE_MIN: Duration = Duration::from_millis(500);
pub(super) const TRICKLE_MAX: Duration = Duration::from_secs(8);
pub(super) const TRICKLE_REDUNDANCY: u32 = 3;
/// A terminal that begins to send says so within this.
pub(super) const FIRST_HELLO: Duration = Duration::from_millis(100);
/// One that found no leader for so long leads.
pub(super) const CLAIM_AFTER: Duration = Duration::from_millis(600);
/// The same when a better candidate was heard.
pub(super) const CLAIM_AT_LATEST: Duration = Duration::from_millis(1200);
/// How long a named successor is waited for.
pub(super) const AWAIT_SUCCESSOR: Duration = Duration::from_millis(1000);
/// Least time between two questions to the same member.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Least time between two answers to the same member.
pub(super) const ANSWER_AGAIN: Duration = Duration::from_millis(100);
/// A terminal that has nothing to report for so long has stopped to send.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// A summary, or a leader nobody attached to, is of use for so long.
pub const SUMMARY_FRESH: Duration = Duration::from_millis(3500);
/// Whoever was not asked for the time for so long was suspended: it starts anew.
pub(super) const STALL: Duration = Duration::from_secs(5);
/// A silent member is not shown any more.
pub(super) const MEMBER_FRESH: Duration = Duration::from_secs(60);
/// What is known of a silent member's sessions is kept for longer than any challenge it may have answered is valid.
pub(super) const PEER_KEPT: Duration = Duration::from_secs(120);
/// A better rank takes over from a leader that works only after so long a time of sending.
pub(super) const TAKE_OVER_AFTER: Duration = Duration::from_secs(10);
/// How often one tells a rendezvous that one is there: NAT forgets UDP after 30 s.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Another member's proof of life is good for so long, where it is needed ...
pub(super) const PROOF_FRESH: Duration = Duration::from_secs(60);
/// ... or, in large groups, for so long for each sender: asking costs each terminal as many answers as there are senders.
pub(super) const PROOF_FRESH_PER_SENDER: Duration = Duration::from_secs(10);
/// Least time between two calls of one terminal to all senders.
pub(super) const CALL_AGAIN: Duration = Duration::from_secs(2);
/// Answers to such calls that a terminal gives in a second, and that wait at most.
pub(super) const ANSWERS_PER_SECOND: u32 = 32;
pub(super) const MAX_WAITING_ANSWERS: usize = 64;
/// Ids that are kept of one address at most: a member that draws another id at each of its starts has a few.
pub(super) const MAX_IDS_PER_ADDRESS: usize = 8;
/// Ids that were not known are taken in at this pace at most, after as many as the table holds.
pub(super) const NEW_IDS_PER_SECOND: f64 = 16.0;
/// How early a report or summary may go, since ticks do not come exactly.
pub(super) const TICK_SLACK: Duration = Duration::from_millis(100);
/// Messages that wait to be fetched; beyond, the oldest go. A leader answers 1,000 newcomers at once.
pub(super) const MAX_WAITING: usize = 2 * MAX_MEMBERS;

/// How often the leader speaks while nothing changes. A summary costs the air about as much as five reports: where broadcasts go at
/// 1 Mbit/s, more than one a second fit into half a percent of it only beside very few reports.
pub(super) fn summary_interval(senders: u16) -> Duration {
    Duration::from_millis(if senders <= 2 { 500 } else { 1000 })
}
/// How soon it may speak again where something did change.
pub(super) const SUMMARY_SOONEST: Duration = Duration::from_millis(500);

/// How often each sender reports, tenths of a second: about eight reports a second in all, whatever their number.
pub(super) fn report_interval_ds(senders: u16) -> u8 {
    (u32::from(senders) * 10).div_ceil(8).clamp(5, 250) as u8
}
