//! The table of the other members.

use super::config::{
    MAX_IDS_PER_ADDRESS, MAX_IDS_PER_ADDRESS_WITH_LEFT, MAX_MEMBERS, NEW_IDS_PER_SECOND, PEER_TIMEOUT,
};
use super::session::Sessions;
use crate::{Message, Moment, NodeId, Refusal, Report, TerminalName};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub address: SocketAddr,
    /// The first source address; the ID counts towards the limit of that address.
    first_ip: IpAddr,
    pub sessions: Sessions,
    /// When one of its sessions first proved its liveness.
    pub proved_since: Option<Moment>,
    /// The last challenge received from it.
    pub challenge: u32,
    pub rank: u8,
    pub sends: bool,
    pub leads: bool,
    pub access_point: bool,
    /// Whether it announced its departure.
    pub gone: bool,
    pub heard: Moment,
    /// When it was last heard as leader.
    pub led: Option<Moment>,
    /// Its last report with the time, and since when it has been reporting.
    pub report: Option<(Moment, Report)>,
    pub challenged: Option<Moment>,
    pub answered: Option<Moment>,
    /// Whether it sends with our second accepted key.
    pub other_key: bool,
    /// Its own name.
    pub name: Option<TerminalName>,
    /// The weight that this access point assigns to it, thousandths; `None`: never any other
    /// than 1.
    pub weight: Option<u16>,
}

impl Peer {
    fn new(from: SocketAddr, now: Moment) -> Peer {
        Peer {
            address: from,
            first_ip: from.ip(),
            sessions: Sessions::default(),
            proved_since: None,
            challenge: 0,
            rank: u8::MAX,
            sends: false,
            leads: false,
            access_point: false,
            gone: false,
            heard: now,
            led: None,
            report: None,
            challenged: None,
            answered: None,
            other_key: false,
            name: None,
            weight: None,
        }
    }

    /// Whether it has proved its liveness and was heard within this time.
    pub fn is_proved_since(&self, now: Moment, within: Duration) -> bool {
        self.sessions.is_proved() && now.since(self.heard) <= within
    }

    /// Stores the sender's properties from a message header.
    pub fn note(&mut self, message: &Message, now: Moment) {
        self.rank = message.rank;
        self.sends = message.sends;
        self.leads = message.leads;
        self.access_point = message.access_point;
        self.gone = false;
        self.heard = now;
        if let Some(challenge) = message.challenge {
            self.challenge = challenge;
        }
        if message.leads {
            self.led = Some(now);
        }
        if !message.sends {
            self.report = None;
        }
    }
}

/// The member table, limited to [`MAX_MEMBERS`].
#[derive(Debug)]
pub(super) struct Peers {
    all: BTreeMap<NodeId, Peer>,
    /// The number of IDs first heard from each address.
    ids_at: BTreeMap<IpAddr, usize>,
    /// The number of new IDs that may be accepted now, and when it was computed.
    room: (f64, Moment),
}

impl Peers {
    pub fn new(now: Moment) -> Peers {
        Peers { all: BTreeMap::new(), ids_at: BTreeMap::new(), room: (MAX_MEMBERS as f64, now) }
    }

    pub fn get(&self, node: NodeId) -> Option<&Peer> {
        self.all.get(&node)
    }

    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut Peer> {
        self.all.get_mut(&node)
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Peer)> {
        self.all.iter().map(|(node, peer)| (*node, peer))
    }

    /// Returns a member's entry; creates it if there is room. A full table evicts the member that
    /// proved nothing and was silent longest. Proved sessions are kept, because their state is what
    /// detects replays of their messages. Unless all members have the address of a rendezvous
    /// (`relayed`), each address may have [`MAX_IDS_PER_ADDRESS`] IDs; beyond that its own oldest
    /// unproved ID is evicted. A proved member that has left does not take the place of the next,
    /// up to [`MAX_IDS_PER_ADDRESS_WITH_LEFT`].
    pub fn entry(
        &mut self,
        node: NodeId,
        from: SocketAddr,
        now: Moment,
        relayed: bool,
    ) -> Result<&mut Peer, Refusal> {
        if !self.all.contains_key(&node) {
            self.make_room(from, now, relayed)?;
        }
        let Peers { all, ids_at, .. } = self;
        Ok(all.entry(node).or_insert_with(|| {
            *ids_at.entry(from.ip()).or_default() += 1;
            Peer::new(from, now)
        }))
    }

    fn make_room(&mut self, from: SocketAddr, now: Moment, relayed: bool) -> Result<(), Refusal> {
        let (room, at) = self.room;
        let room = (room + now.since(at).as_secs_f64() * NEW_IDS_PER_SECOND).min(MAX_MEMBERS as f64);
        self.room = (room, now);
        if room < 1.0 {
            return Err(Refusal::Crowded);
        }
        if !relayed {
            self.make_room_at(from.ip())?;
        }
        if self.all.len() >= MAX_MEMBERS {
            self.prune(now);
            if self.all.len() >= MAX_MEMBERS {
                let unproved = self.all.iter().filter(|(_, peer)| !peer.sessions.is_proved());
                let least =
                    unproved.min_by_key(|(_, peer)| peer.heard).map(|(node, peer)| (*node, peer.heard));
                match least {
                    Some((least, heard)) if now.since(heard) > Duration::from_secs(1) => {
                        self.remove(least);
                    }
                    _ => return Err(Refusal::Crowded),
                }
            }
        }
        self.room.0 -= 1.0;
        Ok(())
    }

    fn make_room_at(&mut self, ip: IpAddr) -> Result<(), Refusal> {
        let ids = self.ids_at.get(&ip).copied().unwrap_or(0);
        if ids < MAX_IDS_PER_ADDRESS {
            return Ok(());
        }
        let here = || self.all.iter().filter(|(_, peer)| peer.first_ip == ip);
        let left = here().filter(|(_, peer)| peer.gone && peer.sessions.is_proved()).count();
        if ids - left < MAX_IDS_PER_ADDRESS && ids < MAX_IDS_PER_ADDRESS_WITH_LEFT {
            return Ok(());
        }
        let unproved = here().filter(|(_, peer)| !peer.sessions.is_proved());
        let oldest = unproved.min_by_key(|(_, peer)| peer.heard).map(|(node, _)| *node);
        self.remove(oldest.ok_or(Refusal::Crowded)?);
        Ok(())
    }

    fn remove(&mut self, node: NodeId) {
        if let Some(peer) = self.all.remove(&node) {
            Peers::forget(&mut self.ids_at, peer.first_ip);
        }
    }

    fn forget(ids_at: &mut BTreeMap<IpAddr, usize>, ip: IpAddr) {
        if let Some(ids) = ids_at.get_mut(&ip) {
            *ids -= 1;
            if *ids == 0 {
                ids_at.remove(&ip);
            }
        }
    }

    pub fn prune(&mut self, now: Moment) {
        let Peers { all, ids_at, .. } = self;
        all.retain(|_, peer| {
            let kept = now.since(peer.heard) < PEER_TIMEOUT;
            if !kept {
                Peers::forget(ids_at, peer.first_ip);
            }
            kept
        });
    }

    pub fn clear(&mut self) {
        self.all.clear();
        self.ids_at.clear();
    }
}
