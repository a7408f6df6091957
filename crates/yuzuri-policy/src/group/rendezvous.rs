//! The relay for networks where terminals cannot receive each other: mobile networks, and access
//! points with client isolation.
//!
//! It has no key and verifies nothing: it forwards the members' messages, and they verify them. As
//! in DTLS (RFC 9147, section 5.1), an address that has not returned a cookie is sent nothing but
//! that cookie, which is smaller than the message that caused it.

use super::member::{Outgoing, To};
use crate::message::{COOKIE_BYTES, Cookie, RelayHeader, keyed_hash, relay_header};
use crate::{GroupId, Kind, Moment, NodeId};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Settings of a [`Rendezvous`].
#[derive(Debug, Clone)]
pub struct RendezvousConfig {
    /// The secret for cookies: random, new at each start.
    pub secret: [u8; 32],
    /// Maximum number of groups.
    pub max_groups: usize,
    /// Maximum number of members per group.
    pub max_members: usize,
    /// Maximum number of datagrams sent per second, for all groups together.
    pub max_per_second: u32,
}

impl RendezvousConfig {
    /// The default limits: 256 groups of 1024 members, 20,000 datagrams per second (about 20
    /// Mbit/s).
    pub fn new(secret: [u8; 32]) -> RendezvousConfig {
        let (max_groups, max_members) = (256, super::MAX_MEMBERS);
        RendezvousConfig { secret, max_groups, max_members, max_per_second: 20_000 }
    }
}

/// Counters of a rendezvous. `received = passed_on + kept + cookies + malformed + rate_limited +
/// crowded`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RendezvousCounts {
    /// Datagrams received.
    pub received: u64,
    /// Datagrams forwarded to at least one address.
    pub passed_on: u64,
    /// Datagrams addressed to the rendezvous itself, or to an unregistered member.
    pub kept: u64,
    /// Cookies sent to addresses that had none.
    pub cookies: u64,
    /// Datagrams that are no messages.
    pub malformed: u64,
    /// Datagrams dropped by a rate limit of their address or of the whole relay.
    pub rate_limited: u64,
    /// Datagrams dropped because there was no room for their group or member.
    pub crowded: u64,
    /// Datagrams sent.
    pub sent: u64,
}

/// How often cookies change; the previous cookie remains valid for as long again.
const COOKIE_SLOT: Duration = Duration::from_secs(120);
/// A member that is silent for this long is removed.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// Rate limit per address, datagrams per second. A member sends far fewer; a leader that answers
/// many newcomers briefly sends more.
const MAX_FROM_ONE: f64 = 16.0;
const BURST: f64 = 256.0;
/// Maximum number of addresses to which a message for one member is forwarded, because anybody can
/// register under another's ID.
const MAX_OF_ONE: usize = 4;

/// Maximum number of members of a group at one IP address, that is, behind one NAT.
const MAX_MEMBERS_PER_ADDRESS: usize = 16;

/// Maximum number of groups founded from one IP address, so that no address takes all the room.
const MAX_FOUNDED: usize = 8;

#[derive(Debug)]
struct Group {
    founder: IpAddr,
    members: BTreeMap<SocketAddr, Entry>,
}

#[derive(Debug)]
struct Entry {
    node: NodeId,
    /// Since when it has had this ID.
    named: Moment,
    heard: Moment,
    /// Token bucket level in datagrams, and when it was last filled.
    tokens: f64,
    filled: Moment,
}

/// A relay without a key. Pass in each datagram, and send the returned ones immediately.
#[derive(Debug)]
pub struct Rendezvous {
    config: RendezvousConfig,
    mac: Hmac<Sha256>,
    now: Moment,
    groups: BTreeMap<GroupId, Group>,
    prune_at: Moment,
    second: Moment,
    sent_this_second: u32,
    counts: RendezvousCounts,
}

impl Rendezvous {
    /// Creates a rendezvous without members.
    pub fn new(config: RendezvousConfig, now: Moment) -> Rendezvous {
        let mac = keyed_hash(&config.secret);
        Rendezvous {
            config,
            mac,
            now,
            groups: BTreeMap::new(),
            prune_at: now + SECOND,
            second: now,
            sent_this_second: 0,
            counts: RendezvousCounts::default(),
        }
    }

    /// Processes a datagram and returns the datagrams to send.
    pub fn receive(&mut self, now: Moment, from: SocketAddr, bytes: &[u8], out: &mut Vec<Outgoing>) {
        let now = self.advance(now);
        self.counts.received += 1;
        let Some(seen) = relay_header(bytes).filter(|seen| seen.relay_header.node.0 != 0) else {
            self.counts.malformed += 1;
            return;
        };
        let slot = now.since_beginning().as_secs() / COOKIE_SLOT.as_secs();
        let current = self.cookie(from, slot);
        let is_current = seen.cookie == Some(current);
        let is_known = is_current || slot > 0 && seen.cookie == Some(self.cookie(from, slot - 1));
        if !is_known {
            // Unregistered addresses get at most half of the send budget, so that members continue
            // to work.
            if self.sent_this_second < self.config.max_per_second / 2 && self.may_send(1) {
                self.counts.cookies += 1;
                self.send_cookie(from, &seen.relay_header, current, out);
            } else {
                self.counts.rate_limited += 1;
            }
            return;
        }
        if !is_current && self.may_send(1) {
            self.send_cookie(from, &seen.relay_header, current, out);
        }
        self.pass_on(now, from, &seen.relay_header, seen.message, out);
    }

    fn pass_on(
        &mut self,
        now: Moment,
        from: SocketAddr,
        relay_header: &RelayHeader,
        message: &[u8],
        out: &mut Vec<Outgoing>,
    ) {
        let founder = from.ip();
        if !self.groups.contains_key(&relay_header.group) {
            let founded = self.groups.values().filter(|group| group.founder == founder).count();
            if self.groups.len() >= self.config.max_groups || founded >= MAX_FOUNDED {
                self.counts.crowded += 1;
                return;
            }
        }
        let group = self.groups.entry(relay_header.group);
        let members = &mut group.or_insert_with(|| Group { founder, members: BTreeMap::new() }).members;
        let at_address = || members.keys().filter(|address| address.ip() == from.ip()).count();
        let is_full = || members.len() >= self.config.max_members || at_address() >= MAX_MEMBERS_PER_ADDRESS;
        if !members.contains_key(&from) && is_full() {
            self.counts.crowded += 1;
            return;
        }
        let fresh = || Entry { node: relay_header.node, named: now, heard: now, tokens: BURST, filled: now };
        let entry = members.entry(from).or_insert_with(fresh);
        entry.tokens = (entry.tokens + now.since(entry.filled).as_secs_f64() * MAX_FROM_ONE).min(BURST);
        entry.filled = now;
        if entry.tokens < 1.0 {
            self.counts.rate_limited += 1;
            return;
        }
        entry.tokens -= 1.0;
        if entry.node != relay_header.node {
            // A member changes its ID if another member has the same, but not more often than this.
            if now.since(entry.named) < MEMBER_TIMEOUT {
                self.counts.crowded += 1;
                return;
            }
            (entry.node, entry.named) = (relay_header.node, now);
        }
        entry.heard = now;
        let goodbye = relay_header.kind == Kind::Goodbye;
        let others = members.iter().filter(|(address, _)| **address != from);
        let to: Vec<SocketAddr> = match relay_header.to {
            None => others.map(|(address, _)| *address).collect(),
            Some(to) => {
                let of = others.filter(|(_, entry)| entry.node == to);
                of.map(|(address, _)| *address).take(MAX_OF_ONE).collect()
            }
        };
        if goodbye {
            members.remove(&from);
        }
        if to.is_empty() {
            self.counts.kept += 1;
        } else if self.may_send(to.len()) {
            self.counts.passed_on += 1;
            self.counts.sent += to.len() as u64;
            out.extend(
                to.into_iter().map(|address| Outgoing { to: To::One(address), bytes: message.to_vec() }),
            );
        } else {
            self.counts.rate_limited += 1;
        }
    }

    fn send_cookie(
        &mut self,
        to: SocketAddr,
        relay_header: &RelayHeader,
        cookie: [u8; COOKIE_BYTES],
        out: &mut Vec<Outgoing>,
    ) {
        self.counts.sent += 1;
        let bytes = Cookie { epoch: relay_header.epoch, sequence: relay_header.sequence, cookie }.encode();
        out.push(Outgoing { to: To::One(to), bytes });
    }

    fn may_send(&mut self, datagrams: usize) -> bool {
        let sent = self.sent_this_second.saturating_add(u32::try_from(datagrams).unwrap_or(u32::MAX));
        let may = sent <= self.config.max_per_second;
        if may {
            self.sent_this_second = sent;
        }
        may
    }

    /// The cookie, which proves that its holder receives datagrams at the address.
    fn cookie(&self, address: SocketAddr, slot: u64) -> [u8; COOKIE_BYTES] {
        let mut mac =
            self.mac.clone().chain_update(slot.to_be_bytes()).chain_update(address.port().to_be_bytes());
        match address.ip() {
            IpAddr::V4(ip) => mac.update(&ip.octets()),
            IpAddr::V6(ip) => mac.update(&ip.octets()),
        }
        let whole = mac.finalize().into_bytes();
        let mut cookie = [0; COOKIE_BYTES];
        cookie.copy_from_slice(&whole[..COOKIE_BYTES]);
        cookie
    }

    fn advance(&mut self, now: Moment) -> Moment {
        let now = self.now.max(now);
        self.now = now;
        if now.since(self.second) >= SECOND {
            self.second = now;
            self.sent_this_second = 0;
        }
        if now >= self.prune_at {
            self.prune_at = now + SECOND;
            self.groups.retain(|_, group| {
                group.members.retain(|_, entry| now.since(entry.heard) < MEMBER_TIMEOUT);
                !group.members.is_empty()
            });
        }
        now
    }

    /// The counters.
    pub fn counts(&self) -> &RendezvousCounts {
        &self.counts
    }

    /// The numbers of registered groups and members.
    pub fn registered(&self) -> (usize, usize) {
        (self.groups.len(), self.groups.values().map(|group| group.members.len()).sum())
    }
}
