//! All that is privileged, and all that asks the kernel: the BPF monitor, `sock_diag` polling for those who may not
//! load it, and what this kernel offers.
//!
//! ```no_run
//! use yuzuri_kernel::{Monitor, Options, Watch};
//! let mut monitor = Monitor::start(&Options::default())?;
//! let mut items = Vec::new();
//! std::thread::sleep(std::time::Duration::from_millis(100));
//! monitor.read(&mut items);
//! let account = Box::new(monitor).finish(&mut items);
//! assert_eq!(account.seen(), account.kept() + account.lost());
//! # Ok::<(), yuzuri_kernel::MonitorError>(())
//! ```
//!
//! See also: `docs/monitor.md` (what each hook can and cannot see), `bpf/event.h` (what crosses),
//! `bpf/monitor/` (what the monitor's programs are made of).

mod abi;
mod census;
pub mod clock;
pub mod control;
mod decode;
mod diag;
pub mod doctor;
mod features;
pub mod helper;
mod monitor;
pub mod netns;
pub mod own;
mod owners;
mod places;
mod platform;
mod poll;
mod reader;
mod ring;
mod room;
mod sampled;
mod session;
mod settings;
pub mod shielded;
pub mod steer;
mod worker;
#[allow(missing_docs, unused_imports, unsafe_op_in_unsafe_fn)]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
mod skel {
    pub mod clock {
        include!(concat!(env!("OUT_DIR"), "/clock.skel.rs"));
    }
    pub mod control {
        include!(concat!(env!("OUT_DIR"), "/control.skel.rs"));
    }
    pub mod monitor {
        include!(concat!(env!("OUT_DIR"), "/monitor.skel.rs"));
    }
    pub mod probe {
        include!(concat!(env!("OUT_DIR"), "/probe.skel.rs"));
    }
    pub mod steer {
        include!(concat!(env!("OUT_DIR"), "/steer.skel.rs"));
    }
}

#[doc(hidden)]
pub use diag::fuzz as fuzz_sock_diag;
#[doc(hidden)]
pub use monitor::Room;
pub use monitor::{Monitor, MonitorError, Options, ProgramStats, time_programs};
pub use places::Symbols;
pub use poll::Poller;

use std::sync::Arc;
use std::time::Duration;
use yuzuri_trace::{Account, Density, Filter, Item, Session};

/// A source of items: the kernel monitor, or polling.
pub trait Watch: Send {
    /// Where and how the stream is taken.
    fn session(&self) -> &Arc<Session>;
    /// The filter in force.
    fn filter(&self) -> &Filter;
    /// The density in force.
    fn density(&self) -> Density;
    /// Takes over another filter and density, at once and without a gap.
    ///
    /// # Errors
    /// Where the filter names what does not exist; then nothing changes.
    fn set(&mut self, filter: &Filter, density: Density) -> Result<(), String>;
    /// Takes what there is, in order of time, and once a second an account.
    fn read(&mut self, out: &mut Vec<Item>);
    /// How long to wait before the next [`Watch::read`].
    fn rest(&self) -> Duration;
    /// What was seen, kept and lost so far.
    fn account(&self) -> Account;
    /// Ends watching: takes the rest and the closing account.
    fn finish(self: Box<Self>, out: &mut Vec<Item>) -> Account;
}
