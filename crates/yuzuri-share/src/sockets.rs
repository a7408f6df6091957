//! The UDP sockets of an interface: IPv6 link-local multicast where there is a link-local address, IPv4 broadcast where there is not, or
//! where a member is known that has nothing else.

use crate::batch::Batch;
use nix::sys::socket::{setsockopt, sockopt::RcvBuf, sockopt::RcvBufForce};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// UDP port of the messages: unassigned at IANA (User Ports, 48654 to 48999).
pub const DEFAULT_PORT: u16 = 48_770;
/// Where everybody on the link listens: link-local scope (RFC 4291), a group that nobody assigned (T flag) with an identifier from
/// the range for that (RFC 3307, section 4.3): 0x80, "yuz".
pub const MULTICAST_GROUP: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0x8079, 0x757a);

/// Datagrams taken from a socket at one wake-up: what is beyond waits for the next, so that a flood keeps nobody from his work.
const MAX_AT_ONCE: usize = 1024;
/// Bytes that may wait in a socket (the kernel counts about 1 kB for a datagram of ours, and doubles what is asked for): what 20,000
/// datagrams a second bring in a fifth of a second, so that a flood costs nobody's messages while this process waits for a processor.
const RECEIVE_BUFFER_BYTES: usize = 2 << 20;

#[derive(Debug)]
pub(crate) struct Sockets {
    v6: Option<UdpSocket>,
    v4: Option<UdpSocket>,
    index: u32,
    port: u16,
}

impl Sockets {
    /// Opens those that this machine has; one is enough.
    pub(crate) fn open(name: &str, index: u32, port: u16) -> Result<Sockets, String> {
        let doing = |family: &'static str| {
            move |e: std::io::Error| {
                let hint = if e.kind() == ErrorKind::AddrInUse {
                    "; another program has this port there"
                } else {
                    ""
                };
                format!("opening UDP port {port} on {name} ({family}): {e}{hint}")
            }
        };
        let v6 = open_v6(name, index, port).map_err(doing("IPv6"));
        let v4 = open_v4(name, port).map_err(doing("IPv4"));
        match (v6, v4) {
            (Err(why), Err(_)) => Err(why),
            (v6, v4) => Ok(Sockets { v6: v6.ok(), v4: v4.ok(), index, port }),
        }
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.v6.iter().chain(&self.v4).map(UdpSocket::as_fd)
    }

    /// Takes what has come. What the handler sees: from where, and the bytes.
    pub(crate) fn drain(&self, batch: &mut Batch, mut each: impl FnMut(SocketAddr, &[u8])) {
        for socket in self.v6.iter().chain(&self.v4) {
            batch.drain(socket, MAX_AT_ONCE, &mut each);
        }
    }

    /// Tells everybody on the link.
    pub(crate) fn tell_all(&self, bytes: &[u8], by_v6: bool, by_v4: bool) -> std::io::Result<()> {
        let v6 = self.v6.as_ref().filter(|_| by_v6).map(|socket| {
            socket.send_to(bytes, SocketAddrV6::new(MULTICAST_GROUP, self.port, 0, self.index)).map(drop)
        });
        // Better twice than not at all.
        let v6_failed = !matches!(v6, Some(Ok(())));
        let v4 =
            self.v4.as_ref().filter(|_| by_v4 || v6_failed).map(|socket| {
                socket.send_to(bytes, SocketAddrV4::new(Ipv4Addr::BROADCAST, self.port)).map(drop)
            });
        match (v6, v4) {
            (Some(Ok(())), _) | (_, Some(Ok(()))) => Ok(()),
            (Some(Err(e)), _) | (_, Some(Err(e))) => Err(e),
            (None, None) => Err(ErrorKind::AddrNotAvailable.into()),
        }
    }

    /// Tells one address.
    pub(crate) fn tell(&self, bytes: &[u8], to: SocketAddr) -> std::io::Result<()> {
        let socket = if matches!(to.ip(), IpAddr::V4(_)) { &self.v4 } else { &self.v6 };
        let socket = socket.as_ref().ok_or(ErrorKind::AddrNotAvailable)?;
        socket.send_to(bytes, to).map(drop)
    }
}

fn open_v6(name: &str, index: u32, port: u16) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_only_v6(true)?;
    socket.bind_device(Some(name.as_bytes()))?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
    // Where IPv6 is switched off on the interface this fails, and IPv4 does.
    socket.join_multicast_v6(&MULTICAST_GROUP, index)?;
    socket.set_multicast_if_v6(index)?;
    socket.set_multicast_loop_v6(false)?;
    socket.set_nonblocking(true)?;
    widen(&socket);
    Ok(socket.into())
}

fn open_v4(name: &str, port: u16) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.bind_device(Some(name.as_bytes()))?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    socket.set_broadcast(true)?;
    socket.set_nonblocking(true)?;
    widen(&socket);
    Ok(socket.into())
}

/// Makes room for a flood: beyond `net.core.rmem_max` where CAP_NET_ADMIN allows that (at the start), else up to it.
pub(crate) fn widen(socket: &impl AsFd) {
    if setsockopt(socket, RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
        // It works with less, too.
        let _ = setsockopt(socket, RcvBuf, &RECEIVE_BUFFER_BYTES);
    }
}
