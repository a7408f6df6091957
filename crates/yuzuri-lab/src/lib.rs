//! Experiments: scenarios, emulated networks of real hosts, runs and reports.
//!
//! A [`yuzuri_scenario::Document`] is read from a TOML file and expanded to points. A run builds a [`net::Topology`] of
//! network namespaces, lets the [`driver`] carry frames through the radio and wire models of `yuzuri-netmodel`, does the
//! terminals' work with the kernel's own TCP, watches it with `yuzuri-kernel`, and leaves a folder of results.
//! A [`run::Simulated`] run has simulated TCP over the same models instead, and leaves the same folder.
//!
//! See also: `docs/lab.md` (the scenario file, the results, what a valid run is).

pub mod batch;
pub mod demo;
pub mod driver;
mod error;
pub mod guest;
pub mod net;
pub mod report;
pub mod run;

pub use error::LabError;
