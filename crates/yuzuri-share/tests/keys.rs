//! Keys on the machine's own kernel: a key change under traffic, and the exclusion of a member.
#![allow(clippy::unwrap_used, missing_docs)]

mod cell;

use cell::{Cell, Instance, Traffic, keyed};
use std::path::Path;
use yuzuri_policy::NodeId;
use yuzuri_share::{AuthorityFile, KeySource, LoopCommand, ShareConfig, Status};
use yuzuri_testnet::eventually;

fn senders(status: &Status) -> Option<u16> {
    Some(status.interfaces.first()?.summary.as_ref()?.senders)
}

fn refused(status: &Status, why: &str) -> u64 {
    status.interfaces[0].messages.refused.get(why).copied().unwrap_or(0)
}

/// Waits until all instances are in one group with `count` senders.
fn until_one(instances: &[&Instance], count: u16) {
    let one = || {
        let all: Vec<_> = instances.iter().map(|instance| instance.status()).collect();
        let leads = all.iter().filter(|status| status.interfaces.first().is_some_and(|i| i.leads)).count();
        leads == 1 && all.iter().all(|status| senders(status) == Some(count))
    };
    let statuses = || instances.iter().map(|instance| instance.status()).collect::<Vec<_>>();
    assert!(eventually(one), "no group of {count}: {:#?}", statuses());
}

fn flow(instance: &Instance, traffic: &Traffic) -> Option<(u64, bool)> {
    let status = instance.status();
    let flow = status.interfaces.first()?.flows.iter().find(|flow| flow.local == traffic.local())?.clone();
    Some((flow.id, flow.obeys))
}

#[test]
fn keys_are_changed_under_traffic_step_by_step() {
    const TEST: &str = "keys_are_changed_under_traffic_step_by_step";
    let Some(cell) = Cell::or_skip(TEST, 2) else { return };
    let (old, new) = (keyed(1).key, keyed(2).key);
    let configs = [keyed(1), keyed(1)];
    let Some(first) = Instance::or_skip(TEST, &cell, 1, configs[0].clone()) else { return };
    let Some(second) = Instance::or_skip(TEST, &cell, 2, configs[1].clone()) else { return };
    let instances = [&first, &second];
    let traffic = [cell.traffic(1), cell.traffic(2)];
    until_one(&instances, 2);
    let taken = || (0..2).all(|at| flow(instances[at], &traffic[at]).is_some_and(|(_, obeys)| obeys));
    assert!(eventually(taken));
    let led = || instances.map(|instance| instance.status().interfaces[0].messages.led);
    let before = (led(), [0, 1].map(|at| flow(instances[at], &traffic[at])));
    for (key, accepts) in [(&old, Some(&new)), (&new, Some(&old)), (&new, None)] {
        for (instance, config) in instances.into_iter().zip(&configs) {
            let count = instance.status().reload.as_ref().map_or(0, |reload| reload.count);
            let config = ShareConfig { key: key.clone(), accepts: accepts.cloned(), ..config.clone() };
            instance.orders.send(LoopCommand::Reload(Box::new(config))).unwrap();
            instance.until("the reload", |status| status.reload.as_ref().is_some_and(|r| r.count > count));
            assert_eq!(instance.status().reload.as_ref().unwrap().error, None);
            // Each instance receives new messages under these keys, and they are still one group.
            let heard =
                || instances.map(|i| i.status().interfaces[0].messages.accepted.values().sum::<u64>());
            let before = heard();
            assert!(eventually(|| heard().iter().zip(before).all(|(now, before)| *now >= before + 2)));
            until_one(&instances, 2);
        }
    }
    assert_eq!((led(), [0, 1].map(|at| flow(instances[at], &traffic[at]))), before);
    for instance in instances {
        assert_eq!(refused(&instance.status(), "tag"), 0);
        assert!(instance.status().interfaces[0].messages.by_other_key > 0);
    }
    // An unusable key changes nothing, and the status reports it.
    let weak = KeySource::Key(yuzuri_policy::Key::from_bytes([0; 32]));
    first
        .orders
        .send(LoopCommand::Reload(Box::new(ShareConfig { key: weak, ..configs[0].clone() })))
        .unwrap();
    let status = first.until("a failed reload", |s| s.reload.as_ref().is_some_and(|r| r.error.is_some()));
    assert!(status.reload.as_ref().unwrap().error.as_ref().unwrap().contains("easy to guess"));
    until_one(&instances, 2);
    assert!(yuzuri_share::table(&status).contains("the last reload failed"));
}

#[test]
fn a_passphrase_is_changed_for_a_key_file() {
    const TEST: &str = "a_passphrase_is_changed_for_a_key_file";
    let Some(cell) = Cell::or_skip(TEST, 2) else { return };
    let words = KeySource::Passphrase("four words or more please".into());
    let with = |key: KeySource, accepts| ShareConfig { key, accepts, ..keyed(1) };
    let Some(first) = Instance::or_skip(TEST, &cell, 1, with(words.clone(), Some(keyed(1).key))) else {
        return;
    };
    let Some(second) = Instance::or_skip(TEST, &cell, 2, with(keyed(1).key, Some(words))) else { return };
    let _traffic = [cell.traffic(1), cell.traffic(2)];
    until_one(&[&first, &second], 2);
    let other = |instance: &Instance| instance.status().interfaces[0].members.iter().any(|m| m.other_key);
    assert!(eventually(|| other(&first) || other(&second)));
}

/// Settings with a key issued by an authority.
fn member(folder: &Path, name: &str) -> ShareConfig {
    ShareConfig { key: KeySource::File(folder.join(name)), ..keyed(1) }
}

#[test]
fn an_excluded_member_stays_excluded_under_another_id() {
    const TEST: &str = "an_excluded_member_stays_excluded_under_another_id";
    let Some(cell) = Cell::or_skip(TEST, 3) else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut authority = AuthorityFile::create(&folder.join("authority")).unwrap();
    for name in ["one", "two", "three"] {
        authority.issue(name, &folder.join(name)).unwrap();
    }
    let start = |host: u32, config: ShareConfig| Instance::or_skip(TEST, &cell, host, config);
    let outcast_config = member(folder, "three");
    let Some(first) = start(1, member(folder, "one")) else { return };
    let Some(second) = start(2, member(folder, "two")) else { return };
    let Some(third) = start(3, outcast_config.clone()) else { return };
    let traffic: Vec<Traffic> = (1..=3).map(|host| cell.traffic(host)).collect();
    until_one(&[&first, &second, &third], 3);
    let ids = [0, 1].map(|at| flow([&first, &second][at], &traffic[at]).map(|(id, _)| id));

    authority.exclude(&["three".into()], &folder.join("notices")).unwrap();
    let reloaded = ShareConfig { notice_file: Some(folder.join("notices")), ..member(folder, "one") };
    first.orders.send(LoopCommand::Reload(Box::new(reloaded))).unwrap();
    until_one(&[&first, &second], 2);
    third.until("a group of its own", |status| senders(status) == Some(1));
    let generation = |instance: &Instance| instance.status().interfaces[0].membership.unwrap().generation;
    assert_eq!([&first, &second, &third].map(generation), [2, 2, 1]);
    let refusals = || [&first, &second].map(|instance| refused(&instance.status(), "retired-key"));
    assert!(eventually(|| refusals().iter().all(|count| *count > 0)), "{:?}", refusals());
    // The flows of the remaining members continued.
    assert_eq!([0, 1].map(|at| flow([&first, &second][at], &traffic[at]).map(|(id, _)| id)), ids);

    // The excluded host returns under another identity.
    third.leave();
    let before = refusals();
    let config = ShareConfig { node: Some(NodeId(0x0bad_cafe_0000_0000)), rank: 0, ..outcast_config };
    let config = ShareConfig { control_name: cell::control_name(), ..config };
    let Some(third) = start(3, config) else { return };
    third.until("a group of its own", |status| senders(status) == Some(1));
    assert!(third.status().interfaces[0].node.as_ref().unwrap().starts_with("0badcafe"));
    assert!(eventually(|| refusals().iter().zip(before).all(|(now, before)| *now > before)));
    until_one(&[&first, &second], 2);
    assert!(first.status().interfaces[0].members.len() == 2, "{:#?}", first.status());
}
