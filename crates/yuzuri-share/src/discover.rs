//! Finds the interfaces and the group behind each.

use crate::config::{InterfaceConfig, ShareConfig};
use crate::error::ShareError;
use crate::netlink::Netlink;
use crate::wireless::{Station, Wireless};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{AddressFamily, SockaddrLike};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use yuzuri_policy::GroupId;

/// The source of an interface's group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupFrom {
    /// The configuration.
    Config,
    /// The access point's BSSID, from nl80211.
    Bssid,
    /// The link-layer address of the default gateway.
    Gateway,
    /// There is no gateway: all terminals on the link are one group.
    Link,
}

impl GroupFrom {
    /// The name shown to users.
    pub fn name(self) -> &'static str {
        match self {
            GroupFrom::Config => "configuration",
            GroupFrom::Bssid => "BSSID",
            GroupFrom::Gateway => "gateway's link address",
            GroupFrom::Link => "link without a gateway",
        }
    }
}

/// The present state of an interface.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) up: bool,
    pub(crate) loopback: bool,
    pub(crate) broadcasts: bool,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) has_default_route: bool,
    /// The default gateways, the preferred one first.
    pub(crate) gateways: Vec<IpAddr>,
}

impl Interface {
    pub(crate) fn has_link_local_v6(&self) -> bool {
        self.addresses.iter().any(|a| matches!(a, IpAddr::V6(v6) if is_link_local(v6)))
    }

    fn takes_part_by_itself(&self) -> bool {
        let has_address = self.addresses.iter().any(|a| !matches!(a, IpAddr::V6(v6) if is_link_local(v6)));
        self.up && !self.loopback && has_address && (self.has_default_route || self.broadcasts)
    }
}

fn is_link_local(v6: &Ipv6Addr) -> bool {
    v6.segments()[0] & 0xffc0 == 0xfe80
}

/// Queries the kernel for interfaces and groups.
pub(crate) struct Discovery {
    pub(crate) netlink: Netlink,
    wireless: Wireless,
}

impl Discovery {
    pub(crate) fn new() -> Result<Discovery, ShareError> {
        Ok(Discovery { netlink: Netlink::open()?, wireless: Wireless::open() })
    }

    /// Lists all interfaces.
    pub(crate) fn interfaces(&mut self) -> Result<Vec<Interface>, ShareError> {
        let mut all: BTreeMap<String, Interface> = BTreeMap::new();
        let list =
            getifaddrs().map_err(|e| ShareError::system("reading the addresses of the interfaces", e))?;
        for entry in list {
            let interface = all.entry(entry.interface_name.clone()).or_default();
            interface.name = entry.interface_name;
            interface.up = entry.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING);
            interface.loopback = entry.flags.contains(InterfaceFlags::IFF_LOOPBACK);
            interface.broadcasts = entry.flags.contains(InterfaceFlags::IFF_BROADCAST);
            let Some(address) = entry.address else { continue };
            match address.family() {
                Some(AddressFamily::Packet) => {
                    interface.index = address.as_link_addr().map_or(0, |link| link.ifindex() as u32);
                }
                Some(AddressFamily::Inet) => {
                    interface.addresses.extend(address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip())));
                }
                Some(AddressFamily::Inet6) => {
                    interface.addresses.extend(address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())));
                }
                _ => {}
            }
        }
        for route in self.netlink.default_routes()? {
            if let Some(interface) = all.values_mut().find(|i| i.index == route.interface) {
                interface.has_default_route = true;
                interface.gateways.extend(route.gateway);
            }
        }
        Ok(all.into_values().filter(|i| i.index != 0).collect())
    }

    /// The station and its access point, if the interface is a Wi-Fi station.
    pub(crate) fn station(&mut self, interface: &Interface) -> Option<Station> {
        self.wireless.station(interface.index)
    }

    /// Whether the host at an address has the link-layer address by which this terminal's packets
    /// leave: that of its access point or of a gateway.
    pub(crate) fn is_access_point(&self, interface: &Interface, bssid: Option<[u8; 6]>, at: IpAddr) -> bool {
        let Ok(neighbours) = self.netlink.neighbours(interface.index) else { return false };
        let Some(link) = neighbours.get(&at) else { return false };
        let mut gateways = interface.gateways.iter().filter_map(|gateway| neighbours.get(gateway));
        bssid.is_some_and(|bssid| link[..] == bssid[..]) || gateways.any(|gateway| gateway == link)
    }

    /// The group behind an interface; `None`: not known yet, or there is none.
    pub(crate) fn group(
        &mut self,
        interface: &Interface,
        config: &InterfaceConfig,
        station: Option<&Station>,
    ) -> Option<(GroupId, GroupFrom)> {
        if let Some(group) = config.group {
            return Some((group, GroupFrom::Config));
        }
        if let Some(station) = station {
            return Some((GroupId::of(&station.bssid), GroupFrom::Bssid));
        }
        if !interface.broadcasts {
            // A tunnel or a mobile network: terminals cannot receive each other, and nothing
            // identifies those that share the radio channel.
            return None;
        }
        if interface.gateways.is_empty() {
            return Some((GroupId::of(b"link without a gateway"), GroupFrom::Link));
        }
        let link = interface.gateways.iter().find_map(|g| self.netlink.link_address(interface.index, *g))?;
        Some((GroupId::of(&link), GroupFrom::Gateway))
    }
}

/// The interfaces to use, each with its settings.
pub(crate) fn chosen(config: &ShareConfig, all: &[Interface]) -> Vec<(Interface, InterfaceConfig)> {
    if config.interfaces.is_empty() {
        let taking = all.iter().filter(|interface| interface.takes_part_by_itself());
        return taking.map(|i| (i.clone(), InterfaceConfig::named(&i.name))).collect();
    }
    let named = config.interfaces.iter().filter_map(|wanted| {
        let interface = all.iter().find(|interface| interface.name == wanted.name && interface.up)?;
        Some((interface.clone(), wanted.clone()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn interface(name: &str, address: &str) -> Interface {
        Interface {
            name: name.into(),
            index: 2,
            up: true,
            broadcasts: true,
            addresses: vec![address.parse().unwrap()],
            ..Interface::default()
        }
    }

    #[test]
    fn interfaces_that_are_up_and_have_a_route_take_part() {
        let all = [
            interface("eth0", "192.0.2.1"),
            Interface { loopback: true, ..interface("lo", "127.0.0.1") },
            Interface { up: false, ..interface("eth1", "192.0.2.2") },
            Interface { broadcasts: false, ..interface("tun0", "192.0.2.3") },
            Interface { broadcasts: false, has_default_route: true, ..interface("wwan0", "192.0.2.4") },
            interface("eth2", "fe80::1"),
        ];
        let names = |config: &ShareConfig| -> Vec<String> {
            chosen(config, &all).into_iter().map(|(i, _)| i.name).collect()
        };
        assert_eq!(names(&ShareConfig::default()), ["eth0", "wwan0"]);
        let named = ["tun0", "eth1", "none"].map(InterfaceConfig::named).to_vec();
        assert_eq!(names(&ShareConfig { interfaces: named, ..ShareConfig::default() }), ["tun0"]);
    }
}
