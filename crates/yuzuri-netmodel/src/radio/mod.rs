//! One 802.11 cell: an access point and its stations on one half-duplex channel.
//!
//! Everyone hears everyone. Access is by EDCA (best effort) or, among 802.11g stations, DCF; frames to one receiver are
//! acknowledged, aggregated from 802.11n on, retried and delivered in order; frames to a group go out once at a basic rate.

mod account;
mod backlog;
mod cell;
mod config;
mod contention;
mod exchange;
mod ledger;
mod link;
mod lookahead;
mod phy;
mod standard;
mod terms;
mod timing;

use serde::{Deserialize, Serialize};

pub use account::{Airtime, CellAccount, Drops, GroupAccount, IdleTime, NodeAccount, QueueLength};
pub use cell::Cell;
pub use config::{Access, AmpduConfig, ApConfig, CellConfig, StationConfig};
pub use phy::Phy;
pub use standard::Standard;
pub use timing::{Band, Timing};

/// A place in the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// The access point.
    Ap,
    /// A station; they are numbered from 0.
    Station(u16),
}

/// Whom a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// One node. What a station sends to another station is relayed by the access point.
    One(Node),
    /// All. A station sends it to the access point, which takes one and broadcasts it, at a basic rate and without
    /// acknowledgement, to all other stations.
    Group,
}
