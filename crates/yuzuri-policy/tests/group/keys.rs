//! Key changes, and the exclusion of a member.

use crate::net::{Net, at, group, ms};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use yuzuri_policy::{
    Authority, Body, GroupKey, Key, Keys, Kind, Member, MemberConfig, Message, NodeId, Notices, Randomness,
    Refusal, To,
};

const AUTHORITY: Authority = Authority::from_bytes([0x5c; 32]);

/// Members with keys of the authority, numbers 1 to n, that all send.
fn group_of(n: u32, seed: u64) -> Net {
    let mut net = Net::new(seed);
    for number in 1..=n {
        let mut config = net.config(u64::from(number) << 40);
        config.key = AUTHORITY.member(number, 1);
        let place = net.add_with(config);
        net.begin(place, 3);
    }
    net.run_until(at(10_000));
    assert!((0..n as usize).all(|place| net.is_counted(place)));
    net
}

fn notices(numbers: impl IntoIterator<Item = u32>, generation: u32) -> Arc<Notices> {
    let all = numbers.into_iter().map(|number| (number, AUTHORITY.notice(number, generation).unwrap()));
    Arc::new(Notices(all.collect()))
}

fn set_keys(net: &mut Net, place: usize, keys: Keys) {
    let now = net.now;
    net.terminals[place].member.set_keys(now, keys);
    net.fetch(place);
}

/// Each step at one member after the other, as in practice; the group stays whole all the time.
#[test]
fn keys_are_changed_in_three_steps_and_the_group_is_never_split() {
    let (old, new) = (Key::from_bytes([1; 32]), Key::from_bytes([2; 32]));
    let mut net = Net::new(3);
    for node in 1..=5 {
        let mut config = net.config(node * 10);
        config.key = Some(old.clone());
        let place = net.add_with(config);
        net.begin(place, 3);
    }
    net.run_until(at(10_000));
    let led = |net: &Net| (0..5).map(|place| net.member(place).counts().led).sum::<u64>();
    let before = (led(&net), net.agreed(0));
    let steps = [(&old, Some(&new)), (&new, Some(&old)), (&new, None)];
    for (key, accepts) in steps {
        for place in [3, 0, 4, 1, 2] {
            let keys = Keys { key: Some(key.clone()), accepts: accepts.cloned(), notices: None };
            set_keys(&mut net, place, keys);
            for _ in 0..30 {
                net.run_for(ms(100));
                assert_eq!(net.leaders(0), 1);
                assert!((0..5).all(|place| net.senders(place) == Some(5) && net.is_counted(place)));
            }
        }
    }
    assert_eq!((led(&net), net.agreed(0)), before, "nobody had to look for a leader");
    for place in 0..5 {
        let counts = net.member(place).counts();
        assert_eq!(counts.refused(Refusal::Tag), 0);
        assert!(counts.by_other_key > 0, "{counts:?}");
    }
    // Each member sees which others have not changed yet.
    let keys = Keys { accepts: Some(old.clone()), ..Keys::of(Some(new.clone())) };
    set_keys(&mut net, 0, keys);
    set_keys(&mut net, 1, Keys { accepts: Some(new), ..Keys::of(Some(old)) });
    net.run_for(ms(5000));
    let behind: Vec<_> = net.member(0).members(net.now).filter(|seen| seen.other_key).collect();
    if net.member(0).is_leader(net.now) {
        assert_eq!(behind.len(), 1);
    }
}

#[test]
fn another_key_at_once_is_another_group() {
    let mut net = Net::new(3);
    for node in 1..=3 {
        let place = net.add(node * 10);
        net.begin(place, 3);
    }
    net.run_until(at(10_000));
    set_keys(&mut net, 1, Keys::of(Some(Key::from_bytes([9; 32]))));
    net.run_for(ms(6000));
    assert_eq!(net.leaders(0), 2);
    assert_eq!((net.senders(0), net.senders(1)), (Some(2), Some(1)));
    assert!(net.member(0).counts().refused(Refusal::Tag) > 0);
}

#[test]
fn an_excluded_member_is_refused_under_any_id() {
    for seed in 0..5 {
        let mut net = group_of(6, seed);
        let outcast = 2;
        let stay = [0, 1, 3, 4, 5];
        // One of the remaining members receives the notices; number 3 is not among them.
        let keys = Keys {
            notices: Some(notices(stay.map(|place| place as u32 + 1), 2)),
            ..Keys::of(AUTHORITY.member(1, 1))
        };
        set_keys(&mut net, 0, keys);
        let settled = net.run_while(at(16_000), |net| {
            let one = stay.iter().all(|place| net.senders(*place) == Some(5) && net.is_counted(*place));
            !(one && net.senders(outcast) == Some(1))
        });
        assert!(settled.is_some(), "seed {seed}: {:?}", stay.map(|place| net.senders(place)));
        let refused = |net: &Net| stay.map(|place| net.member(place).counts().refused(Refusal::RetiredKey));
        let accepted = |net: &Net| stay.map(|place| net.member(place).members(net.now).count());
        // Under another id, another number, in another session, as a leader of the best rank, at
        // another address.
        for (round, number) in [(1, 3), (2, 5), (3, 77)] {
            let before = refused(&net);
            let mut config = net.config(round << 50);
            config.rank = 0;
            // It tampers with its own key file: its own secret is useless under another number.
            let own = AUTHORITY.member(3, 1).unwrap();
            let membership = yuzuri_policy::Membership { number, ..own.membership().unwrap().clone() };
            config.key = Some(Key::of_member(*own.secret(), membership));
            net.restart(outcast, config);
            net.terminals[outcast].address = format!("10.9.0.{round}:4000").parse().unwrap();
            net.begin(outcast, 50);
            net.run_for(ms(6000));
            assert_eq!(net.member(outcast).node().0 as u32, number);
            assert!(
                refused(&net).iter().zip(before).all(|(now, before)| *now > before),
                "{:?}",
                refused(&net)
            );
            assert!(stay.iter().all(|place| net.senders(*place) == Some(5)), "seed {seed}");
            assert_eq!(net.senders(outcast), Some(1));
            assert_eq!(accepted(&net).iter().max(), Some(&5));
            assert_eq!(net.member(outcast).keys().key.as_ref().unwrap().membership().unwrap().generation, 1);
        }
    }
}

#[test]
fn a_member_that_was_away_receives_the_notice_however_often_the_key_changed() {
    let mut net = group_of(4, 1);
    net.terminals[3].cell = None;
    for generation in [2, 3, 4] {
        for place in 0..3 {
            let key = net.member(place).keys().key.clone();
            set_keys(&mut net, place, Keys { notices: Some(notices(1..=4, generation)), ..Keys::of(key) });
        }
        net.run_for(ms(3000));
    }
    let notices_sent =
        |net: &Net| -> u64 { (0..3).map(|at| net.member(at).counts().sent(Kind::Notice)).sum() };
    let before = notices_sent(&net);
    let config = MemberConfig { key: AUTHORITY.member(4, 1), ..net.config(4 << 40) };
    net.restart(3, config);
    net.terminals[3].cell = Some(0);
    net.begin(3, 3);
    let end = net.now + ms(5000);
    let settled = net.run_while(end, |net| net.leaders(0) != 1 || !(0..4).all(|place| net.is_counted(place)));
    assert!(settled.is_some());
    assert_eq!(net.member(3).keys().key, AUTHORITY.member(4, 4));
    let new_notice = net.terminals[3].member.new_notice().unwrap();
    assert_eq!((new_notice, net.terminals[3].member.new_notice()), (AUTHORITY.notice(4, 4).unwrap(), None));
    // A reload with the old key file does not go back.
    set_keys(&mut net, 3, Keys::of(AUTHORITY.member(4, 1)));
    assert_eq!(net.member(3).keys().key, AUTHORITY.member(4, 4));
    // Each of the three was notified once.
    let said = notices_sent(&net) - before;
    assert!((1..=6).contains(&said), "{said}");
}

#[test]
fn holders_of_notices_do_not_exchange_them_forever() {
    let mut net = group_of(3, 2);
    for place in 0..3 {
        let key = AUTHORITY.member(place as u32 + 1, 1);
        set_keys(&mut net, place, Keys { notices: Some(notices(1..=3, 2)), ..Keys::of(key) });
    }
    net.run_for(ms(3000));
    let said = |net: &Net| -> u64 { (0..3).map(|at| net.member(at).counts().sent(Kind::Notice)).sum() };
    let before = said(&net);
    assert!(before > 0);
    net.run_for(ms(30_000));
    assert_eq!(said(&net), before);
    assert!((0..3).all(|place| net.is_counted(place)));
}

#[test]
fn challenges_of_an_excluded_member_are_answered_rarely_and_with_nothing_useful() {
    let mut net = group_of(2, 1);
    let key = AUTHORITY.member(1, 1);
    set_keys(&mut net, 0, Keys { notices: Some(notices(1..=1000, 2)), ..Keys::of(key.clone()) });
    net.run_for(ms(2000));
    let (since, place) = (net.now, 0);
    let signed = GroupKey::new(key.as_ref(), group());
    for sequence in 0..20_000_u32 {
        if sequence % 20 == 0 {
            net.run_for(ms(1));
        }
        let message = Message {
            group: group(),
            node: NodeId(7 << 40 | u64::from(sequence % 1000 + 1)),
            epoch: 5,
            sequence,
            rank: 0,
            sends: false,
            leads: false,
            access_point: false,
            asks: false,
            addressed: None,
            challenge: None,
            body: Body::Hello { leader: None },
        };
        net.inject(place, "10.9.0.1:4000".parse().unwrap(), &message.encode(&signed));
    }
    assert_eq!(net.member(place).counts().refused(Refusal::RetiredKey), 20_000);
    let mut each = BTreeMap::new();
    for sent in net.sent_since(since).filter(|sent| sent.from == place) {
        if let Ok(Message { body: Body::Notice(notice), addressed: Some(to), .. }) =
            Message::decode(&sent.bytes, group(), &signed)
        {
            assert_ne!(sent.to, To::All);
            let number = to.to.0 as u32;
            assert_eq!(notice, AUTHORITY.notice(number, 2).unwrap());
            *each.entry(number).or_insert(0) += 1;
        }
    }
    assert!(each.values().sum::<u32>() <= 2 * 64, "{each:?}");
}

static DRAWN: AtomicU64 = AtomicU64::new(0);

/// Replaces the system's random number generator: the test knows its values.
fn draw() -> u64 {
    let number = DRAWN.fetch_add(1, Ordering::Relaxed);
    (0xabcd_0000 + number) << 32 | number
}

#[test]
fn challenges_come_from_the_given_generator() {
    let config = MemberConfig::new(NodeId(1), group(), Some(crate::net::key()), 1, Randomness::System(draw));
    let mut member = Member::new(config, at(0)).unwrap();
    let mut out = Vec::new();
    for second in 0..120 {
        member.report(at(second * 1000), Some(crate::net::report(1)));
        member.poll(at(second * 1000 + 700), &mut out);
    }
    let key = GroupKey::new(Some(&crate::net::key()), group());
    let shown: Vec<u32> =
        out.iter().filter_map(|out| Message::decode(&out.bytes, group(), &key).unwrap().challenge).collect();
    let distinct: std::collections::BTreeSet<u32> = shown.iter().copied().collect();
    assert!(distinct.iter().all(|challenge| challenge >> 16 == 0xabcd), "{distinct:x?}");
    assert!(distinct.len() <= 5, "{distinct:x?}");
}
