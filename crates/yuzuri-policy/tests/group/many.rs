//! A thousand members.

use crate::net::{Net, at, group, key, report, said_by};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use yuzuri_policy::{GroupKey, Kind, Member, MemberConfig, Message, NodeId, Refusal, Summary};

#[test]
fn a_thousand_senders_have_one_leader_that_counts_them_all() {
    let mut net = Net::new(1);
    for node in 1..=1000 {
        net.add(node * 3);
    }
    // Within half a second, by their ticks.
    for terminal in &mut net.terminals {
        terminal.sends = Some(report(1));
    }
    let settled = net.run_while(at(8000), |net| {
        let leader = (0..1000).find(|place| net.member(*place).is_leader(net.now));
        !(net.leaders(0) == 1 && leader.is_some_and(|leader| net.senders(leader) == Some(1000)))
    });
    assert!(settled.is_some(), "{} leaders, {:?}", net.leaders(0), net.agreed(0));
    println!("1,000 senders counted after {:?}, with {} messages", settled.unwrap(), net.sent.len());
    let hellos = net.sent.iter().filter(|sent| sent.to == yuzuri_policy::To::All).count();
    println!("of these to all: {hellos}");
    let led: u64 = net.terminals.iter().map(|terminal| terminal.member.counts().led).sum();
    println!("claims: {led}");
    assert!(hellos < 250, "{hellos} messages to all");
    assert!(net.sent.len() < 6000);
    let before = net.now;
    net.run_for(Duration::from_secs(5));
    assert!(net.agreed(0).is_some());
    let sent = net.sent_since(before).count();
    println!("then {sent} messages in 5 s");
    assert!(sent < 5 * 120);
}

/// A leader with 999 members that report each half second: the cost of a round, with and without
/// the tags.
#[test]
fn what_a_round_of_a_thousand_reports_costs() {
    let mut leader = Member::new(MemberConfig::new(NodeId(1), group(), Some(key()), 1, 1), at(0)).unwrap();
    let mut out = Vec::new();
    leader.report(at(0), Some(report(1)));
    leader.poll(at(700), &mut out);
    assert!(leader.is_leader(at(700)));
    leader.summarize(at(700), Summary::default());
    leader.poll(at(701), &mut out);
    let key = GroupKey::new(Some(&key()), group());
    let summary = Message::decode(&out.last().unwrap().bytes, group(), &key).unwrap();
    let echo = summary.challenge.unwrap();
    let reports = |sequence: u32| -> Vec<(SocketAddr, Vec<u8>)> {
        let one = |node: u32| {
            let bytes = said_by(u64::from(node), 1, sequence, echo);
            (SocketAddr::new(Ipv4Addr::from(0x0a00_0000 + node).into(), 4000), bytes)
        };
        (2..=1000).map(one).collect()
    };
    let mut best = (Duration::MAX, Duration::MAX, Duration::MAX);
    for round in 1..=20 {
        let now = at(1000 + u64::from(round) * 500);
        let bytes = reports(round);
        let begun = Instant::now();
        for (_, bytes) in &bytes {
            assert!(Message::decode(bytes, group(), &key).is_ok());
        }
        let decoding = begun.elapsed();
        let begun = Instant::now();
        for (from, bytes) in &bytes {
            leader.receive(now, *from, bytes);
        }
        let receiving = begun.elapsed();
        let begun = Instant::now();
        leader.report(now, Some(report(1)));
        let senders = leader.reports(now).count();
        leader.summarize(now, Summary::default());
        leader.poll(now, &mut out);
        let summing = begun.elapsed();
        assert_eq!(senders, 1000);
        best = (best.0.min(decoding), best.1.min(receiving), best.2.min(summing));
    }
    let (decoding, receiving, summing) = best;
    let state = receiving.saturating_sub(decoding);
    println!("999 reports: read and verified {decoding:?}, table {state:?}, summary and poll {summing:?}");
    assert_eq!(leader.counts().accepted(Kind::Report), 20 * 999);
    assert_eq!(leader.counts().refused(Refusal::RateLimited), 0);
}
