//! The UDP sockets of an interface: IPv6 link-local multicast if the interface has a link-local
//! address, otherwise IPv4 broadcast. IPv4 broadcast is also used if a known member has only IPv4.

use crate::batch::Batch;
use crate::error::ShareError;
use nix::sys::socket::{setsockopt, sockopt::RcvBuf, sockopt::RcvBufForce};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use yuzuri_policy::{Member, Moment, Outgoing, To};

/// UDP port of the messages: unassigned by IANA (User Ports, 48654 to 48999).
pub const DEFAULT_PORT: u16 = 48_770;
/// The multicast group of all members on the link: link-local scope (RFC 4291), transient (T flag),
/// with a group ID from the range for dynamic use (RFC 3307, section 4.3): 0x80, "yuz".
pub const MULTICAST_GROUP: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0x8079, 0x757a);

/// DSCP CS6 in the traffic class.
const CLASS_SELECTOR_6: u32 = 48 << 2;
/// The highest `SO_PRIORITY` that needs no privilege (`linux/pkt_sched.h`).
const TC_PRIO_INTERACTIVE: u32 = 6;

/// Maximum number of datagrams received per wake-up. The rest waits for the next one, so that a
/// flood does not block other work.
const MAX_AT_ONCE: usize = 1024;
/// Receive buffer size, bytes. The kernel charges about 1 kB for one of our datagrams and doubles
/// the requested size. This holds what arrives in 0.2 s at 20,000 datagrams per second, so that a
/// flood displaces no messages while this process waits for a CPU.
const RECEIVE_BUFFER_BYTES: usize = 2 << 20;

/// Messages that could not be sent.
#[derive(Debug, Default)]
pub(crate) struct SendErrors {
    pub(crate) count: u64,
    pub(crate) last: Option<String>,
    /// Whether one of the messages that were due last is among them.
    is_current: bool,
}

impl SendErrors {
    /// Adds the results of all messages that were due at one time.
    fn add(&mut self, results: Vec<Result<(), ShareError>>) {
        if results.is_empty() {
            return;
        }
        self.is_current = false;
        for error in results.into_iter().filter_map(Result::err) {
            self.is_current = true;
            self.count += 1;
            self.last = Some(error.to_string());
        }
    }

    /// The last error, until all messages that are due at one time have been sent.
    pub(crate) fn current(&self) -> Option<&str> {
        self.last.as_deref().filter(|_| self.is_current)
    }
}

#[derive(Debug)]
pub(crate) struct Sockets {
    v6: Option<UdpSocket>,
    v4: Option<UdpSocket>,
    index: u32,
    port: u16,
    pub(crate) send_errors: SendErrors,
}

impl Sockets {
    /// Opens the sockets of the available address families; one is enough.
    pub(crate) fn open(name: &str, index: u32, port: u16) -> Result<Sockets, ShareError> {
        let doing = |family: &'static str| {
            move |e: std::io::Error| {
                let hint = if e.kind() == ErrorKind::AddrInUse {
                    "; another program has this port there"
                } else {
                    ""
                };
                ShareError::system(
                    format!("opening UDP port {port} on {name} ({family})"),
                    format!("{e}{hint}"),
                )
            }
        };
        let v6 = open_v6(name, index, port).map_err(doing("IPv6"));
        let v4 = open_v4(name, port).map_err(doing("IPv4"));
        match (v6, v4) {
            (Err(why), Err(_)) => Err(why),
            (v6, v4) => {
                Ok(Sockets { v6: v6.ok(), v4: v4.ok(), index, port, send_errors: SendErrors::default() })
            }
        }
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.v6.iter().chain(&self.v4).map(UdpSocket::as_fd)
    }

    /// Drains the sockets. Calls `each` with the source address and the bytes.
    pub(crate) fn drain(&self, batch: &mut Batch, mut each: impl FnMut(SocketAddr, &[u8])) {
        for socket in self.v6.iter().chain(&self.v4) {
            batch.drain(socket, MAX_AT_ONCE, &mut each);
        }
    }

    /// Sends the messages of `members` that are due, and notes errors. `by_v6`: whether the
    /// interface has a link-local address. `out` is only a buffer.
    pub(crate) fn send_due<'a>(
        &mut self,
        members: impl IntoIterator<Item = &'a mut Member>,
        now: Moment,
        by_v6: bool,
        out: &mut Vec<Outgoing>,
    ) {
        let mut results = Vec::new();
        for member in members {
            out.clear();
            member.poll(now, out);
            results.extend(
                out.drain(..).map(|outgoing| self.send(&outgoing, by_v6, || any_by_ipv4(member, now))),
            );
        }
        self.send_errors.add(results);
    }

    /// Sends a message; the error names the destination. `any_by_ipv4`: whether a member has sent
    /// by IPv4; only used for broadcasts.
    fn send(
        &self,
        outgoing: &Outgoing,
        by_v6: bool,
        any_by_ipv4: impl FnOnce() -> bool,
    ) -> Result<(), ShareError> {
        let sent = match outgoing.to {
            To::All => self.send_to_all(&outgoing.bytes, by_v6, any_by_ipv4()),
            To::One(address) => self.send_to_one(&outgoing.bytes, address),
        };
        sent.map_err(|error| {
            let to = match outgoing.to {
                To::All => "everybody".to_owned(),
                To::One(address) => address.to_string(),
            };
            let advice = match error.raw_os_error() {
                Some(libc::EPERM) => ": a firewall rule or IPAddressDeny= of the service blocks it",
                _ => "",
            };
            ShareError::system(format!("to {to}"), format!("{error}{advice}"))
        })
    }

    /// Sends to every terminal on the link.
    fn send_to_all(&self, bytes: &[u8], by_v6: bool, by_v4: bool) -> std::io::Result<()> {
        let v6 = self.v6.as_ref().filter(|_| by_v6).map(|socket| {
            socket.send_to(bytes, SocketAddrV6::new(MULTICAST_GROUP, self.port, 0, self.index)).map(drop)
        });
        // A duplicate is better than a lost message.
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

    /// Sends to one address.
    fn send_to_one(&self, bytes: &[u8], to: SocketAddr) -> std::io::Result<()> {
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
    // This fails if IPv6 is disabled on the interface; IPv4 is then used.
    socket.join_multicast_v6(&MULTICAST_GROUP, index)?;
    socket.set_multicast_if_v6(index)?;
    socket.set_multicast_loop_v6(false)?;
    socket.set_nonblocking(true)?;
    widen(&socket);
    prioritise(&socket, socket.set_tclass_v6(CLASS_SELECTOR_6));
    Ok(socket.into())
}

fn open_v4(name: &str, port: u16) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.bind_device(Some(name.as_bytes()))?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    socket.set_broadcast(true)?;
    socket.set_nonblocking(true)?;
    widen(&socket);
    prioritise(&socket, socket.set_tos_v4(CLASS_SELECTOR_6));
    Ok(socket.into())
}

/// Gives messages priority over the data that they are to bound: behind a queue of several seconds,
/// a group would take as long to form. DSCP CS6 (RFC 2474) selects the access category for voice on
/// 802.11; the priority selects the first band of pfifo_fast. Setting the DSCP of IPv4 resets the
/// priority (`ip_setsockopt`), which is therefore set after it.
fn prioritise(socket: &Socket, marked: std::io::Result<()>) {
    // If the kernel refuses either, messages only take longer.
    let _ = marked.and_then(|()| socket.set_priority(TC_PRIO_INTERACTIVE));
}

/// Enlarges the receive buffer: beyond `net.core.rmem_max` with CAP_NET_ADMIN (at start-up),
/// otherwise up to that limit.
pub(crate) fn widen(socket: &impl AsFd) {
    if setsockopt(socket, RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
        // The socket also works with a smaller buffer.
        let _ = setsockopt(socket, RcvBuf, &RECEIVE_BUFFER_BYTES);
    }
}

/// Whether any member has sent by IPv4.
pub(crate) fn any_by_ipv4(member: &Member, now: Moment) -> bool {
    member.members(now).any(|m| m.address.is_some_and(|a| matches!(a.ip().to_canonical(), IpAddr::V4(_))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use socket2::SockRef;

    #[test]
    fn a_send_error_is_current_until_all_messages_of_one_time_are_sent() {
        let failed = |why: &str| Err(ShareError::system("to everybody", why));
        let mut errors = SendErrors::default();
        errors.add(vec![Ok(()), failed("no route"), Ok(())]);
        assert_eq!((errors.count, errors.current().is_some()), (1, true));
        errors.add(Vec::new());
        assert!(errors.current().is_some(), "nothing was sent since");
        errors.add(vec![failed("no buffer"), failed("no device")]);
        assert!(errors.count == 3 && errors.current().unwrap().contains("no device"), "{errors:?}");
        errors.add(vec![Ok(()), Ok(())]);
        assert_eq!((errors.count, errors.current()), (3, None));
        assert!(errors.last.unwrap().contains("no device"), "the daemon's status shows it further on");
    }

    #[test]
    fn messages_do_not_wait_behind_bulk_data() {
        let v4 = open_v4("lo", 0).unwrap();
        assert_eq!(SockRef::from(&v4).tos_v4().unwrap(), CLASS_SELECTOR_6);
        assert_eq!(SockRef::from(&v4).priority().unwrap(), TC_PRIO_INTERACTIVE);
        let index = nix::net::if_::if_nametoindex("lo").unwrap();
        let Ok(v6) = open_v6("lo", index, 0) else {
            eprintln!("skipped for IPv6: this machine has none on lo");
            return;
        };
        assert_eq!(SockRef::from(&v6).tclass_v6().unwrap(), CLASS_SELECTOR_6);
        assert_eq!(SockRef::from(&v6).priority().unwrap(), TC_PRIO_INTERACTIVE);
    }
}
