//! The number of senders that a terminal counts if members are invented.

use crate::net::{Net, at, group, key, ms, report};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use yuzuri_policy::{
    Addressed, Body, GroupKey, Kind, Member, MemberConfig, Message, NodeId, Refusal, SendersSeen,
};

/// A member invented by a holder of the key.
struct Invented {
    node: u64,
    sequence: u32,
    address: SocketAddr,
}

impl Invented {
    fn at_one_address(node: u64) -> Invented {
        Invented { node, sequence: 0, address: "10.66.66.66:4000".parse().unwrap() }
    }

    fn at_its_own(node: u64) -> Invented {
        let ip = Ipv4Addr::from(0x0a42_0000 + node as u32);
        Invented { node, sequence: 0, address: SocketAddr::new(ip.into(), 4000) }
    }

    fn says(&mut self, body: Body, asks: bool, addressed: Option<Addressed>) -> Vec<u8> {
        self.sequence += 1;
        let message = Message {
            group: group(),
            node: NodeId(self.node),
            epoch: 7,
            sequence: self.sequence,
            rank: 128,
            sends: true,
            leads: false,
            access_point: false,
            asks,
            addressed,
            challenge: Some(1),
            body,
        };
        message.encode(&GroupKey::new(Some(&key()), group()))
    }
}

/// Terminals that send and have settled.
fn settled(terminals: u64, seconds: u64) -> Net {
    let mut net = Net::new(terminals);
    for node in 1..=terminals {
        let place = net.add(node * 10);
        net.begin(place, 3);
    }
    net.run_until(at(seconds * 1000));
    net
}

fn leader_of(net: &Net) -> usize {
    (0..net.terminals.len()).find(|place| net.member(*place).is_leader(net.now)).unwrap()
}

/// The challenge in a member's messages to all.
fn challenge_of(net: &Net, place: usize) -> u32 {
    let key = GroupKey::new(Some(&key()), group());
    let shown = net.sent.iter().rev().filter(|sent| sent.from == place);
    shown.filter_map(|sent| Message::decode(&sent.bytes, group(), &key).ok()?.challenge).next().unwrap()
}

fn senders(net: &Net, place: usize) -> SendersSeen {
    net.member(place).senders(net.now)
}

#[test]
fn a_challenge_to_all_is_answered_by_every_sender() {
    let mut net = settled(8, 300);
    let place = (leader_of(&net) + 1) % 8;
    assert!(senders(&net, place).proved <= 2, "itself and its leader: {:?}", senders(&net, place));
    let before = net.now;
    net.terminals[place].member.challenge_senders(before);
    net.fetch(place);
    net.run_for(ms(400));
    assert_eq!(senders(&net, place), SendersSeen { proved: 8, unproved: 0 });
    let sent: Vec<Kind> = net.sent_since(before).map(|sent| kind(&sent.bytes)).collect();
    let hellos = sent.iter().filter(|kind| **kind == Kind::Hello).count();
    assert_eq!(hellos, 8, "one question, an answer of each other");
    // Repeated immediately, it challenges no one.
    let now = net.now;
    net.terminals[place].member.challenge_senders(now);
    net.fetch(place);
    assert!(net.sent_since(now).all(|sent| kind(&sent.bytes) != Kind::Hello));
}

fn kind(bytes: &[u8]) -> Kind {
    let key = GroupKey::new(Some(&key()), group());
    Message::decode(bytes, group(), &key).unwrap().body.kind()
}

#[test]
fn a_thousand_members_of_one_address_count_as_one() {
    let mut net = settled(2, 5);
    let victim = (leader_of(&net) + 1) % 2;
    for round in 0..20 {
        for node in 0..1000 {
            let mut invented = Invented::at_one_address(1000 + node);
            invented.sequence = round;
            let bytes = invented.says(Body::Hello { leader: None }, false, None);
            net.inject(victim, invented.address, &bytes);
        }
        net.run_for(ms(500));
    }
    let seen = senders(&net, victim);
    assert_eq!(seen, SendersSeen { proved: 2, unproved: 1 }, "unproved members of one address count as one");
    // With the key they can prove their liveness, and count as one.
    let now = net.now;
    net.terminals[victim].member.challenge_senders(now);
    net.fetch(victim);
    let echo = challenge_of(&net, victim);
    let to = Some(Addressed { to: net.member(victim).node(), echo });
    for node in 0..1000 {
        let mut invented = Invented::at_one_address(1000 + node);
        invented.sequence = 100;
        let bytes = invented.says(Body::Hello { leader: None }, false, to);
        net.inject(victim, invented.address, &bytes);
    }
    assert!(net.now.since(now) < ms(500));
    assert_eq!(senders(&net, victim), SendersSeen { proved: 3, unproved: 0 });
    assert!(net.member(victim).members(net.now).count() <= 2 + 8, "nor do they fill the table");
}

#[test]
fn a_terminal_that_restarts_often_is_counted_each_time() {
    let mut net = settled(2, 5);
    let place = (leader_of(&net) + 1) % 2;
    for start in 0..20 {
        assert!(net.agreed(0).is_some() && net.is_counted(place), "after {start} restarts");
        let now = net.now;
        net.terminals[place].member.leave(now);
        net.fetch(place);
        // A lower rank than the first leader's.
        let config = net.config(1000 + start);
        net.restart(place, config);
        net.begin(place, 3);
        net.run_for(ms(5000));
    }
}

#[test]
fn a_thousand_addresses_are_admitted_at_a_bounded_rate() {
    let mut member = Member::new(MemberConfig::new(NodeId(1), group(), Some(key()), 1, 1), at(0)).unwrap();
    let mut node = 1000;
    let mut counted = |member: &mut Member, millis: u64| {
        for _ in 0..2000 {
            node += 1;
            let mut invented = Invented::at_its_own(node);
            let bytes = invented.says(Body::Hello { leader: None }, false, None);
            member.receive(at(millis), invented.address, &bytes);
        }
        member.counts().refused(Refusal::Crowded)
    };
    assert_eq!(counted(&mut member, 0), 2000 - 1024);
    // Ten seconds later 160 may join, and displace others.
    assert_eq!(counted(&mut member, 10_000), 2000 - 1024 + 2000 - 160);
    assert_eq!(member.members(at(10_000)).count(), 1 + 1024);
}

#[test]
fn an_honest_leader_counts_one_report_of_each_address() {
    let mut net = settled(2, 5);
    let leader = leader_of(&net);
    let echo = challenge_of(&net, leader);
    let to = Some(Addressed { to: net.member(leader).node(), echo });
    let honest = net.terminals[1 - leader].address;
    let before = net.member(leader).counts().refused(Refusal::Address);
    for node in 0..100 {
        let bytes = Invented::at_one_address(1000 + node).says(Body::Report(report(1)), false, to);
        net.inject(leader, Invented::at_one_address(0).address, &bytes);
        // Nor does one displace the honest member by sending from its address.
        let bytes = Invented::at_one_address(2000 + node).says(Body::Report(report(1)), false, to);
        net.inject(leader, honest, &bytes);
    }
    net.run_for(ms(700));
    let reporting: Vec<NodeId> = net.member(leader).reports(net.now).map(|(node, _)| node).collect();
    assert!(reporting.contains(&net.member(1 - leader).node()), "{reporting:?}");
    assert_eq!(reporting.len(), 3, "itself, the honest one, and one of the other address: {reporting:?}");
    assert!(net.member(leader).counts().refused(Refusal::Address) > before);
}

#[test]
fn challenges_to_all_senders_are_answered_at_a_bounded_rate() {
    let mut net = settled(2, 5);
    let place = 1 - leader_of(&net);
    let before = net.now;
    for node in 0..1000 {
        let mut invented = Invented::at_its_own(1000 + node);
        let bytes = invented.says(Body::Hello { leader: None }, true, None);
        net.inject(place, invented.address, &bytes);
    }
    net.run_for(ms(900));
    let to_invented = net.sent_since(before).filter(|sent| match sent.to {
        yuzuri_policy::To::One(to) => matches!(to.ip(), IpAddr::V4(ip) if ip.octets()[1] == 66),
        yuzuri_policy::To::All => false,
    });
    let answers = to_invented.count();
    assert!((1..=1000).contains(&answers), "{answers} answers");
    assert!(answers <= 64, "{answers} answers");
}
