//! What limits a TCP sender, for each stretch of its time exactly one [`Limit`].
//!
//! This crate does no I/O and knows no clock. Its callers hand in what they observed: the kernel's
//! own values (every ACK, or polled), or what packets tell at the sender or at the receiver. All of
//! them answer in the same words, so that a recording, the live page and a capture of one transfer
//! can be compared.

mod limit;
mod times;

pub use limit::{Limit, ParseLimitError};
pub use times::LimitTimes;
