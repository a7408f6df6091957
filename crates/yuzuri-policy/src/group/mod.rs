//! Group membership, replay protection, leader election, and message timing.
//!
//! [`Member`] is one terminal's state, [`Rendezvous`] the relay for networks where terminals cannot
//! receive each other. Both are state machines: datagrams and the time go in, datagrams come out.
//! Protocol: `docs/group.md`.

mod config;
mod counts;
mod election;
mod exclude;
mod keys;
mod limiter;
mod listen;
mod member;
mod peers;
mod random;
mod rendezvous;
mod senders;
mod session;
mod talk;
mod trickle;

pub use config::{COMMON_RANK, MAX_MEMBERS, MemberConfig, MemberError, SUMMARY_FRESH};
pub use counts::Counts;
pub use keys::Keys;
pub use member::{Member, MemberSeen, Outgoing, To};
pub use random::Randomness;
pub use rendezvous::{Rendezvous, RendezvousConfig, RendezvousCounts};
pub use senders::SendersSeen;
