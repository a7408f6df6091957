//! Measures the accuracy of identification.

mod largest;
pub mod rank;
pub mod tally;
pub mod window_trace;
