//! The settings of a member, and the timers of the group protocol.

use super::Randomness;
use crate::{GroupId, Key, NodeId, Notices, TerminalName};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of members in a member's table; messages of further members are refused and
/// counted.
pub const MAX_MEMBERS: usize = 1024;
/// The default rank.
pub const COMMON_RANK: u8 = 128;

/// Settings of a [`Member`](super::Member).
#[derive(Debug, Clone)]
pub struct MemberConfig {
    /// The node ID; not 0. Drawn at random once and stored.
    pub node: NodeId,
    /// The group, derived from the access point.
    pub group: GroupId,
    /// The key that authenticates members.
    pub key: Option<Key>,
    /// A second key that is accepted but never used for sending: [`Keys::accepts`](super::Keys).
    pub accepts: Option<Key>,
    /// Notices that carry the next group key to the members: [`Keys::notices`](super::Keys).
    pub notices: Option<Arc<Notices>>,
    /// Without a key, join a group without authentication. Anybody on the network can then forge
    /// messages. Ignored if a key is set.
    pub allow_keyless: bool,
    /// The session; different after each start ([`epoch`](crate::epoch) creates one).
    pub epoch: u64,
    /// The source of random numbers.
    pub random: Randomness,
    /// Rank in the leader election: among the members that send, a lower rank is preferred, for
    /// example for terminals on mains power.
    pub rank: u8,
    /// Whether this is the access point itself, which sends nothing and leads all terminals. Only
    /// in a group with a key.
    pub access_point: bool,
    /// The number of stations that the access point reports (BSS Load element, vendor interfaces),
    /// this one included. If it is known, no more members are counted as senders.
    pub station_count: Option<u16>,
    /// The rendezvous relay, for networks where terminals cannot receive each other. All messages
    /// are then sent to it, and messages from other addresses are refused.
    pub rendezvous: Option<SocketAddr>,
    /// The name of this terminal, shown to the users of the others; `None`: it announces none.
    pub name: Option<TerminalName>,
}

impl MemberConfig {
    /// The default settings.
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
            access_point: false,
            station_count,
            rendezvous,
            name: None,
        }
    }
}

/// Why a member cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// No key is configured, and groups without a key are not allowed.
    #[error(
        "joining the group: no key is configured; give a passphrase or a key file, or explicitly allow a group without a key"
    )]
    NoKey,
    /// The node ID is 0.
    #[error("joining the group: the node id is 0, which is not valid; generate another one")]
    NoNode,
    /// An access point without a key.
    #[error(
        "leading the group: terminals obey an access point only in a group with a key; give it the key of the terminals"
    )]
    NoKeyToLead,
}

/// Trickle (RFC 6206): shortest and longest interval, redundancy constant.
pub(super) const TRICKLE_MIN: Duration = Duration::from_millis(500);
pub(super) const TRICKLE_MAX: Duration = Duration::from_secs(8);
pub(super) const TRICKLE_REDUNDANCY: u32 = 3;
/// A terminal that begins to send announces it within this time.
pub(super) const FIRST_HELLO: Duration = Duration::from_millis(100);
/// A sender claims leadership if it finds no leader within this time.
pub(super) const CLAIM_AFTER: Duration = Duration::from_millis(600);
/// The same, if it has heard a better candidate.
pub(super) const CLAIM_AT_LATEST: Duration = Duration::from_millis(1200);
/// How long to wait for a named successor.
pub(super) const AWAIT_SUCCESSOR: Duration = Duration::from_millis(1000);
/// Minimum interval between two challenges to the same member.
pub(super) const CHALLENGE_AGAIN: Duration = Duration::from_millis(250);
/// Minimum interval between two answers to the same member.
pub(super) const MIN_ANSWER_INTERVAL: Duration = Duration::from_millis(100);
/// A terminal without a report for this long no longer counts as a sender.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// How long a summary is valid, and how long a leader that has not answered a report is remembered.
pub const SUMMARY_FRESH: Duration = Duration::from_millis(3500);
/// How long a weight from an access point is valid: three times the longest report interval, since
/// each report is answered.
pub(super) const WEIGHT_FRESH: Duration = Duration::from_secs(75);
/// A member that was not polled for this long was suspended; it starts over.
pub(super) const STALL: Duration = Duration::from_secs(5);
/// A member that is silent for longer is no longer shown.
pub(super) const MEMBER_FRESH: Duration = Duration::from_secs(60);
/// How long a silent member's session state is kept: longer than any challenge that it may have
/// answered is valid.
pub(super) const PEER_TIMEOUT: Duration = Duration::from_secs(120);
/// A member with a better rank replaces a working leader only after it has sent for this long.
pub(super) const TAKE_OVER_AFTER: Duration = Duration::from_secs(10);
/// Interval of keep-alive messages to a rendezvous: NAT devices drop UDP mappings after 30 s.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long another member's proof of liveness is valid, if it is needed ...
pub(super) const PROOF_FRESH: Duration = Duration::from_secs(60);
/// ... and, in large groups, this long per sender, because a challenge to all senders costs each
/// terminal as many answers as there are senders.
pub(super) const PROOF_FRESH_PER_SENDER: Duration = Duration::from_secs(10);
/// Minimum interval between two challenges of one terminal to all senders.
pub(super) const CALL_AGAIN: Duration = Duration::from_secs(2);
/// Maximum number of answers to such challenges per second, and of answers that are queued.
pub(super) const ANSWERS_PER_SECOND: u32 = 32;
pub(super) const MAX_WAITING_ANSWERS: usize = 64;
/// Maximum number of IDs per address, without proved members that have left.
pub(super) const MAX_IDS_PER_ADDRESS: usize = 8;
/// ... and with them: a daemon draws a new ID at each start, and its former ID is remembered for
/// [`PEER_TIMEOUT`].
pub(super) const MAX_IDS_PER_ADDRESS_WITH_LEFT: usize = 64;
/// Rate limit for accepting unknown IDs, after an initial burst of as many as the table holds.
pub(super) const NEW_IDS_PER_SECOND: f64 = 16.0;
/// How often a terminal sends its name, and the maximum delay after it has first heard another one.
pub(super) const NAME_EACH: Duration = Duration::from_secs(30);
pub(super) const FIRST_NAME: Duration = Duration::from_secs(2);
/// With more other members than this, each sends its name less often: one name every two seconds in
/// total.
pub(super) const NAMES_AT_ONCE: usize = 15;
/// How early a report or summary may be sent, since ticks are not exact.
pub(super) const TICK_SLACK: Duration = Duration::from_millis(100);
/// Maximum number of outgoing messages queued; the oldest are dropped. A leader answers 1000
/// newcomers at once.
pub(super) const MAX_WAITING: usize = 2 * MAX_MEMBERS;

/// Interval of summaries while nothing changes. A summary needs about as much airtime as five
/// reports: where broadcasts are sent at 1 Mbit/s, more than one per second fits into half a
/// percent of airtime only with very few reports.
pub(super) fn summary_interval(senders: u16) -> Duration {
    Duration::from_millis(if senders <= 2 { 500 } else { 1000 })
}
/// Minimum interval of summaries after a change.
pub(super) const SUMMARY_SOONEST: Duration = Duration::from_millis(500);

/// Report interval of each sender, tenths of a second. All senders together send about eight
/// reports per second, whatever their number.
pub(super) fn report_interval_ds(senders: u16) -> u8 {
    (u32::from(senders) * 10).div_ceil(8).clamp(5, 250) as u8
}
