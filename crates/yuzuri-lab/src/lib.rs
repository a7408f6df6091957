//! Experiments: scenarios, emulated networks of real hosts, runs and reports.
//!
//! A [`yuzuri_scenario::Document`] is parsed from a TOML file and expanded into points. A run
//! builds a [`net::Topology`] of network namespaces; the [`driver`] moves frames through the radio
//! and wire models of `yuzuri-netmodel`; the workloads use the kernel's own TCP; `yuzuri-kernel`
//! monitors the flows; the run leaves a folder of results. A [`run::Simulated`] run has simulated
//! TCP over the same models instead and leaves the same kind of folder.
//!
//! See also `docs/lab.md` (the scenario file, the results, the validity of a run).

pub mod batch;
pub mod demo;
pub mod driver;
mod error;
pub mod guest;
pub mod net;
pub mod report;
pub mod run;

pub use error::LabError;
