//! Loss detection and recovery: the scoreboard, RTT estimation, RACK and Proportional Rate
//! Reduction.

pub(crate) mod prr;
pub(crate) mod rack;
pub(crate) mod rtt;
pub(crate) mod scoreboard;

pub use rtt::TimeoutRule;
