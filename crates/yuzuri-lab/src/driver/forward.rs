//! Forwards ordinary packets between cell and wire in place of the access point's host: new MAC
//! addresses, and a TTL or hop limit lower by one. Real access points do the same in hardware. This
//! saves two passes through a TAP device and the host's routing, a fifth of a run's instructions.
//! Any other packet goes to the host.

use super::Frame;
use crate::net::terminal_number;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The addresses as the access point's host knows them.
#[derive(Debug, Clone)]
pub struct Forwarding {
    /// The access point's own kernel forwards everything, so that programs at its devices see it.
    pub by_host: bool,
    /// The access point's MAC addresses: in the cell, on the wire.
    pub ap: ([u8; 6], [u8; 6]),
    /// The server's addresses.
    pub server: ([u8; 6], Ipv4Addr, Ipv6Addr),
    /// The terminals' addresses, in station order.
    pub terminals: Vec<([u8; 6], Ipv4Addr, Ipv6Addr)>,
}

impl Forwarding {
    /// Rewrites a frame from the cell for the wire if it is an ordinary packet to the server;
    /// returns whether it is.
    pub(super) fn to_server(&self, frame: &mut Frame) -> bool {
        let (mac, v4, v6) = self.server;
        !self.by_host
            && frame.destination() == Some(self.ap.0)
            && matches!(frame.ip_destination(), Some(to) if to == v4 || to == v6)
            && frame.forward(mac, self.ap.1)
    }

    /// Rewrites a frame from the wire for the cell if it is an ordinary packet to a terminal;
    /// returns the terminal.
    pub(super) fn to_terminal(&self, frame: &mut Frame) -> Option<u16> {
        if self.by_host || frame.destination() != Some(self.ap.1) {
            return None;
        }
        let to = frame.ip_destination()?;
        let at = terminal_number(to)?;
        let (mac, v4, v6) = self.terminals.get(at)?;
        // The number in the address could be that of another run's terminal.
        ((to == *v4 || to == *v6) && frame.forward(*mac, self.ap.0)).then_some(at as u16)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const AP: ([u8; 6], [u8; 6]) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

    fn forwarding() -> Forwarding {
        let v6 = |host| Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host);
        Forwarding {
            by_host: false,
            ap: AP,
            server: ([2, 0, 0, 0, 0, 3], Ipv4Addr::new(10, 160, 0, 2), v6(2)),
            terminals: (10..13)
                .map(|n| ([2, 0, 0, 0, 1, n], Ipv4Addr::new(10, 64, 0, n), v6(n.into())))
                .collect(),
        }
    }

    fn packet(mac: [u8; 6], to: std::net::IpAddr) -> Frame {
        let mut bytes = [0; 60];
        bytes[..6].copy_from_slice(&mac);
        match to {
            std::net::IpAddr::V4(to) => {
                bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
                bytes[22] = 64;
                bytes[30..34].copy_from_slice(&to.octets());
            }
            std::net::IpAddr::V6(to) => {
                bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
                bytes[21] = 64;
                bytes[38..54].copy_from_slice(&to.octets());
            }
        }
        Frame::of(&bytes)
    }

    #[test]
    fn packets_between_terminals_and_server_are_forwarded() {
        let forwarding = forwarding();
        for server in [forwarding.server.1.into(), forwarding.server.2.into()] {
            let mut up = packet(AP.0, server);
            assert!(forwarding.to_server(&mut up));
            assert_eq!(up.destination(), Some(forwarding.server.0));
            assert_eq!(up.bytes()[6..12], AP.1);
        }
        for (number, (mac, v4, v6)) in forwarding.terminals.iter().enumerate() {
            for terminal in [(*v4).into(), (*v6).into()] {
                let mut down = packet(AP.1, terminal);
                assert_eq!(forwarding.to_terminal(&mut down), Some(number as u16));
                assert_eq!((down.destination(), &down.bytes()[6..12]), (Some(*mac), &AP.0[..]));
            }
        }
    }

    #[test]
    fn all_is_for_the_host_that_forwards_by_itself() {
        let by_host = Forwarding { by_host: true, ..forwarding() };
        assert!(!by_host.to_server(&mut packet(AP.0, by_host.server.1.into())));
        assert_eq!(by_host.to_terminal(&mut packet(AP.1, by_host.terminals[0].1.into())), None);
    }

    #[test]
    fn all_other_frames_go_to_the_access_points_host() {
        let forwarding = forwarding();
        let (server, terminal) = (forwarding.server.1.into(), forwarding.terminals[0].1.into());
        let elsewhere = Ipv4Addr::new(10, 160, 0, 1).into();
        for (mac, to) in [([0xff; 6], server), (AP.1, server), (AP.0, elsewhere), (AP.0, terminal)] {
            assert!(!forwarding.to_server(&mut packet(mac, to)));
        }
        for (mac, to) in [([0xff; 6], terminal), (AP.0, terminal), (AP.1, elsewhere), (AP.1, server)] {
            assert_eq!(forwarding.to_terminal(&mut packet(mac, to)), None);
        }
    }
}
