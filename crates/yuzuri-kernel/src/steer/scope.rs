//! Selects flows by their local address.

use super::types;
use crate::control::ControlError;
use std::net::{IpAddr, Ipv6Addr};

/// Addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// Any address with this prefix.
    pub address: IpAddr,
    /// The length of the prefix, 0 to 32 or 128.
    pub bits: u8,
}

impl Prefix {
    /// A single address.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// In the program's form for comparison: IPv4 mapped into IPv6.
    fn words(self) -> types::prefix {
        let (address, bits) = match self.address {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped(), 96 + u32::from(self.bits.min(32))),
            IpAddr::V6(v6) => (v6, u32::from(self.bits.min(128))),
        };
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        let words = |address: Ipv6Addr| {
            let bytes = address.octets();
            [0, 4, 8, 12]
                .map(|at| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
        };
        types::prefix { address: words((u128::from(address) & mask).into()), mask: words(mask.into()) }
    }
}

/// The local addresses of flows in scope: those of an interface. Empty: all but loopback, which is
/// never in scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope(pub Vec<Prefix>);

impl Scope {
    /// Maximum number of prefixes.
    pub const MAX: usize = 64;

    pub(super) fn words(&self) -> Result<types::scope, ControlError> {
        let mut words = types::scope { count: self.0.len() as u32, ..Default::default() };
        if self.0.len() > Self::MAX {
            return Err(ControlError::Steering(format!(
                "{} address prefixes: at most {} are possible; use shorter prefixes",
                self.0.len(),
                Self::MAX
            )));
        }
        for (to, from) in words.prefixes.iter_mut().zip(&self.0) {
            *to = from.words();
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn prefixes_are_masks_in_network_order() {
        let bytes = |words: [u32; 4]| words.map(u32::to_ne_bytes).concat();
        let v4 = Prefix { address: "10.77.3.9".parse().unwrap(), bits: 16 }.words();
        assert_eq!(bytes(v4.address), "::ffff:10.77.0.0".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(bytes(v4.mask), [vec![255; 14], vec![0, 0]].concat());
        let v6 = Prefix { address: "fd77::9".parse().unwrap(), bits: 0 }.words();
        assert_eq!((v6.address, v6.mask), ([0; 4], [0; 4]));
        let host = Prefix::host("fd77::9".parse().unwrap()).words();
        assert_eq!(host.mask, [u32::MAX; 4]);
        let all_v4 = Prefix { address: "1.2.3.4".parse().unwrap(), bits: 0 }.words();
        assert_eq!(bytes(all_v4.address), "::ffff:0.0.0.0".parse::<Ipv6Addr>().unwrap().octets());
    }

    #[test]
    fn too_many_prefixes_are_refused() {
        let prefix = Prefix::host("10.0.0.1".parse().unwrap());
        Scope(vec![prefix; Scope::MAX]).words().unwrap();
        let error = Scope(vec![prefix; Scope::MAX + 1]).words().err().unwrap().to_string();
        assert!(error.contains("at most 64 are possible"), "{error}");
    }
}
