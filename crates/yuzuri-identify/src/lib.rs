//! Identifies congestion control algorithms in captures, recordings and logs of windows, and
//! reports them to people and to programs.
//!
//! [`batch::run`] analyses files in parallel and returns a [`report::FileReport`] for each;
//! [`table`] formats it for people.
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::atomic::AtomicBool;
//! use yuzuri_identify::analyse::{Options, Outcome, analyse};
//! use yuzuri_identify::table::sentence;
//!
//! let stop = AtomicBool::new(false);
//! match analyse(Path::new("transfer.pcap"), &Options::default(), &stop, &|_bytes| {}) {
//!     Outcome::Read(report) => report.flows.iter().for_each(|flow| println!("{}", sentence(flow))),
//!     Outcome::NotOurs(error) => println!("{error}"),
//! }
//! ```

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
