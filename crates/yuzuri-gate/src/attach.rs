//! Attaches the programs to a device: by tcx if the kernel supports it (6.6), so that they
//! disappear with this process, however it ends; otherwise as classifiers of clsact, which stay
//! until they are removed or replaced.

#![expect(unsafe_code, reason = "libbpf-rs has no tcx")]

use crate::GateError;
use libbpf_rs::libbpf_sys::{BPF_TCX_EGRESS, BPF_TCX_INGRESS, bpf_link_create};
use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcHook, TcHookBuilder};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::SockaddrLike;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// How the programs are attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMode {
    /// They are removed with the process.
    Tcx,
    /// They stay attached, and change nothing once the bounds have expired; the next gate at the
    /// device replaces them.
    Clsact,
}

/// Handle and priority of our classifiers, by which a later process finds those of one that was
/// killed.
const MARK: u32 = 0x797a;

/// Programs at a device; dropping it removes them.
pub(crate) struct Attached {
    pub(crate) device: String,
    attachment: Attachment,
}

enum Attachment {
    Links { _links: [OwnedFd; 2] },
    Filters { _filters: Filters },
}

/// The classifiers at a device.
struct Filters {
    index: i32,
    /// The namespace of `index`: the dropping thread may be in another one.
    namespace: File,
    down: OwnedFd,
    up: OwnedFd,
}

impl Attached {
    /// Attaches a program for each direction to a device of this network namespace.
    pub(crate) fn new(
        device: &str,
        down: BorrowedFd<'_>,
        up: BorrowedFd<'_>,
        may_tcx: bool,
    ) -> Result<Attached, GateError> {
        let index = if_nametoindex(device).map_err(|_| GateError::NoDevice(device.to_owned()))? as i32;
        is_ethernet(device)?;
        Attached::at(device, index, down, up, may_tcx)
    }

    /// Attaches the programs to the loopback device of a new network namespace, which no packet
    /// passes, and removes them. Returns how they were attached.
    pub(crate) fn try_out(
        down: BorrowedFd<'_>,
        up: BorrowedFd<'_>,
        may_tcx: bool,
    ) -> Result<AttachMode, GateError> {
        const DEVICE: &str = "the loopback device of a new network namespace";
        // The first device of each namespace.
        const INDEX: i32 = 1;
        let attached = || {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|e| GateError::NotPermitted(e.to_string()))?;
            Ok(Attached::at(DEVICE, INDEX, down, up, may_tcx)?.mode())
        };
        let failed = |_| GateError::Attach { device: DEVICE.to_owned(), why: "its thread panicked".into() };
        // The namespace ends with its only thread.
        std::thread::scope(|scope| scope.spawn(attached).join()).map_err(failed)?
    }

    fn at(
        device: &str,
        index: i32,
        down: BorrowedFd<'_>,
        up: BorrowedFd<'_>,
        may_tcx: bool,
    ) -> Result<Attached, GateError> {
        let failed = |why: String| GateError::Attach { device: device.to_owned(), why };
        let links = if may_tcx { tcx(index, down, up) } else { Err(libc_einval()) };
        let attachment = match links {
            Ok(links) => Attachment::Links { _links: links },
            // The error of a kernel before 6.6 for an unknown kind of link.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let filters = Filters::attach(index, down, up).map_err(|e| failed(e.to_string()))?;
                Attachment::Filters { _filters: filters }
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        Ok(Attached { device: device.to_owned(), attachment })
    }

    pub(crate) fn mode(&self) -> AttachMode {
        match self.attachment {
            Attachment::Links { .. } => AttachMode::Tcx,
            Attachment::Filters { .. } => AttachMode::Clsact,
        }
    }
}

fn libc_einval() -> std::io::Error {
    std::io::Error::from_raw_os_error(libc::EINVAL)
}

fn is_ethernet(device: &str) -> Result<(), GateError> {
    const ARPHRD_ETHER: u16 = 1;
    let all =
        getifaddrs().map_err(|e| GateError::Attach { device: device.to_owned(), why: e.to_string() })?;
    let links = all.filter(|a| a.interface_name == device).filter_map(|a| a.address);
    let hardware = links.filter_map(|a| a.as_link_addr().filter(|l| l.len() > 0).map(|l| l.hatype())).next();
    match hardware {
        Some(ARPHRD_ETHER) => Ok(()),
        Some(hardware) => Err(GateError::NotEthernet { device: device.to_owned(), hardware }),
        None => Err(GateError::NoDevice(device.to_owned())),
    }
}

fn tcx(index: i32, down: BorrowedFd<'_>, up: BorrowedFd<'_>) -> std::io::Result<[OwnedFd; 2]> {
    let link = |program: BorrowedFd<'_>, kind| {
        // SAFETY: the program's descriptor is open; without options the pointer may be null.
        let made = unsafe { bpf_link_create(program.as_raw_fd(), index, kind, std::ptr::null()) };
        if made < 0 {
            return Err(std::io::Error::from_raw_os_error(-made));
        }
        // SAFETY: a new descriptor that is not shared.
        Ok(unsafe { OwnedFd::from_raw_fd(made) })
    };
    Ok([link(down, BPF_TCX_EGRESS)?, link(up, BPF_TCX_INGRESS)?])
}

impl Filters {
    /// Attaches to a device of the namespace that the calling thread is in.
    fn attach(index: i32, down: BorrowedFd<'_>, up: BorrowedFd<'_>) -> std::io::Result<Filters> {
        let other = std::io::Error::other::<libbpf_rs::Error>;
        let filters = Filters {
            index,
            namespace: File::open("/proc/thread-self/ns/net")?,
            down: down.try_clone_to_owned()?,
            up: up.try_clone_to_owned()?,
        };
        let [mut down, mut up] = filters.hooks();
        // One clsact serves both. Dropping `filters` removes the first if the second fails.
        down.create().map_err(other)?;
        down.attach().map_err(other)?;
        up.attach().map_err(other)?;
        Ok(filters)
    }

    fn hooks(&self) -> [TcHook; 2] {
        [(&self.down, TC_EGRESS), (&self.up, TC_INGRESS)].map(|(program, point)| {
            let mut builder = TcHookBuilder::new(program.as_fd());
            builder.ifindex(self.index).replace(true).handle(MARK).priority(MARK);
            builder.hook(point)
        })
    }
}

impl Drop for Filters {
    fn drop(&mut self) {
        let detach = || {
            // The empty clsact stays: other programs may use it by now. The hooks of a device that
            // is gone have been removed with it.
            self.hooks().iter_mut().for_each(|hook| drop(hook.detach()));
        };
        // Entering a namespace takes a privilege that the process may have dropped: it is not
        // needed for its own.
        if is_here(&self.namespace) {
            return detach();
        }
        std::thread::scope(|scope| {
            let detached =
                scope.spawn(|| setns(&self.namespace, CloneFlags::CLONE_NEWNET).map(|()| detach()));
            let _ = detached.join();
        });
    }
}

/// Whether a namespace is that of the calling thread.
fn is_here(namespace: &File) -> bool {
    let here = std::fs::metadata("/proc/thread-self/ns/net");
    matches!((here, namespace.metadata()), (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.dev(), b.ino()))
}
