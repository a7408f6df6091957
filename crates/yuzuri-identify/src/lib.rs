//! Which congestion control is in these files? From captures, recordings and logs of windows to tables for people and for programs.
//!
//! [`batch::run`] analyses files side by side and hands out a [`report::FileReport`] for each; [`table`] makes what people read of it.

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
