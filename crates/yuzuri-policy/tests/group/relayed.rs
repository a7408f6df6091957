//! Groups over a rendezvous.

use crate::net::{Net, at, group, key, ms, report};
use std::net::SocketAddr;
use std::time::Duration;
use yuzuri_policy::{Member, MemberConfig, NodeId, Refusal, Rendezvous, RendezvousConfig, To};

#[test]
fn members_out_of_reach_of_each_other_meet_at_the_rendezvous() {
    for seed in 0..5 {
        let mut net = Net::with_rendezvous(seed);
        net.max_delay = ms(60);
        for node in 1..=6 {
            let place = net.add(node);
            // Each is alone in its cell.
            net.terminals[place].cell = Some(node as u32);
        }
        net.run_until(at(3000));
        for place in 0..6 {
            net.begin(place, 3);
            net.run_for(ms(300));
        }
        net.run_until(at(12_000));
        assert!((0..6).all(|place| net.senders(place) == Some(6)), "seed {seed}");
        let leaders: Vec<_> = (0..6).filter_map(|place| net.member(place).leader()).collect();
        assert!(leaders.len() == 6 && leaders.iter().all(|leader| *leader == leaders[0]), "{leaders:?}");
        // They stay through two changes of cookies.
        net.run_until(at(400_000));
        assert!((0..6).all(|place| net.senders(place) == Some(6)), "seed {seed}");
        let (_, rendezvous) = net.rendezvous.as_ref().unwrap();
        assert_eq!(rendezvous.registered(), (1, 6));
        let counts = rendezvous.counts();
        assert_eq!(
            counts.received,
            counts.passed_on
                + counts.kept
                + counts.cookies
                + counts.malformed
                + counts.rate_limited
                + counts.crowded
        );
        assert!(counts.cookies <= 12, "{counts:?}");
        assert!(net.sent.iter().all(|sent| sent.to != To::All));
    }
}

#[test]
fn idle_members_stay_registered_at_little_cost() {
    let mut net = Net::with_rendezvous(1);
    for node in 1..=5 {
        net.add(node);
    }
    net.run_until(at(60_000));
    let since = net.now;
    net.run_for(Duration::from_secs(120));
    let (_, rendezvous) = net.rendezvous.as_ref().unwrap();
    assert_eq!(rendezvous.registered(), (1, 5));
    assert!(net.sent_since(since).count() <= 5 * (8 + 15));
    for terminal in &mut net.terminals {
        terminal.cell = None;
    }
    net.run_for(Duration::from_secs(70));
    let last: SocketAddr = "198.51.100.1:9".parse().unwrap();
    let (_, rendezvous) = net.rendezvous.as_mut().unwrap();
    rendezvous.receive(net.now, last, b"", &mut Vec::new());
    assert_eq!(rendezvous.registered(), (0, 0), "silent members are removed");
}

fn hello(node: u64, rendezvous: Option<SocketAddr>) -> (Member, Vec<u8>) {
    let mut config = MemberConfig::new(NodeId(node), group(), Some(key()), node, node);
    config.rendezvous = rendezvous;
    let mut member = Member::new(config, at(0)).unwrap();
    let mut out = Vec::new();
    member.report(at(0), Some(report(1)));
    member.poll(at(200), &mut out);
    (member, out.first().unwrap().bytes.clone())
}

#[test]
fn a_forged_source_gets_less_than_was_sent_in_its_name() {
    let mut rendezvous = Rendezvous::new(RendezvousConfig::new([3; 32]), at(0));
    let victim: SocketAddr = "203.0.113.7:53".parse().unwrap();
    let (_, bytes) = hello(5, None);
    let mut out = Vec::new();
    for n in 0..10_000 {
        rendezvous.receive(at(n / 10), victim, &bytes, &mut out);
    }
    let back: usize = out.iter().map(|outgoing| outgoing.bytes.len()).sum();
    assert!(out.iter().all(|outgoing| outgoing.to == To::One(victim)));
    assert!(back * 2 < bytes.len() * 10_000, "{back} bytes");
    assert_eq!(rendezvous.registered(), (0, 0));
    // Nor does a cookie of one address, or an invented one, help another.
    let before = out.len();
    let mut wrapped = vec![bytes[0] & 0xf0 | 9];
    wrapped.extend_from_slice(&out[0].bytes[13..21]);
    wrapped.extend_from_slice(&bytes);
    rendezvous.receive(at(1000), "203.0.113.8:53".parse().unwrap(), &wrapped, &mut out);
    wrapped[4] ^= 1;
    rendezvous.receive(at(1000), victim, &wrapped, &mut out);
    assert_eq!(rendezvous.registered(), (0, 0));
    wrapped[4] ^= 1;
    rendezvous.receive(at(1000), victim, &wrapped, &mut out);
    assert_eq!(rendezvous.registered(), (1, 1), "the right one does");
    assert_eq!(out.len(), before + 2);
}

#[test]
fn a_member_accepts_cookies_only_for_its_own_messages_and_only_from_the_rendezvous() {
    let address: SocketAddr = "192.0.2.1:4000".parse().unwrap();
    let (mut member, bytes) = hello(5, Some(address));
    let mut rendezvous = Rendezvous::new(RendezvousConfig::new([3; 32]), at(0));
    let mut out = Vec::new();
    rendezvous.receive(at(200), "10.0.0.1:1".parse().unwrap(), &bytes, &mut out);
    let cookie = out[0].bytes.clone();
    let mut forged = cookie.clone();
    forged[5] ^= 1;
    member.receive(at(210), address, &forged);
    member.receive(at(210), "192.0.2.2:4000".parse().unwrap(), &cookie);
    assert_eq!((member.counts().cookies, member.counts().refused(Refusal::Source)), (0, 2));
    member.receive(at(210), address, &cookie);
    assert_eq!(member.counts().cookies, 1);
    let mut said = Vec::new();
    member.poll(at(400), &mut said);
    assert!(!said.is_empty() && said.iter().all(|outgoing| outgoing.to == To::One(address)));
    assert!(said.iter().all(|outgoing| outgoing.bytes[1..9] == cookie[13..21]), "with the cookie");
}

#[test]
fn a_full_table_admits_no_more_members() {
    let config = RendezvousConfig { max_groups: 2, max_members: 3, ..RendezvousConfig::new([3; 32]) };
    let mut rendezvous = Rendezvous::new(config, at(0));
    let mut register = |group: u8, host: u8| {
        let from = SocketAddr::new([10, 0, group, host].into(), 1);
        rendezvous.receive(at(1), from, &with_cookie(group, from), &mut Vec::new());
        rendezvous.registered()
    };
    for host in 1..=5 {
        register(1, host);
    }
    assert_eq!(register(2, 1), (2, 4));
    assert_eq!(register(3, 1), (2, 4));
}

/// A stranger's Hello for a group with the cookie of its address, as computed by a rendezvous with
/// the same secret.
fn with_cookie(group: u8, from: SocketAddr) -> Vec<u8> {
    let mut rendezvous = Rendezvous::new(RendezvousConfig::new([3; 32]), at(0));
    let id = yuzuri_policy::GroupId::of(&[group]);
    let mut member = Member::new(MemberConfig::new(NodeId(5), id, Some(key()), 1, 1), at(0)).unwrap();
    let (mut said, mut out) = (Vec::new(), Vec::new());
    member.report(at(0), Some(report(1)));
    member.poll(at(200), &mut said);
    let bytes = &said[0].bytes;
    rendezvous.receive(at(1), from, bytes, &mut out);
    [&[bytes[0] & 0xf0 | 9], &out[0].bytes[13..21], bytes].concat()
}

#[test]
fn one_address_cannot_use_up_the_table_of_groups() {
    let mut rendezvous = Rendezvous::new(RendezvousConfig::new([3; 32]), at(0));
    for group in 0..100 {
        let from = SocketAddr::new([10, 9, 9, 9].into(), 1000 + u16::from(group));
        rendezvous.receive(at(1), from, &with_cookie(group, from), &mut Vec::new());
    }
    assert_eq!(rendezvous.registered(), (8, 8));
    assert_eq!(rendezvous.counts().crowded, 92);
    let another = "10.9.9.10:1".parse().unwrap();
    rendezvous.receive(at(1), another, &with_cookie(200, another), &mut Vec::new());
    assert_eq!(rendezvous.registered(), (9, 9));
    yuzuri_testnet::attack(
        "groups founded at the rendezvous by one address",
        100,
        "groups",
        "8 founded; other addresses can still found groups",
    );
}

#[test]
fn strangers_do_not_use_up_what_members_need() {
    let config = RendezvousConfig { max_per_second: 100, ..RendezvousConfig::new([3; 32]) };
    let mut rendezvous = Rendezvous::new(config, at(0));
    let (one, other): (SocketAddr, SocketAddr) =
        ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap());
    let mut out = Vec::new();
    rendezvous.receive(at(1), one, &with_cookie(1, one), &mut out);
    rendezvous.receive(at(1), other, &with_cookie(1, other), &mut out);
    let (_, bytes) = hello(5, None);
    for host in 0..10_000_u16 {
        rendezvous.receive(at(10), SocketAddr::new([10, 1, 1, 1].into(), host), &bytes, &mut out);
    }
    assert!(rendezvous.counts().rate_limited > 9000);
    let before = rendezvous.counts().passed_on;
    rendezvous.receive(at(10), one, &with_cookie(1, one), &mut out);
    assert_eq!(rendezvous.counts().passed_on, before + 1);
    yuzuri_testnet::attack(
        "flood of a rendezvous by strangers",
        10_000,
        "datagrams",
        "members' messages are forwarded",
    );
}

#[test]
fn the_rendezvous_cannot_be_made_to_flood_a_group() {
    let mut net = Net::with_rendezvous(1);
    for node in 1..=4 {
        net.add(node);
    }
    net.run_until(at(10_000));
    let bytes = net.sent.iter().rfind(|sent| sent.from == 0).unwrap().bytes.clone();
    let from = net.terminals[0].address;
    let now = net.now;
    let (_, rendezvous) = net.rendezvous.as_mut().unwrap();
    let mut out = Vec::new();
    for n in 0..100_000 {
        rendezvous.receive(now + Duration::from_micros(n * 100), from, &bytes, &mut out);
    }
    // 10 s: a burst of 256 and 16 a second, to three others.
    assert!(out.len() <= 3 * (256 + 160 + 1), "{}", out.len());
    yuzuri_testnet::attack(
        "flood of a group through the rendezvous",
        100_000,
        "datagrams",
        "no more than 16 a second pass",
    );
}
