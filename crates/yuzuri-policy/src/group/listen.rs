//! Processing of received messages.

use super::election::{ElectionMessage, Role};
use super::keys::SigningKey;
use super::member::Member;
use super::session::Admission;
use crate::message::{Addressed, Body, Cookie, Message};
use crate::{Kind, Moment, NodeId, Refusal, Report};
use rand_core::Rng as _;
use std::net::SocketAddr;
use std::time::Duration;

/// Messages processed per second from a member that has proved its liveness. A leader that answers
/// many newcomers briefly sends this many.
const MAX_OF_MEMBER: u32 = 200;
/// The same for one address whose messages prove nothing (replayed messages, or a group without a
/// key), and for all such addresses together.
const MAX_OF_ADDRESS: u32 = 200;
const MAX_OF_RENDEZVOUS: u32 = 8192;
const MAX_UNPROVED: u32 = 4096;

impl Member {
    /// Processes a datagram. Every datagram is counted; none causes an error.
    pub fn receive(&mut self, now: Moment, from: SocketAddr, bytes: &[u8]) {
        let now = self.advance(now);
        self.counts.received += 1;
        match self.admit(now, from, bytes) {
            Ok(Some(kind)) => self.counts.accept(kind),
            Ok(None) => self.counts.cookies += 1,
            Err(why) => self.counts.refuse(why),
        }
    }

    fn admit(&mut self, now: Moment, from: SocketAddr, bytes: &[u8]) -> Result<Option<Kind>, Refusal> {
        let relayed = self.relayed.as_ref().map(|relayed| relayed.address);
        if relayed.is_some_and(|address| address != from) {
            return Err(Refusal::Source);
        }
        let max_of_address = if relayed.is_some() { MAX_OF_RENDEZVOUS } else { MAX_OF_ADDRESS };
        let keyed = self.keys.sends.is_keyed();
        // Without a key anybody can compute a valid tag. Only the address distinguishes senders.
        if !keyed && !self.of_addresses.admits(now, from.ip(), max_of_address) {
            return Err(Refusal::RateLimited);
        }
        if relayed.is_some()
            && let Some(cookie) = Cookie::decode(bytes)
        {
            return self.take_cookie(now, cookie).map(|()| None);
        }
        // With a key, no budget is charged before the tag is verified: an address is easier to
        // forge than a tag.
        let (message, signed_with) = self.keys.open(now, bytes, self.group)?;
        if message.access_point && !keyed {
            // The role cannot be verified without a key.
            return Err(Refusal::Role);
        }
        if let SigningKey::Retired(_) = signed_with {
            // A notice is signed with its recipient's key, and its sender has a newer one.
            // Answering it would make two members that hold notices exchange them forever.
            if !matches!(message.body, Body::Notice(_)) {
                self.send_notices(now, from, &message, signed_with);
            }
            return Err(Refusal::RetiredKey);
        }
        let to_me = message.addressed.is_none_or(|addressed| addressed.to == self.node);
        if message.node == self.node {
            self.hear_own_name(now, from, &message, to_me);
            return Err(Refusal::Own);
        }
        if !to_me {
            return Err(Refusal::Misdirected);
        }
        if let Body::Notice(notice) = &message.body {
            return self.take_notice(now, notice).map(|()| Some(Kind::Notice));
        }
        let echoed =
            message.addressed.and_then(|addressed| self.challenges.generation_of(addressed.echo, now));
        let (_, generation) = self.challenges.current();
        let peer = self.peers.entry(message.node, from, now, relayed.is_some())?;
        let admission = match peer.sessions.admit(message.epoch, message.sequence, echoed, generation) {
            Ok(admission) => {
                if admission.proved {
                    peer.proved_since.get_or_insert(now);
                }
                admission
            }
            Err(Refusal::Epoch) => {
                // The member may be live with a clock that went back. A challenge that no replayed
                // message can answer will show it.
                self.challenges.renew(&mut self.random, now);
                self.challenge_at(now, message.node, from, message.challenge);
                return Err(Refusal::Epoch);
            }
            Err(why) => return Err(why),
        };
        // This check follows the replay check, so that replaying a member's messages does not use
        // up the member's budget.
        let in_budget = match (keyed, admission.proved) {
            (false, _) => true,
            (true, true) => self.of_members.admits(now, message.node, MAX_OF_MEMBER),
            (true, false) => {
                self.of_addresses.admits(now, from.ip(), max_of_address)
                    && self.of_unproved.admits(now, (), MAX_UNPROVED)
            }
        };
        if !in_budget {
            return Err(Refusal::RateLimited);
        }
        // The newest message of a proved session replaces what was known. A message of an unproved
        // session replaces only unproved data.
        let news = admission.latest && (admission.proved || !peer.sessions.is_proved());
        if news {
            peer.address = from;
            peer.note(&message, now);
            peer.other_key = signed_with == SigningKey::Accepted;
        }
        let kind = message.body.kind();
        self.hear(now, from, message, admission, news)?;
        self.counts.by_other_key += u64::from(signed_with == SigningKey::Accepted);
        Ok(Some(kind))
    }

    fn hear(
        &mut self,
        now: Moment,
        from: SocketAddr,
        message: Message,
        admission: Admission,
        news: bool,
    ) -> Result<(), Refusal> {
        let heard = ElectionMessage::of(&message, from, admission);
        let (node, asks, challenge) = (message.node, message.asks && heard.addressed, message.challenge);
        match message.body {
            Body::Hello { .. } => {
                if !heard.addressed {
                    self.hear_hello(&heard);
                }
                if asks {
                    self.answer(now, node, from, challenge);
                } else if message.asks {
                    self.hear_call(now, node, from, challenge);
                }
                if news || !admission.proved {
                    self.consider(now, &heard);
                }
            }
            Body::Report(report) => {
                if !admission.proved {
                    self.challenge_at(now, node, from, challenge);
                    return Err(Refusal::Unproved);
                }
                let leads = matches!(self.role, Role::Leading(_));
                if asks || !leads {
                    self.answer(now, node, from, challenge);
                }
                if !leads {
                    return Err(Refusal::NotLeader);
                }
                self.take_report(now, node, report, news)?;
            }
            Body::Summary { deputy, report_interval_ds, summary } => {
                if news || !admission.proved {
                    self.consider(now, &heard);
                }
                if !admission.proved {
                    return Err(Refusal::Unproved);
                }
                if news {
                    self.take_summary(now, node, deputy, report_interval_ds, summary);
                }
            }
            Body::Weight { permille } => {
                if !admission.proved {
                    return Err(Refusal::Unproved);
                }
                if news {
                    self.weight = Some((node, f64::from(permille) / 1000.0, now));
                }
            }
            Body::Name(name) => {
                if let Some(peer) = self.peers.get_mut(node).filter(|_| news) {
                    peer.name = Some(name);
                }
            }
            // Already processed above.
            Body::Notice(_) => {}
            Body::Goodbye { successor } => {
                if !admission.proved {
                    return Err(Refusal::Unproved);
                }
                if let Some(peer) = self.peers.get_mut(node).filter(|_| news) {
                    peer.gone = true;
                    peer.report = None;
                    peer.led = None;
                    self.lose_leader(now, node, successor);
                }
            }
        }
        Ok(())
    }

    fn take_report(&mut self, now: Moment, node: NodeId, report: Report, news: bool) -> Result<(), Refusal> {
        if !news {
            return Ok(());
        }
        if let Some(most) = self.station_count {
            let known = self.peers.get(node).is_some_and(|peer| peer.report.is_some());
            if !known && self.reports(now).count() >= usize::from(most) {
                return Err(Refusal::Crowded);
            }
        }
        if self.relayed.is_none() && !self.may_report(now, node) {
            return Err(Refusal::Address);
        }
        let Some(peer) = self.peers.get_mut(node) else { return Ok(()) };
        peer.report = Some((now, report));
        let (weight, at) = (peer.weight, peer.address);
        if let Some(permille) = weight.filter(|_| self.access_point) {
            let addressed = self.addressed(node, None);
            self.queue_message(now, Body::Weight { permille }, Some(addressed), false, Some(at));
        }
        Ok(())
    }

    /// Handles a message with our own ID that we did not send: another member drew the same ID, or
    /// an old session of ours was replayed.
    fn hear_own_name(&mut self, now: Moment, from: SocketAddr, message: &Message, to_me: bool) {
        if message.epoch == self.epoch {
            return;
        }
        let echoed = message.addressed.filter(|_| to_me);
        if echoed.is_some_and(|addressed| self.challenges.generation_of(addressed.echo, now).is_some()) {
            // It answers our challenge, so that its sender is live.
            self.draw_again(now);
            return;
        }
        let again = self.collided.is_none_or(|at| now.since(at) >= Duration::from_secs(1));
        if let (Some(echo), true) = (message.challenge, again) {
            self.collided = Some(now);
            let addressed = Some(Addressed { to: self.node, echo });
            self.queue_message(now, self.hello(None), addressed, true, Some(from));
        }
    }

    fn draw_again(&mut self, now: Moment) {
        self.node = self.keys.keys.bind(NodeId(self.random.next_u64().max(1)));
        self.counts.redrawn += 1;
        self.discard_group_state(now);
    }

    fn take_cookie(&mut self, now: Moment, cookie: Cookie) -> Result<(), Refusal> {
        // Only a host that saw one of our recent messages can answer it.
        let ours = cookie.epoch == self.epoch
            && cookie.sequence <= self.sequence
            && self.sequence - cookie.sequence < u64::BITS;
        let Some(relayed) = self.relayed.as_mut().filter(|_| ours) else { return Err(Refusal::Source) };
        let first = relayed.cookie.is_none();
        if relayed.cookie.replace(cookie.cookie) != Some(cookie.cookie) {
            relayed.keep_alive = now;
        }
        if first {
            self.discard_group_state(now);
        }
        Ok(())
    }
}
