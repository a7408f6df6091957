//! How soon members agree on a leader, and on its successor.

use crate::net::{Net, at, ms};
use std::time::Duration;
use yuzuri_policy::{GroupId, Kind, Moment, NodeId};

/// Members with ids 1 to n that begin to send within a second of each other.
fn senders(seed: u64, n: u64, loss: f64) -> Net {
    let mut net = Net::new(seed);
    net.loss = loss;
    net.duplication = loss / 2.0;
    for node in 1..=n {
        net.add(node * 10);
    }
    for place in 0..n as usize {
        net.run_for(Duration::from_micros(1_000_000 / n));
        net.begin(place, 3);
    }
    net
}

/// When all agree and the leader counts all, if that happens before the end.
fn settles(net: &mut Net, n: usize, end: Moment) -> Option<Moment> {
    net.run_while(end, |net| {
        !(net.agreed(0).is_some() && net.leaders(0) == 1 && (0..n).all(|place| net.is_counted(place)))
    })
}

#[test]
fn senders_agree_on_one_leader_that_counts_all() {
    for seed in 0..20 {
        for n in [1, 2, 3, 8, 32] {
            let mut net = senders(seed, n, 0.0);
            let settled = settles(&mut net, n as usize, at(4000));
            assert!(settled.is_some(), "seed {seed}, {n} senders: {:?}", net.agreed(0));
            // It stays.
            let leader = net.agreed(0);
            net.run_for(Duration::from_secs(10));
            assert_eq!(net.agreed(0), leader, "seed {seed}, {n} senders");
            assert!(
                (0..n as usize).all(|place| net.senders(place) == Some(n as u16)),
                "seed {seed}, {n} senders"
            );
        }
    }
}

#[test]
fn ten_percent_loss_with_duplicates_delays_the_group_but_does_not_split_it() {
    for seed in 0..20 {
        let mut net = senders(seed, 8, 0.1);
        assert!(settles(&mut net, 8, at(6000)).is_some(), "seed {seed}: {:?}", net.agreed(0));
        // Three consecutive losses make members look for another leader, but never for long.
        net.run_for(Duration::from_secs(60));
        let end = net.now + Duration::from_secs(4);
        assert!(settles(&mut net, 8, end).is_some(), "seed {seed}: {:?}", net.agreed(0));
        let led: u64 = (0..8).map(|place| net.member(place).counts().led).sum();
        assert!(led <= 4, "seed {seed}: {led} claims");
    }
}

/// The time from a newcomer's first report to the leader's first summary that counts it, and to the
/// first such summary at the newcomer.
fn newcomer_counted(seed: u64, loss: f64, others: u64) -> (Duration, Duration) {
    let mut net = senders(seed, others, 0.0);
    net.run_until(at(15_000));
    let leader = (0..others as usize).find(|place| net.member(*place).is_leader(net.now)).unwrap();
    let newcomer = net.add(5);
    net.run_for(ms(700 + seed * 37 % 500));
    net.loss = loss;
    let began = net.now;
    net.begin(newcomer, 3);
    let all = Some(others as u16 + 1);
    let end = began + Duration::from_secs(20);
    let counted =
        net.run_while(end, |net| !(net.is_counted(newcomer) && net.senders(leader) == all)).unwrap();
    let knows = net.run_while(end, |net| net.senders(newcomer) != all).unwrap();
    (counted.since(began), knows.since(began))
}

fn newcomers(loss: f64, within: Duration) {
    for others in [1, 3, 20, 63] {
        let times: Vec<_> = (0..60).map(|seed| newcomer_counted(seed, loss, others)).collect();
        let (mut counted, mut knows): (Vec<_>, Vec<_>) = times.into_iter().unzip();
        counted.sort();
        knows.sort();
        println!(
            "newcomer to {others} at a loss of {loss}: counted after {:?} (median), {:?} (longest)",
            counted[30], counted[59]
        );
        println!("    and knows it after {:?} (median), {:?} (longest)", knows[30], knows[59]);
        assert!(counted.iter().all(|time| *time < within), "{counted:?}");
    }
}

#[test]
fn a_newcomer_is_counted_within_a_second_and_a_half() {
    newcomers(0.0, ms(1500));
}

#[test]
fn a_newcomer_is_counted_within_three_seconds_at_a_tenth_of_loss() {
    newcomers(0.1, ms(3000));
}

#[test]
fn a_lone_sender_leads_as_soon_as_nobody_answers() {
    for seed in 0..20 {
        let mut net = Net::new(seed);
        let idle: Vec<_> = (2..10).map(|node| net.add(node)).collect();
        let place = net.add(100);
        net.run_until(at(20_000));
        net.begin(place, 3);
        // 0.6 s for an answer, a tick for the summary.
        let led = net.run_while(at(21_100), |net| net.senders(place) != Some(1));
        assert!(led.is_some(), "seed {seed}");
        assert!(
            idle.iter().all(|place| net.member(*place).leader().is_none()),
            "terminals that do not send have no leader"
        );
    }
}

#[test]
fn a_leader_that_dies_is_replaced() {
    for (n, within) in [(2, 3000), (5, 5000), (20, 5000)] {
        let mut times = Vec::new();
        for seed in 0..20 {
            let mut net = senders(seed, n, 0.0);
            net.run_until(at(12_000));
            let leader = net.agreed(0).unwrap();
            let place = (0..n as usize).find(|place| net.member(*place).node() == leader).unwrap();
            net.terminals[place].cell = None;
            net.terminals[place].sends = None;
            let died = net.now;
            let replaced = net.run_while(died + ms(within), |net| {
                net.agreed(0).is_none_or(|new| new == leader)
                    || !(0..n as usize).filter(|other| *other != place).all(|other| net.is_counted(other))
            });
            assert!(replaced.is_some(), "seed {seed}, {n} senders: {:?}", net.agreed(0));
            times.push(replaced.unwrap().since(died));
        }
        times.sort();
        println!("leader of {n} dies: replaced after {:?} (median), {:?} (longest)", times[10], times[19]);
    }
}

#[test]
fn a_leader_that_stops_or_leaves_is_replaced() {
    for leaves in [false, true] {
        for seed in 0..20 {
            let mut net = senders(seed, 6, 0.0);
            net.run_until(at(12_000));
            let leader = net.agreed(0).unwrap();
            let place = (0..6).find(|place| net.member(*place).node() == leader).unwrap();
            net.stop(place);
            let stopped = net.now;
            if leaves {
                net.terminals[place].member.leave(stopped);
                net.fetch(place);
            }
            // A member waits 2 s for a pause to end, and not at all after a departure. Then one
            // message goes round, and the reports.
            let within = if leaves { ms(700) } else { ms(3200) };
            let taken_over = net.run_while(stopped + within, |net| {
                net.agreed(0).is_none_or(|new| new == leader)
                    || !(0..6).filter(|other| *other != place).all(|other| net.is_counted(other))
            });
            assert!(taken_over.is_some(), "seed {seed}, leaves: {leaves}: {:?}", net.agreed(0));
            let claims = (0..6).map(|place| net.member(place).counts().led).sum::<u64>();
            assert_eq!(claims, 2, "seed {seed}: one leader after the other");
        }
    }
}

#[test]
fn a_sender_that_stops_is_not_counted_any_more() {
    let mut net = senders(1, 4, 0.0);
    net.run_until(at(8000));
    let leader = net.agreed(0).unwrap();
    let other = (0..4).find(|place| net.member(*place).node() != leader).unwrap();
    assert!(net.is_counted(other));
    net.stop(other);
    // The pause, and the message.
    let gone = net.run_while(at(8000) + ms(3200), |net| net.is_counted(other));
    assert!(gone.is_some());
    net.run_for(ms(1200));
    let place = (0..4).find(|place| net.member(*place).node() == leader).unwrap();
    assert_eq!(net.senders(place), Some(3));
}

#[test]
fn healed_partitions_have_one_leader_within_a_few_summaries() {
    let mut times = Vec::new();
    for seed in 0..20 {
        let mut net = Net::new(seed);
        for node in 1..=10 {
            let place = net.add(node * 7);
            net.terminals[place].cell = Some(node as u32 % 2);
            net.begin(place, 3);
        }
        net.run_until(at(10_000));
        let (one, other) = (net.agreed(0).unwrap(), net.agreed(1).unwrap());
        assert_ne!(one, other);
        for terminal in &mut net.terminals {
            terminal.cell = Some(0);
        }
        let healed = net.run_while(at(15_000), |net| {
            net.leaders(0) != 1 || net.agreed(0).is_none() || !(0..10).all(|place| net.is_counted(place))
        });
        assert!(healed.is_some(), "seed {seed}: {:?}, {} leaders", net.agreed(0), net.leaders(0));
        assert_eq!(net.agreed(0), Some(one.min(other)), "seed {seed}: the lower ID still leads");
        times.push(healed.unwrap().since(at(10_000)));
    }
    times.sort();
    println!("two groups of five become one after {:?} (median), {:?} (longest)", times[10], times[19]);
    assert!(times[19] < ms(3000), "{times:?}");
}

#[test]
fn a_better_rank_takes_over_once_and_a_lower_id_never() {
    let mut net = senders(3, 3, 0.0);
    net.run_until(at(5000));
    let before = net.agreed(0).unwrap();
    let low = net.add(1);
    net.begin(low, 3);
    net.run_until(at(30_000));
    assert_eq!(net.agreed(0), Some(before), "the leader stays");
    let mut config = net.config(1000);
    config.rank = 3;
    let mains = net.add_with(config);
    net.begin(mains, 3);
    net.run_until(at(39_000));
    assert_eq!(net.agreed(0), Some(before), "not before it has sent for a while");
    net.run_until(at(50_000));
    assert_eq!(net.agreed(0), Some(NodeId(1000)));
    assert_eq!(net.member(mains).counts().led, 1);
}

#[test]
fn two_groups_on_one_medium_do_not_hear_each_other() {
    let mut net = Net::new(5);
    for node in 1..=8 {
        let mut config = net.config(node);
        if node % 2 == 0 {
            config.group = GroupId::of(b"another access point");
        }
        let place = net.add_with(config);
        net.begin(place, 3);
    }
    net.run_until(at(10_000));
    for place in 0..8 {
        assert_eq!(net.senders(place), Some(4));
        assert!(net.member(place).counts().refused(yuzuri_policy::Refusal::Group) > 10);
    }
    assert_eq!(net.leaders(0), 2);
}

#[test]
fn roaming_leaves_one_group_and_joins_the_other() {
    let mut net = senders(2, 3, 0.0);
    let elsewhere = GroupId::of(b"another access point");
    for node in 501..=502 {
        let mut config = net.config(node);
        config.group = elsewhere;
        let place = net.add_with(config);
        net.terminals[place].cell = Some(1);
        net.begin(place, 3);
    }
    net.run_until(at(10_000));
    let now = net.now;
    net.terminals[1].cell = Some(1);
    net.terminals[1].member.set_group(now, elsewhere);
    assert!(net.member(1).summary(now).is_none());
    net.fetch(1);
    net.run_until(at(13_000));
    assert_eq!(net.senders(1), Some(3));
    assert!(net.is_counted(1));
    net.run_until(at(20_000));
    let stayed = if net.member(0).is_leader(net.now) { 0 } else { 2 };
    assert_eq!(net.senders(stayed), Some(2));
}

#[test]
fn a_suspended_terminal_starts_over() {
    for seed in 0..10 {
        let mut net = senders(seed, 4, 0.0);
        net.run_until(at(8000));
        let leader = net.agreed(0).unwrap();
        // A follower and a leader sleep for three hours.
        for place in 0..4 {
            let leads = net.member(place).node() == leader;
            if leads || place == (0..4).find(|place| net.member(*place).node() != leader).unwrap() {
                net.terminals[place].ahead = Duration::from_secs(3 * 3600);
                let now = net.now + net.terminals[place].ahead;
                assert!(!net.member(place).is_leader(now));
                assert!(net.member(place).summary(now).is_none());
                assert_eq!(net.member(place).reports(now).count(), 0);
            }
        }
        let woken = net.now;
        net.run_until(woken + Duration::from_secs(6));
        let settled = settles(&mut net, 4, woken + Duration::from_secs(8));
        assert!(settled.is_some(), "seed {seed}: {:?}", net.agreed(0));
    }
}

#[test]
fn time_never_goes_back() {
    let mut net = senders(1, 3, 0.0);
    net.run_until(at(8000));
    let mut out = Vec::new();
    for place in 0..3 {
        let before = net.member(place).leader();
        let member = &mut net.terminals[place].member;
        for earlier in [7000, 1, 0] {
            member.report(at(earlier), Some(crate::net::report(2)));
            member.poll(at(earlier), &mut out);
            member.receive(at(earlier), "10.9.9.9:1".parse().unwrap(), b"nothing");
        }
        assert_eq!(member.leader(), before);
        assert!(member.next() >= at(7400));
    }
}

#[test]
fn the_idle_are_nearly_silent() {
    for n in [1, 2, 10, 64] {
        let mut net = Net::new(n);
        for node in 1..=n {
            net.add(node);
        }
        net.run_until(at(60_000));
        let since = net.now;
        net.run_for(Duration::from_secs(240));
        let sent = net.sent_since(since).count();
        // 30 intervals of 8 s; three members send in each, and some more because the intervals do
        // not begin together.
        println!("{n} idle terminals say {sent} messages in 240 s");
        assert!(sent <= 30 * n.min(8) as usize, "{n} idle terminals say {sent}");
        assert!(sent >= 25, "{n} idle terminals say {sent}");
        let kinds = [Kind::Report, Kind::Summary, Kind::Goodbye];
        assert!(net.terminals.iter().all(|t| kinds.iter().all(|kind| t.member.counts().sent(*kind) == 0)));
    }
}

#[test]
fn a_group_falls_silent_when_it_has_nothing_to_send() {
    let mut net = senders(4, 6, 0.0);
    net.run_until(at(10_000));
    for place in 0..6 {
        net.stop(place);
    }
    net.run_until(at(16_000));
    let since = net.now;
    net.run_for(Duration::from_secs(80));
    assert_eq!(net.leaders(0), 0);
    assert!(net.terminals.iter().all(|t| t.member.summary(net.now).is_none()));
    assert!(net.sent_since(since).count() <= 80);
}
