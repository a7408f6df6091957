//! Groups of members over a simulated network: leaders, counts and their delays, costs, attacks.
#![allow(clippy::unwrap_used)]

mod access_point;
mod airtime;
mod election;
mod flood;
mod hostile;
mod keys;
mod many;
mod names;
mod net;
mod relayed;
mod senders;
