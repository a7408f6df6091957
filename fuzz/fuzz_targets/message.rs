//! Any datagrams to a member of a group: parsed or refused, counted, and never a panic. The
//! member's own messages, whatever it received, are valid for the others.
#![no_main]

use hmac::{Hmac, KeyInit, Mac};
use libfuzzer_sys::fuzz_target;
use sha2::Sha256;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use yuzuri_policy::{
    Authority, GroupId, GroupKey, Key, Keys, MAX_GENERATION, MAX_MEMBERS, Member, MemberConfig, Message,
    Moment, NodeId, Notices, Outgoing, Rendezvous, RendezvousConfig, Report, Summary, To,
};

const GROUP: GroupId = GroupId([0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7]);
const AUTHORITY: Authority = Authority::from_bytes([0x11; 32]);

/// A member's key of the last generation, which is cheap to compute; earlier keys were replaced.
fn key(number: u32) -> Key {
    AUTHORITY.member(number, MAX_GENERATION).expect("there is such a member")
}

static KEY: LazyLock<GroupKey> = LazyLock::new(|| GroupKey::new(Some(&key(1)), GROUP));
static RETIRED: LazyLock<GroupKey> = LazyLock::new(|| GroupKey::new(key(1).before().as_ref(), GROUP));
/// Notices for the members that use an earlier key, and for these two members.
static NOTICES: LazyLock<Arc<Notices>> = LazyLock::new(|| {
    Arc::new(AUTHORITY.notices(0..=255, MAX_GENERATION).expect("there is such a generation"))
});
static OTHER: LazyLock<GroupKey> = LazyLock::new(|| GroupKey::new(Some(&Key::from_bytes([0x22; 32])), GROUP));
static SIGNER: LazyLock<Hmac<Sha256>> = LazyLock::new(|| {
    let mut derived = [0; 32];
    let info = [&b"yuzuri group 1 "[..], &GROUP.0].concat();
    hkdf::Hkdf::<Sha256>::new(Some(b"yuzuri"), key(1).secret())
        .expand(&info, &mut derived)
        .expect("32 bytes are few");
    Hmac::<Sha256>::new_from_slice(&derived).expect("any length will do")
});

fn address(host: u8) -> SocketAddr {
    SocketAddr::new([10, 0, 0, host].into(), 4000)
}

/// A message with the group and a valid tag, which reaches the code behind both checks.
fn signed(head: [u8; 2], rest: &[u8]) -> Vec<u8> {
    // Version 1, or 2 as an access point speaks.
    let mut bytes = vec![(0x10 + (head[0] & 0x10)) | head[0] & 0xf, head[1] | 1];
    bytes.extend_from_slice(&GROUP.0);
    bytes.extend_from_slice(rest);
    let tag = SIGNER.clone().chain_update(&bytes).finalize().into_bytes();
    bytes.extend_from_slice(&tag[..16]);
    bytes
}

fn check(member: &mut Member, now: Moment) {
    let counts = member.counts();
    assert_eq!(counts.received, counts.accepted_total() + counts.refused_total() + counts.cookies);
    assert!(member.members(now).count() <= MAX_MEMBERS + 1);
    assert!(member.reports(now).count() <= MAX_MEMBERS + 1);
    if let Some(summary) = member.summary(now) {
        assert_eq!(summary.bounded(), *summary);
    }
    assert!(member.members(now).filter_map(|seen| seen.name).all(|name| name.as_str().parse() == Ok(name)));
    assert!(member.reports(now).all(|(_, report)| report.bounded() == *report));
    // Polling does everything that is due: a caller that polls at `next` never loops forever.
    for _ in 0..4 {
        if member.next() <= now {
            member.poll(now, &mut Vec::new());
        }
    }
    assert!(member.next() > now);
}

fuzz_target!(|bytes: &[u8]| {
    let _ = Message::decode(bytes, GROUP, &KEY);
    let new = |node: u64| {
        let mut config = MemberConfig::new(NodeId(node), GROUP, Some(key(node as u32)), node, node);
        config.notices = Some(NOTICES.clone());
        config.name = "kitchen".parse().ok();
        Member::new(config, Moment::default()).expect("settings that are good")
    };
    let mut members = [new(0x99), new(5)];
    let mut relay = Rendezvous::new(RendezvousConfig::new([3; 32]), Moment::default());
    let mut now = Moment::default();
    let mut rest = bytes;
    while let [operation, length, after @ ..] = rest {
        let length = usize::from(*length).min(after.len());
        let (argument, next) = after.split_at(length);
        rest = next;
        let which = usize::from(operation >> 7);
        let from = address(10 + (operation >> 4 & 3));
        let member = &mut members[which];
        match (operation & 7, argument) {
            (0, bytes) => member.receive(now, from, bytes),
            (1, [kind, flags, rest @ ..]) => member.receive(now, from, &signed([*kind, *flags], rest)),
            (2, [low, high, ..]) => {
                now = now + Duration::from_millis(u64::from(u16::from_le_bytes([*low, *high])))
            }
            (3, _) => now = now + Duration::from_secs(3600 * length as u64),
            (4, [rate, flows, ..]) => {
                let report = Report {
                    rate_bps: u64::from(*rate) << 30,
                    flows: u16::from(*flows),
                    elastic: true,
                    ..Report::default()
                };
                member.report(now, Some(report));
            }
            // A change of keys: the same key with another accepted one, or another key with the
            // same accepted one.
            (5, [which, ..]) => {
                let other = Some(Key::from_bytes([0x22; 32]));
                let own = Some(key((member.node().0 as u32).max(1)));
                let (key, accepts) = if which & 1 == 0 { (own, other) } else { (other, own) };
                let notices = (which & 2 != 0).then(|| NOTICES.clone());
                member.set_keys(now, Keys { key, accepts, notices });
            }
            (5, []) => member.report(now, None),
            (6, bytes) => {
                let share_bps = u64::from(bytes.first().copied().unwrap_or_default()) << 32;
                member.summarize(now, Summary { share_bps, capacity_bps: 1 << 36, ..Summary::default() });
            }
            (7, bytes) => relay.receive(now, from, bytes, &mut Vec::new()),
            _ => {}
        }
        // The two members receive each other's messages.
        for which in 0..2 {
            let mut out = Vec::new();
            members[which].poll(now, &mut out);
            for Outgoing { to, bytes } in out {
                let read = |key: &GroupKey| Message::decode(&bytes, GROUP, key).is_ok();
                assert!(read(&KEY) || read(&OTHER) || read(&RETIRED));
                if to == To::All || to == To::One(address(1 - which as u8)) {
                    members[1 - which].receive(now, address(which as u8), &bytes);
                }
            }
            check(&mut members[which], now);
        }
    }
});
