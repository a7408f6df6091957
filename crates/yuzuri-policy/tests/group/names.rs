//! Names that members choose for themselves.

use crate::net::{Net, at, group, key, ms};
use yuzuri_policy::{Body, GroupKey, Kind, Message, TerminalName};

fn names(net: &Net, place: usize) -> Vec<String> {
    let members = net.member(place).members(net.now);
    members.skip(1).filter_map(|seen| seen.name).map(|name| name.to_string()).collect()
}

fn named(net: &mut Net, node: u64, name: &str) -> usize {
    let mut config = net.config(node);
    config.name = Some(name.parse().unwrap());
    net.add_with(config)
}

/// Sender and kind of each message since `sent` was last cleared.
fn sent(net: &Net) -> Vec<(usize, Kind)> {
    let key = GroupKey::new(Some(&key()), group());
    let read = |bytes: &[u8]| Message::decode(bytes, group(), &key).unwrap().body.kind();
    net.sent.iter().map(|sent| (sent.from, read(&sent.bytes))).collect()
}

#[test]
fn members_learn_announced_names() {
    let mut net = Net::new(61);
    let kitchen = named(&mut net, 10, "kitchen");
    // Alone: it sends no name.
    net.run_until(at(60_000));
    assert!(sent(&net).iter().all(|(_, kind)| *kind != Kind::Name));
    let desk = named(&mut net, 20, "desk");
    let silent = net.add(30);
    net.begin(silent, 5);
    net.run_for(ms(20_000));
    assert_eq!(names(&net, kitchen), ["desk"]);
    assert_eq!(names(&net, desk), ["kitchen"]);
    assert_eq!(names(&net, silent), ["kitchen", "desk"]);
    let own = net.member(kitchen).members(net.now).next().unwrap();
    assert_eq!(own.name, Some("kitchen".parse::<TerminalName>().unwrap()));
    assert!(sent(&net).iter().all(|(from, kind)| *kind != Kind::Name || *from != silent));
    // A lost name is sent again.
    net.loss = 1.0;
    let late = named(&mut net, 40, "late");
    net.run_for(ms(10_000));
    net.loss = 0.0;
    net.run_for(ms(60_000));
    assert!(names(&net, kitchen).contains(&"late".to_owned()), "{:?}", names(&net, kitchen));
    // A member that has left sends no more names.
    net.sent.clear();
    let now = net.now;
    net.terminals[late].member.leave(now);
    net.fetch(late);
    net.run_for(ms(90_000));
    assert!(sent(&net).iter().all(|(from, kind)| *kind != Kind::Name || *from != late));
}

/// One name in two seconds, however many members there are.
#[test]
fn many_names_cost_no_more_than_few() {
    let mut net = Net::new(62);
    for node in 1..=120 {
        named(&mut net, node * 10, &format!("terminal-{node}"));
    }
    for sender in 0..5 {
        net.begin(sender, 2);
    }
    // After five minutes, each member knows how many others it hears.
    net.run_until(at(300_000));
    net.sent.clear();
    net.run_for(ms(300_000));
    let announced = sent(&net).iter().filter(|(_, kind)| *kind == Kind::Name).count();
    println!("{announced} names in 300 s of 120 terminals");
    assert!((75..=225).contains(&announced), "{announced} names in 300 s");
}

/// A replayed name of an old session does not replace the name of a later session.
#[test]
fn an_old_name_replaces_no_newer_one() {
    let mut net = Net::new(63);
    let old = named(&mut net, 10, "old");
    let other = net.add(20);
    net.begin(old, 5);
    net.begin(other, 5);
    net.run_until(at(20_000));
    assert_eq!(names(&net, other), ["old"]);
    let key = GroupKey::new(Some(&key()), group());
    let is_name = |bytes: &[u8]| {
        matches!(Message::decode(bytes, group(), &key), Ok(Message { body: Body::Name(_), .. }))
    };
    let recorded =
        net.sent.iter().find(|sent| sent.from == old && is_name(&sent.bytes)).unwrap().bytes.clone();
    let mut config = net.config(10);
    config.name = Some("new".parse().unwrap());
    net.restart(old, config);
    net.begin(old, 5);
    net.run_for(ms(60_000));
    assert_eq!(names(&net, other), ["new"]);
    let from = net.terminals[old].address;
    for _ in 0..5 {
        net.inject(other, from, &recorded);
        assert_eq!(names(&net, other), ["new"]);
    }
    net.run_for(ms(5_000));
    assert_eq!(names(&net, other), ["new"]);
}
