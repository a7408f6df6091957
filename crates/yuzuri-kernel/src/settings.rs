//! A filter and a density in the kernel's form.

use crate::abi::config;
use crate::{WatchError, cgroups, netns};
use std::net::IpAddr;
use yuzuri_trace::{Density, End, Filter, Prefix};

fn end(end: End) -> u8 {
    match end {
        End::Either => 0,
        End::Local => 1,
        End::Remote => 2,
    }
}

/// Address and mask in network order, IPv4 as IPv4-mapped IPv6.
fn words(prefix: &Prefix) -> ([u32; 4], [u32; 4]) {
    let (bits, len) = match prefix.addr {
        IpAddr::V4(v4) => (v4.to_ipv6_mapped().to_bits(), u32::from(prefix.len) + 96),
        IpAddr::V6(v6) => (v6.to_bits(), u32::from(prefix.len)),
    };
    let mask = if len == 0 { 0 } else { u128::MAX << (128 - len) };
    let split = |bits: u128| {
        let b = bits.to_be_bytes();
        [0, 4, 8, 12].map(|i| u32::from_ne_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]))
    };
    (split(bits & mask), split(mask))
}

/// The configuration of the programs; names of namespaces and control groups become numbers.
pub(crate) fn config(filter: &Filter, density: Density, generation: u32) -> Result<config, WatchError> {
    let mut config = config { generation, ..Default::default() };
    config.interval_ns = density.interval().as_nanos() as u64;
    config.ports = filter.ports.len() as u8;
    for (term, (at, port)) in config.port.iter_mut().zip(&filter.ports) {
        term.port = *port;
        term.end = end(*at);
    }
    config.prefixes = filter.prefixes.len() as u8;
    for (term, (at, prefix)) in config.prefix.iter_mut().zip(&filter.prefixes) {
        (term.addr, term.mask) = words(prefix);
        term.end = end(*at);
    }
    config.pids = filter.pids.len() as u8;
    config.pid.iter_mut().zip(&filter.pids).for_each(|(to, pid)| *to = *pid);
    config.names = filter.names.len() as u8;
    for (to, name) in config.name.iter_mut().zip(&filter.names) {
        to.iter_mut().zip(name.bytes().take(15)).for_each(|(to, byte)| *to = byte as i8);
    }
    config.cgroups = filter.cgroups.len() as u8;
    for (to, path) in config.cgroup.iter_mut().zip(&filter.cgroups) {
        *to = cgroups::id(path)?;
    }
    config.netns = filter.netns.len() as u8;
    for (to, name) in config.ns.iter_mut().zip(&filter.netns) {
        *to = netns::inode(name)?;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_ipv4_prefix_becomes_a_mapped_one() {
        let filter: Filter = "raddr:10.1.0.0/16 lport:80".parse().unwrap();
        let config = config(&filter, Density::EveryAck, 3).unwrap();
        let bytes: Vec<u8> = config.prefix[0].addr.iter().flat_map(|w| w.to_ne_bytes()).collect();
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 0, 0]);
        let mask: u32 = config.prefix[0].mask.iter().map(|w| w.count_ones()).sum();
        assert_eq!((mask, config.prefix[0].end, config.port[0].end), (112, 2, 1));
        assert_eq!((config.interval_ns, config.generation), (0, 3));
    }

    #[test]
    fn a_namespace_that_does_not_exist_is_named() {
        let filter: Filter = "netns:no-such-namespace".parse().unwrap();
        assert!(config(&filter, Density::EveryAck, 1).unwrap_err().to_string().contains("no-such-namespace"));
    }
}
