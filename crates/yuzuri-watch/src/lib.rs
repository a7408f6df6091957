//! Reads a live source and passes its items to [`Sinks`]: a [`Recorder`], the [`Live`] model that
//! the page and the terminal screen show, and any other [`Sink`].
//!
//! [`source`] opens the best source that this machine allows. [`drive`] is the loop itself: it
//! reads, distributes, waits, and takes the closing account. [`Pump`] is that loop with sinks and
//! with a [`Remote`], through which a user interface changes filter and density at run time.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use std::time::Duration;
//! use yuzuri_kernel::Options;
//! use yuzuri_watch::{Live, Pump, SinkPurpose, Sinks, model, source};
//!
//! let options = Options { filter: "port:443".parse()?, density: Default::default(), ring_bytes: None };
//! let watch = source(&options, false)?;
//! let model = model(watch.session());
//! let mut sinks = Sinks::default();
//! sinks.add(Live::now(model.clone()), SinkPurpose::View("the rows"));
//! let stop = AtomicBool::new(false);
//! let account = Pump::new(&sinks, &stop).for_time(Some(Duration::from_secs(10))).run(watch);
//! sinks.finish()?;
//! for row in model.lock().rows() {
//!     println!("{} -> {}", row.flow.local, row.flow.remote);
//! }
//! println!("{account}");
//! # anyhow::Ok(())
//! ```

mod drive;
mod live;
mod queue;
mod recorder;
mod recycled;
mod remote;
mod sinks;

pub use drive::{Pump, drive};
pub use live::{Live, SharedModel, model};
pub use recorder::{Ended, Recorder, RecordingObserver};
pub use remote::{Remote, Requests};
pub use sinks::{Sink, SinkPurpose, Sinks};

use anyhow::Context;
use yuzuri_kernel::{Monitor, MonitorError, Options, Poller, Watch};

/// Opens the best available source: the kernel monitor, or polling without privilege or BTF. The
/// session reports which.
///
/// # Errors
/// If the filter names something that does not exist, or if no source is available.
pub fn source(options: &Options, polls: bool) -> anyhow::Result<Box<dyn Watch>> {
    let poll = |why: &str| -> anyhow::Result<Box<dyn Watch>> {
        let poller = Poller::start(&options.filter, options.density, why)?;
        Ok(Box::new(poller))
    };
    if polls {
        return poll("--poll was given");
    }
    match Monitor::start(options) {
        Ok(monitor) => Ok(Box::new(monitor)),
        // Polling does not help with a filter that names something that does not exist.
        Err(error @ MonitorError::Filter(_)) => Err(error.into()),
        // The session's hooks contain the reason, for the user and in the recording.
        Err(error) => poll(&error.to_string()).context("falling back to polling sock_diag"),
    }
}
