//! The status of the benefit of sharing, and of waits, on the machine's own kernel.
#![allow(clippy::unwrap_used, missing_docs)]

mod cell;

use cell::{Cell, Instance, RATE_MBIT, ip, keyed};
use std::time::Instant;
use yuzuri_policy::{Objective, PolicyConfig, PolicyName};
use yuzuri_share::{LoopCommand, ShareConfig, Status, table};

fn policy(name: PolicyName) -> PolicyConfig {
    PolicyConfig { name, objective: Objective::Latency, capacity_bps: None }
}

/// A queue of about 60 ms that CUBIC fills, and that bounds do not.
#[test]
fn before_and_since_are_measured_and_reported() {
    const TEST: &str = "before_and_since_are_measured_and_reported";
    let Some(cell) = Cell::or_skip(TEST, 2) else { return };
    let config = ShareConfig { policy: policy(PolicyName::Off), ..keyed(12) };
    let Some(instance) = Instance::or_skip(TEST, &cell, 1, config) else { return };
    let traffic = cell.traffic(1);
    let (began, first) = (Instant::now(), instance.status().ticks);
    instance.until("ten seconds of plain CUBIC", |status| status.ticks >= first + 20);
    let plain_bps = traffic.received() as f64 * 8.0 / began.elapsed().as_secs_f64();
    assert!(instance.status().interfaces[0].benefit.is_none(), "nothing is shared yet");
    instance.orders.send(LoopCommand::Policy(policy(PolicyName::Yuzuri))).unwrap();
    let status = instance.until("what it brought", |status| status.interfaces[0].benefit.is_some());
    let shown = status.interfaces[0].benefit.unwrap();
    println!("{shown}");
    assert!((7.0..=30.0).contains(&shown.before.seconds) && shown.since.seconds >= 5.0, "{shown:?}");
    // Compared with the parallel measurement; the rate limit is that of frames.
    assert!((shown.before.rate_bps / plain_bps - 1.0).abs() < 0.25, "{shown:?}, received {plain_bps}");
    let most_bps = f64::from(RATE_MBIT) * 1e6;
    assert!(shown.since.rate_bps > 0.5 * most_bps && shown.since.rate_bps < 1.05 * most_bps, "{shown:?}");
    assert!(shown.since.srtt_us < 0.7 * shown.before.srtt_us, "{shown:?}");
    let text = table(&status);
    assert!(text.contains(&format!("  {shown}\n")) && text.contains(" ms, throughput "), "{text}");
    // As read by a client.
    let read: Status = serde_json::from_str(&serde_json::to_string(&*status).unwrap()).unwrap();
    assert_eq!(read.interfaces[0].benefit, Some(shown));
}

/// A terminal that has just joined a network waits for its gateway, for a sender, and for a leader.
#[test]
fn waiting_for_the_network_is_not_a_problem() {
    const TEST: &str = "waiting_for_the_network_is_not_a_problem";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    // The gateway does not answer yet.
    ip(&format!("-n {} route add default via 10.88.0.77", cell.name(1)));
    let Some(instance) = Instance::or_skip(TEST, &cell, 1, keyed(13)) else { return };
    let waiting = instance.until("a wait for the gateway", |status| !status.waits.is_empty());
    assert!(
        waiting.problems.is_empty() && waiting.waits[0].contains("waiting for the gateway"),
        "{waiting:#?}"
    );
    let text = table(&waiting);
    assert!(
        text.contains("eth0: waiting for the gateway") && text.contains("waiting for its group"),
        "{text}"
    );
    assert!(!text.contains("problem"), "{text}");
    ip(&format!("-n {} addr add 10.88.0.77/24 dev br0", cell.name(0)));
    ip(&format!("-n {} neigh replace 10.88.0.77 lladdr 02:00:00:00:00:77 dev eth0", cell.name(1)));
    let joined = instance.until("the group", |status| status.interfaces[0].group.is_some());
    assert!(joined.waits.is_empty() && joined.problems.is_empty(), "{joined:#?}");
    // No leader, no other member, no sender.
    let later = instance.until("five seconds alone", |status| status.ticks >= joined.ticks + 10);
    assert!(later.waits.is_empty() && later.problems.is_empty(), "{later:#?}");
    assert!(table(&later).contains("no member sends: nothing to share"), "{}", table(&later));
    // From the first segment to the first summary.
    let _traffic = cell.traffic(1);
    let seen = std::cell::RefCell::new(Vec::new());
    instance.until("a summary", |status| {
        seen.borrow_mut().push(status.clone());
        status.interfaces[0].summary.is_some()
    });
    for status in seen.into_inner() {
        assert!(status.problems.is_empty() && !table(&status).contains("problem"), "{status:#?}");
    }
}

/// One daemon's configured name appears at the other, and nothing else.
#[test]
fn members_show_each_other_by_name() {
    const TEST: &str = "members_show_each_other_by_name";
    let Some(cell) = Cell::or_skip(TEST, 2) else { return };
    let named = ShareConfig { terminal_name: "kitchen".parse().ok(), ..keyed(14) };
    let Some(first) = Instance::or_skip(TEST, &cell, 1, named) else { return };
    let second = Instance::start(&cell, 2, keyed(14)).unwrap();
    let status = second.until("the other's name", |status| {
        status.interfaces[0].members.iter().any(|member| member.name.as_deref() == Some("kitchen"))
    });
    let text = table(&status);
    assert!(text.lines().any(|line| line.ends_with("  kitchen")), "{text}");
    let own = &status.interfaces[0].members[0];
    assert_eq!((own.address, &own.name), (None, &None));
    let seen = first.until("the other, and the own name in the count", |status| {
        let here = &status.interfaces[0];
        here.members.len() == 2 && here.messages.sent["name"] > 0
    });
    let other = seen.interfaces[0].members.iter().find(|member| member.address.is_some()).unwrap();
    assert_eq!(other.name, None, "{seen:#?}");
    assert_eq!(second.status().interfaces[0].messages.sent["name"], 0);
}
