//! Routes and neighbours of the network namespace, and change notifications (rtnetlink(7)).

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use crate::answers;
use crate::error::ShareError;
use neli::consts::nl::NlmF;
use neli::consts::rtnl::{Nda, Nud, RtAddrFamily, RtScope, RtTable, Rta, Rtm, Rtn, Rtprot};
use neli::consts::socket::NlFamily;
use neli::nl::{NlPayload, Nlmsghdr, NlmsghdrBuilder};
use neli::rtnl::{Ndmsg, NdmsgBuilder, Rtmsg, RtmsgBuilder};
use neli::socket::synchronous::NlSocketHandle;
use neli::utils::Groups;
use neli::{FromBytesWithInput, Size, ToBytes};
use nix::sys::socket::{MsgFlags, recv};
use std::collections::HashMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

// rtnetlink multicast groups (linux/rtnetlink.h): links, and the addresses and routes of both
// families.
const RTNLGRP_LINK: u32 = 1;
const RTNLGRP_IPV4_IFADDR: u32 = 5;
const RTNLGRP_IPV4_ROUTE: u32 = 7;
const RTNLGRP_IPV6_IFADDR: u32 = 9;
const RTNLGRP_IPV6_ROUTE: u32 = 11;

/// Message types that end a reply.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

pub(crate) struct Netlink {
    changes: NlSocketHandle,
}

/// A default route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DefaultRoute {
    pub(crate) interface: u32,
    pub(crate) gateway: Option<IpAddr>,
    metric: u32,
    is_v6: bool,
}

impl Netlink {
    pub(crate) fn open() -> Result<Netlink, ShareError> {
        let changes = connect(&[
            RTNLGRP_LINK,
            RTNLGRP_IPV4_IFADDR,
            RTNLGRP_IPV4_ROUTE,
            RTNLGRP_IPV6_IFADDR,
            RTNLGRP_IPV6_ROUTE,
        ])?;
        Ok(Netlink { changes })
    }

    /// Becomes readable when the network configuration changes.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket stays open as long as `self` lives, and the result borrows `self`.
        unsafe { BorrowedFd::borrow_raw(self.changes.as_raw_fd()) }
    }

    /// Whether anything has changed since the last call. The details are queried again, because
    /// notifications can be lost.
    pub(crate) fn changed(&self) -> bool {
        let mut buffer = [0; 8192];
        let mut changed = false;
        loop {
            match recv(self.changes.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(1..) | Err(nix::Error::ENOBUFS) => changed = true,
                Ok(_) | Err(_) => return changed,
            }
        }
    }

    /// The default routes: IPv4 first, and the preferred routes first.
    pub(crate) fn default_routes(&self) -> Result<Vec<DefaultRoute>, ShareError> {
        let mut routes = Vec::new();
        for family in [RtAddrFamily::Inet, RtAddrFamily::Inet6] {
            let question = RtmsgBuilder::default()
                .rtm_family(family)
                .rtm_dst_len(0)
                .rtm_src_len(0)
                .rtm_tos(0)
                .rtm_table(RtTable::Unspec)
                .rtm_protocol(Rtprot::Unspec)
                .rtm_scope(RtScope::Universe)
                .rtm_type(Rtn::Unspec)
                .build()
                .map_err(|e| ShareError::system("reading the kernel's default routes", e))?;
            self.dump(Rtm::Getroute, question, "the default routes", |route: &Rtmsg| {
                if *route.rtm_dst_len() == 0 && *route.rtm_type() == Rtn::Unicast {
                    routes.extend(default_route(route, family == RtAddrFamily::Inet6));
                }
            })?;
        }
        routes.sort_by_key(|route| (route.is_v6, route.metric));
        Ok(routes)
    }

    /// The link-layer address of a neighbour, if the kernel knows it.
    pub(crate) fn link_address(&self, interface: u32, of: IpAddr) -> Option<Vec<u8>> {
        let family = if of.is_ipv4() { RtAddrFamily::Inet } else { RtAddrFamily::Inet6 };
        let question = question_about(family, interface)?;
        let mut found = None;
        self.dump(Rtm::Getneigh, question, "the neighbours", |neighbour: &Ndmsg| {
            found = neighbour_of(neighbour, interface)
                .filter(|(at, _)| *at == of)
                .map(|(_, link)| link)
                .or(found.take());
        })
        .ok()?;
        found
    }

    /// The link-layer addresses of all neighbours that the kernel knows on an interface.
    pub(crate) fn neighbours(&self, interface: u32) -> Result<HashMap<IpAddr, Vec<u8>>, ShareError> {
        let mut all = HashMap::new();
        for family in [RtAddrFamily::Inet, RtAddrFamily::Inet6] {
            let question = question_about(family, interface).ok_or_else(|| {
                ShareError::system("reading the kernel's neighbour table", "the request cannot be built")
            })?;
            self.dump(Rtm::Getneigh, question, "the neighbours", |neighbour: &Ndmsg| {
                all.extend(neighbour_of(neighbour, interface));
            })?;
        }
        Ok(all)
    }

    fn dump<Q, A>(
        &self,
        kind: Rtm,
        question: Q,
        what: &str,
        mut each: impl FnMut(&A),
    ) -> Result<(), ShareError>
    where
        Q: Size + ToBytes + Debug,
        A: Size + FromBytesWithInput<Input = usize> + Debug,
    {
        let failed =
            |why: &dyn std::fmt::Display| ShareError::system(format!("asking the kernel for {what}"), why);
        let message: Nlmsghdr<Rtm, Q> = NlmsghdrBuilder::default()
            .nl_type(kind)
            .nl_flags(NlmF::REQUEST | NlmF::DUMP)
            .nl_payload(NlPayload::Payload(question))
            .build()
            .map_err(|e| failed(&e))?;
        // Use a new socket for each request: the rest of an aborted reply must not mix with the
        // next one.
        let socket = connect(&[])?;
        socket.send(&message).map_err(|e| failed(&e))?;
        loop {
            let datagram = answers::receive(&socket).map_err(|e| failed(&e))?;
            for answer in answers::messages::<Rtm, A>(&datagram) {
                let answer = answer.map_err(|e| failed(&e))?;
                match (u16::from(*answer.nl_type()), answer.nl_payload()) {
                    (NLMSG_DONE, _) => return Ok(()),
                    (NLMSG_ERROR, payload) => return Err(failed(&format!("{payload:?}"))),
                    (_, NlPayload::Payload(payload)) => each(payload),
                    _ => {}
                }
            }
        }
    }
}

fn connect(groups: &[u32]) -> Result<NlSocketHandle, ShareError> {
    NlSocketHandle::connect(NlFamily::Route, None, Groups::new_groups(groups))
        .map_err(|e| ShareError::system("opening a socket for routes and addresses (rtnetlink)", e))
}

fn default_route(route: &Rtmsg, is_v6: bool) -> Option<DefaultRoute> {
    let (mut interface, mut gateway, mut metric) = (None, None, 0);
    for attribute in route.rtattrs().iter() {
        let bytes = attribute.rta_payload().as_ref();
        let word = || <[u8; 4]>::try_from(bytes).ok().map(u32::from_ne_bytes);
        match attribute.rta_type() {
            Rta::Oif => interface = word(),
            Rta::Gateway => gateway = address(bytes),
            Rta::Priority => metric = word().unwrap_or(0),
            _ => {}
        }
    }
    Some(DefaultRoute { interface: interface?, gateway, metric, is_v6 })
}

fn question_about(family: RtAddrFamily, interface: u32) -> Option<Ndmsg> {
    let question = NdmsgBuilder::default().ndm_family(family).ndm_index(interface as i32);
    question.ndm_state(Nud::empty()).ndm_type(Rtn::Unspec).build().ok()
}

/// The address and the link-layer address in a neighbour entry of this interface, if it has one.
fn neighbour_of(neighbour: &Ndmsg, interface: u32) -> Option<(IpAddr, Vec<u8>)> {
    if *neighbour.ndm_index() != interface as i32 {
        return None;
    }
    let (mut at, mut link) = (None, None);
    for attribute in neighbour.rtattrs().iter() {
        match attribute.rta_type() {
            Nda::Dst => at = address(attribute.rta_payload().as_ref()),
            Nda::Lladdr => link = Some(attribute.rta_payload().as_ref().to_vec()),
            _ => {}
        }
    }
    at.zip(link.filter(|link: &Vec<u8>| link.iter().any(|byte| *byte != 0)))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

/// For the fuzzer: decodes a datagram as a reply about routes and about neighbours. Returns the
/// number of default routes and link-layer addresses.
#[cfg(any(fuzzing, debug_assertions))]
pub(crate) fn fuzz(bytes: &[u8]) -> usize {
    fn payloads<A: Size + FromBytesWithInput<Input = usize>>(bytes: &[u8], mut each: impl FnMut(&A)) {
        for answer in answers::messages::<Rtm, A>(bytes).filter_map(Result::ok) {
            answer.get_payload().into_iter().for_each(&mut each);
        }
    }
    let mut found = 0;
    payloads(bytes, |route: &Rtmsg| {
        if *route.rtm_dst_len() == 0 {
            found += usize::from(default_route(route, false).is_some_and(|route| route.gateway.is_some()));
        }
    });
    payloads(bytes, |neighbour: &Ndmsg| {
        let known = neighbour_of(neighbour, *neighbour.ndm_index() as u32);
        assert!(known.as_ref().is_none_or(|(_, link)| link.iter().any(|byte| *byte != 0)));
        for of in [IpAddr::from([10, 88, 0, 1]), "fd88::1".parse().unwrap_or(IpAddr::from([0; 16]))] {
            found += usize::from(known.as_ref().is_some_and(|(at, _)| *at == of));
        }
    });
    found
}
