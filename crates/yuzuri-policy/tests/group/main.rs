//! Groups of members over a simulated network: who leads, who is counted and when, what it costs, what strangers can do.
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
