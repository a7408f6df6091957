//! Strangers, replayed messages and mistakes.

use proptest::prelude::*;
use std::collections::BTreeSet;

use crate::net::{Net, Sent, at, group, key, ms, report};
use std::net::SocketAddr;
use std::time::Duration;
use yuzuri_policy::{
    Addressed, Body, GroupId, GroupKey, Key, Kind, Member, MemberConfig, MemberError, Message, Moment,
    NodeId, Refusal, Summary, To,
};

fn stranger() -> SocketAddr {
    "10.66.66.66:4000".parse().unwrap()
}

fn keyed() -> GroupKey {
    GroupKey::new(Some(&key()), group())
}

fn read(bytes: &[u8]) -> Message {
    Message::decode(bytes, group(), &keyed()).unwrap()
}

fn group_of(n: u64, seed: u64) -> Net {
    let mut net = Net::new(seed);
    for node in 1..=n {
        let place = net.add(node * 10);
        net.begin(place, 3);
    }
    net
}

/// A recording must not give the member a leader or valid reports.
fn believes_nobody(member: &Member, now: Moment) {
    assert!(member.reports(now).all(|(node, _)| node == member.node()));
    assert!(member.leader().is_none_or(|leader| leader == member.node()));
    assert!(member.members(now).skip(1).all(|seen| !seen.proved));
}

#[test]
fn a_recorded_session_convinces_no_newcomer() {
    let mut net = group_of(6, 1);
    net.run_until(at(20_000));
    let recorded: Vec<Sent> = std::mem::take(&mut net.sent);
    assert!(recorded.iter().any(|sent| read(&sent.bytes).body.kind() == Kind::Summary));
    // All of it is replayed, in order and at the recorded intervals, to one that begins to send in
    // the middle of it, and that had an earlier session in the same group.
    for node in [5, 20, 1000] {
        let mut alone = Net::new(2);
        let place = alone.add(node);
        for sent in &recorded {
            alone.run_until(sent.at);
            if alone.member(place).counts().received == 40 {
                alone.begin(place, 3);
            }
            alone.inject(place, stranger(), &sent.bytes);
            believes_nobody(alone.member(place), alone.now);
        }
        assert_eq!(alone.senders(place), Some(1), "it leads itself and counts itself");
        let counts = alone.member(place).counts();
        assert_eq!(counts.accepted_total(), counts.accepted(Kind::Hello), "only hellos, which need no proof");
        assert_eq!(counts.received, counts.accepted_total() + counts.refused_total());
        assert_eq!(counts.led, 1);
        // Whatever the recording, at most one challenge is sent per quarter of a second and member
        // in it.
        assert!(counts.sent(Kind::Hello) < 20 * 4 * 6, "{counts:?}");
    }
    yuzuri_testnet::attack(
        "recorded session played to a newcomer",
        3 * recorded.len() as u64,
        "messages",
        "none believed",
    );
}

#[test]
fn a_recorded_session_delays_the_first_leader_by_no_more_than_a_rival_would() {
    let mut net = group_of(6, 1);
    net.run_until(at(20_000));
    let recorded: Vec<Sent> = std::mem::take(&mut net.sent);
    let mut alone = Net::new(2);
    let place = alone.add(1000);
    alone.run_until(at(30_000));
    alone.begin(place, 3);
    for sent in recorded.iter().filter(|sent| sent.to == To::All).take(200) {
        alone.run_for(ms(10));
        alone.inject(place, stranger(), &sent.bytes);
    }
    // A rival that was heard gets 0.6 s more; then a tick.
    alone.run_until(at(31_700));
    assert_eq!(alone.senders(place), Some(1));
    yuzuri_testnet::attack(
        "recorded session played to a first sender",
        200,
        "messages",
        "it leads within 1.7 s",
    );
}

#[test]
fn each_message_is_accepted_once() {
    let mut net = group_of(6, 3);
    net.run_until(at(10_000));
    let recorded = net.sent.clone();
    for sent in &recorded {
        let message = read(&sent.bytes);
        for place in 0..6 {
            let node = net.member(place).node();
            let before = net.member(place).counts().clone();
            let (leader, senders) = (net.member(place).leader(), net.senders(place));
            net.inject(place, "10.66.66.67:4000".parse().unwrap(), &sent.bytes);
            net.inject(place, stranger(), &sent.bytes);
            let after = net.member(place).counts();
            assert_eq!(after.accepted_total(), before.accepted_total(), "{message:?} again, at {node}");
            let why = match message.addressed {
                _ if message.node == node => Refusal::Own,
                Some(addressed) if addressed.to != node => Refusal::Misdirected,
                _ => Refusal::Replay,
            };
            assert_eq!(after.refused(why) - before.refused(why), 2, "{message:?} again, at {node}");
            assert_eq!((net.member(place).leader(), net.senders(place)), (leader, senders));
        }
        net.run_for(ms(20));
    }
    yuzuri_testnet::attack("replayed messages", 12 * recorded.len() as u64, "messages", "none taken twice");
}

#[test]
fn every_changed_bit_is_noticed() {
    let mut net = group_of(3, 4);
    let config = MemberConfig { name: "kitchen".parse().ok(), ..net.config(9_001) };
    net.add_with(config);
    net.run_until(at(6000));
    net.terminals[2].member.leave(net.now);
    net.fetch(2);
    // Only access points set weights.
    let mut led = group_of(3, 4);
    let config = MemberConfig { access_point: true, ..led.config(9_000) };
    let place = led.add_with(config);
    led.run_until(at(6000));
    led.terminals.iter().map(|t| t.member.node()).collect::<Vec<_>>().into_iter().for_each(|node| {
        led.terminals[place].member.weigh(node, 2.0);
    });
    led.run_for(ms(3000));
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Notice) {
        let net = if kind == Kind::Weight { &led } else { &net };
        let sent = net.sent.iter().rfind(|sent| read(&sent.bytes).body.kind() == kind).unwrap().bytes.clone();
        let to = read(&sent).addressed.map_or(NodeId(77), |addressed| addressed.to);
        let config = MemberConfig::new(to, group(), Some(key()), 5, 6);
        let mut member = Member::new(config, at(0)).unwrap();
        let mut now = at(0);
        for bit in 0..sent.len() * 8 {
            now = now + ms(10);
            let mut changed = sent.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            member.receive(now, stranger(), &changed);
        }
        for length in 0..sent.len() {
            now = now + ms(10);
            member.receive(now, stranger(), &sent[..length]);
            member.receive(now, stranger(), &[&sent[..], &vec![0; length + 1]].concat());
        }
        assert_eq!(member.counts().accepted_total(), 0, "{kind:?}");
        assert_eq!(member.counts().refused_total(), member.counts().received);
        assert_eq!(member.members(now).count(), 1);
        yuzuri_testnet::attack(
            "changed and cut messages",
            member.counts().received,
            "messages",
            "none accepted",
        );
    }
}

#[test]
fn a_restart_with_a_clock_in_1970_is_admitted_and_its_old_session_is_not() {
    for seed in 0..10 {
        let mut net = group_of(4, seed);
        net.run_until(at(10_000));
        let leader = (0..4).find(|place| net.member(*place).is_leader(net.now)).unwrap();
        let other = (leader + 1) % 4;
        // The last second of the old session never arrives: an attacker withholds it.
        net.terminals[other].cell = Some(9);
        let cut = net.now;
        for _ in 0..4 {
            net.run_for(ms(250));
            let (now, own) = (net.now, net.terminals[other].address);
            net.terminals[other].member.report(now, Some(report(50)));
            net.inject(other, own, b"wake");
        }
        let kept: Vec<Sent> = net.sent_since(cut).filter(|sent| sent.from == other).cloned().collect();
        assert!(!kept.is_empty());
        // It restarts with its clock at the Unix epoch.
        let node = net.member(other).node();
        let config =
            MemberConfig::new(node, group(), Some(key()), yuzuri_policy::epoch(Duration::ZERO, 77), seed);
        net.restart(other, config);
        net.terminals[other].cell = Some(0);
        let restarted = net.now;
        net.begin(other, 9);
        let fresh = |net: &Net| {
            let member = net.member(leader);
            member.reports(net.now).any(|(n, report)| n == node && report.rate_bps == 9_000_000)
        };
        let counted = net.run_while(restarted + ms(6000), |net| !fresh(net));
        assert!(counted.is_some(), "seed {seed}: locked out: {:?}", net.member(leader).counts());
        println!("clock in 1970: counted after {:?}", counted.unwrap().since(restarted));
        for sent in &kept {
            let before = net.member(leader).counts().accepted(Kind::Report);
            net.inject(leader, stranger(), &sent.bytes);
            assert_eq!(net.member(leader).counts().accepted(Kind::Report), before);
            assert!(fresh(&net));
        }
        net.run_for(Duration::from_secs(5));
        assert!(fresh(&net), "seed {seed}");
    }
}

#[test]
fn a_restart_with_a_good_clock_is_counted_at_once() {
    let mut net = group_of(4, 1);
    net.run_until(at(10_000));
    let other = (0..4).find(|place| !net.member(*place).is_leader(net.now)).unwrap();
    let mut config = net.config(net.member(other).node().0);
    config.epoch += 100 << 32;
    net.restart(other, config);
    net.begin(other, 9);
    let counted = net.run_while(at(12_000), |net| {
        let member =
            (0..4).find(|place| net.member(*place).is_leader(net.now)).map(|place| net.member(place));
        !member.is_some_and(|m| m.reports(net.now).any(|(_, report)| report.rate_bps == 9_000_000))
    });
    assert!(counted.is_some_and(|counted| counted < at(11_500)), "{counted:?}");
}

#[test]
fn a_leader_that_starts_again_is_noticed() {
    for seed in 0..10 {
        let mut net = group_of(4, seed);
        net.run_until(at(10_000));
        let leader = (0..4).find(|place| net.member(*place).is_leader(net.now)).unwrap();
        let mut config = net.config(net.member(leader).node().0);
        config.epoch += 100 << 32;
        net.restart(leader, config);
        net.begin(leader, 3);
        let settled = net.run_while(at(15_000), |net| {
            net.leaders(0) != 1 || net.agreed(0).is_none() || !(0..4).all(|place| net.is_counted(place))
        });
        assert!(settled.is_some(), "seed {seed}: {:?}", net.agreed(0));
    }
}

#[test]
fn keyed_and_keyless_ignore_each_other() {
    assert_eq!(
        Member::new(MemberConfig::new(NodeId(1), group(), None, 1, 1), at(0)).err(),
        Some(MemberError::NoKey)
    );
    let mut net = Net::new(1);
    for node in 1..=4 {
        let mut config = net.config(node);
        if node % 2 == 0 {
            (config.key, config.allow_keyless) = (None, true);
        }
        let place = net.add_with(config);
        net.begin(place, 3);
    }
    net.run_until(at(10_000));
    assert_eq!(net.leaders(0), 2);
    for place in 0..4 {
        assert_eq!(net.senders(place), Some(2));
        let counts = net.member(place).counts();
        let (keyless, keyed) = (counts.refused(Refusal::Keyless), counts.refused(Refusal::Keyed));
        assert!(if place % 2 == 0 { keyless > 10 && keyed == 0 } else { keyed > 10 && keyless == 0 });
    }
}

#[test]
fn another_key_is_another_group() {
    let mut net = Net::new(1);
    for node in 1..=4_u8 {
        let mut config = net.config(node.into());
        config.key = Some(Key::from_bytes([node % 2; 32]));
        let place = net.add_with(config);
        net.begin(place, 3);
    }
    net.run_until(at(10_000));
    assert!((0..4).all(|place| net.senders(place) == Some(2)));
    assert!((0..4).all(|place| net.member(place).counts().refused(Refusal::Tag) > 10));
}

#[test]
fn a_new_address_of_a_member_is_learnt_from_its_next_message() {
    let mut net = group_of(3, 5);
    net.run_until(at(8000));
    let leader = (0..3).find(|place| net.member(*place).is_leader(net.now)).unwrap();
    let moved: SocketAddr = "10.0.200.1:5000".parse().unwrap();
    net.terminals[leader].address = moved;
    net.run_until(at(10_000));
    for place in (0..3).filter(|place| *place != leader) {
        let seen = net.member(place).members(net.now).find(|seen| seen.leads).unwrap();
        assert_eq!(seen.address, Some(moved));
        assert!(net.is_counted(place));
    }
}

#[test]
fn two_members_with_one_id_draw_new_ids() {
    for seed in 0..10 {
        let mut net = Net::new(seed);
        let one = net.add(42);
        let other = net.add(42);
        let third = net.add(50);
        for place in [one, other, third] {
            net.begin(place, 3);
        }
        net.run_until(at(6000));
        assert_ne!(net.member(one).node(), net.member(other).node(), "seed {seed}");
        assert!((0..3).all(|place| net.is_counted(place)), "seed {seed}");
        assert_eq!(net.senders(third), Some(3), "seed {seed}");
        assert!(net.member(one).counts().redrawn + net.member(other).counts().redrawn <= 2);
    }
}

#[test]
fn an_old_session_of_its_own_does_not_make_a_member_change_its_name() {
    let mut net = group_of(3, 5);
    net.run_until(at(8000));
    let recorded: Vec<Sent> = net.sent.iter().filter(|sent| sent.from == 1).cloned().collect();
    let mut config = net.config(20);
    config.epoch += 1 << 32;
    net.restart(1, config);
    for sent in &recorded {
        net.run_for(ms(50));
        net.inject(1, stranger(), &sent.bytes);
    }
    assert_eq!(net.member(1).node(), NodeId(20));
    assert_eq!(net.member(1).counts().redrawn, 0);
    assert!(net.member(1).counts().refused(Refusal::Own) > 3);
}

/// A malicious member of the group: it has the key.
struct Insider {
    node: u64,
    sequence: u32,
}

impl Insider {
    fn say(&mut self, body: Body, leads: bool, addressed: Option<Addressed>) -> Vec<u8> {
        self.sequence += 1;
        let message = Message {
            group: group(),
            node: NodeId(self.node),
            epoch: 1,
            sequence: self.sequence,
            rank: 0,
            sends: true,
            leads,
            access_point: false,
            asks: false,
            addressed,
            challenge: Some(1),
            body,
        };
        message.encode(&keyed())
    }
}

#[test]
fn the_table_is_bounded_and_the_rest_counted() {
    let mut member = Member::new(MemberConfig::new(NodeId(1), group(), Some(key()), 1, 1), at(0)).unwrap();
    for node in 2..5000_u64 {
        let from = SocketAddr::new(std::net::Ipv4Addr::from(node as u32).into(), 1);
        let bytes = Insider { node, sequence: 0 }.say(Body::Hello { leader: None }, false, None);
        member.receive(at(1), from, &bytes);
    }
    assert_eq!(member.members(at(1)).count(), 1 + yuzuri_policy::MAX_MEMBERS);
    assert_eq!(member.counts().refused(Refusal::Crowded), 4998 - 1024);
    yuzuri_testnet::attack("made-up members", 4998, "hellos", "the table holds 1,024, the rest is counted");
}

#[test]
fn no_more_senders_are_believed_than_the_access_point_has_stations() {
    let mut net = group_of(6, 5);
    for terminal in &mut net.terminals {
        terminal.member.set_station_count(Some(4));
    }
    net.run_until(at(10_000));
    let leader = (0..6).find(|place| net.member(*place).is_leader(net.now)).unwrap();
    assert_eq!(net.senders(leader), Some(4));
    assert!(net.member(leader).counts().refused(Refusal::Crowded) > 0);
}

#[test]
fn impossible_messages_are_refused_even_with_the_key() {
    // Encoding brings values into range, so tests of messages change and sign the bytes by hand.
    // Here: a summary from a member that does not lead, and a report without a recipient.
    let mut member = Member::new(MemberConfig::new(NodeId(1), group(), Some(key()), 1, 1), at(0)).unwrap();
    let mut insider = Insider { node: 9, sequence: 0 };
    let summary = Summary { members: 2, senders: 1, ..Summary::default() };
    let body = Body::Summary { deputy: None, report_interval_ds: 5, summary };
    let to = |node| Some(Addressed { to: NodeId(node), echo: 0 });
    for bytes in [
        insider.say(body.clone(), false, None),
        insider.say(body, true, to(1)),
        insider.say(Body::Report(report(1)), false, None),
        insider.say(Body::Report(report(1)), true, to(1)),
        insider.say(Body::Goodbye { successor: None }, false, None),
    ] {
        member.receive(at(1), stranger(), &bytes);
    }
    assert_eq!(member.counts().refused(Refusal::Contradictory), 5);
    assert_eq!(member.counts().refused_total(), 5);
    yuzuri_testnet::attack("contradictory messages with the key", 5, "messages", "all refused");
}

#[test]
fn an_unproved_report_with_the_right_key_is_not_counted() {
    let mut net = group_of(2, 5);
    net.run_until(at(5000));
    let leader = (0..2).find(|place| net.member(*place).is_leader(net.now)).unwrap();
    let to = Some(Addressed { to: net.member(leader).node(), echo: 12345 });
    let bytes = Insider { node: 9, sequence: 0 }.say(Body::Report(report(1000)), false, to);
    net.inject(leader, stranger(), &bytes);
    assert_eq!(net.member(leader).counts().refused(Refusal::Unproved), 1);
    assert_eq!(net.member(leader).reports(net.now).count(), 2);
    yuzuri_testnet::attack("report without proof, with the key", 1, "message", "not counted");
}

#[test]
fn another_groups_traffic_is_counted_as_such() {
    let mut member =
        Member::new(MemberConfig::new(NodeId(1), GroupId::of(b"x"), Some(key()), 1, 1), at(0)).unwrap();
    let bytes = Insider { node: 9, sequence: 0 }.say(Body::Hello { leader: None }, false, None);
    member.receive(at(1), stranger(), &bytes);
    assert_eq!(member.counts().refused(Refusal::Group), 1);
}

/// A leader, and its challenge.
fn leader() -> (Member, u32) {
    let mut leader = Member::new(MemberConfig::new(NodeId(1), group(), Some(key()), 1, 1), at(0)).unwrap();
    let mut out = Vec::new();
    leader.report(at(0), Some(report(1)));
    leader.poll(at(700), &mut out);
    assert!(leader.is_leader(at(700)));
    let challenge = read(&out.last().unwrap().bytes).challenge.unwrap();
    (leader, challenge)
}

proptest! {
    /// Messages of one session in any order, some repeated, some changed, some truncated: each
    /// genuine one is accepted once, within 64 of the highest, nothing else is, and the latest
    /// report counts.
    #[test]
    fn in_any_order_each_genuine_message_is_accepted_once(
        arrivals in proptest::collection::vec((1..150_u32, 0..8_u8, any::<prop::sample::Index>()), 1..150),
    ) {
        let (mut leader, echo) = leader();
        let to = Some(Addressed { to: NodeId(1), echo });
        let (mut seen, mut highest, mut replays, mut broken) = (BTreeSet::new(), 0, 0, 0);
        for (sequence, fate, place) in arrivals {
            let body = Body::Report(report(u64::from(sequence)));
            let mut bytes = Insider { node: 9, sequence: sequence - 1 }.say(body, false, to);
            match fate {
                0 => {
                    let place = place.index(bytes.len());
                    bytes[place] ^= 1 << (sequence % 8);
                }
                1 => bytes.truncate(place.index(bytes.len())),
                _ => {}
            }
            if fate < 2 {
                broken += 1;
            } else if sequence + 64 > highest && seen.insert(sequence) {
                highest = highest.max(sequence);
            } else {
                replays += 1;
            }
            leader.receive(at(800), stranger(), &bytes);
        }
        let counts = leader.counts();
        prop_assert_eq!(counts.accepted_total(), seen.len() as u64);
        prop_assert_eq!(counts.refused(Refusal::Replay), replays);
        prop_assert_eq!(counts.refused_total(), replays + broken);
        let reported = leader.reports(at(800)).find(|(node, _)| *node == NodeId(9)).map(|(_, report)| report.rate_bps);
        prop_assert_eq!(reported, (highest > 0).then_some(u64::from(highest) * 1_000_000));
    }

    /// Any input, signed or not, is counted, and no table exceeds its limit.
    #[test]
    fn any_datagram_is_counted(datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20)) {
        let (mut leader, _) = leader();
        for bytes in &datagrams {
            leader.receive(at(800), stranger(), bytes);
        }
        prop_assert_eq!(leader.counts().refused_total(), datagrams.len() as u64);
        prop_assert_eq!(leader.members(at(800)).count(), 1);
    }
}
