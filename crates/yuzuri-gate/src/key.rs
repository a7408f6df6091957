//! Identifies a connection.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A connection between a station and a server, both of one address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    station: SocketAddr,
    server: SocketAddr,
}

/// The two ends of a connection are of different address families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{station} and {server} have different address families: no connection has such ends")]
pub struct NotOneFamily {
    /// The station's end.
    pub station: SocketAddr,
    /// The server's.
    pub server: SocketAddr,
}

/// The size of a key in the kernel's tables, bytes.
pub(crate) const KEY_BYTES: usize = 36;

impl FlowKey {
    /// The connection between two endpoints. IPv4-mapped addresses count as IPv4.
    ///
    /// # Errors
    /// If the families differ.
    pub fn new(station: SocketAddr, server: SocketAddr) -> Result<FlowKey, NotOneFamily> {
        let (station, server) = (plain(station), plain(server));
        if station.is_ipv4() == server.is_ipv4() {
            Ok(FlowKey { station, server })
        } else {
            Err(NotOneFamily { station, server })
        }
    }

    /// The connection of a segment, whose addresses come from one header.
    pub(crate) fn of_wire(station: SocketAddr, server: SocketAddr) -> FlowKey {
        FlowKey { station: plain(station), server: plain(server) }
    }

    /// The station's end.
    pub fn station(&self) -> SocketAddr {
        self.station
    }

    /// The server's end.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// The memory layout of `struct flow_key`.
    pub(crate) fn bytes(&self) -> [u8; KEY_BYTES] {
        let mut bytes = [0; KEY_BYTES];
        bytes[..16].copy_from_slice(&address_bytes(self.station.ip()));
        bytes[16..32].copy_from_slice(&address_bytes(self.server.ip()));
        bytes[32..34].copy_from_slice(&self.station.port().to_be_bytes());
        bytes[34..].copy_from_slice(&self.server.port().to_be_bytes());
        bytes
    }

    /// The inverse of [`FlowKey::bytes`].
    pub(crate) fn read(bytes: &[u8]) -> Option<FlowKey> {
        let bytes: &[u8; KEY_BYTES] = bytes.try_into().ok()?;
        let address = |at: usize| {
            let octets: [u8; 16] = bytes[at..at + 16].try_into().unwrap_or_default();
            Ipv6Addr::from(octets).to_canonical()
        };
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let (station, server) = (address(0), address(16));
        Some(FlowKey {
            station: SocketAddr::new(station, port(32)),
            server: SocketAddr::new(server, port(34)),
        })
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.station, self.server)
    }
}

/// IPv4-mapped addresses as IPv4.
fn plain(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

/// The memory layout of `struct station`: IPv6 in network order, IPv4 mapped.
pub(crate) fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_flow_key_survives_the_map_encoding() {
        for (station, server) in [
            ("10.0.0.2:40000", "192.0.2.1:443"),
            ("[fd00::2]:1", "[2001:db8::1]:65535"),
            ("[::1]:0", "[::]:0"),
        ] {
            let key = FlowKey::new(station.parse().unwrap(), server.parse().unwrap()).unwrap();
            assert_eq!(FlowKey::read(&key.bytes()), Some(key));
            assert_eq!(key.to_string(), format!("{station} -> {server}"));
        }
        assert_eq!(FlowKey::read(&[0; 35]), None);
    }

    #[test]
    fn both_ends_are_of_one_family() {
        let (four, six): (SocketAddr, SocketAddr) =
            ("10.0.0.2:1".parse().unwrap(), "[fd00::1]:2".parse().unwrap());
        assert!(FlowKey::new(four, six).is_err() && FlowKey::new(six, four).is_err());
        let mapped = "[::ffff:10.0.0.2]:1".parse().unwrap();
        assert_eq!(FlowKey::new(mapped, four).unwrap().station(), four);
    }
}
