//! The exchange between a member and its rendezvous in addition to messages: cookies, and messages
//! prefixed with a cookie.
//!
//! The rendezvous has no key. It reads the fields of every header ([`RelayHeader`]) and verifies
//! only that an address answers.

use super::wire::{Reader, Writer};
use super::{ACCESS_POINT_VERSION, ADDRESSED, GroupId, HEADER_BYTES, Kind, MAX_BYTES, TAG, VERSION};
use crate::NodeId;

const COOKIE: u8 = 8;
const RELAY: u8 = 9;
/// Size of a cookie, bytes.
pub(crate) const COOKIE_BYTES: usize = 8;
/// Size of the prefix of a message to be forwarded, bytes.
const RELAY_HEADER_BYTES: usize = 1 + COOKIE_BYTES;

/// The rendezvous's answer to an unknown address: repeat the message with this cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cookie {
    /// Session and sequence number of the message that it answers: a host that did not see that
    /// message cannot forge the answer.
    pub epoch: u64,
    pub sequence: u32,
    pub cookie: [u8; COOKIE_BYTES],
}

impl Cookie {
    /// Shorter than any message that causes it.
    pub const BYTES: usize = 1 + 8 + 4 + COOKIE_BYTES;

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::with_capacity(Self::BYTES);
        out.u8(VERSION << 4 | COOKIE);
        out.u64(self.epoch);
        out.u32(self.sequence);
        out.bytes(&self.cookie);
        out.into_vec()
    }

    pub fn decode(bytes: &[u8]) -> Option<Cookie> {
        if bytes.len() != Self::BYTES || bytes[0] != VERSION << 4 | COOKIE {
            return None;
        }
        let mut from = Reader::new(&bytes[1..]);
        Some(Cookie { epoch: from.u64().ok()?, sequence: from.u32().ok()?, cookie: from.array().ok()? })
    }
}

/// Prefixes a message with the cookie.
pub(crate) fn relay(cookie: [u8; COOKIE_BYTES], message: &[u8]) -> Vec<u8> {
    let mut out = Writer::with_capacity(RELAY_HEADER_BYTES + message.len());
    out.u8(VERSION << 4 | RELAY);
    out.bytes(&cookie);
    out.bytes(message);
    out.into_vec()
}

/// A datagram received by the rendezvous.
pub(crate) struct Seen<'a> {
    pub cookie: Option<[u8; COOKIE_BYTES]>,
    pub relay_header: RelayHeader,
    pub message: &'a [u8],
}

/// The fields of a message that the rendezvous reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RelayHeader {
    pub kind: Kind,
    pub group: GroupId,
    pub node: NodeId,
    pub epoch: u64,
    pub sequence: u32,
    /// The recipient, if the message is for one member; 0: the rendezvous itself.
    pub to: Option<NodeId>,
}

/// Parses a possible message with or without a cookie; `None`: it is no message.
pub(crate) fn relay_header(bytes: &[u8]) -> Option<Seen<'_>> {
    let (cookie, message) = if bytes.first() == Some(&(VERSION << 4 | RELAY)) {
        let (header, message) = bytes.split_first_chunk::<RELAY_HEADER_BYTES>()?;
        let mut cookie = [0; COOKIE_BYTES];
        cookie.copy_from_slice(&header[1..]);
        (Some(cookie), message)
    } else {
        (None, bytes)
    };
    if message.len() < HEADER_BYTES + TAG || message.len() > MAX_BYTES {
        return None;
    }
    let mut from = Reader::new(message);
    let first = from.u8().ok()?;
    if !matches!(first >> 4, VERSION | ACCESS_POINT_VERSION) {
        return None;
    }
    let kind = *Kind::ALL.iter().find(|kind| first & 0xf == kind.number())?;
    let flags = from.u8().ok()?;
    let group = GroupId(from.array().ok()?);
    let node = NodeId(from.u64().ok()?);
    let epoch = from.u64().ok()?;
    let sequence = from.u32().ok()?;
    let _rank = from.u8().ok()?;
    let to = if flags & ADDRESSED != 0 { Some(NodeId(from.u64().ok()?)) } else { None };
    let relay_header = RelayHeader { kind, group, node, epoch, sequence, to };
    Some(Seen { cookie, relay_header, message })
}
