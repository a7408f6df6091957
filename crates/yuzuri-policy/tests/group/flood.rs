//! Floods: messages in another member's name must not exclude that member's own.

use crate::net::{Net, at, group, key, ms, report, said_by};
use std::net::SocketAddr;
use std::time::Instant;
use yuzuri_policy::{GroupKey, Kind, Member, MemberConfig, Message, NodeId, Refusal, VERSION};

/// Version, flags and group are right, so that only the tag shows that it is invalid: the most
/// expensive case for its receiver.
fn garbage(number: u64) -> Vec<u8> {
    let mut bytes = vec![VERSION << 4 | 3, 1];
    bytes.extend_from_slice(&group().0);
    bytes.extend((0..104).map(|place| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (place % 57)) as u8));
    bytes
}

/// Two members that send, one of which leads.
fn pair() -> (Net, usize, usize) {
    let mut net = Net::new(7);
    for node in [10, 20] {
        let place = net.add(node);
        net.begin(place, 3);
    }
    net.run_until(at(10_000));
    let leader = (0..2).find(|place| net.member(*place).is_leader(net.now)).unwrap();
    (net, leader, 1 - leader)
}

#[test]
fn garbage_in_a_members_name_affects_no_other_message() {
    let (mut net, leader, follower) = pair();
    let forged = [net.terminals[leader].address, net.terminals[follower].address];
    let since = net.now;
    let before = net.member(follower).counts().accepted(Kind::Summary);
    let refused = net.member(follower).counts().refused(Refusal::RateLimited);
    // 20,000 datagrams a second to each member, in steps of a millisecond.
    for step in 0..10_000_u64 {
        net.run_for(ms(1));
        for number in 0..20 {
            net.inject(follower, forged[0], &garbage(step * 20 + number));
            net.inject(leader, forged[1], &garbage(step * 20 + number));
        }
    }
    // The last messages may still be in flight.
    net.run_for(ms(30));
    let read = |bytes: &[u8]| Message::decode(bytes, group(), &GroupKey::new(Some(&key()), group())).unwrap();
    let said = net.sent_since(since).filter(|sent| read(&sent.bytes).body.kind() == Kind::Summary).count();
    let counts = net.member(follower).counts();
    assert!(said >= 19, "{said}");
    assert_eq!(counts.accepted(Kind::Summary) - before, said as u64, "{counts:?}");
    assert_eq!(counts.refused(Refusal::Tag), 200_000);
    assert_eq!(counts.refused(Refusal::RateLimited), refused);
    assert_eq!((net.leaders(0), net.senders(follower)), (1, Some(2)));
    assert!(net.is_counted(follower));
}

/// A leader, alone, and its challenge.
fn leader() -> (Member, u32) {
    let mut leader = Member::new(MemberConfig::new(NodeId(1), group(), Some(key()), 1, 1), at(0)).unwrap();
    let mut out = Vec::new();
    leader.report(at(0), Some(report(1)));
    leader.poll(at(700), &mut out);
    assert!(leader.is_leader(at(700)));
    let bytes = &out.last().unwrap().bytes;
    let said = Message::decode(bytes, group(), &GroupKey::new(Some(&key()), group())).unwrap();
    (leader, said.challenge.unwrap())
}

fn somebody() -> SocketAddr {
    "10.0.0.9:4000".parse().unwrap()
}

#[test]
fn a_proved_members_rate_limit_applies_at_any_address_and_to_no_other_member() {
    let (mut leader, echo) = leader();
    for sequence in 1..=1000 {
        leader.receive(at(800), somebody(), &said_by(9, 1, sequence, echo));
    }
    assert_eq!(leader.counts().accepted(Kind::Report), 200);
    assert_eq!(leader.counts().refused(Refusal::RateLimited), 800);
    let elsewhere = "10.0.0.8:4000".parse().unwrap();
    leader.receive(at(800), elsewhere, &said_by(9, 1, 1001, echo));
    assert_eq!(leader.counts().refused(Refusal::RateLimited), 801);
    leader.receive(at(800), elsewhere, &said_by(8, 1, 1, echo));
    assert_eq!(
        leader.counts().accepted(Kind::Report),
        201,
        "one report per address: that of the other sender is refused"
    );
    // A second later it is heard again.
    leader.receive(at(1800), somebody(), &said_by(9, 1, 1002, echo));
    assert_eq!(leader.counts().accepted(Kind::Report), 202);
}

#[test]
fn replayed_messages_do_not_use_up_a_members_budget() {
    let (mut leader, echo) = leader();
    for sequence in 1..=100_u32 {
        for _ in 0..50 {
            leader.receive(at(800), somebody(), &said_by(9, 1, sequence, echo));
        }
    }
    assert_eq!(leader.counts().accepted(Kind::Report), 100);
    assert_eq!(leader.counts().refused(Refusal::Replay), 4900);
    assert_eq!(leader.counts().refused(Refusal::RateLimited), 0);
}

#[test]
fn unproved_messages_have_their_own_budget() {
    let (mut leader, echo) = leader();
    leader.receive(at(800), somebody(), &said_by(9, 1, 1, echo));
    // Two recorded sessions, alternately: each replaces the other's state, so no message of them is
    // a replay.
    for number in 0..1000 {
        leader.receive(at(800), somebody(), &said_by(7, 2 + number % 2, number as u32, 0));
    }
    let limited = leader.counts().refused(Refusal::RateLimited);
    assert_eq!(limited, 800, "200 of one address");
    // The same from more addresses than have separate limits.
    for number in 0..10_000_u32 {
        let from = SocketAddr::new([10, 1, (number >> 8) as u8, number as u8].into(), 4000);
        leader.receive(at(2000), from, &said_by(7, 2 + u64::from(number % 2), number, 0));
    }
    assert_eq!(leader.counts().refused(Refusal::RateLimited) - limited, 10_000 - 4096);
    // A member that has proved itself, or does so now, is heard.
    let before = leader.counts().accepted(Kind::Report);
    leader.receive(at(2000), somebody(), &said_by(9, 1, 2, echo));
    leader.receive(at(2000), "10.0.0.6:4000".parse().unwrap(), &said_by(6, 1, 1, echo));
    assert_eq!(leader.counts().accepted(Kind::Report), before + 2);
}

#[test]
fn without_a_key_each_address_has_a_rate_limit() {
    let mut config = MemberConfig::new(NodeId(1), group(), None, 1, 1);
    config.allow_keyless = true;
    let mut member = Member::new(config, at(0)).unwrap();
    for _ in 0..1000 {
        member.receive(at(5), somebody(), b"flood");
    }
    assert_eq!(member.counts().refused(Refusal::RateLimited), 800);
    member.receive(at(5), "10.0.0.8:1".parse().unwrap(), b"another");
    member.receive(at(1005), somebody(), b"later");
    assert_eq!(member.counts().refused(Refusal::RateLimited), 800);
    assert_eq!(member.counts().refused(Refusal::Version), 202);
}

#[test]
fn garbage_over_a_rendezvous_excludes_no_member() {
    let mut net = Net::with_rendezvous(7);
    for node in [10, 20] {
        let place = net.add(node);
        net.begin(place, 3);
    }
    net.run_until(at(10_000));
    let relay = net.rendezvous.as_ref().unwrap().0;
    let follower = (0..2).find(|place| !net.member(*place).is_leader(net.now)).unwrap();
    let before = net.member(follower).counts().accepted(Kind::Summary);
    let members = [net.terminals[0].address, net.terminals[1].address];
    for step in 0..5000_u64 {
        net.run_for(ms(1));
        for number in 0..20 {
            // Forged as the rendezvous towards a member, and as members without cookies towards the
            // rendezvous.
            net.inject(follower, relay, &garbage(step * 20 + number));
            let (now, mut out) = (net.now, Vec::new());
            let rendezvous = &mut net.rendezvous.as_mut().unwrap().1;
            rendezvous.receive(now, members[number as usize % 2], &garbage(step * 20 + number), &mut out);
            assert!(out.len() <= 1, "a cookie at most");
        }
    }
    let counts = net.member(follower).counts();
    assert!(counts.accepted(Kind::Summary) - before >= 9, "{counts:?}");
    assert_eq!((net.leaders(0), net.senders(follower)), (1, Some(2)));
    assert!((0..2).all(|place| net.is_counted(place)));
}

/// The cost of a second of a flood to a member, besides system calls: `cargo test --release -p
/// yuzuri-policy --test group -- --ignored --nocapture flood`.
#[test]
#[ignore = "a measurement; its figures are worth something on a quiet machine only"]
fn what_a_flood_costs() {
    let (mut leader, echo) = leader();
    let garbage: Vec<_> = (0..20_000).map(garbage).collect();
    let replays: Vec<_> = (1..=64).map(|sequence| said_by(9, 1, sequence, echo)).collect();
    for (what, datagrams) in [("garbage", &garbage), ("replays", &replays)] {
        let (mut min_us, start) = (f64::INFINITY, Instant::now());
        while start.elapsed() < std::time::Duration::from_secs(3) {
            let begun = Instant::now();
            for bytes in datagrams.iter().cycle().take(20_000) {
                leader.receive(at(800), somebody(), bytes);
            }
            min_us = min_us.min(begun.elapsed().as_secs_f64() * 1e6);
        }
        println!("20,000 datagrams of {what}: {:.2} ms, {:.3} µs each", min_us / 1e3, min_us / 2e4);
    }
}
