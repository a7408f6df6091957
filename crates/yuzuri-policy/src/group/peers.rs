//! The other members, as far as they were heard.

use super::config::{MOST_MEMBERS, PEER_KEPT};
use super::session::Sessions;
use crate::{Message, Moment, NodeId, Refusal, Report};
use std::collections::BTreeMap;
use std::net::SocketAddr;

#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub address: SocketAddr,
    pub sessions: Sessions,
    /// The last challenge heard of it.
    pub challenge: u32,
    pub rank: u8,
    pub sends: bool,
    pub leads: bool,
    /// It said that it leaves.
    pub gone: bool,
    pub heard: Moment,
    /// When it last was heard leading.
    pub led: Option<Moment>,
    /// What it reported to us, when, and since when it does.
    pub report: Option<(Moment, Report)>,
    pub asked: Option<Moment>,
    pub answered: Option<Moment>,
}

impl Peer {
    fn new(from: SocketAddr, now: Moment) -> Peer {
        Peer {
            address: from,
            sessions: Sessions::default(),
            challenge: 0,
            rank: u8::MAX,
            sends: false,
            leads: false,
            gone: false,
            heard: now,
            led: None,
            report: None,
            asked: None,
            answered: None,
        }
    }

    /// What its header says of it.
    pub fn note(&mut self, message: &Message, now: Moment) {
        self.rank = message.rank;
        self.sends = message.sends;
        self.leads = message.leads;
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

/// The table of them: never more than [`MOST_MEMBERS`].
#[derive(Debug, Default)]
pub(super) struct Peers {
    all: BTreeMap<NodeId, Peer>,
}

impl Peers {
    pub fn get(&self, node: NodeId) -> Option<&Peer> {
        self.all.get(&node)
    }

    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut Peer> {
        self.all.get_mut(&node)
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Peer)> {
        self.all.iter().map(|(node, peer)| (*node, peer))
    }

    /// The member's entry, a new one if there is room. A full table gives up one that never proved anything and was silent longest; what
    /// is known of believed sessions stays, because it is what keeps their recorded messages out.
    pub fn entry(&mut self, node: NodeId, from: SocketAddr, now: Moment) -> Result<&mut Peer, Refusal> {
        if self.all.len() >= MOST_MEMBERS && !self.all.contains_key(&node) {
            self.prune(now);
            if self.all.len() >= MOST_MEMBERS {
                let unproved = self.all.iter().filter(|(_, peer)| !peer.sessions.is_proved());
                let least =
                    unproved.min_by_key(|(_, peer)| peer.heard).map(|(node, peer)| (*node, peer.heard));
                match least {
                    Some((least, heard)) if now.since(heard) > std::time::Duration::from_secs(1) => {
                        self.all.remove(&least);
                    }
                    _ => return Err(Refusal::Crowded),
                }
            }
        }
        Ok(self.all.entry(node).or_insert_with(|| Peer::new(from, now)))
    }

    pub fn prune(&mut self, now: Moment) {
        self.all.retain(|_, peer| now.since(peer.heard) < PEER_KEPT);
    }

    pub fn clear(&mut self) {
        self.all.clear();
    }
}
