//! Who is in the group and who leads it: membership, proof against replays, election, and when to say what.
//!
//! [`Member`] is a terminal's part, [`Rendezvous`] the relay for networks where terminals do not hear each other. Both are state machines:
//! datagrams and the time go in, datagrams come out. The protocol: `docs/group.md`.

mod config;
mod counts;
mod election;
mod limiter;
mod listen;
mod member;
mod peers;
mod rendezvous;
mod senders;
mod session;
mod talk;
mod trickle;

pub use config::{COMMON_RANK, MOST_MEMBERS, MemberConfig, MemberError};
pub use counts::Counts;
pub use member::{Member, MemberSeen, Outgoing, To};
pub use rendezvous::{Rendezvous, RendezvousConfig, RendezvousCounts};
pub use senders::SendersSeen;
