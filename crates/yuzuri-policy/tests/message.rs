//! Messages on the wire: what was encoded is decoded, and nothing else.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use yuzuri_policy::{
    Addressed, Authority, Body, Destination, GroupId, GroupKey, Key, Kind, MAX_AIR_PPM, MAX_BPS, MAX_BYTES,
    MAX_DESTINATIONS, MAX_RTT_US, Message, NodeId, Notice, Phase, Refusal, Report, Summary, TAG_BYTES,
    TerminalName,
};

const GROUP: GroupId = GroupId([0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7]);

fn key() -> GroupKey {
    GroupKey::new(Some(&Key::from_bytes([0x11; 32])), GROUP)
}

fn message(body: Body) -> Message {
    let kind = body.kind();
    Message {
        group: GROUP,
        node: NodeId(0x0102_0304_0506_0708),
        epoch: 0x6530_0000_dead_beef,
        sequence: 258,
        rank: 128,
        sends: kind != Kind::Goodbye,
        leads: kind == Kind::Summary,
        access_point: false,
        asks: false,
        addressed: matches!(kind, Kind::Report | Kind::Notice | Kind::Weight)
            .then_some(Addressed { to: NodeId(0x99), echo: 0xcafe_f00d }),
        challenge: matches!(kind, Kind::Hello | Kind::Summary).then_some(0x1234_5678),
        body,
    }
}

fn report() -> Report {
    Report {
        rate_bps: 12_345_678,
        alone_bps: 98_765_432_100,
        flows: 3,
        elastic: true,
        queue_us: 20_000,
        srtt_us: 70_000,
        lost_permille: 17,
        destinations: vec![(Destination(0xd1d2_d3d4), 50_000), (Destination(0xe1e2_e3e4), 9_999_999)],
    }
}

fn summary() -> Summary {
    Summary {
        members: 300,
        senders: 20,
        phase: Phase::Probe,
        capacity_bps: 250_000_000,
        air_share_ppm: 50_000,
        share_bps: 12_500_000,
        alone_max_bps: 95_000_000,
        queue_us: 20_000,
        paced: true,
        srtt_us: 70_000,
        destinations: vec![(Destination(0xd1d2_d3d4), 48_000)],
    }
}

fn notice() -> Notice {
    Notice { generation: 7, wrapped: [0xc1; 32], proof: [0xd2; 16] }
}

fn of_access_point(body: Body) -> Message {
    Message { sends: false, leads: true, access_point: true, ..message(body) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The wire format of version 1, byte by byte: version and kind, flags, group, node, epoch,
/// sequence, rank; to, echo; challenge; body; tag. If this fails, members of different builds are
/// no longer compatible: raise the version.
#[test]
fn the_wire_format_stays() {
    let header = "a0a1a2a3a4a5a6a7010203040506070865300000deadbeef0000010280";
    let golden = [
        (
            message(Body::Hello { leader: Some(NodeId(0x77)) }),
            format!("1123{header}12345678{}", "0000000000000077"),
            HELLO_TAG,
        ),
        (
            message(Body::Report(report())),
            format!(
                "1213{header}0000000000000099cafef00d{}",
                "0000bc614e16fee0e5240003004e200111700011\
                 82d1d2d3d400c350e1e2e3e498967f"
            ),
            REPORT_TAG,
        ),
        (
            message(Body::Summary { deputy: Some(NodeId(0x55)), report_interval_ds: 25, summary: summary() }),
            format!(
                "1327{header}12345678{}",
                "000000000000005519012c001402000ee6b2800000c3500000bebc200005a995c0004e2001117081d1d2d3d400bb80"
            ),
            SUMMARY_TAG,
        ),
        (
            message(Body::Goodbye { successor: None }),
            format!("1401{header}{}", "0000000000000000"),
            GOODBYE_TAG,
        ),
        (
            message(Body::Notice(notice())),
            format!(
                "1513{header}0000000000000099cafef00d{}{}{}",
                "00000007",
                "c1".repeat(32),
                "d2".repeat(16)
            ),
            NOTICE_TAG,
        ),
        (message(Body::Name("kitchen".parse().unwrap())), format!("1a03{header}076b69746368656e"), NAME_TAG),
    ];
    for (message, signed, tag) in golden {
        let bytes = message.encode(&key());
        assert_eq!(hex(&bytes), signed + tag, "{:?}", message.body.kind());
        assert_eq!(Message::decode(&bytes, GROUP, &key()), Ok(message));
    }
}

/// The same for version 2: an access point's messages, which name its role and do not claim that it
/// sends.
#[test]
fn the_wire_format_of_an_access_point_stays() {
    let header = "a0a1a2a3a4a5a6a7010203040506070865300000deadbeef0000010280";
    let golden = [
        (
            of_access_point(Body::Hello { leader: Some(NodeId(0x77)) }),
            format!("2165{header}12345678{}", "0000000000000077"),
            "15ce78e64abaafbc6a1073ce498b9967",
        ),
        (
            of_access_point(Body::Summary {
                deputy: Some(NodeId(0x55)),
                report_interval_ds: 25,
                summary: summary(),
            }),
            format!(
                "2365{header}12345678{}",
                "000000000000005519012c001402000ee6b2800000c3500000bebc200005a995c0004e2001117081d1d2d3d400bb80"
            ),
            "0b687f280154b8fd6cfc3931a0c239a5",
        ),
        (
            Message { leads: false, ..of_access_point(Body::Goodbye { successor: Some(NodeId(0x55)) }) },
            format!("2441{header}{}", "0000000000000055"),
            "7fd878e61d43e9b00e2796175d137861",
        ),
        (
            of_access_point(Body::Weight { permille: 2500 }),
            format!("2655{header}0000000000000099cafef00d09c4"),
            "d8e42c849def94aa14a7299bca18be4c",
        ),
    ];
    for (message, signed, tag) in golden {
        let bytes = message.encode(&key());
        assert_eq!(hex(&bytes), signed + tag, "{:?}", message.body.kind());
        assert_eq!(Message::decode(&bytes, GROUP, &key()), Ok(message));
    }
}

/// A name is sent to all, and contains printable ASCII characters only.
#[test]
fn names_are_printable_and_short() {
    for name in ["a", "kitchen-pi", "Anna's laptop", "x.example.org", &"n".repeat(63)] {
        assert_eq!(name.parse::<TerminalName>().unwrap().as_str(), name);
    }
    for wrong in ["", " a", "a ", "a\nb", "\u{1b}[2J", "k\u{fc}che", "\u{202e}abc", &"n".repeat(64)] {
        assert!(wrong.parse::<TerminalName>().is_err(), "{wrong:?}");
    }
    let named = message(Body::Name("kitchen".parse().unwrap()));
    let at = 31;
    assert_eq!(refused(&named, at, 0, &[0]), Refusal::Range, "no name");
    assert_eq!(refused(&named, at, 0, &[6]), Refusal::Malformed, "shorter than what follows");
    assert_eq!(refused(&named, at, 0, &[8]), Refusal::Malformed, "longer than what follows");
    assert_eq!(refused(&named, at, 1, &[0x1b]), Refusal::Range, "a control character");
    assert_eq!(refused(&named, at, 7, b" "), Refusal::Range, "a blank at its end");
    assert_eq!(refused(&named, at, 2, &[0xc3, 0xbc]), Refusal::Range, "not ASCII");
    let decode = |message: &Message| Message::decode(&message.encode(&key()), GROUP, &key());
    let addressed = Message { addressed: Some(Addressed { to: NodeId(1), echo: 0 }), ..named.clone() };
    assert_eq!(decode(&addressed), Err(Refusal::Contradictory));
    assert_eq!(decode(&Message { sends: false, leads: true, ..named }), Err(Refusal::Contradictory));
}

const NAME_TAG: &str = "bb4cf356a9963068181b35396588f5c6";
const HELLO_TAG: &str = "c0908e36a718a3f9db2d11be46683b3f";
const REPORT_TAG: &str = "b6899a36d1f3224be5a050aec6c6d76c";
const SUMMARY_TAG: &str = "c578ba2951789d875d195ba7a8db4fb4";
const GOODBYE_TAG: &str = "ff9ac49a4257d2b152b3d0e37ee19013";
const NOTICE_TAG: &str = "94de0b33bfaaed3a4afdc420a70737f7";

#[test]
fn messages_are_small() {
    let size = |body| message(body).encode(&key()).len();
    assert_eq!(size(Body::Hello { leader: None }), 59);
    assert_eq!(size(Body::Report(Report { destinations: vec![], ..report() })), 80);
    assert_eq!(size(Body::Report(report())), 94);
    assert_eq!(size(Body::Summary { deputy: None, report_interval_ds: 5, summary: summary() }), 98);
    assert_eq!(size(Body::Goodbye { successor: None }), 55);
    assert_eq!(size(Body::Notice(notice())), 111);
    assert_eq!(size(Body::Weight { permille: 500 }), 61);
    assert_eq!(size(Body::Name("n".repeat(63).parse().unwrap())), 111);
    let destinations: Vec<_> = (1..=MAX_DESTINATIONS as u32).map(|n| (Destination(n), n)).collect();
    let summary = Summary { destinations: destinations.clone(), ..summary() };
    assert_eq!(size(Body::Summary { deputy: None, report_interval_ds: 5, summary }), 119);
    let mut longest = message(Body::Report(Report { destinations, ..report() }));
    longest.challenge = Some(1);
    assert_eq!(longest.encode(&key()).len(), 112);
}

/// PBKDF2 and HKDF as Python's hashlib and hmac compute them: see `docs/group.md`.
#[test]
fn keys_are_derived_as_others_derive_them() {
    let group = GroupId::of(&[0x02, 0, 0, 0, 0, 1]);
    assert_eq!(group.to_string(), GROUP_ID);
    let signed = Message { group, ..message(Body::Goodbye { successor: None }) };
    let tag = |key: Option<&Key>| {
        let bytes = signed.encode(&GroupKey::new(key, group));
        hex(&bytes[bytes.len() - TAG_BYTES..])
    };
    assert_eq!(tag(Some(&Key::from_passphrase("correct horse battery staple", group))), PASSPHRASE_TAG);
    assert_eq!(tag(Some(&Key::from_bytes([0x22; 32]))), KEY_TAG);
    assert_eq!(tag(None), KEYLESS_TAG);
}

/// The same for the files that an authority issues.
#[test]
fn an_authoritys_keys_are_derived_as_others_derive_them() {
    let authority = Authority::from_bytes([0x5c; 32]);
    let key = authority.member(7, 3).unwrap();
    assert_eq!(hex(key.secret()), THIRD_KEY);
    assert_eq!(hex(&key.membership().unwrap().own), SEVENTH_OWN);
    assert_eq!(hex(&authority.notice(7, 3).unwrap().to_bytes()), SEVENTH_NOTICE);
}

const THIRD_KEY: &str = "6932205bb4834686abd6ae9e77aad40278e5a403db93960088394cd9991dd701";
const SEVENTH_OWN: &str = "da030d6601986b51d2279b57f39cf5b0987543db5dc1459baec5bbce458901d9";
const SEVENTH_NOTICE: &str = "00000003c642372453af8298f38c53c98dcc8aefb66d0d04b58e555c93c07fa1f73ea3572a3a409204286524a78325c04972e27f";

const GROUP_ID: &str = "9e92ffd5a79d517d";
const PASSPHRASE_TAG: &str = "9c313450e86feb06911ad0367572846c";
const KEY_TAG: &str = "724d9bf1cb301568f7023f521ad5e9cd";
const KEYLESS_TAG: &str = "62639b4537d4a6822a76def61fbec04a";

#[test]
fn secrets_are_not_printed() {
    let key = Key::from_bytes([0x41; 32]);
    let shown = format!("{key:?} {:?}", GroupKey::new(Some(&key), GROUP));
    assert_eq!(shown, "Key(secret) GroupKey(secret)");
}

fn destinations() -> impl Strategy<Value = Vec<(Destination, u32)>> {
    proptest::collection::btree_map(any::<u32>(), 1..=MAX_RTT_US, 0..=MAX_DESTINATIONS)
        .prop_map(|map| map.into_iter().map(|(destination, us)| (Destination(destination), us)).collect())
}

fn any_report() -> impl Strategy<Value = Report> {
    (
        (0..=MAX_BPS, 0..=MAX_BPS, any::<u16>(), any::<bool>()),
        (0..=MAX_RTT_US, 0..=MAX_RTT_US, 0..=1000_u16, destinations()),
    )
        .prop_map(
            |((rate_bps, alone_bps, flows, elastic), (queue_us, srtt_us, lost_permille, destinations))| {
                Report {
                    rate_bps,
                    alone_bps,
                    flows,
                    elastic: elastic && flows > 0,
                    queue_us,
                    srtt_us,
                    lost_permille,
                    destinations,
                }
            },
        )
}

fn any_summary() -> impl Strategy<Value = Summary> {
    let phase = prop_oneof![
        Just(Phase::StartUp),
        Just(Phase::Hold),
        Just(Phase::Probe),
        Just(Phase::Contend),
        Just(Phase::Off)
    ];
    (
        (1..=u16::MAX, any::<u16>(), phase, 0..=MAX_BPS, any::<u64>()),
        (0..=MAX_AIR_PPM, 0..=MAX_BPS, any::<bool>(), 0..=MAX_RTT_US, 0..=MAX_RTT_US, destinations()),
    )
        .prop_map(|((members, senders, phase, capacity_bps, share), rest)| {
            let (air_share_ppm, alone_max_bps, paced, queue_us, srtt_us, destinations) = rest;
            Summary {
                members,
                senders: senders.min(members),
                phase,
                capacity_bps,
                air_share_ppm,
                share_bps: share % ((2 * capacity_bps).min(MAX_BPS) + 1),
                alone_max_bps,
                queue_us,
                paced,
                srtt_us,
                destinations,
            }
        })
}

fn node() -> impl Strategy<Value = Option<NodeId>> {
    prop_oneof![Just(None), (1..=u64::MAX).prop_map(|node| Some(NodeId(node)))]
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        node().prop_map(|leader| Body::Hello { leader }),
        any_report().prop_map(Body::Report),
        (node(), 5..=250_u8, any_summary()).prop_map(|(deputy, report_interval_ds, summary)| Body::Summary {
            deputy,
            report_interval_ds,
            summary
        }),
        node().prop_map(|successor| Body::Goodbye { successor }),
        any::<([u8; 32], [u8; 16], u32)>().prop_map(|(wrapped, proof, generation)| Body::Notice(Notice {
            generation,
            wrapped,
            proof
        })),
        (1..=10_000_u16).prop_map(|permille| Body::Weight { permille }),
        "[!-~]([ -~]{0,61}[!-~])?".prop_map(|name| Body::Name(name.parse().unwrap())),
    ]
}

/// A weight comes from the leading access point, to one member, and is within its range.
#[test]
fn only_a_leading_access_point_assigns_weights() {
    let decode = |message: &Message| Message::decode(&message.encode(&key()), GROUP, &key());
    let weight = |permille| of_access_point(Body::Weight { permille });
    assert_eq!(decode(&weight(1)), Ok(weight(1)));
    for wrong in [
        Message { addressed: None, ..weight(500) },
        Message { leads: false, ..weight(500) },
        Message { sends: true, ..weight(500) },
        Message { access_point: false, ..weight(500) },
    ] {
        assert_eq!(decode(&wrong), Err(Refusal::Contradictory), "{wrong:?}");
    }
    for permille in [[0, 0], [0x27, 0x11]] {
        assert_eq!(refused(&weight(500), 31 + 12, 0, &permille), Refusal::Range, "{permille:?}");
    }
}

prop_compose! {
    fn any_message()(
        (group, node, epoch, sequence, rank) in (any::<[u8; 8]>(), 1..=u64::MAX, any::<u64>(), any::<u32>(), any::<u8>()),
        (sends, leads, asks, access_point) in any::<(bool, bool, bool, bool)>(),
        addressed in proptest::option::of(any::<(u64, u32)>()),
        challenge in proptest::option::of(any::<u32>()),
        body in body(),
    ) -> Message {
        let addressed = addressed.map(|(to, echo)| Addressed { to: NodeId(to), echo });
        let any = Addressed { to: NodeId(1), echo: 0 };
        let is_weight = matches!(body, Body::Weight { .. });
        let access_point = is_weight || access_point && !matches!(body, Body::Report(_));
        let (sends, leads, addressed) = match body {
            Body::Hello { .. } => (sends || leads, leads, addressed),
            Body::Report(_) => (true, false, addressed.or(Some(any))),
            Body::Summary { .. } => (true, true, None),
            Body::Goodbye { .. } => (false, false, None),
            Body::Notice(_) => (sends, leads, addressed.or(Some(any))),
            Body::Weight { .. } => (false, true, addressed.or(Some(any))),
            Body::Name(_) => (sends || leads, leads, None),
        };
        let sends = sends && !access_point;
        let (node, asks) = (NodeId(node), asks && challenge.is_some());
        Message { group: GroupId(group), node, epoch, sequence, rank, sends, leads, access_point, asks, addressed, challenge, body }
    }
}

proptest! {
    #[test]
    fn encoded_messages_decode_to_the_same(message in any_message(), secret in any::<Option<[u8; 32]>>()) {
        let key = GroupKey::new(secret.map(Key::from_bytes).as_ref(), message.group);
        let bytes = message.encode(&key);
        prop_assert!(bytes.len() <= MAX_BYTES);
        prop_assert_eq!(Message::decode(&bytes, message.group, &key), Ok(message));
    }

    #[test]
    fn modified_messages_are_refused(message in any_message(), place in any::<prop::sample::Index>(), by in 1..=255_u8) {
        let key = GroupKey::new(Some(&Key::from_bytes([1; 32])), message.group);
        let mut bytes = message.encode(&key);
        let place = place.index(bytes.len());
        bytes[place] ^= by;
        prop_assert!(Message::decode(&bytes, message.group, &key).is_err());
        yuzuri_testnet::attack("message with a changed byte", 1, "messages", "all refused");
    }

    #[test]
    fn truncated_and_extended_messages_are_refused(message in any_message(), cut in any::<prop::sample::Index>(), more in 1..200_usize) {
        let key = GroupKey::new(Some(&Key::from_bytes([1; 32])), message.group);
        let bytes = message.encode(&key);
        prop_assert!(Message::decode(&bytes[..cut.index(bytes.len())], message.group, &key).is_err());
        let longer = [bytes, vec![0; more]].concat();
        prop_assert!(Message::decode(&longer, message.group, &key).is_err());
        yuzuri_testnet::attack("message cut or lengthened", 2, "messages", "all refused");
    }

    #[test]
    fn other_keys_and_groups_refuse(message in any_message(), mine in any::<Option<[u8; 32]>>(), theirs in any::<Option<[u8; 32]>>()) {
        prop_assume!(mine != theirs);
        let key = |secret: Option<[u8; 32]>, group| GroupKey::new(secret.map(Key::from_bytes).as_ref(), group);
        let bytes = message.encode(&key(theirs, message.group));
        let refused = Message::decode(&bytes, message.group, &key(mine, message.group));
        let why = match (mine, theirs) {
            (Some(_), None) => Refusal::Keyless,
            (None, Some(_)) => Refusal::Keyed,
            _ => Refusal::Tag,
        };
        prop_assert_eq!(refused, Err(why));
        let other = GroupId(message.group.0.map(|byte| !byte));
        prop_assert_eq!(Message::decode(&bytes, other, &key(theirs, other)), Err(Refusal::Group));
        // A group's key is its own: the same secret and another group's bytes.
        prop_assert_eq!(Message::decode(&bytes, message.group, &key(theirs, other)), Err(Refusal::Tag));
        yuzuri_testnet::attack("message of another key or group", 3, "messages", "all refused");
    }

    #[test]
    fn arbitrary_messages_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Message::decode(&bytes, GROUP, &key()).is_err());
        yuzuri_testnet::attack("noise as a message", 1, "messages", "all refused");
    }

    /// The bytes are signed with the key, so that the checks after the tag are reached as well. A
    /// message that is accepted encodes to the same bytes.
    #[test]
    fn signed_arbitrary_bytes_are_parsed_or_refused(version in 1..4_u8, kind in 0..16_u8, flags: u8, mut rest in proptest::collection::vec(any::<u8>(), 0..110), zeros in any::<bool>()) {
        if zeros {
            rest.iter_mut().for_each(|byte| *byte &= 0x07);
        }
        let mut bytes = vec![version << 4 | kind, flags | 1];
        bytes.extend_from_slice(&GROUP.0);
        bytes.extend_from_slice(&rest);
        let bytes = sign(bytes);
        if let Ok(message) = Message::decode(&bytes, GROUP, &key()) {
            prop_assert_eq!(message.encode(&key()), bytes);
        }
        yuzuri_testnet::attack("signed nonsense", 1, "messages", "read or refused");
    }

    #[test]
    fn any_encoded_report_is_accepted(
        rates in any::<(u64, u64)>(), flows in any::<u16>(), elastic in any::<bool>(),
        times in any::<(u32, u32)>(), lost_permille in any::<u16>(), destinations in proptest::collection::vec((0..3_u32, any::<u32>()), 0..9),
    ) {
        let destinations = destinations.into_iter().map(|(destination, us)| (Destination(destination), us)).collect();
        let report = Report {
            rate_bps: rates.0, alone_bps: rates.1, flows, elastic, queue_us: times.0, srtt_us: times.1, lost_permille, destinations,
        };
        let sent = message(Body::Report(report.clone()));
        let read = Message::decode(&sent.encode(&key()), GROUP, &key());
        prop_assert_eq!(read.map(|read| read.body), Ok(Body::Report(report.bounded())));
    }
}

/// A valid tag for any bytes: computed outside the crate, with the same libraries.
fn sign(mut bytes: Vec<u8>) -> Vec<u8> {
    use hmac::{Hmac, KeyInit, Mac};
    let mut derived = [0; 32];
    let info = [&b"yuzuri group 1 "[..], &GROUP.0].concat();
    hkdf::Hkdf::<sha2::Sha256>::new(Some(b"yuzuri"), &[0x11; 32]).expand(&info, &mut derived).unwrap();
    let whole =
        Hmac::<sha2::Sha256>::new_from_slice(&derived).unwrap().chain_update(&bytes).finalize().into_bytes();
    bytes.extend_from_slice(&whole[..TAG_BYTES]);
    bytes
}

/// A golden message with some changed bytes, signed again; `place` counts from the beginning of the
/// body.
fn refused(message: &Message, body_at: usize, place: usize, bytes: &[u8]) -> Refusal {
    let mut whole = message.encode(&key());
    whole.truncate(whole.len() - TAG_BYTES);
    whole[body_at + place..body_at + place + bytes.len()].copy_from_slice(bytes);
    Message::decode(&sign(whole), GROUP, &key()).unwrap_err()
}

#[test]
fn impossible_values_are_refused() {
    let beyond = [0x17, 0x48, 0x76, 0xe8, 0x01];
    let report = message(Body::Report(report()));
    let at = 31 + 12;
    assert_eq!(refused(&report, at, 0, &beyond), Refusal::Range, "rate");
    assert_eq!(refused(&report, at, 5, &beyond), Refusal::Range, "rate alone");
    assert_eq!(refused(&report, at, 10, &[0, 0]), Refusal::Contradictory, "elastic without flows");
    assert_eq!(refused(&report, at, 18, &[3, 233]), Refusal::Range, "1001 of a thousand");
    assert_eq!(refused(&report, at, 20, &[0x85]), Refusal::Malformed, "five destinations");
    assert_eq!(refused(&report, at, 20, &[0x81]), Refusal::Malformed, "fewer destinations than bytes");
    assert_eq!(refused(&report, at, 25, &[0, 0, 0]), Refusal::Contradictory, "a round-trip time of 0");
    assert_eq!(
        refused(&report, at, 28, &[0xd1, 0xd2, 0xd3, 0xd4]),
        Refusal::Contradictory,
        "a destination twice"
    );
    let summary = message(Body::Summary { deputy: None, report_interval_ds: 5, summary: summary() });
    let at = 31 + 4;
    assert_eq!(refused(&summary, at, 8, &[4]), Refusal::Range, "reports too often");
    assert_eq!(refused(&summary, at, 8, &[251]), Refusal::Range, "reports too seldom");
    assert_eq!(refused(&summary, at, 9, &[0, 19]), Refusal::Contradictory, "more senders than members");
    assert_eq!(refused(&summary, at, 9, &[0, 0, 0, 0]), Refusal::Contradictory, "no members");
    assert_eq!(refused(&summary, at, 13, &[5]), Refusal::Malformed, "no such phase");
    assert_eq!(refused(&summary, at, 14, &beyond), Refusal::Range, "capacity");
    assert_eq!(refused(&summary, at, 19, &[0, 0x3d, 0x09, 1]), Refusal::Range, "four times the air");
    assert_eq!(
        refused(&summary, at, 23, &[0, 0x1d, 0xcd, 0x65, 0x01]),
        Refusal::Contradictory,
        "a share above twice the whole"
    );
    assert_eq!(refused(&summary, at, 28, &beyond), Refusal::Range, "rate of the wire");
    let hello = message(Body::Hello { leader: None });
    assert_eq!(refused(&hello, 0, 0, &[0x31]), Refusal::Version);
    assert_eq!(refused(&hello, 0, 0, &[0x15]), Refusal::Malformed, "no such kind");
    assert_eq!(refused(&hello, 0, 1, &[0xa3]), Refusal::Malformed, "an undefined flag");
    assert_eq!(refused(&hello, 0, 0, &[0x21]), Refusal::Malformed, "version 2 without the role");
    assert_eq!(refused(&hello, 0, 1, &[0x63]), Refusal::Malformed, "the role in version 1");
    assert_eq!(refused(&hello, 0, 0, &[0x21, 0x63]), Refusal::Contradictory, "an access point that sends");
    assert_eq!(refused(&report, 0, 0, &[0x22, 0x51]), Refusal::Contradictory, "an access point that reports");
    assert_eq!(refused(&hello, 0, 1, &[0x25]), Refusal::Contradictory, "leads and does not send");
    assert_eq!(refused(&hello, 0, 10, &[0; 8]), Refusal::Malformed, "nobody");
}
