//! Terminals behind one access point share its capacity: group membership, messages between
//! members, and bounds for each flow's window. No I/O and no clock: the caller (the daemon, the
//! laboratory, the simulation) passes in the time, the flows and the messages.
//!
//! Every half second:
//!
//! ```text
//! own flows ─▶ Report ─▶ (message) ─▶ leader: Capacity ─▶ Summary ─▶ (message) ─▶ Policy + own flows ─▶ Decision per flow
//! ```

mod capacity;
mod flow;
mod group;
mod message;
mod moment;
mod name;
mod own;
mod policy;
mod radio;
mod report;
mod tick;

pub use capacity::{Capacity, Limit};
pub use flow::{Bound, Decision, FlowSeen, Rule};
pub use group::{
    COMMON_RANK, Counts, Keys, MAX_MEMBERS, Member, MemberConfig, MemberError, MemberSeen, Outgoing,
    Randomness, Rendezvous, RendezvousConfig, RendezvousCounts, SUMMARY_FRESH, SendersSeen, To,
};
pub use message::{
    ACCESS_POINT_VERSION, Addressed, Authority, Body, GroupId, GroupKey, KEY_BYTES, Key, Kind, MAX_AIR_PPM,
    MAX_BPS, MAX_BYTES, MAX_GENERATION, MAX_RTT_US, Membership, Message, NoTerminalName, Notice, Notices,
    PASSPHRASE_ROUNDS, REPORT_INTERVAL_DS, Refusal, TAG_BYTES, TerminalName, VERSION, WeakKey, check_key,
    check_pattern, epoch,
};
pub use moment::Moment;
pub use name::UnknownName;
pub use policy::{Objective, Policy, PolicyConfig, PolicyName, RttBounds, RttTable};
pub use radio::{Aggregation, RadioHint, SlowRadio};
pub use report::{Destination, MAX_DESTINATIONS, NodeId, Phase, Report, Summary};
pub use tick::{Group, Terminal};
