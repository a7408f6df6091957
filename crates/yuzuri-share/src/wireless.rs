//! Reads a Wi-Fi station's access point and transmit rate through nl80211.

use crate::{RadioConfig, answers};
use neli::consts::genl::{CtrlAttr, CtrlCmd};
use neli::consts::nl::{GenlId, NlmF};
use neli::consts::nl80211::Nl80211Command;
use neli::consts::socket::NlFamily;
use neli::genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, NlattrBuilder, NoUserHeader};
use neli::nl::{NlPayload, Nlmsghdr, NlmsghdrBuilder};
use neli::socket::synchronous::NlSocketHandle;
use neli::types::GenlBuffer;
use neli::utils::Groups;
use std::collections::{HashMap, VecDeque};
use yuzuri_policy::{Aggregation, RadioHint};
use yuzuri_stats::upper_median_by;

// linux/nl80211.h: enum nl80211_attrs, nl80211_iftype, nl80211_sta_info, nl80211_rate_info. Rates
// are in units of 100 kbit/s.
const ATTR_IFINDEX: u16 = 3;
const ATTR_IFTYPE: u16 = 5;
const ATTR_MAC: u16 = 6;
const ATTR_STA_INFO: u16 = 21;
const ATTR_WIPHY_FREQ: u16 = 38;
const ATTR_CENTER_FREQ1: u16 = 160;
const ATTR_EXT_FEATURES: u16 = 217;
const IFTYPE_STATION: u32 = 2;
const IFTYPE_AP: u32 = 3;
const STA_INFO_TX_BITRATE: u16 = 8;
pub(crate) const STA_INFO_RX_BITRATE: u16 = 14;
pub(crate) const STA_INFO_TX_PACKETS: u16 = 10;
pub(crate) const STA_INFO_TX_RETRIES: u16 = 11;
const STA_INFO_TX_FAILED: u16 = 12;
pub(crate) const STA_INFO_TID_STATS: u16 = 31;
pub(crate) const STA_INFO_RX_DURATION: u16 = 32;
const STA_INFO_TX_DURATION: u16 = 39;
pub(crate) const TID_STATS_TXQ_STATS: u16 = 6;
pub(crate) const TXQ_STATS_BACKLOG_PACKETS: u16 = 2;
pub(crate) const RATE_BITRATE: u16 = 1;
pub(crate) const RATE_MCS: u16 = 2;
const RATE_BITRATE32: u16 = 5;
const RATE_VHT_MCS: u16 = 6;
const RATE_HE_MCS: u16 = 13;
const RATE_EHT_MCS: u16 = 19;
const RATE_UNIT_BPS: u64 = 100_000;

/// The rate is the median of this many samples: a single frame without payload may be sent at any
/// rate.
const RATES_KEPT: usize = 5;

/// A station and its access point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Station {
    pub(crate) bssid: [u8; 6],
    /// The capacity that it would have alone, from its recent transmit rates.
    pub(crate) radio: RadioHint,
}

type Rate = (u64, Aggregation);

/// What an access point's driver reports about a station; `None`: it does not report the value.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct StationReport {
    /// The centre frequency of the channel, MHz.
    pub(crate) channel_mhz: Option<u32>,
    /// The radio properties of the last frames received from it.
    pub(crate) radio: Option<RadioConfig>,
    /// Airtime of frames to and from it since it associated, µs.
    pub(crate) airtime_us: Option<u64>,
    /// Packets sent to it since then; how many were retransmitted; how many were dropped.
    pub(crate) sent: Option<u32>,
    pub(crate) retries: Option<u32>,
    pub(crate) failed: Option<u32>,
    /// Packets queued for it.
    pub(crate) queued: Option<u32>,
}

/// The kernel's nl80211 interface, if any.
pub(crate) struct Wireless {
    /// The ID of the generic netlink family "nl80211"; `None` until a wireless driver is loaded.
    family: Option<u16>,
    rates: HashMap<u32, (u64, VecDeque<Rate>)>,
    /// The recent rates of stations, as received by an access point.
    heard: HashMap<[u8; 6], VecDeque<Rate>>,
}

impl Wireless {
    pub(crate) fn open() -> Wireless {
        Wireless { family: family(), rates: HashMap::new(), heard: HashMap::new() }
    }

    /// The station of an interface, if it is associated with an access point.
    pub(crate) fn station(&mut self, interface: u32) -> Option<Station> {
        self.family = self.family.or_else(family);
        let family = self.family?;
        if what_is(family, interface)?.kind != Some(IFTYPE_STATION) {
            return None;
        }
        let mut found = None;
        ask(family, Nl80211Command::GetStation, NlmF::DUMP, interface, |attributes| {
            found = peer(attributes, STA_INFO_TX_BITRATE).or(found);
        })?;
        let (bssid, rate) = found?;
        let key = bssid.iter().fold(0, |key, byte| key << 8 | u64::from(*byte));
        let (of, rates) = self.rates.entry(interface).or_default();
        if *of != key {
            (*of, *rates) = (key, VecDeque::new());
        }
        let radio = median(rates, rate).map(|(bps, how)| RadioHint::of_link(bps, how));
        Some(Station { bssid, radio: radio.unwrap_or_default() })
    }

    /// The stations of an access point's interface, with its driver's reports about each.
    pub(crate) fn stations(&mut self, interface: u32) -> Option<HashMap<[u8; 6], StationReport>> {
        self.family = self.family.or_else(family);
        let family = self.family?;
        let is = what_is(family, interface)?;
        if is.kind != Some(IFTYPE_AP) {
            return None;
        }
        let channel_mhz = is.channel_mhz;
        let mut found = Vec::new();
        ask(family, Nl80211Command::GetStation, NlmF::DUMP, interface, |attributes| {
            found.extend(
                peer(attributes, STA_INFO_RX_BITRATE).map(|(mac, rate)| (mac, rate, heard(attributes))),
            );
        })?;
        self.heard.retain(|mac, _| found.iter().any(|(there, ..)| there == mac));
        let stations = found.into_iter().map(|(mac, rate, heard)| {
            let usual = median(self.heard.entry(mac).or_default(), rate);
            let radio =
                usual.map(|(bps, aggregation)| RadioConfig { rate_mbps: bps as f64 / 1e6, aggregation });
            (mac, StationReport { radio, channel_mhz, ..heard })
        });
        Some(stations.collect())
    }
}

/// The current reports of an interface's driver about its peers: the stations of an access point,
/// or the access point of a station. Rates are those of the last frame, not medians. `None`: the
/// interface is not wireless.
pub(crate) fn peers(interface: u32) -> Option<Vec<StationReport>> {
    let mut found = Vec::new();
    ask(family()?, Nl80211Command::GetStation, NlmF::DUMP, interface, |attributes| {
        found.extend(parsed(attributes));
    })?;
    Some(found)
}

/// Decodes one of them.
pub(crate) fn parsed(attributes: &Attributes) -> Option<StationReport> {
    let (_, rate) = peer(attributes, STA_INFO_RX_BITRATE)?;
    let radio = rate.map(|(bps, aggregation)| RadioConfig { rate_mbps: bps as f64 / 1e6, aggregation });
    Some(StationReport { radio, ..heard(attributes) })
}

/// The extended features of an interface's radio, a bit each (`enum nl80211_ext_feature_index`).
pub(crate) fn features(interface: u32) -> Option<Vec<u8>> {
    let mut found = None;
    ask(family()?, Nl80211Command::GetWiphy, NlmF::ACK, interface, |attributes| {
        let handle = attributes.get_attr_handle();
        let bits = handle.get_attr_payload_as_with_len_borrowed::<&[u8]>(ATTR_EXT_FEATURES);
        found = bits.ok().map(<[u8]>::to_vec).or(found.take());
    })?;
    found
}

/// The median of the last rates.
fn median(rates: &mut VecDeque<Rate>, newest: Option<Rate>) -> Option<Rate> {
    rates.extend(newest);
    while rates.len() > RATES_KEPT {
        rates.pop_front();
    }
    upper_median_by(&mut Vec::from_iter(rates.iter().copied()), |(one, _), (other, _)| one.cmp(other))
}

/// A wireless interface.
#[derive(Debug, Clone, Copy, Default)]
struct WirelessInterface {
    /// Its type (`enum nl80211_iftype`).
    kind: Option<u32>,
    /// The centre frequency of its channel, MHz: of the whole one, if it is wider than 20 MHz.
    channel_mhz: Option<u32>,
}

/// Queries the type and the channel of an interface; `None`: it is not wireless.
fn what_is(family: u16, interface: u32) -> Option<WirelessInterface> {
    let mut is = WirelessInterface::default();
    ask(family, Nl80211Command::GetInterface, NlmF::ACK, interface, |attributes| {
        let number = |kind: u16| attributes.get_attr_handle().get_attr_payload_as::<u32>(kind).ok();
        is.kind = number(ATTR_IFTYPE).or(is.kind);
        is.channel_mhz = number(ATTR_CENTER_FREQ1).or_else(|| number(ATTR_WIPHY_FREQ)).or(is.channel_mhz);
    })?;
    Some(is)
}

/// The centre frequency of an access point's channel, MHz; `None`: the interface is not an access
/// point, or has no channel.
pub(crate) fn channel_mhz(interface: u32) -> Option<u32> {
    let is = what_is(family()?, interface)?;
    is.channel_mhz.filter(|_| is.kind == Some(IFTYPE_AP))
}

pub(crate) type Attributes = GenlBuffer<u16, neli::types::Buffer>;

/// The peer in a station entry (for a station its access point), and the rate of the last frame to
/// it ([`STA_INFO_TX_BITRATE`]) or from it.
fn peer(attributes: &Attributes, direction: u16) -> Option<([u8; 6], Option<Rate>)> {
    let handle = attributes.get_attr_handle();
    let mac = handle.get_attr_payload_as_with_len_borrowed::<&[u8]>(ATTR_MAC).ok()?;
    Some((<[u8; 6]>::try_from(mac).ok()?, rate(attributes, direction)))
}

/// A station entry's information about the air, without the rate.
fn heard(attributes: &Attributes) -> StationReport {
    let handle = attributes.get_attr_handle();
    let Ok(info) = handle.get_nested_attributes::<u16>(ATTR_STA_INFO) else {
        return StationReport::default();
    };
    let number = |kind: u16| info.get_attr_payload_as::<u32>(kind).ok();
    let time_us = |kind: u16| info.get_attr_payload_as::<u64>(kind).ok();
    let both = [STA_INFO_RX_DURATION, STA_INFO_TX_DURATION].map(time_us);
    // A driver without this information omits it or reports 0.
    let airtime_us = both.into_iter().flatten().sum::<u64>();
    let mut queued = None;
    for tid in info.get_nested_attributes::<u16>(STA_INFO_TID_STATS).iter().flat_map(|tids| tids.iter()) {
        let Ok(stats) = tid.get_attr_handle::<u16>() else { continue };
        let Ok(queue) = stats.get_nested_attributes::<u16>(TID_STATS_TXQ_STATS) else { continue };
        let Ok(packets) = queue.get_attr_payload_as::<u32>(TXQ_STATS_BACKLOG_PACKETS) else { continue };
        queued = Some(queued.unwrap_or(0_u32).saturating_add(packets));
    }
    StationReport {
        channel_mhz: None,
        radio: None,
        airtime_us: Some(airtime_us).filter(|us| *us > 0),
        sent: number(STA_INFO_TX_PACKETS),
        retries: number(STA_INFO_TX_RETRIES),
        failed: number(STA_INFO_TX_FAILED),
        queued,
    }
}

/// The rate of the last frame in a direction.
fn rate(attributes: &Attributes, direction: u16) -> Option<Rate> {
    let handle = attributes.get_attr_handle();
    let info = handle.get_nested_attributes::<u16>(ATTR_STA_INFO).ok()?;
    let rate = info.get_nested_attributes::<u16>(direction).ok()?;
    let wide = rate.get_attr_payload_as::<u32>(RATE_BITRATE32).ok();
    let units = wide
        .or_else(|| rate.get_attr_payload_as::<u16>(RATE_BITRATE).ok().map(u32::from))
        .filter(|u| *u > 0)?;
    let has = |kind: u16| rate.get_attribute(kind).is_some();
    let aggregation = if has(RATE_VHT_MCS) || has(RATE_HE_MCS) || has(RATE_EHT_MCS) {
        Aggregation::Vht
    } else if has(RATE_MCS) {
        Aggregation::Ht
    } else {
        Aggregation::None
    };
    Some((u64::from(units) * RATE_UNIT_BPS, aggregation))
}

fn connect() -> Option<NlSocketHandle> {
    NlSocketHandle::connect(NlFamily::Generic, None, Groups::empty()).ok()
}

/// Queries an interface; `None`: the kernel returned an error.
fn ask(
    family: u16,
    command: Nl80211Command,
    flags: NlmF,
    interface: u32,
    mut each: impl FnMut(&Attributes),
) -> Option<()> {
    let index = NlattrBuilder::default()
        .nla_type(AttrTypeBuilder::default().nla_type(ATTR_IFINDEX).build().ok()?)
        .nla_payload(interface)
        .build()
        .ok()?;
    let question = GenlmsghdrBuilder::<Nl80211Command, u16, NoUserHeader>::default()
        .cmd(command)
        .version(1)
        .attrs([index].into_iter().collect::<GenlBuffer<_, _>>())
        .build()
        .ok()?;
    let message = NlmsghdrBuilder::default()
        .nl_type(family)
        .nl_flags(NlmF::REQUEST | flags)
        .nl_payload(NlPayload::Payload(question))
        .build()
        .ok()?;
    // Use a new socket for each request: the rest of an aborted reply must not mix with the next
    // one.
    let socket = connect()?;
    socket.send(&message).ok()?;
    loop {
        let datagram = answers::receive(&socket).ok()?;
        for answer in answers::messages::<u16, Genlmsghdr<Nl80211Command, u16>>(&datagram) {
            let answer = answer.ok()?;
            match answer.nl_payload() {
                NlPayload::Payload(payload) => each(payload.attrs()),
                NlPayload::Err(_) => return None,
                NlPayload::Ack(_) | NlPayload::Empty | NlPayload::DumpExtAck(_) => return Some(()),
            }
        }
    }
}

/// The ID of the family "nl80211"; `None` if the kernel does not have it.
fn family() -> Option<u16> {
    let name = NlattrBuilder::default()
        .nla_type(AttrTypeBuilder::default().nla_type(CtrlAttr::FamilyName).build().ok()?)
        .nla_payload("nl80211\0".as_bytes())
        .build()
        .ok()?;
    let question = GenlmsghdrBuilder::<CtrlCmd, CtrlAttr, NoUserHeader>::default()
        .cmd(CtrlCmd::Getfamily)
        .version(2)
        .attrs([name].into_iter().collect::<GenlBuffer<_, _>>())
        .build()
        .ok()?;
    let message: Nlmsghdr<GenlId, _> = NlmsghdrBuilder::default()
        .nl_type(GenlId::Ctrl)
        .nl_flags(NlmF::REQUEST)
        .nl_payload(NlPayload::Payload(question))
        .build()
        .ok()?;
    let socket = connect()?;
    socket.send(&message).ok()?;
    let datagram = answers::receive(&socket).ok()?;
    for answer in answers::messages::<GenlId, Genlmsghdr<CtrlCmd, CtrlAttr>>(&datagram) {
        if let NlPayload::Payload(payload) = answer.ok()?.nl_payload() {
            let handle = payload.attrs().get_attr_handle();
            return handle.get_attr_payload_as::<u16>(CtrlAttr::FamilyId).ok();
        }
    }
    None
}

/// For the fuzzer: decodes a datagram as a reply about stations and about families. Returns the
/// number of access points with a rate, interface types and families.
#[cfg(any(fuzzing, debug_assertions))]
pub(crate) fn fuzz(bytes: &[u8]) -> usize {
    let mut found = 0;
    let stations = answers::messages::<u16, Genlmsghdr<Nl80211Command, u16>>(bytes).filter_map(Result::ok);
    for answer in stations.filter_map(|answer| answer.get_payload().cloned()) {
        for (_, rate) in [STA_INFO_TX_BITRATE, STA_INFO_RX_BITRATE]
            .map(|way| peer(answer.attrs(), way))
            .into_iter()
            .flatten()
        {
            let Some((bps, how)) = rate else { continue };
            assert!(bps >= RATE_UNIT_BPS);
            let _ = RadioHint::of_link(bps, how);
            found += 1;
        }
        let kind = answer.attrs().get_attr_handle().get_attr_payload_as::<u32>(ATTR_IFTYPE);
        found += usize::from(kind.is_ok());
    }
    let families = answers::messages::<GenlId, Genlmsghdr<CtrlCmd, CtrlAttr>>(bytes).filter_map(Result::ok);
    for answer in families.filter_map(|answer| answer.get_payload().cloned()) {
        let family = answer.attrs().get_attr_handle().get_attr_payload_as::<u16>(CtrlAttr::FamilyId);
        found += usize::from(family.is_ok());
    }
    found
}

/// Answers as the kernel encodes them.
#[cfg(test)]
pub(crate) mod recorded {
    #![allow(clippy::unwrap_used)]
    use super::{ATTR_MAC, ATTR_STA_INFO, Attributes};
    use neli::FromBytesWithInput;
    use std::io::Cursor;

    /// Encodes an attribute as the kernel does; `NLA_F_NESTED` marks nested attributes.
    pub(crate) fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = 4 + payload.len() as u16;
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    pub(crate) fn nested(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
        const NLA_F_NESTED: u16 = 1 << 15;
        attribute(kind | NLA_F_NESTED, &attributes.concat())
    }

    /// An answer with these attributes.
    pub(crate) fn attributes(all: &[Vec<u8>]) -> Attributes {
        let bytes = all.concat();
        Attributes::from_bytes_with_input(&mut Cursor::new(&bytes), bytes.len()).unwrap()
    }

    /// An entry of a station dump with these values.
    pub(crate) fn entry(parsed: &[Vec<u8>]) -> Attributes {
        attributes(&[attribute(ATTR_MAC, &[2, 0, 0, 0, 0, 9]), nested(ATTR_STA_INFO, parsed)])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::recorded::{attribute, attributes, entry, nested};
    use super::*;

    fn station(rate: &[Vec<u8>]) -> Option<([u8; 6], Option<Rate>)> {
        const ATTR_GENERATION: u16 = 46;
        const STA_INFO_SIGNAL: u16 = 7;
        let info = nested(
            ATTR_STA_INFO,
            &[
                attribute(STA_INFO_SIGNAL, &[0xc8]),
                nested(STA_INFO_TX_BITRATE, rate),
                nested(STA_INFO_RX_BITRATE, &[attribute(RATE_BITRATE, &60_u16.to_ne_bytes())]),
            ],
        );
        let attributes = attributes(&[
            attribute(ATTR_IFINDEX, &3_u32.to_ne_bytes()),
            attribute(ATTR_MAC, &[2, 0, 0, 0, 0, 9]),
            attribute(ATTR_GENERATION, &7_u32.to_ne_bytes()),
            info,
        ]);
        let (sent, heard) = (peer(&attributes, STA_INFO_TX_BITRATE), peer(&attributes, STA_INFO_RX_BITRATE));
        assert_eq!(heard.map(|(mac, _)| mac), sent.map(|(mac, _)| mac));
        assert_eq!(
            heard.and_then(|(_, rate)| rate),
            Some((6_000_000, Aggregation::None)),
            "the other direction's"
        );
        sent
    }

    #[test]
    fn access_point_and_rate_of_a_station() {
        let bssid = [2, 0, 0, 0, 0, 9];
        let narrow = attribute(RATE_BITRATE, &540_u16.to_ne_bytes());
        assert_eq!(
            station(std::slice::from_ref(&narrow)),
            Some((bssid, Some((54_000_000, Aggregation::None))))
        );
        let wide = attribute(RATE_BITRATE32, &8_667_u32.to_ne_bytes());
        let ht = attribute(RATE_MCS, &[7]);
        let vht = attribute(RATE_VHT_MCS, &[9]);
        assert_eq!(station(&[narrow.clone(), ht]), Some((bssid, Some((54_000_000, Aggregation::Ht)))));
        assert_eq!(
            station(&[wide.clone(), narrow, vht]),
            Some((bssid, Some((866_700_000, Aggregation::Vht))))
        );
        let he = attribute(RATE_HE_MCS, &[11]);
        assert_eq!(station(&[wide, he]), Some((bssid, Some((866_700_000, Aggregation::Vht)))));
        assert_eq!(station(&[]), Some((bssid, None)));
    }

    #[test]
    fn a_drivers_report_of_a_stations_airtime_is_read() {
        let parsed = |parsed: &[Vec<u8>]| heard(&entry(parsed));
        let number = |kind: u16, value: u32| attribute(kind, &value.to_ne_bytes());
        let time = |kind: u16, us: u64| attribute(kind, &us.to_ne_bytes());
        let queue = |tid: u16, packets: u32| {
            let stats = [number(1, 9_000), number(TXQ_STATS_BACKLOG_PACKETS, packets)];
            nested(tid + 1, &[time(1, 77), nested(TID_STATS_TXQ_STATS, &stats)])
        };
        let all = parsed(&[
            number(STA_INFO_TX_PACKETS, 900),
            number(STA_INFO_TX_RETRIES, 100),
            number(STA_INFO_TX_FAILED, 3),
            time(STA_INFO_RX_DURATION, 40_000),
            time(STA_INFO_TX_DURATION, 2_000),
            nested(STA_INFO_TID_STATS, &[queue(0, 5), queue(6, 2), nested(8, &[time(1, 1)])]),
        ]);
        let expected = StationReport {
            channel_mhz: None,
            radio: None,
            airtime_us: Some(42_000),
            sent: Some(900),
            retries: Some(100),
            failed: Some(3),
            queued: Some(7),
        };
        assert_eq!(all, expected);
        // Like mac80211_hwsim, which does not count airtime.
        let none = parsed(&[time(STA_INFO_RX_DURATION, 0), number(STA_INFO_TX_PACKETS, 1)]);
        assert_eq!(none, StationReport { sent: Some(1), ..StationReport::default() });
        assert_eq!(parsed(&[]), StationReport::default());
    }
}
