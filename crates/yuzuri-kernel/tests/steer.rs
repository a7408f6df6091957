//! Steering on real flows: migrated and migrated back, left unchanged if somebody chose their
//! congestion control, and reported exactly.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;
mod steered;

use common::{Pair, tcp_info};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::Write;
use std::process::Command;
use steered::{control_of, name, pair, pair_with, send_at_upper_bound, start, state_of};
use yuzuri_kernel::control::{Bound, ControlError, CubicParams, available};
use yuzuri_kernel::steer::{ControlState, FlowState, NewFlows, Prefix, Scope, SteerOptions, Steering};
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::FlowId;

/// A net on which a flow loses packets, so that its window and ssthresh have distinctive values.
fn lossy(test: &str, default: &str) -> Option<Net> {
    let net = Net::or_skip(test)?;
    for side in [Side::A, Side::B] {
        // A namespace's default must be unrestricted: Reno, or the default from its creation.
        if let Err(why) = net.set(side, "net.ipv4.tcp_congestion_control", default) {
            println!("{test}: skipped: {why}");
            return None;
        }
    }
    net.shape(Side::A, 20, 25_000).unwrap();
    Some(net)
}

/// Differences between a record of a quiet flow and `TCP_INFO`.
fn differences(flow: &FlowState, pair: &Pair) -> Vec<String> {
    let info = tcp_info::read(&pair.near);
    let ca_state = flow.ca_state as u64;
    [
        ("ca_state", ca_state, info.tcpi_ca_state.into()),
        ("mss", flow.mss.into(), info.tcpi_snd_mss.into()),
        ("cwnd", flow.cwnd.into(), info.tcpi_snd_cwnd.into()),
        ("ssthresh", flow.ssthresh.into(), info.tcpi_snd_ssthresh.into()),
        ("packets_out", flow.packets_out.into(), info.tcpi_unacked.into()),
        ("sacked_out", flow.sacked_out.into(), info.tcpi_sacked.into()),
        ("lost_out", flow.lost_out.into(), info.tcpi_lost.into()),
        ("retrans_out", flow.retrans_out.into(), info.tcpi_retrans.into()),
        ("srtt_us", flow.srtt_us.into(), info.tcpi_rtt.into()),
        ("min_rtt_us", flow.min_rtt_us.into(), info.tcpi_min_rtt.into()),
        ("delivered", flow.delivered.into(), info.tcpi_delivered.into()),
        ("bytes_acked", flow.bytes_acked, info.tcpi_bytes_acked),
        ("total_retrans", flow.total_retrans.into(), info.tcpi_total_retrans.into()),
        ("rate_app_limited", flow.rate_app_limited.into(), info.app_limited().into()),
        ("snd_wnd_bytes", flow.snd_wnd_bytes.into(), info.tcpi_snd_wnd.into()),
        ("unsent_bytes", flow.unsent_bytes.into(), info.tcpi_notsent_bytes.into()),
        (
            "sndbuf_bytes",
            flow.sndbuf_bytes.into(),
            socket2::SockRef::from(&pair.near).send_buffer_size().unwrap() as u64,
        ),
    ]
    .into_iter()
    .filter(|(_, ours, kernels)| ours != kernels)
    .map(|(name, ours, kernels)| format!("{name}: ours {ours}, TCP_INFO {kernels}"))
    .collect()
}

fn migrated_and_migrated_back(test: &str, default: &str, v6: bool) {
    let Some(net) = lossy(test, default) else { return };
    let to = if v6 { net.v6(Side::B) } else { net.v4(Side::B) };
    let pair = pair(&net, Side::A, to);
    pair.send(1_500_000);
    let before = tcp_info::read(&pair.near);
    assert!(before.tcpi_snd_ssthresh < 0x7fff_ffff, "no loss: {before:?}");
    assert_eq!(control_of(&pair.near), default);

    let cubic = CubicParams { name: name("m"), ..CubicParams::default() };
    let Some(mut steering) =
        start(test, &net, SteerOptions { cubic: cubic.clone(), ..SteerOptions::default() })
    else {
        return;
    };
    let flow = state_of(&mut steering, &pair);
    assert!(
        matches!(flow.control_state, ControlState::Migrated { former } if former.as_str() == default),
        "{flow:?}"
    );
    assert_eq!(flow.control.as_str(), cubic.name);
    assert_eq!(control_of(&pair.near), cubic.name);
    assert_eq!((flow.cwnd, flow.ssthresh), (before.tcpi_snd_cwnd, before.tcpi_snd_ssthresh));
    assert_eq!(differences(&flow, &pair), Vec::<String>::new());
    assert_eq!(flow.local, pair.near_addr());
    assert_eq!(flow.remote.ip(), to);
    assert!(flow.is_application_limited());

    pair.send(1_500_000);
    let flow = state_of(&mut steering, &pair);
    assert!(
        matches!(flow.control_state, ControlState::Migrated { former } if former.as_str() == default),
        "{flow:?}"
    );
    assert_eq!(differences(&flow, &pair), Vec::<String>::new());
    assert!(flow.lost > 0 && flow.total_retrans > 0, "{flow:?}");

    let before = tcp_info::read(&pair.near);
    let left = steering.leave().unwrap();
    assert_eq!((left.migrated_back, left.not_migrated_back), (vec![flow.id], vec![]));
    let after = tcp_info::read(&pair.near);
    assert_eq!(control_of(&pair.near), default);
    assert_eq!(
        (after.tcpi_snd_cwnd, after.tcpi_snd_ssthresh),
        (before.tcpi_snd_cwnd, before.tcpi_snd_ssthresh)
    );
    assert!(!available().contains(&cubic.name), "{:?}", available());
    pair.send(500_000);

    // The kernel records a choice of control permanently; a caller that remembers can migrate the
    // flow again.
    let cubic = CubicParams { name: name("n"), ..CubicParams::default() };
    let again = SteerOptions { cubic: cubic.clone(), ..SteerOptions::default() };
    let Some(mut steering) = start(test, &net, again.clone()) else { return };
    assert_eq!(state_of(&mut steering, &pair).control_state, ControlState::Chosen);
    drop(steering);
    let Some(mut steering) = start(test, &net, SteerOptions { migrated_before: vec![flow.id], ..again })
    else {
        return;
    };
    assert!(matches!(state_of(&mut steering, &pair).control_state, ControlState::Migrated { .. }));
    drop(steering);
    assert_eq!(control_of(&pair.near), default);
}

#[test]
fn a_live_cubic_flow_is_migrated_and_migrated_back() {
    migrated_and_migrated_back("a_live_cubic_flow_is_migrated_and_migrated_back", "cubic", false);
}

#[test]
fn a_live_flow_over_ipv6_is_migrated_and_migrated_back() {
    migrated_and_migrated_back("a_live_flow_over_ipv6_is_migrated_and_migrated_back", "reno", true);
}

#[test]
fn a_live_reno_flow_is_migrated_and_migrated_back() {
    migrated_and_migrated_back("a_live_reno_flow_is_migrated_and_migrated_back", "reno", false);
}

#[test]
fn there_is_room_for_all_flows_that_were_migrated_before() {
    const TEST: &str = "there_is_room_for_all_flows_that_were_migrated_before";
    let Some(net) = lossy(TEST, "reno") else { return };
    let early = pair(&net, Side::A, net.v4(Side::B));
    let Some(mut steering) = start(TEST, &net, steered::options("f")) else { return };
    let id = state_of(&mut steering, &early).id;
    assert_eq!(steering.leave().unwrap().migrated_back, [id]);
    // The last one is the flow; the others have no sockets.
    let most = SteerOptions::MAX_MIGRATED_BEFORE as u64;
    let mut migrated_before: Vec<FlowId> = (1..most).map(|n| FlowId(u64::MAX - n)).chain([id]).collect();
    let options = SteerOptions { migrated_before: migrated_before.clone(), ..steered::options("f") };
    let mut steering = start(TEST, &net, options).unwrap();
    assert!(matches!(state_of(&mut steering, &early).control_state, ControlState::Migrated { .. }));
    drop(steering);
    migrated_before.push(FlowId(u64::MAX));
    let options = SteerOptions { migrated_before, ..steered::options("f") };
    let error = net.inside(Side::A, || Steering::start(&options)).err().unwrap().to_string();
    assert!(error.contains("at most 262144"), "{error}");
}

#[test]
fn a_flow_whose_program_chose_its_control_is_not_migrated() {
    const TEST: &str = "a_flow_whose_program_chose_its_control_is_not_migrated";
    let Some(net) = lossy(TEST, "reno") else { return };
    for choice in ["reno", "cubic"] {
        let early = Pair::new(&net, Side::A, net.v4(Side::B), choice);
        early.send(10_000);
        let Some(mut steering) = start(TEST, &net, steered::options("c")) else { return };
        let late = Pair::new(&net, Side::A, net.v4(Side::B), choice);
        late.send(10_000);
        for pair in [early, late] {
            let flow = state_of(&mut steering, &pair);
            assert_eq!(flow.control_state, ControlState::Chosen);
            assert_eq!(flow.control.as_str(), choice);
            assert_eq!(control_of(&pair.near), choice);
        }
        assert_eq!(steering.leave().unwrap().migrated_back, []);
    }
}

#[test]
fn a_flow_whose_route_chose_its_control_is_not_migrated() {
    const TEST: &str = "a_flow_whose_route_chose_its_control_is_not_migrated";
    for (words, control_state) in
        [("congctl lock cubic", ControlState::Locked), ("congctl cubic", ControlState::Other)]
    {
        let Some(net) = lossy(TEST, "reno") else { return };
        let route = format!("route change 10.77.0.0/24 dev va proto kernel scope link src 10.77.0.1 {words}");
        let output =
            Command::new("ip").args(["-n", net.name(Side::A)]).args(route.split(' ')).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let early = pair(&net, Side::A, net.v4(Side::B));
        let Some(mut steering) = start(TEST, &net, steered::options("r")) else { return };
        let late = pair(&net, Side::A, net.v4(Side::B));
        for pair in [early, late] {
            pair.send(10_000);
            assert_eq!(state_of(&mut steering, &pair).control_state, control_state, "{words}");
            assert_eq!(control_of(&pair.near), "cubic");
        }
    }
}

#[test]
fn a_new_flow_is_migrated_immediately() {
    const TEST: &str = "a_new_flow_is_migrated_immediately";
    let Some(net) = lossy(TEST, "reno") else { return };
    let options = SteerOptions { initial_window: Some(23), ..steered::options("w") };
    let Some(mut steering) = start(TEST, &net, options) else { return };
    if let NewFlows::AtNextWalk(why) = steering.new_flows() {
        return println!("{TEST}: skipped: {why}");
    }
    let ours = steering.control().cubic().name.clone();
    for to in [net.v4(Side::A), net.v6(Side::A), net.v4(Side::B), net.v6(Side::B)] {
        // Opened, or accepted: the listener's side is the steered one.
        let accepts = [net.v4(Side::A), net.v6(Side::A)].contains(&to);
        let pair = pair(&net, if accepts { Side::B } else { Side::A }, to);
        let (own, other) = if accepts { (&pair.far, &pair.near) } else { (&pair.near, &pair.far) };
        assert_eq!(control_of(own), ours, "{to}");
        assert_eq!(control_of(other), "reno", "{to}");
        assert_eq!(tcp_info::read(own).tcpi_snd_cwnd, 23);
        assert_eq!(tcp_info::read(other).tcpi_snd_cwnd, 10);
        let mut flows = Vec::new();
        steering.observe(&mut flows).unwrap();
        assert!(
            matches!(flows[0].control_state, ControlState::Migrated { former } if former.as_str() == "reno"),
            "{flows:?}"
        );
    }
    // Migration is off.
    steering.set_migrating(false);
    let free = pair(&net, Side::A, net.v4(Side::B));
    assert_eq!(control_of(&free.near), "reno");
    assert_eq!(state_of(&mut steering, &free).control_state, ControlState::Default);
    steering.set_migrating(true);
    assert!(matches!(state_of(&mut steering, &free).control_state, ControlState::Migrated { .. }));
}

#[test]
fn without_a_control_group_new_flows_are_migrated_by_the_walk() {
    const TEST: &str = "without_a_control_group";
    let Some(net) = lossy(TEST, "reno") else { return };
    let options = SteerOptions { cgroup: Some("/proc/self".into()), ..steered::options("g") };
    let Some(mut steering) = start(TEST, &net, options) else { return };
    assert!(
        matches!(steering.new_flows(), NewFlows::AtNextWalk(why) if !why.is_empty()),
        "{:?}",
        steering.new_flows()
    );
    let pair = pair(&net, Side::A, net.v4(Side::B));
    assert_eq!(control_of(&pair.near), "reno");
    assert!(matches!(state_of(&mut steering, &pair).control_state, ControlState::Migrated { .. }));
}

#[test]
fn two_instances_need_two_names_and_share_no_flows() {
    const TEST: &str = "two_instances";
    let (Some(one), Some(other)) = (lossy(TEST, "reno"), lossy(TEST, "reno")) else { return };
    let Some(mut first) = start(TEST, &one, steered::options("1")) else { return };
    let same = SteerOptions { cubic: first.control().cubic().clone(), ..SteerOptions::default() };
    let error = other.inside(Side::A, || Steering::start(&same)).err().unwrap();
    assert!(matches!(&error, ControlError::Taken(name) if *name == same.cubic.name), "{error}");
    assert!(error.to_string().contains("is already registered"), "{error}");

    let Some(mut second) = start(TEST, &other, steered::options("2")) else { return };
    let (in_one, in_other) = (pair(&one, Side::A, one.v4(Side::B)), pair(&other, Side::A, other.v4(Side::B)));
    let flow = state_of(&mut first, &in_one);
    assert!(
        matches!(flow.control_state, ControlState::Migrated { former } if former.as_str() == "reno"),
        "{flow:?}"
    );
    let flow = state_of(&mut second, &in_other);
    assert!(
        matches!(flow.control_state, ControlState::Migrated { former } if former.as_str() == "reno"),
        "{flow:?}"
    );
    assert_eq!(control_of(&in_one.near), first.control().cubic().name);
    assert_eq!(control_of(&in_other.near), second.control().cubic().name);
    drop(first);
    assert_eq!(control_of(&in_one.near), "reno");
    assert_eq!(control_of(&in_other.near), second.control().cubic().name);
}

#[test]
fn only_flows_in_scope_count() {
    const TEST: &str = "only_flows_in_scope_count";
    let Some(net) = lossy(TEST, "reno") else { return };
    let v4 = Scope(vec![Prefix { address: net.v4(Side::B), bits: 24 }]);
    let Some(mut steering) = start(TEST, &net, SteerOptions { scope: v4, ..steered::options("s") }) else {
        return;
    };
    let pairs = [pair(&net, Side::A, net.v4(Side::B)), pair(&net, Side::A, net.v6(Side::B))];
    // To its own address, so over loopback.
    let inner = pair_with(&net, Side::A, Side::A, net.v4(Side::A));
    let mut flows = Vec::new();
    let mut seen = |steering: &mut Steering| -> Vec<_> {
        steering.observe(&mut flows).unwrap();
        flows.iter().map(|flow| flow.local).collect()
    };
    assert_eq!(seen(&mut steering), [pairs[0].near_addr()]);
    steering.set_scope(&Scope(vec![Prefix { address: net.v6(Side::A), bits: 64 }])).unwrap();
    assert_eq!(seen(&mut steering), [pairs[1].near_addr()]);
    steering.set_scope(&Scope(vec![Prefix::host(net.v6(Side::B))])).unwrap();
    assert_eq!(seen(&mut steering), []);
    steering.set_scope(&Scope::default()).unwrap();
    assert_eq!(seen(&mut steering).len(), 2);
    assert_eq!(control_of(&inner.near), "reno");
    drop(steering);
    assert!(pairs.iter().all(|pair| control_of(&pair.near) == "reno"));
}

/// BBR's pacing ends once the window is full, and its own state starts again when its flow is
/// migrated back.
#[test]
fn a_bbr_flow_is_migrated_and_migrated_back() {
    const TEST: &str = "a_bbr_flow_is_migrated_and_migrated_back";
    // Requesting it loads its module.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    if let Err(why) = socket.set_tcp_congestion(b"bbr") {
        return println!("{TEST}: skipped: the kernel has no BBR: {why}");
    }
    let Some(net) = lossy(TEST, "reno") else { return };
    if let Err(why) = net.set(Side::A, "net.ipv4.tcp_congestion_control", "bbr") {
        return println!("{TEST}: skipped: {why}");
    }
    let pair = pair(&net, Side::A, net.v4(Side::B));
    pair.send(1_000_000);
    let before = tcp_info::read(&pair.near);
    let Some(mut steering) = start(TEST, &net, steered::options("b")) else { return };
    let flow = state_of(&mut steering, &pair);
    assert!(
        matches!(flow.control_state, ControlState::Migrated { former } if former.as_str() == "bbr"),
        "{flow:?}"
    );
    assert_eq!((flow.cwnd, flow.ssthresh), (before.tcpi_snd_cwnd, before.tcpi_snd_ssthresh));
    assert!(flow.paced, "{flow:?}");
    steering.bound(flow.id, Bound { lower: 0, upper: 8 }, std::time::Duration::from_secs(60)).unwrap();
    assert!(!send_at_upper_bound(&mut steering, &pair, 8).paced);
    assert_eq!(steering.leave().unwrap().migrated_back, [flow.id]);
    assert_eq!(control_of(&pair.near), "bbr");
    pair.send(1_000_000);
}

#[test]
fn idle_walks_are_skipped_and_the_next_one_reports_changes() {
    const TEST: &str = "while_nothing_happens_walks_are_left_out";
    const IDLE_AFTER_WALKS: u16 = 3;
    const LEFT_OUT: u32 = Steering::MAX_NOT_WALKED;
    let Some(net) = lossy(TEST, "reno") else { return };
    let options = SteerOptions { idle_after_walks: IDLE_AFTER_WALKS, ..steered::options("q") };
    let Some(mut steering) = start(TEST, &net, options) else { return };
    if *steering.new_flows() != NewFlows::AtOnce {
        println!("{TEST}: skipped: nothing tells of new flows: {:?}", steering.new_flows());
        return;
    }
    let mut pairs: Vec<_> = (0..20).map(|_| pair(&net, Side::A, net.v4(Side::B))).collect();
    let mut flows = Vec::new();
    let mut observe = |steering: &mut Steering| {
        steering.observe(&mut flows).unwrap();
        let reported: Vec<_> = flows.iter().map(|flow| flow.local).collect();
        (steering.walked(), reported)
    };
    let nothing = |walked: bool| (walked, Vec::new());
    // Until every flow is idle, each walk reports all; the first that reports none is still a walk.
    let mut becomes_idle = |steering: &mut Steering, count: usize| {
        let mut walks = 0;
        while let (walked, reported) = observe(steering)
            && !reported.is_empty()
        {
            walks += 1;
            assert!(
                walked && reported.len() == count && walks <= IDLE_AFTER_WALKS + 1,
                "walk {walks}: {reported:?}"
            );
        }
        for _ in 0..2 {
            (0..LEFT_OUT).for_each(|at| assert_eq!(observe(steering), nothing(false), "left out {at}"));
            assert_eq!(observe(steering), nothing(true));
        }
    };
    becomes_idle(&mut steering, 20);
    assert_eq!(steering.idle_flows(), 20);
    // An idle flow begins to send.
    steering.observe(&mut Vec::new()).unwrap();
    assert!(!steering.walked());
    pairs[7].send(1);
    let mut reported = Vec::new();
    steering.observe(&mut reported).unwrap();
    assert!(steering.walked());
    assert_eq!(reported.iter().map(|flow| flow.local).collect::<Vec<_>>(), [pairs[7].near_addr()]);
    becomes_idle(&mut steering, 1);
    // A flow that only receives stays idle: it has nothing to bound.
    steering.observe(&mut reported).unwrap();
    assert!(!steering.walked());
    (&pairs[3].far).write_all(&[1]).unwrap();
    steering.observe(&mut reported).unwrap();
    assert!(!steering.walked());
    // A flow is opened.
    pairs.push(pair(&net, Side::A, net.v4(Side::B)));
    steering.observe(&mut reported).unwrap();
    assert!(steering.walked());
    assert_eq!(reported.iter().map(|flow| flow.local).collect::<Vec<_>>(), [pairs[20].near_addr()]);
    becomes_idle(&mut steering, 1);
    // When all flows are requested, or the scope changes, it walks.
    steering.observe(&mut reported).unwrap();
    assert!(!steering.walked());
    steering.report_all();
    steering.observe(&mut reported).unwrap();
    assert!(steering.walked());
    assert_eq!(reported.len(), 21);
    // A flow under another congestion control does not signal when it begins: each walk is made.
    let chosen = pair(&net, Side::A, net.v4(Side::B));
    socket2::SockRef::from(&chosen.near).set_tcp_congestion(b"cubic").unwrap();
    for _ in 0..IDLE_AFTER_WALKS * 3 {
        steering.observe(&mut reported).unwrap();
        assert!(steering.walked());
    }
    assert_eq!(reported.len(), 0);
    chosen.send(1);
    steering.observe(&mut reported).unwrap();
    assert_eq!(reported.iter().map(|flow| flow.local).collect::<Vec<_>>(), [chosen.near_addr()]);
}

#[test]
fn a_walk_longer_than_the_kernels_buffer_reports_each_active_flow_once() {
    const TEST: &str = "a_walk_longer_than_the_kernels_buffer";
    /// Several times the kernel's buffer: each time it is full, the walk visits one flow twice.
    const FLOWS: usize = 600;
    const IDLE_AFTER_WALKS: u16 = 3;
    // Both ends of each flow are ours: a shell's limit of 1024 files is too low.
    let files = (4 * FLOWS) as u64;
    let (soft, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(files), most.max(files)).unwrap();
    let Some(net) = lossy(TEST, "reno") else { return };
    let options = SteerOptions { idle_after_walks: IDLE_AFTER_WALKS, ..steered::options("b") };
    let Some(mut steering) = start(TEST, &net, options) else { return };
    let mut pairs: Vec<_> = (0..FLOWS).map(|_| pair(&net, Side::A, net.v4(Side::B))).collect();
    let mut flows = Vec::new();
    for walk in 0..=IDLE_AFTER_WALKS {
        steering.observe(&mut flows).unwrap();
        assert_eq!((flows.len(), steering.idle_flows()), (FLOWS, 0), "walk {walk}");
        assert!(flows.iter().all(|flow| flow.is_idle == (walk == IDLE_AFTER_WALKS)), "walk {walk}");
    }
    steering.observe(&mut flows).unwrap();
    assert_eq!((flows.len(), steering.idle_flows()), (0, FLOWS as u32));
    // One writes; and one ends, which only the number of idle flows shows.
    pairs[3].send(1);
    drop(pairs.pop());
    steering.observe(&mut flows).unwrap();
    assert_eq!((flows.len(), steering.idle_flows()), (1, FLOWS as u32 - 2));
    assert_eq!(flows[0].local, pairs[3].near_addr());
    steering.report_all();
    steering.observe(&mut flows).unwrap();
    assert_eq!((flows.len(), steering.idle_flows(), steering.reported_all()), (FLOWS - 1, 0, true));
    // Each migrated flow is reported as migrated back: the next steering needs the list.
    assert_eq!(steering.leave().unwrap().migrated_back.len(), FLOWS - 1);
    assert!(pairs.iter().all(|pair| control_of(&pair.near) == "reno"));
}
