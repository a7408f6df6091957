//! All that is privileged, and all that asks the kernel: the BPF monitor, `sock_diag` polling for those who may not
//! load it, and what this kernel offers.
//!
//! ```no_run
//! use yuzuri_kernel::{Monitor, Options};
//! let mut monitor = Monitor::start(&Options::default())?;
//! let mut items = Vec::new();
//! std::thread::sleep(std::time::Duration::from_millis(100));
//! monitor.read(&mut items);
//! let account = monitor.finish(&mut items);
//! assert_eq!(account.seen(), account.kept() + account.lost());
//! # Ok::<(), yuzuri_kernel::MonitorError>(())
//! ```
//!
//! See also: `docs/monitor.md` (what each hook can and cannot see), `bpf/event.h` (what crosses).

mod abi;
pub mod clock;
mod decode;
mod features;
mod monitor;
pub mod netns;
mod owners;
mod places;
mod reader;
mod ring;
mod session;
mod settings;
#[allow(missing_docs, unused_imports, unsafe_op_in_unsafe_fn)]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/monitor.skel.rs"));
}

pub use monitor::{Monitor, MonitorError, Options, ProgramStats, time_programs};
pub use places::Symbols;
