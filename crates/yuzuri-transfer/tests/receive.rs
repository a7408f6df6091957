//! Tests of the receiver: what it accepts and what it refuses.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use yuzuri_transfer::{End, Listener, ReceiveError, ReceiveEvent, ReceiveOptions, Received, SendError};

fn at_v4(receiving: &TestReceiver) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, receiving.address.port()).into()
}

fn closed(event: &ReceiveEvent) -> Option<Received> {
    match event {
        ReceiveEvent::Closed(received) => Some(received.clone()),
        _ => None,
    }
}

#[test]
fn both_address_families_are_served_and_ipv4_is_shown_as_ipv4() {
    let receiving = TestReceiver::start(receive_options());
    let port = receiving.address.port();
    for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let mut stream = TcpStream::connect((ip, port)).unwrap();
        stream.write_all(&[1; 12_345]).unwrap();
        drop(stream);
        let received = receiving.wait(closed);
        assert_eq!((received.peer.ip(), received.bytes, received.end), (ip, 12_345, End::Closed));
    }
    let (summary, _) = receiving.stop();
    assert_eq!((summary.bytes, summary.accepted, summary.refused), (24_690, 2, 0));
}

#[test]
fn a_busy_port_is_reported_with_advice() {
    let first = Listener::bind(receive_options()).unwrap();
    let options = ReceiveOptions { port: first.address().port(), ..Default::default() };
    let error = Listener::bind(options).unwrap_err();
    assert!(matches!(error, ReceiveError::Busy { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("ss -ltnp 'sport = :{}'", first.address().port())), "{text}");
}

#[test]
fn a_foreign_source_address_is_reported() {
    let options = ReceiveOptions { bind: Some("192.0.2.9".parse().unwrap()), ..receive_options() };
    let error = Listener::bind(options).unwrap_err();
    assert!(matches!(error, ReceiveError::Listen { .. }) && error.to_string().contains("ip addr"), "{error}");
}

#[test]
fn invalid_options_are_refused() {
    for options in [
        ReceiveOptions { max_connections: 0, ..receive_options() },
        ReceiveOptions { max_per_peer: 0, ..receive_options() },
        ReceiveOptions { max_bytes: Some(0), ..receive_options() },
        ReceiveOptions { max_total_bytes: Some(0), ..receive_options() },
        ReceiveOptions { idle_timeout: Duration::ZERO, ..receive_options() },
        ReceiveOptions { max_time: Some(Duration::ZERO), ..receive_options() },
    ] {
        assert!(matches!(Listener::bind(options), Err(ReceiveError::Option(_))));
    }
}

#[test]
fn a_connection_beyond_the_limit_is_refused_with_a_reason_until_one_closes() {
    for (options, word) in [
        (ReceiveOptions { max_connections: 2, ..receive_options() }, "full"),
        (ReceiveOptions { max_per_peer: 2, ..receive_options() }, "too many connections from your address"),
    ] {
        let receiving = TestReceiver::start(options);
        let address = at_v4(&receiving);
        let first = TcpStream::connect(address).unwrap();
        let _second = TcpStream::connect(address).unwrap();
        let mut third = TcpStream::connect(address).unwrap();
        let mut text = String::new();
        third.read_to_string(&mut text).unwrap();
        assert!(text.contains(word), "{text}");
        let reason = receiving.wait(|event| match event {
            ReceiveEvent::Refused { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        assert_eq!(reason, text.trim_end());
        drop(first);
        receiving.wait(closed);
        let mut fourth = TcpStream::connect(address).unwrap();
        fourth.write_all(b"now").unwrap();
        receiving.wait(|event| matches!(event, ReceiveEvent::Accepted { .. }).then_some(()));
        let (summary, _) = receiving.stop();
        assert_eq!((summary.accepted, summary.refused), (3, 1));
    }
}

#[test]
fn the_sender_reports_why_it_was_refused() {
    let receiving = TestReceiver::start(ReceiveOptions { max_connections: 1, ..receive_options() });
    let _first = TcpStream::connect(at_v4(&receiving)).unwrap();
    receiving.wait(|event| matches!(event, ReceiveEvent::Accepted { .. }).then_some(()));
    let error = run(&options(at_v4(&receiving))).0.unwrap_err();
    let SendError::Closed { peer_text, .. } = &error else { panic!("{error}") };
    assert!(peer_text.as_ref().unwrap().contains("full (1 connections)"), "{error}");
    receiving.stop();
}

#[test]
fn idle_connections_are_closed_and_busy_ones_stay() {
    let idle = Duration::from_millis(400);
    let receiving = TestReceiver::start(ReceiveOptions { idle_timeout: idle, ..receive_options() });
    let mut silent = TcpStream::connect(at_v4(&receiving)).unwrap();
    let mut busy = TcpStream::connect(at_v4(&receiving)).unwrap();
    let silent_peer = silent.local_addr().unwrap();
    let started = Instant::now();
    let received = loop {
        busy.write_all(&[0; 100]).unwrap();
        if let Ok(event) = receiving.events.recv_timeout(Duration::from_millis(50))
            && let Some(received) = closed(&event)
        {
            break received;
        }
        assert!(started.elapsed() < Duration::from_secs(10));
    };
    assert_eq!((received.peer, received.bytes, received.end), (silent_peer, 0, End::Idle));
    assert!(started.elapsed() >= idle);
    let mut text = String::new();
    silent.read_to_string(&mut text).unwrap();
    assert!(text.contains("idle for too long"), "{text}");
    receiving.stop();
}

#[test]
fn the_byte_limit_per_connection_holds() {
    let receiving = TestReceiver::start(ReceiveOptions { max_bytes: Some(3_000_000), ..receive_options() });
    let mut options = options(at_v4(&receiving));
    options.limits.bytes = Some(1 << 40);
    let error = run(&options).0.unwrap_err();
    assert!(matches!(&error, SendError::Closed { .. }), "{error}");
    assert!(error.to_string().contains("limit"), "{error}");
    let received = receiving.wait(closed);
    assert_eq!((received.bytes, received.end), (3_000_000, End::Limit));
    receiving.stop();
}

#[test]
fn the_time_limit_per_connection_holds() {
    let most = Duration::from_millis(300);
    let receiving = TestReceiver::start(ReceiveOptions { max_time: Some(most), ..receive_options() });
    let mut options = options(at_v4(&receiving));
    options.limits.time = Some(Duration::ZERO);
    let started = Instant::now();
    let error = run(&options).0.unwrap_err();
    assert!(matches!(&error, SendError::Closed { .. }), "{error}");
    assert!(started.elapsed() >= most);
    assert_eq!(receiving.wait(closed).end, End::TimeLimit);
    receiving.stop();
}

#[test]
fn the_receiver_ends_at_the_total_byte_limit() {
    let most = 5_000_000;
    let receiving = TestReceiver::start(ReceiveOptions { max_total_bytes: Some(most), ..receive_options() });
    let address = at_v4(&receiving);
    let mut idle = TcpStream::connect(address).unwrap();
    let mut options = options(address);
    options.limits.bytes = Some(1 << 40);
    options.connections = 2;
    let error = run(&options).0.unwrap_err().to_string();
    assert!(error.contains("the total byte limit is reached"), "{error}");
    // The receiver ends by itself and accepts no byte beyond the limit.
    let (summary, events) = receiving.join();
    assert_eq!(summary.bytes, most);
    let ends: Vec<Received> = events.iter().filter_map(closed).collect();
    assert_eq!(ends.len(), 3);
    assert!(ends.iter().all(|received| received.end == End::TotalLimit), "{ends:?}");
    assert_eq!(ends.iter().map(|received| received.bytes).sum::<u64>(), most);
    assert!(summary.limit_reached);
    let mut peer_text = String::new();
    idle.read_to_string(&mut peer_text).unwrap();
    assert!(peer_text.contains("the total byte limit is reached"), "{peer_text}");
}

#[test]
fn received_bytes_are_limited_by_default() {
    let options = ReceiveOptions::default();
    assert_eq!(options.max_bytes, Some(100_000_000_000));
    assert_eq!(options.max_total_bytes, Some(1_000_000_000_000));
}

#[test]
fn once_ends_after_the_first_senders_but_not_after_an_empty_connection() {
    let receiving = TestReceiver::start(ReceiveOptions { once: true, ..receive_options() });
    // A port scan: a connection that opens and closes without data.
    drop(TcpStream::connect(at_v4(&receiving)).unwrap());
    assert_eq!(receiving.wait(closed).bytes, 0);
    let mut options = options(at_v4(&receiving));
    options.connections = 3;
    options.limits.buffers = Some(9);
    run(&options).0.unwrap();
    let (summary, events) = receiving.join();
    assert_eq!((summary.bytes, summary.accepted), (9_000_000, 4));
    assert!(matches!(events.last(), Some(ReceiveEvent::Summary(_))));
}

#[test]
fn a_reset_by_one_sender_does_not_affect_the_others() {
    let receiving = TestReceiver::start(receive_options());
    let stream = TcpStream::connect(at_v4(&receiving)).unwrap();
    let socket = socket2::Socket::from(stream);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    receiving.wait(|event| matches!(event, ReceiveEvent::Accepted { .. }).then_some(()));
    drop(socket);
    assert_eq!(receiving.wait(closed).end, End::Failed);
    let mut options = options(at_v4(&receiving));
    options.limits.buffers = Some(3);
    run(&options).0.unwrap();
    assert_eq!(receiving.wait(closed).bytes, 3_000_000);
    receiving.stop();
}

#[test]
fn stopping_reports_open_connections() {
    let receiving = TestReceiver::start(receive_options());
    let mut stream = TcpStream::connect(at_v4(&receiving)).unwrap();
    stream.write_all(&[0; 1000]).unwrap();
    let peer = stream.local_addr().unwrap();
    let bytes = |event: &ReceiveEvent| match event {
        ReceiveEvent::Progress { bytes, .. } => Some(*bytes),
        _ => None,
    };
    assert_eq!(receiving.wait(bytes), 1000);
    let (summary, events) = receiving.stop();
    let last = events.iter().filter_map(closed).next_back().unwrap();
    assert_eq!((last.peer, last.bytes, last.end), (peer, 1000, End::Stopped));
    assert_eq!(summary.bytes, 1000);
}

#[test]
fn memory_does_not_grow_with_the_bytes_sent() {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let receiving = TestReceiver::start(receive_options());
    let mut options = options(at_v4(&receiving));
    options.limits.buffers = Some(100);
    run(&options).0.unwrap();
    let before = resident();
    options.limits.buffers = Some(2000);
    options.connections = 4;
    let summary = yuzuri_transfer::send(
        &options,
        &mut |_: &yuzuri_transfer::SendEvent| Ok(()),
        &std::sync::atomic::AtomicBool::new(false),
    );
    assert_eq!(summary.unwrap().bytes_acked, 2_000_000_000);
    // Two ends, five threads and parallel tests, far below one per cent of the data sent.
    let grown = resident().saturating_sub(before);
    assert!(grown < 20_000_000, "{grown} bytes more");
    receiving.stop();
}
