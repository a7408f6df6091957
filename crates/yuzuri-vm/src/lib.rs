//! Boots a stock Debian kernel in QEMU, in virtual or real time, and runs a program in it.
//!
//! In virtual time ([`Time::Virtual`]) the guest's clock counts instructions and skips idle time.
//! The kernel's own TCP runs, but its behaviour does not depend on the load of the host, and a run
//! with the same seed is identical. `docs/virtual-time.md` describes how guests are built, pinned
//! and measured.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use yuzuri_vm::{Guest, Kernel, Mips, Time};
//!
//! let guest = Guest::new(Kernel::Linux6_1Amd64)
//!     .program(["sh", "-c", "uname -r > /results/release"])
//!     .time(Time::Virtual { processor: Mips::default(), seed: 7 })
//!     .results("out");
//! let outcome = guest.run(&mut |_| {}, &AtomicBool::new(false))?;
//! assert_eq!(outcome.code, 0);
//! # Ok::<(), yuzuri_vm::VmError>(())
//! ```

mod apt;
mod archive;
mod cache;
mod console;
mod cross;
mod error;
mod guest;
mod image;
mod kernel;
mod libraries;
mod lock;
mod modules;
mod processor;
mod qemu;
mod time;
mod vmlinux;

pub use apt::latest;
pub use cache::Cache;
pub use cross::{CROSS_ARCHITECTURES, cross_libraries};
pub use error::VmError;
pub use guest::{Guest, Outcome, Progress};
pub use image::{Built, Equipment, Image, Source};
pub use kernel::{Arch, Kernel, UnknownName};
pub use lock::{Lock, Package};
pub use qemu::version as qemu_version;
pub use time::{Mips, Time};
