//! How good identification is.

mod largest;
pub mod rank;
pub mod tally;
pub mod window_trace;
