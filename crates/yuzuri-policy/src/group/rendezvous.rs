//! The relay for networks where terminals do not hear each other: mobile networks, access points that isolate their clients.
//!
//! It has no key and believes nothing: it passes members' messages on, and they judge them. Nothing goes to an address that has not
//! repeated a cookie sent to it, as DTLS does it (RFC 9147, section 5.1), but that cookie, which is smaller than what caused it.

use super::member::{Outgoing, To};
use crate::message::{COOKIE_BYTES, Cookie, Glance, glance, keyed_hash};
use crate::{GroupId, Kind, Moment, NodeId};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Settings of a [`Rendezvous`].
#[derive(Debug, Clone)]
pub struct RendezvousConfig {
    /// What its cookies are made with: random, new at each start.
    pub secret: [u8; 32],
    /// Most groups at a time.
    pub max_groups: usize,
    /// Most members of a group.
    pub max_members: usize,
    /// Most datagrams sent in a second, to all groups together.
    pub max_per_second: u32,
}

impl RendezvousConfig {
    /// The usual limits: 256 groups of 1,024 members, 20,000 datagrams a second (about 20 Mbit/s).
    pub fn new(secret: [u8; 32]) -> RendezvousConfig {
        let (max_groups, max_members) = (256, super::MAX_MEMBERS);
        RendezvousConfig { secret, max_groups, max_members, max_per_second: 20_000 }
    }
}

/// What a rendezvous did. `received = passed_on + kept + cookies + refused`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RendezvousCounts {
    /// Datagrams that came.
    pub received: u64,
    /// Datagrams that were passed on to somebody.
    pub passed_on: u64,
    /// Datagrams that were for the rendezvous itself, or for nobody who is there.
    pub kept: u64,
    /// Cookies sent to addresses that had none.
    pub cookies: u64,
    /// No messages.
    pub malformed: u64,
    /// From addresses that say too much, or beyond what may be sent in all.
    pub rate_limited: u64,
    /// Of groups or members for which there is no room.
    pub crowded: u64,
    /// Datagrams sent.
    pub sent: u64,
}

/// Cookies are made anew so often; the one before is good for as long again.
const COOKIE_SLOT: Duration = Duration::from_secs(120);
/// A member that is silent for so long is forgotten.
const MEMBER_KEPT: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// Most datagrams a second of one address: a member says far less, a leader that answers many newcomers more for a moment.
const MAX_FROM_ONE: f64 = 16.0;
const BURST: f64 = 256.0;
/// Most addresses that a message for one member goes to: anybody can register under another's id.
const MAX_OF_ONE: usize = 4;

/// Members of a group at one IP address: people behind one NAT.
const MAX_MEMBERS_PER_ADDRESS: usize = 16;

/// Most groups that were first heard of from one IP address: nobody takes all the room.
const MAX_FOUNDED: usize = 8;

#[derive(Debug)]
struct Group {
    founder: IpAddr,
    members: BTreeMap<SocketAddr, Entry>,
}

#[derive(Debug)]
struct Entry {
    node: NodeId,
    /// Since when it has this id.
    named: Moment,
    heard: Moment,
    /// Datagrams it may send now, and when that was worked out.
    tokens: f64,
    filled: Moment,
}

/// A relay without a key. Hand in each datagram; what it gives goes out at once.
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
    /// A rendezvous that knows nobody.
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

    /// Takes a datagram; gives what is to be sent for it.
    pub fn receive(&mut self, now: Moment, from: SocketAddr, bytes: &[u8], out: &mut Vec<Outgoing>) {
        let now = self.advance(now);
        self.counts.received += 1;
        let Some(seen) = glance(bytes).filter(|seen| seen.glance.node.0 != 0) else {
            self.counts.malformed += 1;
            return;
        };
        let slot = now.since_beginning().as_secs() / COOKIE_SLOT.as_secs();
        let current = self.cookie(from, slot);
        let is_current = seen.cookie == Some(current);
        let is_known = is_current || slot > 0 && seen.cookie == Some(self.cookie(from, slot - 1));
        if !is_known {
            // Strangers get no more than half of what may be sent: members go on.
            if self.sent_this_second < self.config.max_per_second / 2 && self.may_send(1) {
                self.counts.cookies += 1;
                self.send_cookie(from, &seen.glance, current, out);
            } else {
                self.counts.rate_limited += 1;
            }
            return;
        }
        if !is_current && self.may_send(1) {
            self.send_cookie(from, &seen.glance, current, out);
        }
        self.pass_on(now, from, &seen.glance, seen.message, out);
    }

    fn pass_on(
        &mut self,
        now: Moment,
        from: SocketAddr,
        glance: &Glance,
        message: &[u8],
        out: &mut Vec<Outgoing>,
    ) {
        let founder = from.ip();
        if !self.groups.contains_key(&glance.group) {
            let founded = self.groups.values().filter(|group| group.founder == founder).count();
            if self.groups.len() >= self.config.max_groups || founded >= MAX_FOUNDED {
                self.counts.crowded += 1;
                return;
            }
        }
        let group = self.groups.entry(glance.group);
        let members = &mut group.or_insert_with(|| Group { founder, members: BTreeMap::new() }).members;
        let at_address = || members.keys().filter(|address| address.ip() == from.ip()).count();
        let is_full = || members.len() >= self.config.max_members || at_address() >= MAX_MEMBERS_PER_ADDRESS;
        if !members.contains_key(&from) && is_full() {
            self.counts.crowded += 1;
            return;
        }
        let fresh = || Entry { node: glance.node, named: now, heard: now, tokens: BURST, filled: now };
        let entry = members.entry(from).or_insert_with(fresh);
        entry.tokens = (entry.tokens + now.since(entry.filled).as_secs_f64() * MAX_FROM_ONE).min(BURST);
        entry.filled = now;
        if entry.tokens < 1.0 {
            self.counts.rate_limited += 1;
            return;
        }
        entry.tokens -= 1.0;
        if entry.node != glance.node {
            // A member takes another id where it finds its own at another one; not each moment.
            if now.since(entry.named) < MEMBER_KEPT {
                self.counts.crowded += 1;
                return;
            }
            (entry.node, entry.named) = (glance.node, now);
        }
        entry.heard = now;
        let goodbye = glance.kind == Kind::Goodbye;
        let others = members.iter().filter(|(address, _)| **address != from);
        let to: Vec<SocketAddr> = match glance.to {
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
        glance: &Glance,
        cookie: [u8; COOKIE_BYTES],
        out: &mut Vec<Outgoing>,
    ) {
        self.counts.sent += 1;
        let bytes = Cookie { epoch: glance.epoch, sequence: glance.sequence, cookie }.encode();
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

    /// Shows that who has it gets what is sent to the address.
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
                group.members.retain(|_, entry| now.since(entry.heard) < MEMBER_KEPT);
                !group.members.is_empty()
            });
        }
        now
    }

    /// What it did.
    pub fn counts(&self) -> &RendezvousCounts {
        &self.counts
    }

    /// Groups and members that are registered.
    pub fn registered(&self) -> (usize, usize) {
        (self.groups.len(), self.groups.values().map(|group| group.members.len()).sum())
    }
}
