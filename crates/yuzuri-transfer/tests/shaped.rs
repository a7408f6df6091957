//! Tests over a path of known rate, in network namespaces: they compare the figures with the rate,
//! the kernel's counters and iperf3. They need root; without it they say so and pass.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use yuzuri_testnet::{Net, Side, eventually};
use yuzuri_transfer::{
    BufferSource, FailureKind, ReceiveEvent, ReceiveOptions, SendError, SendOptions, SendSummary,
};

/// The token bucket counts the Ethernet header: 1448 of 1514 bytes are payload (IPv4 with TCP
/// timestamps).
const RATE_MBIT: u32 = 20;
const RATE_BPS: f64 = RATE_MBIT as f64 * 1e6;
const BURST_BYTES: f64 = Net::BURST_BYTES as f64;
const QUEUE_BYTES: f64 = 100_000.0;

fn to(ip: IpAddr, port: u16) -> SendOptions {
    options((ip, port).into())
}

/// Waits until bytes have arrived.
fn once_under_way(receiving: &TestReceiver) {
    receiving.wait(|event| match event {
        ReceiveEvent::Progress { bytes: 1.., .. } => Some(()),
        _ => None,
    });
}

/// Sends, and cuts the path for good once bytes have arrived.
fn send_until_cut(
    net: &Net,
    options: SendOptions,
    receiving: &TestReceiver,
) -> Result<SendSummary, SendError> {
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_through(net, options).0);
        once_under_way(receiving);
        net.connect(Side::B, false).unwrap();
        sending.join().unwrap()
    })
}

#[test]
fn throughput_is_that_of_the_path() {
    let Some(net) = Net::or_skip("throughput_is_that_of_the_path") else { return };
    net.shape(Side::A, RATE_MBIT, QUEUE_BYTES as u32).unwrap();
    let (v4, v6) = (net.v4(Side::B), net.v6(Side::B));
    for (ip, wait_ack, connections) in [(v4, false, 1), (v4, true, 1), (v6, false, 1), (v4, false, 3)] {
        let receiving = receiving(&net, ReceiveOptions { once: true, ..receive_options() });
        let mut options = to(ip, receiving.address.port());
        options.congestion_control = Some("cubic".to_owned());
        options.limits.time = Some(Duration::from_secs(4));
        (options.wait_ack, options.connections) = (wait_ack, connections);
        let (result, events) = send_through(&net, options);
        let summary = result.unwrap();
        let (received, receiver_events) = receiving.join();
        let buffers = buffers(&events);
        check_buffers(&buffers);
        assert!(buffers.iter().all(|buffer| buffer.source == BufferSource::Timestamps), "{buffers:#?}");

        // All acknowledged bytes were received, and neither end reports more than the path carries.
        assert_eq!(received.bytes, summary.bytes_acked);
        assert_eq!(buffers.iter().map(|buffer| buffer.bytes).sum::<u64>(), summary.bytes_acked);
        let most = |duration_ns: u64| RATE_BPS / 8.0 * duration_ns as f64 / 1e9 + BURST_BYTES;
        assert!(summary.bytes_acked as f64 <= most(summary.duration_ns), "{summary:?}");
        assert!(received.bytes as f64 <= most(received.duration_ns), "{received:?}");
        // CUBIC keeps the queue of this short path filled. Headers and the start account for the
        // difference.
        let floor = if wait_ack { 0.85 } else { 0.90 };
        assert!(
            summary.throughput_bps as f64 > floor * RATE_BPS,
            "{ip} {wait_ack} {connections}: {summary:?}"
        );
        let ends_differ = (summary.throughput_bps as f64 / received.throughput_bps as f64 - 1.0).abs();
        assert!(ends_differ < 0.02, "{summary:?} {received:?}");
        let closed = receiver_events.iter().filter(|event| matches!(event, ReceiveEvent::Closed(_)));
        assert_eq!(closed.count(), connections as usize);

        for buffer in &buffers {
            let span = buffer.acked_mono_ns - buffer.first_write_mono_ns;
            assert!(buffer.bytes as f64 <= most(span), "{buffer:?}");
            // Bytes that were queued or in flight at the first write may also be acknowledged
            // within the interval.
            let carried = buffer.carried_bps as f64 / 8.0 * span as f64 / 1e9;
            assert!(carried <= most(span) + QUEUE_BYTES, "{buffer:?}");
        }
        // For most buffers, the last packet waited in the token bucket's queue no longer than the
        // queue's length. If the last packet was lost, the retransmission left later, and a busy
        // machine may delay some.
        let mut queued_s: Vec<f64> = buffers
            .iter()
            .map(|buffer| (buffer.wire_mono_ns.unwrap() - buffer.sent_mono_ns.unwrap()) as f64 / 1e9)
            .collect();
        queued_s.sort_by(f64::total_cmp);
        let longest_s = (QUEUE_BYTES + BURST_BYTES) * 8.0 / RATE_BPS + 0.05;
        assert!(queued_s[queued_s.len() / 2] < longest_s, "{queued_s:?}");
        if connections == 1 && !wait_ack {
            let mut carried: Vec<u64> =
                buffers.iter().filter(|b| b.complete).map(|b| b.carried_bps).collect();
            carried.sort_unstable();
            let median = carried[carried.len() / 2] as f64;
            assert!((0.93..1.0).contains(&(median / RATE_BPS)), "{ip}: {carried:?}");
        }
    }
}

#[test]
fn retransmissions_match_the_kernels_count() {
    let Some(net) = Net::or_skip("retransmissions_match_the_kernels_count") else { return };
    net.shape(Side::A, RATE_MBIT, QUEUE_BYTES as u32).unwrap();
    let receiving = receiving(&net, ReceiveOptions { once: true, ..receive_options() });
    let mut options = to(net.v4(Side::B), receiving.address.port());
    options.congestion_control = Some("reno".to_owned());
    options.connections = 2;
    options.limits.bytes = Some(8_000_000);
    let retransmitted = || net.counter(Side::A, "RetransSegs");
    let ((result, events), (received, _)) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_through(&net, options));
        once_under_way(&receiving);
        let before = retransmitted();
        net.connect(Side::B, false).unwrap();
        assert!(eventually(|| retransmitted() > before), "an outage makes the sender retransmit");
        net.connect(Side::B, true).unwrap();
        (sending.join().unwrap(), receiving.join())
    });
    let summary = result.unwrap();
    assert_eq!((summary.bytes_acked, received.bytes), (8_000_000, 8_000_000));
    check_buffers(&buffers(&events));
    let counted = retransmitted();
    assert!(counted > 0);
    assert_eq!(summary.total_retrans, counted);
    assert!(summary.connections.iter().map(|c| c.bytes_retrans).sum::<u64>() > 0);
}

#[test]
fn iperf3_sees_the_same_throughput() {
    let Some(net) = Net::or_skip("iperf3_sees_the_same_throughput") else { return };
    if Command::new("iperf3").arg("--version").output().is_err() {
        return eprintln!("skipped: iperf3 is not installed");
    }
    net.shape(Side::A, RATE_MBIT, QUEUE_BYTES as u32).unwrap();
    // A busy machine may keep either program from the CPU for a while. That affects one comparison;
    // a wrong figure of ours would affect all of them.
    let near = |rates: [f64; 3]| {
        let [iperf3, sent, received] = rates;
        eprintln!("iperf3 {iperf3:.0} bit/s, send {sent:.0} bit/s, receive {received:.0} bit/s");
        (sent / iperf3 - 1.0).abs() < 0.01 && (received / iperf3 - 1.0).abs() < 0.01
    };
    assert!((0..4).any(|_| near(beside_iperf3(&net))), "never within 1 %");
}

/// Throughput over the same path as reported by iperf3, `send` and `receive`, bit/s.
fn beside_iperf3(net: &Net) -> [f64; 3] {
    let seconds = 8;
    let mut server =
        net.command(Side::B, "iperf3").args(["-s", "-1", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let client = format!("-c {} -t {seconds} -C cubic --json --connect-timeout 1000", net.v4(Side::B));
    let started = Instant::now();
    // With --json, an iperf3 client that finds no server exits with success and an error in its
    // report.
    let iperf3 = loop {
        let output = net.command(Side::A, "iperf3").args(client.split(' ')).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        if let Some(rate) = report["end"]["sum_received"]["bits_per_second"].as_f64() {
            break rate;
        }
        if started.elapsed() > Duration::from_secs(10) {
            server.kill().unwrap();
            panic!("the server of iperf3 does not answer: {report}");
        }
    };
    server.wait().unwrap();

    let receiving = receiving(net, ReceiveOptions { once: true, ..receive_options() });
    let mut options = to(net.v4(Side::B), receiving.address.port());
    options.congestion_control = Some("cubic".to_owned());
    options.limits.time = Some(Duration::from_secs(seconds));
    let (result, _) = send_through(net, options);
    let sent = result.unwrap().throughput_bps as f64;
    let received = receiving.join().0.throughput_bps as f64;
    [iperf3, sent, received]
}

#[test]
fn a_path_that_goes_silent_is_a_stall() {
    let Some(net) = Net::or_skip("a_path_that_goes_silent_is_a_stall") else { return };
    net.shape(Side::A, RATE_MBIT, QUEUE_BYTES as u32).unwrap();
    let receiving = receiving(&net, receive_options());
    let mut options = to(net.v4(Side::B), receiving.address.port());
    options.limits.time = Some(Duration::from_secs(60));
    options.stall_timeout = Duration::from_secs(2);
    let started = Instant::now();
    let error = send_until_cut(&net, options, &receiving).unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(error.kind(), FailureKind::Silent);
    let SendError::Stalled { window_closed, silent_for, summary, .. } = &error else { panic!("{error}") };
    assert!(!*window_closed && *silent_for >= Duration::from_secs(2), "{error}");
    assert!(summary.bytes_acked > 0 && summary.bytes_unacknowledged > 0);
    receiving.stop();
}

#[test]
fn a_time_limit_over_a_dead_path_ends_after_the_linger() {
    let Some(net) = Net::or_skip("a_time_limit_over_a_dead_path_ends_after_the_linger") else { return };
    net.shape(Side::A, RATE_MBIT, QUEUE_BYTES as u32).unwrap();
    let receiving = receiving(&net, receive_options());
    let mut options = to(net.v4(Side::B), receiving.address.port());
    options.limits.time = Some(Duration::from_millis(2500));
    options.linger = Duration::from_millis(500);
    let started = Instant::now();
    let summary = send_until_cut(&net, options, &receiving).unwrap();
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(8), "{took:?}");
    assert!(summary.bytes_unacknowledged > 0, "{summary:?}");
    // The duration ends with the last acknowledgement; it excludes the linger time.
    assert!(summary.duration_ns < 2_400_000_000, "{summary:?}");
    // The kernel sends nothing further, because the abandoned connection was reset.
    let left = net.command(Side::A, "ss").args(["-Htn", "state", "established"]).output().unwrap();
    assert!(left.status.success());
    assert_eq!(String::from_utf8_lossy(&left.stdout).trim(), "");
    receiving.stop();
}

#[test]
fn no_route_and_timeout_are_distinguished() {
    let Some(net) = Net::or_skip("no_route_and_timeout_are_distinguished") else { return };
    let error = send_through(&net, to("192.0.2.1".parse().unwrap(), 9)).0.unwrap_err();
    let SendError::Connect { attempts, .. } = &error else { panic!("{error}") };
    assert_eq!(attempts[0].1.raw_os_error(), Some(libc::ENETUNREACH));
    assert_eq!(error.kind(), FailureKind::Unreachable);
    assert!(error.to_string().contains("ip route get"), "{error}");
    let mut options = to("10.77.0.77".parse().unwrap(), 9);
    options.connect_timeout = Duration::from_millis(300);
    let started = Instant::now();
    let error = send_through(&net, options).0.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(3));
    assert!(error.to_string().contains("no answer within 0.3 s"), "{error}");
    assert_eq!(error.kind(), FailureKind::TimedOut);
}

#[test]
fn the_requested_source_address_and_interface_are_used() {
    let Some(net) = Net::or_skip("the_requested_source_address_and_interface_are_used") else { return };
    let added = net.command(Side::A, "ip").args("addr add 10.77.0.5/24 dev va".split(' ')).status().unwrap();
    assert!(added.success());
    let receiving = receiving(&net, receive_options());
    let mut options = to(net.v4(Side::B), receiving.address.port());
    options.limits.buffers = Some(1);
    options.bind = Some("10.77.0.5".parse().unwrap());
    options.interface = Some("va".to_owned());
    let summary = send_through(&net, options).0.unwrap();
    assert_eq!(summary.connections[0].local.ip().to_string(), "10.77.0.5");
    let peer = receiving.wait(|event| match event {
        ReceiveEvent::Accepted { peer, .. } => Some(*peer),
        _ => None,
    });
    assert_eq!(peer, summary.connections[0].local);
    receiving.stop();
}
