//! An access point leads its terminals while it is present, regardless of other leaders; no other
//! node can claim its role.

use crate::net::{Net, at, group, key, ms, report};
use std::net::SocketAddr;
use std::time::Duration;
use yuzuri_policy::{
    Addressed, Body, GroupKey, Kind, Member, MemberConfig, MemberError, Message, NodeId, Refusal, Summary,
};

/// Terminals with ids 10, 20, ... that send and have found a leader.
fn terminals(seed: u64, n: u64, loss: f64) -> Net {
    let mut net = Net::new(seed);
    (net.loss, net.duplication) = (loss, loss / 2.0);
    for place in 0..n as usize {
        net.add((place as u64 + 1) * 10);
        net.begin(place, 3);
    }
    net.run_until(at(8_000));
    assert!(net.agreed(0).is_some(), "seed {seed}: {n} terminals");
    net
}

/// An access point that appears now. Its id is worse than the terminals'.
fn access_point(net: &mut Net, node: u64) -> usize {
    let config = MemberConfig { access_point: true, ..net.config(node) };
    net.add_with(config)
}

/// Waits until all terminals follow this one and it counts them all.
fn all_follow(net: &mut Net, leader: u64, n: usize, within: Duration) -> Option<Duration> {
    let (began, end) = (net.now, net.now + within);
    let led = net.run_while(end, |net| {
        let all = net.agreed(0) == Some(NodeId(leader)) && net.leaders(0) == 1;
        !(all && (0..n).all(|place| net.is_counted(place)))
    });
    led.map(|at| at.since(began))
}

#[test]
fn terminals_yield_to_an_access_point_and_it_stays() {
    for (loss, within) in [(0.0, ms(2_500)), (0.1, ms(6_000))] {
        let mut times = Vec::new();
        for seed in 0..20 {
            for n in [1, 2, 8, 32] {
                let mut net = terminals(seed, n, loss);
                access_point(&mut net, 9_000);
                let time = all_follow(&mut net, 9_000, n as usize, within);
                times.push(time.unwrap_or_else(|| panic!("seed {seed}, {n} terminals, loss {loss}")));
                if loss == 0.0 {
                    let led: u64 = (0..n as usize).map(|place| net.member(place).counts().led).sum();
                    net.run_for(Duration::from_secs(60));
                    assert_eq!(net.agreed(0), Some(NodeId(9_000)), "seed {seed}, {n} terminals");
                    let later: u64 = (0..n as usize).map(|place| net.member(place).counts().led).sum();
                    assert_eq!(later, led, "nobody takes over: seed {seed}, {n} terminals");
                    assert!((0..n as usize).all(|place| net.senders(place) == Some(n as u16)));
                }
            }
        }
        times.sort();
        println!("all follow at a loss of {loss}: {:?} (median), {:?}", times[40], times[79]);
    }
}

/// A terminal with a better rank takes over from a terminal, not from an access point.
#[test]
fn no_rank_takes_over_from_an_access_point() {
    let mut net = terminals(1, 3, 0.0);
    access_point(&mut net, 9_000);
    assert!(all_follow(&mut net, 9_000, 3, ms(2_500)).is_some());
    let config = MemberConfig { rank: 0, ..net.config(5) };
    let eager = net.add_with(config);
    net.begin(eager, 3);
    net.run_for(Duration::from_secs(30));
    assert_eq!(net.agreed(0), Some(NodeId(9_000)));
    assert_eq!(net.member(eager).counts().led, 0);
}

#[test]
fn terminals_elect_a_leader_when_the_access_point_dies_or_leaves() {
    for seed in 0..20 {
        for leaves in [false, true] {
            let mut net = terminals(seed, 4, 0.0);
            let place = access_point(&mut net, 9_000);
            assert!(all_follow(&mut net, 9_000, 4, ms(2_500)).is_some(), "seed {seed}");
            net.run_for(Duration::from_secs(5));
            if leaves {
                let now = net.now;
                net.terminals[place].member.leave(now);
                net.fetch(place);
            }
            net.terminals[place].cell = None;
            let end = net.now + if leaves { ms(1_500) } else { ms(6_000) };
            let elected =
                net.run_while(end, |net| !(net.leaders(0) == 1 && (0..4).all(|place| net.is_counted(place))));
            assert!(elected.is_some(), "seed {seed}, leaves {leaves}: {:?}", net.agreed(0));
            // It returns with the same id and another session.
            let config = MemberConfig { access_point: true, ..net.config(9_000) };
            net.restart(place, config);
            net.terminals[place].cell = Some(0);
            assert!(all_follow(&mut net, 9_000, 4, ms(3_500)).is_some(), "seed {seed}, leaves {leaves}");
        }
    }
}

#[test]
fn of_two_access_points_the_better_one_leads_and_the_other_follows_it() {
    for seed in 0..20 {
        let mut net = terminals(seed, 4, 0.0);
        let second = access_point(&mut net, 9_000);
        net.run_for(ms(3_000));
        let first = access_point(&mut net, 8_000);
        assert!(all_follow(&mut net, 8_000, 4, ms(3_500)).is_some(), "seed {seed}: {:?}", net.agreed(0));
        let (node, address) = net.member(second).leading_access_point().unwrap();
        assert_eq!((node, address), (NodeId(8_000), net.terminals[first].address));
        assert_eq!(net.member(first).leading_access_point(), None);
        net.run_for(Duration::from_secs(30));
        assert_eq!(net.member(second).counts().led, 1, "seed {seed}: it does not come back and forth");
        // The first one leaves, and names a terminal: the other access point leads nevertheless.
        let now = net.now;
        net.terminals[first].member.leave(now);
        net.fetch(first);
        net.terminals[first].cell = None;
        assert!(all_follow(&mut net, 9_000, 4, ms(3_500)).is_some(), "seed {seed}: {:?}", net.agreed(0));
    }
}

#[test]
fn it_reports_stations_that_are_no_members_too() {
    let mut net = terminals(3, 2, 0.0);
    let place = access_point(&mut net, 9_000);
    assert!(all_follow(&mut net, 9_000, 2, ms(2_500)).is_some());
    let now = net.now;
    let summary = Summary { senders: 7, members: 9, capacity_bps: 1_000_000, ..Summary::default() };
    net.terminals[place].member.summarize(now, summary);
    let received = net.member(place).summary(now).unwrap();
    assert_eq!((received.senders, received.members), (7, 9));
    // Its number of members is never below what it hears.
    net.terminals[place].member.summarize(now, Summary { senders: 1, members: 1, ..Summary::default() });
    let received = net.member(place).summary(now).unwrap();
    assert_eq!((received.senders, received.members), (2, 2));
    // It has nothing to report itself.
    net.terminals[place].member.report(now, Some(report(1)));
    assert_eq!(net.member(place).reports(now).count(), 2);
}

/// Stations that are not members send nothing: an access point is believed if it sends from the
/// link-layer address of the default route.
#[test]
fn an_access_points_count_is_believed_if_its_link_address_vouches_for_it() {
    let mut net = terminals(5, 2, 0.0);
    let place = access_point(&mut net, 9_000);
    assert!(all_follow(&mut net, 9_000, 2, ms(2_500)).is_some());
    net.terminals[place].others = 5;
    net.run_for(ms(2_500));
    let seen = |net: &Net| net.member(0).senders(net.now);
    assert!(seen(&net).proved <= 2);
    net.terminals[0].member.vouch(Some(NodeId(8_999)));
    assert!(seen(&net).proved <= 2, "another one");
    net.terminals[0].member.vouch(Some(NodeId(9_000)));
    assert_eq!(seen(&net).proved, 7);
    // Not beyond its time limit.
    net.terminals[place].cell = None;
    net.run_for(ms(7_000));
    assert!(seen(&net).proved <= 2, "{:?}", seen(&net));
}

/// Each member receives its weight, and accepts it from an access point that its address vouches
/// for, as long as it is repeated.
#[test]
fn members_have_their_weights() {
    for (seed, loss) in (0..10).flat_map(|seed| [(seed, 0.0), (seed, 0.2)]) {
        let mut net = terminals(seed, 3, loss);
        let place = access_point(&mut net, 9_000);
        assert!(all_follow(&mut net, 9_000, 3, ms(6_000)).is_some(), "seed {seed}");
        let share = |net: &Net, member: usize| {
            let received = net.member(member).summary(net.now)?.share_bps as f64;
            Some(net.member(member).weighted_summary(net.now)?.share_bps as f64 / received)
        };
        for (node, weight) in [(10, 2.0), (20, 0.5), (30, 1.0)] {
            net.terminals[place].member.weigh(NodeId(node), weight);
        }
        for member in [0, 1] {
            net.terminals[member].member.vouch(Some(NodeId(9_000)));
        }
        net.run_for(ms(8_000));
        let near = |net: &Net, weights: [f64; 3]| {
            for (member, expected) in weights.into_iter().enumerate() {
                let got = share(net, member).unwrap();
                assert!((got - expected).abs() < 0.01, "seed {seed}, member {member}: {got}");
            }
        };
        near(&net, [2.0, 0.5, 1.0]);
        // To its policy, a member of half the weight is one of twice as many.
        let now = net.now;
        let senders = net.member(1).weighted_summary(now).unwrap().senders;
        assert_eq!((senders, net.member(1).senders(now).proved), (6, 6), "seed {seed}");
        // Nobody else gets such messages.
        let counts = |net: &Net, member: usize| net.member(member).counts().accepted(Kind::Weight);
        assert!(counts(&net, 0) > 0 && counts(&net, 1) > 0 && counts(&net, 2) == 0, "seed {seed}");
        // Another weight, and the usual one again.
        net.terminals[place].member.weigh(NodeId(10), 1.0);
        net.terminals[place].member.weigh(NodeId(20), 4.0);
        net.run_for(ms(8_000));
        near(&net, [1.0, 4.0, 1.0]);
        // Without an address that vouches for it, a weight is invalid; and also once another access
        // point leads.
        net.terminals[1].member.vouch(None);
        near(&net, [1.0, 1.0, 1.0]);
        net.terminals[1].member.vouch(Some(NodeId(9_000)));
        near(&net, [1.0, 4.0, 1.0]);
        net.terminals[place].cell = None;
        net.run_for(ms(12_000));
        near(&net, [1.0, 1.0, 1.0]);
    }
}

/// A new session of the access point has no weights: those of the previous session lapse.
#[test]
fn a_weight_that_is_not_repeated_expires() {
    let mut net = terminals(1, 2, 0.0);
    let place = access_point(&mut net, 9_000);
    assert!(all_follow(&mut net, 9_000, 2, ms(2_500)).is_some());
    net.terminals[place].member.weigh(NodeId(10), 3.0);
    net.terminals[0].member.vouch(Some(NodeId(9_000)));
    net.run_for(ms(3_000));
    let share = |net: &Net| {
        let (weighted, received) =
            (net.member(0).weighted_summary(net.now).unwrap(), net.member(0).summary(net.now).unwrap());
        weighted.share_bps as f64 / received.share_bps as f64
    };
    assert!((share(&net) - 3.0).abs() < 0.01);
    let config = MemberConfig { access_point: true, epoch: 2_000, ..net.config(9_000) };
    net.restart(place, config);
    assert!(all_follow(&mut net, 9_000, 2, ms(6_000)).is_some());
    net.run_for(Duration::from_secs(80));
    assert_eq!(share(&net), 1.0);
}

/// A message of an impostor that claims to be the access point.
fn claim(sequence: u32, key: &GroupKey, body: Body, addressed: Option<Addressed>) -> Vec<u8> {
    let message = Message {
        group: group(),
        node: NodeId(1),
        epoch: 9,
        sequence,
        rank: 0,
        sends: false,
        leads: true,
        access_point: true,
        asks: false,
        addressed,
        challenge: Some(1),
        body,
    };
    message.encode(key)
}

#[test]
fn an_unproved_claim_has_no_effect() {
    let mut net = terminals(4, 3, 0.0);
    let before = net.agreed(0);
    let from: SocketAddr = "10.66.66.66:4000".parse().unwrap();
    let summary =
        Summary { members: 4, senders: 3, capacity_bps: 1000, share_bps: 300, ..Summary::default() };
    let said =
        |summary: &Summary| Body::Summary { deputy: None, report_interval_ds: 5, summary: summary.clone() };
    let (right, wrong) = (
        GroupKey::new(Some(&key()), group()),
        GroupKey::new(Some(&yuzuri_policy::Key::from_bytes([8; 32])), group()),
    );
    for round in 0..20_u32 {
        for place in 0..3 {
            // With another key; and with the right one, like a recording: they answer no challenge.
            net.inject(place, from, &claim(round * 4 + 1, &wrong, said(&summary), None));
            net.inject(place, from, &claim(round * 4 + 1, &right, Body::Hello { leader: None }, None));
            net.inject(place, from, &claim(round * 4 + 2, &right, said(&summary), None));
            let addressed = Some(Addressed { to: net.member(place).node(), echo: 0x1357_9bdf });
            net.inject(place, from, &claim(round * 4 + 3, &right, Body::Hello { leader: None }, addressed));
        }
        net.run_for(ms(500));
        assert_eq!(net.agreed(0), before, "round {round}");
        assert!((0..3).all(|place| net.member(place).summary(net.now).unwrap().capacity_bps != 1000));
    }
    let refused = |why| (0..3).map(|place| net.member(place).counts().refused(why)).sum::<u64>();
    assert_eq!((refused(Refusal::Tag), refused(Refusal::Unproved)), (60, 60));
    yuzuri_testnet::attack("claims to be the access point", 240, "messages", "no member follows it");
}

#[test]
fn without_a_key_there_is_no_access_point() {
    let config = |access_point| MemberConfig {
        allow_keyless: true,
        access_point,
        ..MemberConfig::new(NodeId(5), group(), None, 1, 1)
    };
    assert_eq!(Member::new(config(true), at(0)).err(), Some(MemberError::NoKeyToLead));
    let mut member = Member::new(config(false), at(0)).unwrap();
    let none = GroupKey::new(None, group());
    let from: SocketAddr = "10.66.66.66:4000".parse().unwrap();
    member.receive(at(1), from, &claim(1, &none, Body::Hello { leader: None }, None));
    assert_eq!(member.counts().refused(Refusal::Role), 1);
    assert_eq!(member.members(at(1)).count(), 1);
    assert_eq!(member.counts().sent(Kind::Hello), 0);
}
