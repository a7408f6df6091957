//! Identifies congestion control in files: captures, recordings and logs of windows become tables
//! for people and for programs.
//!
//! [`batch::run`] analyses files in parallel and returns a [`report::FileReport`] for each;
//! [`table`] formats it for people.

pub mod analyse;
pub mod batch;
pub mod columns;
pub mod error;
pub mod html;
pub mod input;
pub mod json;
pub mod known;
pub mod live;
pub mod report;
pub mod sequence;
pub mod spill;
pub mod table;
pub mod xplot;
