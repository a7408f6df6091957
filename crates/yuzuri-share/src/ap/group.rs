//! The access point in its stations' groups: it leads them, receives their members' reports, and
//! announces its results.

use super::bottleneck::Channel;
use super::rules::StationId;
use super::status::ApGroupStatus;
use crate::batch::Batch;
use crate::discover::{Discovery, Interface};
use crate::keys::{KeyChain, Secrets};
use crate::sockets::Sockets;
use crate::{KeySource, ShareConfig, ShareError, clock};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use yuzuri_policy::{
    GroupId, Keys, Member, MemberConfig, Moment, NodeId, Outgoing, Randomness, Report, Summary,
};

/// How often devices, addresses and groups are looked up.
const REFRESH_EVERY: Duration = Duration::from_secs(5);
/// How long a member's hardware address is cached.
const ADDRESS_LIFETIME: Duration = Duration::from_secs(10);

/// How an access point takes part in the groups of its stations.
#[derive(Debug, Clone)]
pub struct ApGroup {
    /// The members' key.
    pub key: KeySource,
    /// The group; `None`: those that stations find by themselves, by the BSSID of each radio and by
    /// the hardware address of the bridge.
    pub group: Option<GroupId>,
    /// The members' UDP port.
    pub port: u16,
}

/// One device with the members behind it.
struct GroupDevice {
    interface: Interface,
    sockets: Sockets,
    /// This access point in each group there.
    members: Vec<(Member, Keys)>,
    /// The channel of the stations in each group.
    channels: BTreeMap<GroupId, Channel>,
}

/// All groups of an access point.
pub(super) struct Groups {
    config: ApGroup,
    devices: Vec<String>,
    node: NodeId,
    keys: KeyChain,
    discovery: Discovery,
    group_devices: Vec<GroupDevice>,
    /// Cached hardware addresses, and when they expire.
    stations: HashMap<(u32, IpAddr), (StationId, Moment)>,
    refresh_at: Moment,
    batch: Batch,
    out: Vec<Outgoing>,
    leads: bool,
    problems: Vec<String>,
}

impl Groups {
    /// # Errors
    /// Without a usable key: terminals obey an access point only in a group with one.
    pub(super) fn start(config: ApGroup, devices: &[String]) -> Result<Groups, ShareError> {
        let secrets = Secrets::load(&ShareConfig { key: config.key.clone(), ..ShareConfig::default() })?;
        if secrets.sends.is_none() {
            let why = "terminals follow an access point only in a group with a key: name the key".into();
            return Err(ShareError::Setting { field: "key_file".into(), why });
        }
        let problems = secrets.warnings.clone();
        let discovery = Discovery::new()?;
        let now = clock::now();
        let mut groups = Groups {
            node: secrets.bind(crate::new_node()?),
            keys: KeyChain::new(secrets),
            config,
            devices: devices
                .iter()
                .map(|device| addressed_device(device))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            discovery,
            group_devices: Vec::new(),
            stations: HashMap::new(),
            refresh_at: now,
            batch: Batch::new(),
            out: Vec::new(),
            leads: true,
            problems: Vec::new(),
        };
        groups.refresh(now);
        groups.problems.extend(problems);
        Ok(groups)
    }

    /// Whether to lead. Otherwise it leaves.
    pub(super) fn lead(&mut self, leads: bool) {
        if self.leads && !leads {
            self.leave();
        }
        self.leads = leads;
    }

    /// Waits for a message, for a limited time.
    pub(super) fn wait(&self, most: Duration) {
        let now = clock::now();
        let members = self.group_devices.iter().flat_map(|group_device| &group_device.members);
        let next = members.map(|(member, _)| member.next()).fold(now + most, Moment::min);
        let wait_ms = next.since(now).as_nanos().div_ceil(1_000_000) as u16;
        let sockets = self.group_devices.iter().flat_map(|group_device| group_device.sockets.descriptors());
        let mut fds: Vec<PollFd<'_>> = sockets.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        if poll(&mut fds, PollTimeout::from(wait_ms)).is_err() {
            // A signal arrived, or `poll` failed; messages are then read at the next tick.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Processes received messages, and sends those that are due.
    pub(super) fn exchange_messages(&mut self) {
        let now = clock::now();
        for GroupDevice { interface, sockets, members, .. } in &mut self.group_devices {
            sockets.drain(&mut self.batch, |from, bytes| {
                // A broadcast is also delivered to its sender.
                if !interface.addresses.contains(&from.ip()) {
                    members.iter_mut().for_each(|(member, _)| member.receive(now, from, bytes));
                }
            });
        }
        let new_notices: Vec<_> = self
            .group_devices
            .iter_mut()
            .flat_map(|p| &mut p.members)
            .filter_map(|(member, _)| member.new_notice())
            .collect();
        let has_new_key =
            new_notices.iter().map(|notice| self.keys.take(notice)).fold(false, |any, new| any | new);
        if self.keys.work() || has_new_key || now >= self.refresh_at {
            self.refresh(now);
        }
        self.send(now);
    }

    fn send(&mut self, now: Moment) {
        for GroupDevice { interface, sockets, members, .. } in &mut self.group_devices {
            let members = members.iter_mut().map(|(member, _)| member);
            sockets.send_due(members, now, interface.has_link_local_v6(), &mut self.out);
        }
    }

    /// Leads from now on, and returns the reports of all groups' members by station. Sends each
    /// member its weight.
    pub(super) fn receive_reports(
        &mut self,
        now: Moment,
        weight_of: impl Fn(StationId) -> f64,
    ) -> BTreeMap<StationId, Report> {
        let mut heard = BTreeMap::new();
        for group_device in &mut self.group_devices {
            let index = group_device.interface.index;
            let mut asked = false;
            for (member, _) in &mut group_device.members {
                if self.leads {
                    member.lead(now);
                }
                let addresses: HashMap<NodeId, IpAddr> =
                    member.members(now).filter_map(|m| Some((m.node, m.address?.ip()))).collect();
                let mut weights = Vec::new();
                for (node, report) in member.reports(now) {
                    let Some(address) = addresses.get(&node) else { continue };
                    let known = self.stations.get(&(index, *address)).is_some_and(|(_, until)| *until > now);
                    // A reporter was answered, so the kernel knows its hardware address.
                    if !known && !asked {
                        asked = true;
                        let neighbours = self.discovery.netlink.neighbours(index).unwrap_or_default();
                        self.stations.retain(|(at, _), (_, until)| *at != index && *until > now);
                        let links = neighbours.into_iter().filter_map(|(at, link)| {
                            Some(((index, at), (StationId(link.try_into().ok()?), now + ADDRESS_LIFETIME)))
                        });
                        self.stations.extend(links);
                    }
                    if let Some((station, _)) = self.stations.get(&(index, *address)) {
                        heard.entry(*station).or_insert_with(|| report.clone());
                        weights.push((node, weight_of(*station)));
                    }
                }
                weights.into_iter().for_each(|(node, weight)| member.weigh(node, weight));
            }
        }
        heard
    }

    /// Sends the members on each channel their summary.
    pub(super) fn publish(&mut self, now: Moment, summary_for: impl Fn(Channel) -> Option<Summary>) {
        for GroupDevice { members, channels, .. } in &mut self.group_devices {
            for (member, _) in members {
                let channel = channels.get(&member.group()).copied().unwrap_or_default();
                if let Some(summary) = summary_for(channel) {
                    member.summarize(now, summary);
                }
            }
        }
        self.send(now);
    }

    /// Looks up devices, addresses and groups.
    fn refresh(&mut self, now: Moment) {
        self.refresh_at = now + REFRESH_EVERY;
        self.problems.clear();
        let all = match self.discovery.interfaces() {
            Ok(all) => all,
            Err(why) => return self.problems.push(why.to_string()),
        };
        let mut group_devices = std::mem::take(&mut self.group_devices);
        for name in &self.devices.clone() {
            let there =
                all.iter().find(|interface| interface.name == *name && !interface.addresses.is_empty());
            let Some(interface) = there else {
                self.problems
                    .push(format!("{name} has no address: members cannot hear the access point there"));
                continue;
            };
            let known =
                group_devices.iter().position(|group_device| group_device.interface.index == interface.index);
            let group_device = match known {
                Some(known) => {
                    Ok(GroupDevice { interface: interface.clone(), ..group_devices.swap_remove(known) })
                }
                None => Sockets::open(name, interface.index, self.config.port).map(|sockets| GroupDevice {
                    interface: interface.clone(),
                    sockets,
                    members: Vec::new(),
                    channels: BTreeMap::new(),
                }),
            };
            match group_device.and_then(|group_device| self.join(now, group_device)) {
                Ok(group_device) => self.group_devices.push(group_device),
                Err(why) => self.problems.push(why.to_string()),
            }
        }
    }

    /// Joins the groups of a device.
    fn join(&mut self, now: Moment, mut group_device: GroupDevice) -> Result<GroupDevice, ShareError> {
        let groups = match self.config.group {
            Some(group) => BTreeMap::from([(group, Channel::default())]),
            None => groups_of(&group_device.interface.name),
        };
        group_device.members.retain(|(member, _)| groups.contains_key(&member.group()));
        group_device.channels = groups;
        for group in group_device.channels.keys().copied() {
            // The key of a passphrase is computed on another thread.
            let Some(keys) = self.keys.of(group) else { continue };
            match group_device.members.iter_mut().find(|(member, _)| member.group() == group) {
                Some((member, before)) => {
                    if *before != keys {
                        member.set_keys(now, keys.clone());
                        *before = keys;
                    }
                }
                None => {
                    let epoch =
                        yuzuri_policy::epoch(clock::unix_time(), u32::from_ne_bytes(clock::random()?));
                    let random = Randomness::System(clock::draw);
                    let mut config = MemberConfig::new(self.node, group, keys.key.clone(), epoch, random);
                    config.access_point = true;
                    (config.accepts, config.notices) = (keys.accepts.clone(), keys.notices.clone());
                    let member = Member::new(config, now)?;
                    group_device.members.push((member, keys));
                }
            }
        }
        Ok(group_device)
    }

    /// Problems, as text.
    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        let members = self
            .group_devices
            .iter()
            .flat_map(|p| p.members.iter().map(|(member, _)| (&p.interface.name, member)));
        let others = members.filter_map(|(device, member)| {
            let (node, address) = member.leading_access_point()?;
            Some(format!(
                "another access point leads group {} on {device}: {node} at {}; members follow it, and \
                 this gate treats them as stations without Yuzuri. Give each access point a group of its \
                 own (`group` in [members]), or remove the key from one",
                member.group(),
                address.ip()
            ))
        });
        let unsent = self.group_devices.iter().filter_map(|GroupDevice { interface, sockets, .. }| {
            let error = sockets.send_errors.current()?;
            Some(format!("sending to the group on {}: {error}", interface.name))
        });
        self.problems.iter().cloned().chain(unsent).chain(others)
    }

    pub(super) fn status(&self, now: Moment) -> Vec<ApGroupStatus> {
        let members = self
            .group_devices
            .iter()
            .flat_map(|p| p.members.iter().map(|(member, _)| (&p.interface.name, member)));
        members.map(|(device, member)| ApGroupStatus::of(device, member, now)).collect()
    }

    /// Leaves all groups; each elects a leader among its members.
    pub(super) fn leave(&mut self) {
        let now = clock::now();
        for (member, _) in self.group_devices.iter_mut().flat_map(|group_device| &mut group_device.members) {
            member.leave(now);
        }
        self.send(now);
    }
}

/// The device that has the addresses: for a port, its bridge.
fn addressed_device(device: &str) -> String {
    let master = std::fs::read_link(format!("/sys/class/net/{device}/master")).ok();
    let name = master.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    name.unwrap_or(device).to_owned()
}

/// The groups that stations behind a device find by themselves, with the channel of the stations in
/// each. Wired stations use the device's hardware address, which is the gateway's; wireless ones
/// use the BSSID, which is the hardware address of a radio's device.
fn groups_of(device: &str) -> BTreeMap<GroupId, Channel> {
    let ports = std::fs::read_dir(format!("/sys/class/net/{device}/brif")).into_iter().flatten().flatten();
    let radios = ports
        .filter_map(|port| port.file_name().into_string().ok())
        .filter(|port| Path::new(&format!("/sys/class/net/{port}/phy80211")).exists());
    let hardware_address = |name: &str| -> Option<StationId> {
        std::fs::read_to_string(format!("/sys/class/net/{name}/address")).ok()?.trim().parse().ok()
    };
    std::iter::once(device.to_owned())
        .chain(radios)
        .filter_map(|name| Some((GroupId::of(&hardware_address(&name)?.0), channel_of(&name))))
        .collect()
}

fn channel_of(device: &str) -> Channel {
    let index = nix::net::if_::if_nametoindex(device).ok();
    Channel(index.and_then(crate::wireless::channel_mhz).unwrap_or(0))
}
