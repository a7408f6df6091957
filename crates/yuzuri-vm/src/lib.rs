//! Boots a stock Debian kernel in QEMU, in virtual time or in real time, and runs a program in it.
//!
//! In virtual time ([`Time::Virtual`]) the guest's clock counts instructions and skips idle time: the kernel's own TCP
//! runs, but the load of this machine does not change what it does, and a seed repeats it. How it is built, pinned and
//! measured: `docs/virtual-time.md`.
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
pub use cross::cross_libraries;
pub use error::VmError;
pub use guest::{Guest, Outcome, Progress};
pub use image::{Equipment, Image, Made, Source};
pub use kernel::{Arch, Kernel};
pub use lock::{Lock, Package};
pub use qemu::version as qemu_version;
pub use time::{Mips, Time};
