//! Bounds without privilege, for a program that shares with its own sockets only.
//!
//! The kernel lets only a congestion control set the congestion window. A program can, however,
//! keep less data outstanding than the window allows, which bounds the data in flight like a window
//! does: the writer asks a [`Gate`]. Sockets whose program has no gate are bounded by pacing
//! (`SO_MAX_PACING_RATE`): the wanted window per round-trip time, updated every 500 ms.
//!
//! A send buffer limit (`SO_SNDBUF`) is no substitute: the kernel fills the buffer in chunks of up
//! to 64 kB, as much as many a share.
//!
//! This method has no lower bound, no exemption from reductions, and no choice of burst size. A
//! pacing rate does not expire: a program that hangs keeps it; when a program ends, its sockets end
//! with it.

mod info;
mod sys;

use crate::enforcer::LASTS;
use info::Info;
use parking_lot::Mutex;
use socket2::SockRef;
use std::fmt;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};
use yuzuri_kernel::control::Bound;
use yuzuri_kernel::own;
use yuzuri_kernel::steer::FlowState;
use yuzuri_trace::FlowId;
use yuzuri_transfer::{Gate, Shown};

/// A socket that takes part as long as its owner keeps it.
type Socket = Weak<dyn AsFd + Send + Sync>;

/// The sockets of this process that take part; clones refer to the same list.
#[derive(Clone, Default)]
pub struct OwnSockets(Arc<Mutex<Vec<BoundedSocket>>>);

impl fmt::Debug for OwnSockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnSockets")
    }
}

/// The gate is evaluated every eighth of a round trip, in which an eighth of the window is
/// acknowledged. On average half of that, a sixteenth of the window, is missing.
const LACKING: u64 = 16;

/// How a socket is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocketBound {
    /// Not bounded.
    Free,
    /// Bounded by its program's gate to this many segments.
    Gate(u32),
    /// Bounded by its pacing rate to this many segments.
    Rate(u32),
}

struct BoundedSocket {
    id: FlowId,
    socket: Socket,
    hold: SocketBound,
    gate: Option<Arc<Gate>>,
    mss: u32,
    srtt_us: u32,
}

impl OwnSockets {
    /// Adds a connected socket, until it is dropped or closed.
    ///
    /// # Errors
    /// If the kernel does not return the socket's cookie.
    pub fn add(&self, socket: Socket, gate: Option<Arc<Gate>>) -> io::Result<()> {
        let Some(alive) = socket.upgrade() else { return Ok(()) };
        let id = FlowId(own::cookie(alive.as_fd())?);
        let held = BoundedSocket { id, socket, hold: SocketBound::Free, gate, mss: 0, srtt_us: 0 };
        self.0.lock().push(held);
        Ok(())
    }

    /// A callback for a transfer that adds each of its connections. Failures are reported on
    /// standard error.
    pub fn shown(&self) -> Shown {
        let sockets = self.clone();
        Shown::new(move |connection| {
            if let Err(error) = sockets.add(connection.socket, Some(connection.gate)) {
                let _ = writeln!(io::stderr(), "yuzuri: sharing: a connection does not take part: {error}");
            }
        })
    }

    /// Reports the current flows.
    pub(crate) fn observe(&self, out: &mut Vec<FlowState>) {
        self.0.lock().retain_mut(|held| {
            let Some(socket) = held.socket.upgrade() else { return false };
            // A closed socket returns an error; it is removed when its owner drops it.
            if let Ok(info) = held.read_info(socket.as_fd())
                && info.open
            {
                out.push(info.flow);
            }
            true
        });
    }

    /// Sets the bounds; sockets that are not listed become unbounded.
    pub(crate) fn apply(&self, bounds: &[(FlowId, Bound)]) -> io::Result<()> {
        let mut result = Ok(());
        for held in self.0.lock().iter_mut() {
            let Some(socket) = held.socket.upgrade() else { continue };
            let upper = bounds.iter().find(|(id, _)| *id == held.id).map_or(0, |(_, bound)| bound.upper);
            let done =
                if upper == 0 { held.release(socket.as_fd()) } else { held.bound(socket.as_fd(), upper) };
            result = result.and(done);
        }
        result
    }

    /// Releases all sockets. Returns how many were bounded.
    pub(crate) fn release(&self) -> usize {
        let mut freed = 0;
        for held in self.0.lock().iter_mut().filter(|held| held.hold != SocketBound::Free) {
            // A closed socket needs no release.
            if let Some(socket) = held.socket.upgrade() {
                freed += usize::from(held.release(socket.as_fd()).is_ok());
            }
        }
        freed
    }
}

impl BoundedSocket {
    fn read_info(&mut self, fd: BorrowedFd<'_>) -> io::Result<Info> {
        let socket = SockRef::from(&fd);
        let address = |address: socket2::SockAddr| {
            let address = address.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
            Ok::<_, io::Error>(std::net::SocketAddr::new(address.ip().to_canonical(), address.port()))
        };
        let (local, remote) = (address(socket.local_addr()?)?, address(socket.peer_addr()?)?);
        let mut info = info::decode(&own::info(fd)?, self.id, local, remote);
        self.mss = info.flow.mss;
        self.srtt_us = info.flow.srtt_us;
        match self.hold {
            SocketBound::Free => {
                info.flow.sndbuf_bytes = u32::try_from(socket.send_buffer_size()?).unwrap_or(u32::MAX)
            }
            SocketBound::Gate(upper) | SocketBound::Rate(upper) => {
                // The effective window is the bound. Data held back by the gate is not an
                // application limit.
                info.flow.cwnd = info.flow.cwnd.min(upper);
                if self.gate.as_ref().is_some_and(|gate| gate.was_limited()) {
                    info.flow.unsent_bytes = info.flow.unsent_bytes.max(info.flow.mss);
                    (info.flow.app_limited, info.flow.rate_app_limited) = (false, false);
                }
            }
        }
        Ok(info)
    }

    fn bound(&mut self, fd: BorrowedFd<'_>, upper: u32) -> io::Result<()> {
        let upper = upper.max(2);
        let window_bytes = u64::from(upper) * u64::from(self.mss);
        if let Some(gate) = &self.gate {
            gate.limit(window_bytes + window_bytes / LACKING, LASTS);
            self.hold = SocketBound::Gate(upper);
        } else if self.srtt_us > 0 {
            sys::set_max_pacing_rate(fd, (window_bytes * 1_000_000 / u64::from(self.srtt_us)).max(1))?;
            self.hold = SocketBound::Rate(upper);
        }
        Ok(())
    }

    fn release(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let result = match self.hold {
            SocketBound::Free => Ok(()),
            SocketBound::Gate(_) => {
                self.gate.iter().for_each(|gate| gate.remove_limit());
                Ok(())
            }
            SocketBound::Rate(_) => sys::set_max_pacing_rate(fd, u64::MAX),
        };
        if result.is_ok() {
            self.hold = SocketBound::Free;
        }
        result
    }
}

/// For the fuzzer: decodes bytes as `TCP_INFO`. Returns whether they describe an open connection.
#[cfg(any(fuzzing, debug_assertions))]
pub(crate) fn fuzz(bytes: &[u8]) -> bool {
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let info = info::decode(bytes, FlowId(1), any, any);
    assert!(!info.open || bytes.first().is_some_and(|state| *state > 0));
    info.open
}
