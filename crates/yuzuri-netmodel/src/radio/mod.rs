//! Model of one 802.11 cell: an access point and its stations on a half-duplex channel.
//!
//! All nodes hear each other. Channel access is EDCA (best effort and voice), or DCF for 802.11g
//! stations. Unicast frames are acknowledged, aggregated from 802.11n on, retransmitted and
//! delivered in order. Group-addressed frames are sent once at a basic rate.

mod account;
mod backlog;
mod cell;
mod config;
mod contention;
mod exchange;
mod frame_terms;
mod ledger;
mod link;
mod lookahead;
mod phy;
mod standard;
mod timing;
mod voice;

use serde::{Deserialize, Serialize};

pub use account::{Airtime, CellAccount, Drops, GroupAccount, IdleTime, NodeAccount, QueueLength};
pub use cell::Cell;
pub use config::{Access, AmpduConfig, ApConfig, CellConfig, StationConfig};
pub use phy::Phy;
pub use standard::Standard;
pub use timing::{Band, Timing};

/// A node of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// The access point.
    Ap,
    /// A station; numbers start at 0.
    Station(u16),
}

/// Destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// One node. The access point relays packets between stations.
    One(Node),
    /// All nodes. A station sends the packet to the access point, which keeps a copy and broadcasts
    /// it to all other stations at a basic rate and without acknowledgement.
    Group,
}
