//! Sharing daemons on the machine's own kernel: hosts on one link discover each other, elect a
//! leader, bound their flows, and leave.
#![allow(clippy::unwrap_used, missing_docs)]

mod cell;

use cell::{Cell, Instance, Traffic, control_name, ip, keyed};
use std::net::IpAddr;
use yuzuri_policy::{Objective, PolicyConfig, PolicyName, Rule};
use yuzuri_share::{ControlLoop, FlowStatus, GroupFrom, InterfaceConfig, LoopCommand, ShareConfig, Status};
use yuzuri_testnet::eventually;

/// Waits until all instances follow one of them that knows `members` members. Followers need not
/// know each other.
fn one_leader(instances: &[&Instance], members: usize) -> String {
    let mut leader = None;
    let found = eventually(|| {
        let all: Vec<_> = instances.iter().map(|instance| instance.status()).collect();
        let groups: Vec<_> = all.iter().filter_map(|status| status.interfaces.first()).collect();
        let first = groups.first().and_then(|group| group.leader.clone());
        let agree = first.is_some() && groups.iter().all(|g| g.leader == first);
        leader = first;
        let leaders: Vec<_> = groups.iter().filter(|g| g.leads).collect();
        agree && groups.len() == all.len() && leaders.len() == 1 && leaders[0].members.len() == members
    });
    let all: Vec<_> = instances.iter().map(|instance| instance.status()).collect();
    assert!(found, "no leader of all: {all:#?}");
    leader.unwrap()
}

/// The status row of a flow.
fn flow_of(status: &Status, traffic: &Traffic) -> Option<FlowStatus> {
    let flows = status.interfaces.iter().flat_map(|interface| &interface.flows);
    flows.into_iter().find(|flow| flow.local == traffic.local()).cloned()
}

/// Waits until a flow has an upper bound derived from the group's capacity.
fn until_shared(instance: &Instance, traffic: &Traffic) -> FlowStatus {
    let status = instance.until("a flow with a share", |status| {
        flow_of(status, traffic).is_some_and(|flow| {
            matches!(flow.rule, Rule::Share | Rule::Probe) && flow.bound.upper > 0 && flow.obeys
        })
    });
    flow_of(&status, traffic).unwrap()
}

#[test]
fn three_find_each_other_share_and_leave() {
    const TEST: &str = "three_find_each_other_share_and_leave";
    let Some(cell) = Cell::or_skip(TEST, 3) else { return };
    cell.set(1, "net/ipv4/tcp_congestion_control", "reno");
    let configs = [keyed(1), keyed(1), keyed(1)];
    let names = configs.clone().map(|config| config.control_name);
    let mut instances = Vec::new();
    for (host, config) in (1..).zip(configs) {
        let Some(instance) = Instance::or_skip(TEST, &cell, host, config) else { return };
        instances.push(instance);
    }
    // One flow exists before and two begin later; all of them are migrated.
    let traffic: Vec<Traffic> = (1..=3).map(|host| cell.traffic(host)).collect();
    for (instance, flow) in instances.iter().zip(&traffic) {
        instance.until("a flow at its beginning", |status| {
            flow_of(status, flow).is_some_and(|flow| flow.obeys && flow.rule != Rule::None)
        });
    }
    one_leader(&instances.iter().collect::<Vec<_>>(), 3);
    for ((instance, flow), name) in instances.iter().zip(&traffic).zip(&names) {
        let shared = until_shared(instance, flow);
        assert_eq!((&shared.control, &flow.control()), (name, name));
        // The kernel enforces the bound: the window does not stay above it.
        let within = || {
            flow_of(&instance.status(), flow)
                .is_some_and(|f| f.bound.upper > 0 && flow.cwnd() <= f.bound.upper)
        };
        assert!(eventually(within), "cwnd {} beyond {:?}", flow.cwnd(), instance.status());
        let status = instance.status();
        let summary = status.interfaces[0].summary.as_ref().unwrap();
        assert_eq!(summary.senders, 3, "{status:#?}");
        assert!(summary.capacity_bps > 1_000_000, "{status:#?}");
    }
    // One host leaves: its flow gets its former congestion control back and continues; the others
    // notice.
    let first = instances.remove(0);
    first.leave();
    assert_eq!(traffic[0].control(), "reno");
    let before = traffic[0].received();
    assert!(eventually(|| traffic[0].received() > before + 1_000_000), "the flow makes no progress");
    one_leader(&instances.iter().collect::<Vec<_>>(), 2);
    drop(instances);
    for flow in &traffic[1..] {
        assert_ne!(flow.control(), names[1]);
        assert_ne!(flow.control(), names[2]);
    }
    let available = yuzuri_kernel::control::available();
    assert!(names.iter().all(|name| !available.contains(name)), "{available:?}");
}

#[test]
fn a_restored_flow_is_migrated_again_after_a_restart() {
    const TEST: &str = "a_restored_flow_is_migrated_again_after_a_restart";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    cell.set(1, "net/ipv4/tcp_congestion_control", "reno");
    let Some(instance) = Instance::or_skip(TEST, &cell, 1, keyed(9)) else { return };
    instance.leave();
    let mut traffic = Vec::new();
    for leaves in [true, false] {
        let flow = cell.traffic(1);
        for start in ["first", "next"] {
            let config = keyed(9);
            let taken = |status: &Status| {
                let flow = flow_of(status, &flow);
                flow.is_some_and(|f| {
                    f.control_state == "migrated from reno" && f.control == config.control_name
                })
            };
            // The daemon ends with a departure message, or is dropped without one.
            cell.inside(1, || {
                let mut share = ControlLoop::start(config.clone()).unwrap();
                let seen = eventually(|| {
                    share.step().unwrap();
                    taken(&share.status())
                });
                assert!(seen, "left alone at the {start} start: {:#?}", share.status());
                if leaves {
                    share.leave();
                }
            });
            assert_eq!(flow.control(), "reno");
        }
        traffic.push(flow);
    }
    // A flow whose program chose its congestion control is left alone as before.
    let chosen = cell.traffic(1);
    socket2::SockRef::from(&chosen.near).set_tcp_congestion(b"reno").unwrap();
    let Some(instance) = Instance::or_skip(TEST, &cell, 1, keyed(9)) else { return };
    traffic.iter().for_each(|flow| drop(until_shared(&instance, flow)));
    let status = instance.until("the flow that chose", |status| flow_of(status, &chosen).is_some());
    let flow = flow_of(&status, &chosen).unwrap();
    assert_eq!((flow.obeys, flow.control_state.as_str()), (false, "chosen by its program"));
}

#[test]
fn members_meet_over_ipv4_and_ipv6() {
    const TEST: &str = "members_meet_over_ipv4_and_ipv6";
    let Some(cell) = Cell::or_skip(TEST, 3) else { return };
    cell.without_v6(1);
    cell.without_v6(2);
    let Some(first) = Instance::or_skip(TEST, &cell, 1, keyed(2)) else { return };
    let Some(second) = Instance::or_skip(TEST, &cell, 2, keyed(2)) else { return };
    let _traffic = [cell.traffic(1), cell.traffic(2)];
    one_leader(&[&first, &second], 2);
    let status = first.status();
    let other = status.interfaces[0].members.iter().find_map(|member| member.address).unwrap();
    assert_eq!(other.ip(), "10.88.0.2".parse::<IpAddr>().unwrap());
    // A host that has both address families.
    let Some(third) = Instance::or_skip(TEST, &cell, 3, keyed(2)) else { return };
    let _more = cell.traffic(3);
    one_leader(&[&first, &second, &third], 3);
}

#[test]
fn a_wrong_key_is_counted_and_refused() {
    const TEST: &str = "a_wrong_key_is_counted_and_refused";
    let Some(cell) = Cell::or_skip(TEST, 3) else { return };
    let Some(first) = Instance::or_skip(TEST, &cell, 1, keyed(3)) else { return };
    let Some(second) = Instance::or_skip(TEST, &cell, 2, keyed(4)) else { return };
    let keyless = ShareConfig { key: yuzuri_share::KeySource::Keyless, ..keyed(0) };
    let Some(third) = Instance::or_skip(TEST, &cell, 3, keyless) else { return };
    let _traffic = [cell.traffic(1), cell.traffic(2), cell.traffic(3)];
    let refused =
        |status: &Status, why: &str| status.interfaces[0].messages.refused.get(why).copied().unwrap_or(0);
    for instance in [&first, &second] {
        let status = instance.until("a wrong tag and a message without a key", |status| {
            refused(status, "tag") > 0 && refused(status, "keyless") > 0 && status.interfaces[0].leads
        });
        assert_eq!(status.interfaces[0].members.len(), 1, "{status:#?}");
    }
    let status = third.until("messages with a key", |s| refused(s, "keyed") > 1 && s.interfaces[0].leads);
    assert_eq!(status.interfaces[0].members.len(), 1, "{status:#?}");
    assert!(!status.keyed);
    yuzuri_testnet::attack("daemon with another key", 1, "daemon", "excluded and counted");
}

#[test]
fn the_policy_changes_under_traffic_and_the_flow_stays() {
    const TEST: &str = "the_policy_changes_under_traffic_and_the_flow_stays";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    let config = keyed(5);
    let Some(instance) = Instance::or_skip(TEST, &cell, 1, config.clone()) else { return };
    let traffic = cell.traffic(1);
    let before = until_shared(&instance, &traffic);
    let configure = |name| {
        let policy = PolicyConfig { name, objective: Objective::Latency, capacity_bps: None };
        instance.orders.send(LoopCommand::Policy(policy)).unwrap();
    };
    configure(PolicyName::Shimada2016);
    let status = instance.until("a bound by the table", |status| {
        flow_of(status, &traffic)
            .is_some_and(|f| matches!(f.rule, Rule::RttTable | Rule::Count) && f.bound.upper > 0)
    });
    assert_eq!(flow_of(&status, &traffic).unwrap().id, before.id);
    assert_eq!(status.policy.objective, Objective::Latency);
    configure(PolicyName::Off);
    instance.until("no bound", |status| {
        flow_of(status, &traffic).is_some_and(|f| f.obeys && f.rule == Rule::None && f.bound.upper == 0)
    });
    // The kernel has no bound either: the window grows beyond the former bound.
    assert!(eventually(|| traffic.cwnd() > before.bound.upper), "{} {before:?}", traffic.cwnd());
    // New interface settings: the group changes, the flow does not.
    let interface = InterfaceConfig {
        group: Some(InterfaceConfig::group_named("room 4")),
        ..InterfaceConfig::named("eth0")
    };
    let settings = ShareConfig { interfaces: vec![interface], ..config };
    instance.orders.send(LoopCommand::Reload(Box::new(settings))).unwrap();
    let group = InterfaceConfig::group_named("room 4").to_string();
    let status = instance.until("the named group and a share", |status| {
        let in_it = status.interfaces.first().is_some_and(|i| i.group.as_ref() == Some(&group));
        in_it && flow_of(status, &traffic).is_some_and(|f| matches!(f.rule, Rule::Share | Rule::Probe))
    });
    assert_eq!(flow_of(&status, &traffic).unwrap().id, before.id);
    assert_eq!(traffic.control(), status.control);
}

#[test]
fn each_interface_has_a_group_and_the_flows_of_its_addresses() {
    const TEST: &str = "each_interface_has_a_group_and_the_flows_of_its_addresses";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    cell.add_bridge("br1", "10.89.0.100/24");
    let Some(instance) = Instance::or_skip(TEST, &cell, 1, keyed(6)) else { return };
    instance.until("one interface", |status| status.interfaces.len() == 1);
    // An interface appears at run time.
    cell.attach(1, "wlan9", "br1", "10.89.0.1/24");
    cell.shape(1, "wlan9", 10);
    let traffic = [cell.traffic(1), cell.traffic_to(1, "10.89.0.100".parse().unwrap())];
    let status = instance.until("each flow with a share at its interface", |status| {
        let shared = |name: &str, of: &Traffic| {
            let interface = status.interfaces.iter().find(|i| i.name == name);
            interface.is_some_and(|i| {
                i.leads
                    && i.flows
                        .iter()
                        .any(|f| f.local == of.local() && matches!(f.rule, Rule::Share | Rule::Probe))
            })
        };
        shared("eth0", &traffic[0]) && shared("wlan9", &traffic[1])
    });
    assert_eq!(status.interfaces.len(), 2);
    // An interface disappears.
    ip(&format!("-n {} link del wlan9", cell.name(1)));
    instance.until("one interface again", |status| status.interfaces.len() == 1);
    until_shared(&instance, &traffic[0]);
}

#[test]
fn the_gateways_link_address_determines_the_group() {
    const TEST: &str = "the_gateways_link_address_determines_the_group";
    let Some(cell) = Cell::or_skip(TEST, 2) else { return };
    let server = cell.name(0);
    ip(&format!("-n {server} link set br0 address 02:00:00:00:00:07"));
    for host in [1, 2] {
        ip(&format!("-n {} route add default via 10.88.0.100", cell.name(host)));
    }
    let Some(first) = Instance::or_skip(TEST, &cell, 1, keyed(7)) else { return };
    let Some(second) = Instance::or_skip(TEST, &cell, 2, keyed(7)) else { return };
    let _traffic = [cell.traffic(1), cell.traffic(2)];
    one_leader(&[&first, &second], 2);
    let expected = yuzuri_policy::GroupId::of(&[2, 0, 0, 0, 0, 7]).to_string();
    for instance in [&first, &second] {
        let status = instance.status();
        assert_eq!(status.interfaces[0].group.as_ref(), Some(&expected));
        assert_eq!(status.interfaces[0].group_from, Some(GroupFrom::Gateway));
    }
    // Host 2 roams: another access point, another gateway.
    ip(&format!("-n {server} link add br1 address 02:00:00:00:00:08 type bridge"));
    ip(&format!("-n {server} link set br1 up"));
    ip(&format!("-n {server} link set h2eth0 master br1"));
    ip(&format!("-n {} neigh replace 10.88.0.100 lladdr 02:00:00:00:00:08 dev eth0", cell.name(2)));
    let other = yuzuri_policy::GroupId::of(&[2, 0, 0, 0, 0, 8]).to_string();
    second.until("the other group", |status| {
        status.interfaces[0].group.as_ref() == Some(&other) && status.interfaces[0].members.len() == 1
    });
    // The host that stayed leads alone.
    first.until("nobody else sends", |status| {
        status.interfaces[0].summary.as_ref().is_some_and(|summary| summary.senders == 1)
            && status.interfaces[0].leads
    });
}

#[test]
fn a_name_in_use_and_an_unknown_interface_are_refused() {
    const TEST: &str = "a_name_in_use_and_an_unknown_interface_are_refused";
    let Some(cell) = Cell::or_skip(TEST, 2) else { return };
    let config = keyed(8);
    let Some(_first) = Instance::or_skip(TEST, &cell, 1, config.clone()) else { return };
    let error = Instance::start(&cell, 2, config.clone()).err().unwrap().to_string();
    assert!(error.contains("is already registered"), "{error}");
    let interfaces = vec![InterfaceConfig::named("wlan7")];
    let unknown = ShareConfig { interfaces, control_name: control_name(), ..config.clone() };
    let error = Instance::start(&cell, 2, unknown).err().unwrap().to_string();
    assert!(error.contains("'wlan7'") && error.contains("eth0"), "{error}");
    // Without the congestion control the daemon observes, if the settings allow it.
    let without_kernel = yuzuri_share::WithoutKernel::Watch;
    let watching = Instance::start(&cell, 2, ShareConfig { without_kernel, ..config }).unwrap();
    let status = watching.status();
    assert!(!status.steers && status.why_not.as_ref().unwrap().contains("already registered"), "{status:#?}");
    let traffic = cell.traffic(1);
    let status = watching.until("the sender and what it says", |status| {
        status.interfaces[0].members.iter().any(|member| member.sends)
    });
    assert!(status.interfaces[0].flows.is_empty());
    drop(traffic);
}

#[test]
fn flows_beyond_the_kernels_table_are_counted_and_bounded_later() {
    const TEST: &str = "flows_that_find_no_room_in_the_kernels_table";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    let config = ShareConfig { bounds_capacity: Some(2), ..keyed(11) };
    let Some(instance) = Instance::or_skip(TEST, &cell, 1, config) else { return };
    let mut traffic: Vec<Traffic> = (0..4).map(|_| cell.traffic(1)).collect();
    let problem = |status: &Status| status.problems.iter().any(|p| p.contains("can bound 2 flows"));
    let full = instance.until("flows without room", |status| status.bounds_refused == 2 && problem(status));
    // The two flows with the highest rates are bounded.
    let check = |status: &Status| {
        let flows = status.interfaces.iter().flat_map(|interface| &interface.flows).filter(|flow| flow.obeys);
        let (bounded, free): (Vec<_>, Vec<_>) = flows.partition(|flow| flow.rule != Rule::None);
        let least = bounded.iter().map(|flow| flow.rate_bps).min();
        let most = free.iter().map(|flow| flow.rate_bps).max();
        assert!(bounded.len() == 2 && free.len() == 2 && least >= most, "{status:#?}");
    };
    check(&full);
    assert!(yuzuri_share::table(&full).contains("can bound 2 flows"));
    // Long enough for a kernel that failed to be tried again.
    let later = instance.until("ten half seconds", |status| status.ticks >= full.ticks + 10);
    assert!(later.steers && later.kernel_refusals == 0 && later.bounds_refused == 2, "{later:#?}");
    check(&later);
    traffic.truncate(2);
    let free = instance.until("room for all", |status| status.bounds_refused == 0 && !problem(status));
    assert!(free.steers, "{free:#?}");
    traffic.iter().for_each(|flow| drop(until_shared(&instance, flow)));
}
