//! The messages between members of a group and their wire format. Layout: `docs/group.md`.

mod authority;
mod body;
mod key;
mod name;
mod refusal;
mod relay;
mod wire;

pub use authority::{Authority, MAX_GENERATION, Membership, Notice, Notices};
pub(crate) use key::keyed_hash;
pub use key::{GroupKey, KEY_BYTES, Key, PASSPHRASE_ROUNDS, TAG_BYTES, WeakKey, check_key, check_pattern};
pub use name::{NoTerminalName, TerminalName};
pub use refusal::Refusal;
pub(crate) use relay::{COOKIE_BYTES, Cookie, RelayHeader, relay, relay_header};

use crate::{NodeId, Report, Summary};
use key::TAG_BYTES as TAG;
use sha2::{Digest, Sha256};
use std::fmt;
use std::time::Duration;
use wire::{Reader, Writer};

/// The version of the wire format, 0 to 15, in messages of terminals.
pub const VERSION: u8 = 1;
/// The version in messages of an access point: version 1, and the flag of its role. Members that
/// support only version 1 refuse them.
pub const ACCESS_POINT_VERSION: u8 = 2;
/// Maximum message size, bytes. Longer datagrams are refused without decoding.
pub const MAX_BYTES: usize = 160;
/// Largest rate in a message, bits per second.
pub const MAX_BPS: u64 = 100_000_000_000;
/// Largest round-trip time in a message, µs (three bytes: 16.8 s).
pub const MAX_RTT_US: u32 = (1 << 24) - 1;
/// Largest share of airtime, millionths. Estimates of what each member would reach alone differ, so
/// that the sum of shares can exceed the whole.
pub const MAX_AIR_PPM: u32 = 4_000_000;
/// Range of report intervals that a leader may request, tenths of a second.
pub const REPORT_INTERVAL_DS: std::ops::RangeInclusive<u8> = 5..=250;
/// Range of a member's weight, thousandths.
pub const WEIGHT_PERMILLE: std::ops::RangeInclusive<u16> = 1..=10_000;

/// The group ID: a hash of what identifies its access point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub [u8; 8]);

impl GroupId {
    /// The first 8 bytes of the SHA-256 of what identifies the access point: its BSSID, or the
    /// link-layer address of the gateway.
    pub fn of(access_point: &[u8]) -> GroupId {
        let hash = Sha256::new().chain_update(b"yuzuri group").chain_update(access_point).finalize();
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        GroupId(id)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// A message with all header fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The group.
    pub group: GroupId,
    /// The sender's node ID; never 0.
    pub node: NodeId,
    /// The sender's session; different after each start.
    pub epoch: u64,
    /// The sequence number within the session. Each message of a session has its own, whatever its
    /// destination.
    pub sequence: u32,
    /// The sender's rank in the leader election; lower is preferred.
    pub rank: u8,
    /// The sender has flows that send.
    pub sends: bool,
    /// The sender is the leader.
    pub leads: bool,
    /// The sender is the access point, which leads without sending anything itself.
    pub access_point: bool,
    /// The sender requests a [`Body::Hello`] that echoes its challenge. Set only together with a
    /// challenge.
    pub asks: bool,
    /// The recipient, if the message is for one member; `None`: for all.
    pub addressed: Option<Addressed>,
    /// The challenge that an addressed answer must echo, to prove that its sender is live and
    /// receives this one.
    pub challenge: Option<u32>,
    /// The body.
    pub body: Body,
}

/// The header part of a message for one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addressed {
    /// The recipient. 0: the rendezvous.
    pub to: NodeId,
    /// The last challenge received from the recipient; 0: none.
    pub echo: u32,
}

/// The body of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Presence, candidacy, claim of leadership, and answers to challenges.
    Hello {
        /// The leader according to the sender; in the hello of a leader that resigns, its
        /// successor.
        leader: Option<NodeId>,
    },
    /// A sending member's report to its leader.
    Report(Report),
    /// The leader's summary for all.
    Summary {
        /// The member that takes over if the leader falls silent.
        deputy: Option<NodeId>,
        /// The requested report interval, tenths of a second, within [`REPORT_INTERVAL_DS`].
        report_interval_ds: u8,
        /// The group's capacity and each member's share.
        summary: Summary,
    },
    /// The sender leaves.
    Goodbye {
        /// The next leader, if the sender was the leader.
        successor: Option<NodeId>,
    },
    /// The next group key, for the addressed member.
    Notice(Notice),
    /// The access point assigns a weight to the addressed member.
    Weight {
        /// Its weight, thousandths, within [`WEIGHT_PERMILLE`].
        permille: u16,
    },
    /// The name of the sender's terminal, for people.
    Name(TerminalName),
}

/// The kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// [`Body::Hello`].
    Hello,
    /// [`Body::Report`].
    Report,
    /// [`Body::Summary`].
    Summary,
    /// [`Body::Goodbye`].
    Goodbye,
    /// [`Body::Notice`].
    Notice,
    /// [`Body::Weight`].
    Weight,
    /// [`Body::Name`].
    Name,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 7] =
        [Kind::Hello, Kind::Report, Kind::Summary, Kind::Goodbye, Kind::Notice, Kind::Weight, Kind::Name];

    /// The name in the status and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Hello => "hello",
            Kind::Report => "report",
            Kind::Summary => "summary",
            Kind::Goodbye => "goodbye",
            Kind::Notice => "notice",
            Kind::Weight => "weight",
            Kind::Name => "name",
        }
    }

    fn number(self) -> u8 {
        match self {
            Kind::Hello => 1,
            Kind::Report => 2,
            Kind::Summary => 3,
            Kind::Goodbye => 4,
            Kind::Notice => 5,
            Kind::Weight => 6,
            // 8 and 9 are a rendezvous's own.
            Kind::Name => 10,
        }
    }
}

impl Body {
    /// The kind of this body.
    pub fn kind(&self) -> Kind {
        match self {
            Body::Hello { .. } => Kind::Hello,
            Body::Report(_) => Kind::Report,
            Body::Summary { .. } => Kind::Summary,
            Body::Goodbye { .. } => Kind::Goodbye,
            Body::Notice(_) => Kind::Notice,
            Body::Weight { .. } => Kind::Weight,
            Body::Name(_) => Kind::Name,
        }
    }
}

const KEYED: u8 = 1;
const SENDS: u8 = 2;
const LEADS: u8 = 4;
const ASKS: u8 = 8;
const ADDRESSED: u8 = 16;
const CHALLENGE: u8 = 32;
const ACCESS_POINT: u8 = 64;
/// Reserved flags.
const UNDEFINED: u8 = 128;
/// Version and kind, flags, group, node, epoch, sequence, rank.
const HEADER_BYTES: usize = 31;

impl Message {
    /// Encodes the message. Values that no receiver would accept are first limited to the valid
    /// range ([`Report::bounded`], [`Summary::bounded`]).
    pub fn encode(&self, key: &GroupKey) -> Vec<u8> {
        let mut out = Writer::with_capacity(MAX_BYTES);
        let version = if self.access_point { ACCESS_POINT_VERSION } else { VERSION };
        out.u8(version << 4 | self.body.kind().number());
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.u8(flag(key.is_keyed(), KEYED)
            | flag(self.sends, SENDS)
            | flag(self.leads, LEADS)
            | flag(self.asks && self.challenge.is_some(), ASKS)
            | flag(self.addressed.is_some(), ADDRESSED)
            | flag(self.challenge.is_some(), CHALLENGE)
            | flag(self.access_point, ACCESS_POINT));
        out.bytes(&self.group.0);
        out.u64(self.node.0);
        out.u64(self.epoch);
        out.u32(self.sequence);
        out.u8(self.rank);
        if let Some(addressed) = self.addressed {
            out.u64(addressed.to.0);
            out.u32(addressed.echo);
        }
        if let Some(challenge) = self.challenge {
            out.u32(challenge);
        }
        body::write(&self.body, &mut out);
        let tag = key.sign(out.as_slice());
        out.bytes(&tag);
        out.into_vec()
    }

    /// Decodes a message of this group. Only the version and the group are examined before the tag
    /// is verified.
    ///
    /// # Errors
    /// If the message is not accepted, with the reason.
    pub fn decode(bytes: &[u8], group: GroupId, key: &GroupKey) -> Result<Message, Refusal> {
        let sealed = Sealed::of(bytes, group, key.is_keyed())?;
        if sealed.is_signed_with(key) { sealed.read() } else { Err(Refusal::Tag) }
    }

    fn read(mut from: Reader, first: u8, flags: u8, group: GroupId) -> Result<Message, Refusal> {
        let is = |bit: u8| flags & bit != 0;
        from.skip(10)?;
        let node = NodeId(from.u64()?);
        let epoch = from.u64()?;
        let sequence = from.u32()?;
        let rank = from.u8()?;
        let addressed =
            if is(ADDRESSED) { Some(Addressed { to: NodeId(from.u64()?), echo: from.u32()? }) } else { None };
        let challenge = if is(CHALLENGE) { Some(from.u32()?) } else { None };
        let access_point = is(ACCESS_POINT);
        // Each message has one encoding: the version follows from the role.
        let version_fits = access_point == (first >> 4 == ACCESS_POINT_VERSION);
        if is(UNDEFINED) || !version_fits || node.0 == 0 || is(ASKS) && challenge.is_none() {
            return Err(Refusal::Malformed);
        }
        let body = body::read(first & 0xf, &mut from)?;
        from.end()?;
        let (sends, leads, asks) = (is(SENDS), is(LEADS), is(ASKS));
        let message = Message {
            group,
            node,
            epoch,
            sequence,
            rank,
            sends,
            leads,
            access_point,
            asks,
            addressed,
            challenge,
            body,
        };
        body::check(&message)?;
        Ok(message)
    }
}

/// A datagram of this group that may be a message; its tag is not verified yet.
pub(crate) struct Sealed<'a> {
    group: GroupId,
    /// Version and kind.
    first: u8,
    flags: u8,
    signed: &'a [u8],
    tag: &'a [u8; TAG],
}

impl<'a> Sealed<'a> {
    /// Checks what costs nothing to check: length, version, group, keyed or not.
    pub fn of(bytes: &'a [u8], group: GroupId, keyed: bool) -> Result<Sealed<'a>, Refusal> {
        if bytes.len() > MAX_BYTES {
            return Err(Refusal::Oversized);
        }
        let mut header = Reader::new(bytes);
        let first = header.u8()?;
        if !matches!(first >> 4, VERSION | ACCESS_POINT_VERSION) {
            return Err(Refusal::Version);
        }
        let flags = header.u8()?;
        if GroupId(header.array()?) != group {
            return Err(Refusal::Group);
        }
        if (flags & KEYED != 0) != keyed {
            return Err(if keyed { Refusal::Keyless } else { Refusal::Keyed });
        }
        let (signed, tag) = bytes.split_last_chunk::<TAG>().ok_or(Refusal::Malformed)?;
        if signed.len() < HEADER_BYTES {
            return Err(Refusal::Malformed);
        }
        Ok(Sealed { group, first, flags, signed, tag })
    }

    pub fn is_signed_with(&self, key: &GroupKey) -> bool {
        key.verify(self.signed, self.tag)
    }

    /// Decodes the message. Call it only after the tag was verified.
    pub fn read(self) -> Result<Message, Refusal> {
        Message::read(Reader::new(self.signed), self.first, self.flags, self.group)
    }
}

/// The epoch of a session: wall-clock seconds in the upper bits, random bits below. It only has to
/// differ between the sessions of a member; with a wrong clock a restarted member is accepted one
/// round trip later.
pub fn epoch(unix_time: Duration, random: u32) -> u64 {
    (unix_time.as_secs() & 0xffff_ffff) << 32 | u64::from(random)
}
