//! Finding losses and sending again: what is outstanding, the round-trip estimate, RACK and proportional rate reduction.

pub(crate) mod prr;
pub(crate) mod rack;
pub(crate) mod rtt;
pub(crate) mod scoreboard;

pub use rtt::TimeoutRule;
