//! Tests of transfers in reverse: a receiver that may send is asked to, and older or other programs
//! are recognised.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use yuzuri_testnet::{Net, Side};
use yuzuri_transfer::{
    End, FailureKind, FetchEvent, FetchSummary, ReceiveEvent, ReceiveOptions, Received, SendError,
    SendOptions, fetch,
};

fn reverse_options() -> ReceiveOptions {
    ReceiveOptions { reverse: true, ..receive_options() }
}

fn at_v4(receiving: &TestReceiver) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, receiving.address.port()).into()
}

/// Fetches, and collects every event.
fn fetched(options: &SendOptions) -> (Result<FetchSummary, SendError>, Vec<FetchEvent>) {
    let mut events = Vec::new();
    let mut report = |event: &FetchEvent| {
        events.push(event.clone());
        Ok(())
    };
    let result = fetch(options, &mut report, &AtomicBool::new(false));
    (result, events)
}

fn closed(events: &[ReceiveEvent]) -> Vec<Received> {
    let closed = |event: &ReceiveEvent| match event {
        ReceiveEvent::Closed(received) => Some(received.clone()),
        _ => None,
    };
    events.iter().filter_map(closed).collect()
}

/// The path carries the rate in the direction from the receiver to the requester, and both ends
/// count the same bytes.
#[test]
fn a_path_is_measured_in_reverse() {
    let Some(net) = Net::or_skip("a_path_is_measured_in_reverse") else { return };
    const RATE_MBIT: u32 = 20;
    net.shape(Side::B, RATE_MBIT, 100_000).unwrap();
    for connections in [1, 3] {
        let receiving = receiving(&net, ReceiveOptions { once: true, ..reverse_options() });
        let mut options = options((net.v4(Side::B), receiving.address.port()).into());
        options.limits.bytes = Some(6_000_001);
        options.connections = connections;
        let (result, events) = net.inside(Side::A, || fetched(&options));
        let summary = result.unwrap();
        let (received, receiver_events) = receiving.join();
        assert_eq!(summary.bytes, 6_000_001);
        assert_eq!((received.sent_bytes, received.bytes), (6_000_001, 0));
        let closed = closed(&receiver_events);
        assert_eq!(closed.len(), connections as usize);
        assert!(closed.iter().all(|closed| closed.end == End::Sent), "{closed:?}");
        // 1448 of 1514 bytes are payload; a burst and a queue pass immediately, and the last bytes
        // wait for no timer.
        let rate_bps = f64::from(RATE_MBIT) * 1e6 * 1448.0 / 1514.0;
        let part = summary.throughput_bps as f64 / rate_bps;
        println!("{connections} connections: {:.3} of the rate", part);
        assert!((0.8..1.15).contains(&part), "{summary:?}");
        assert!(matches!(events.first(), Some(FetchEvent::ReverseConnected { .. })));
        assert!(matches!(events.last(), Some(FetchEvent::ReverseSummary(last)) if *last == summary));
    }
}

#[test]
fn the_bytes_are_the_buffers_and_the_limits_of_the_receiver_hold() {
    let receiving =
        TestReceiver::start(ReceiveOptions { max_bytes: Some(400_000), once: true, ..reverse_options() });
    let mut stream = TcpStream::connect(at_v4(&receiving)).unwrap();
    // Wherever the data is cut.
    for part in [&b"yuzuri-"[..], b"reverse 1 bytes=1000000", b"\n"] {
        stream.write_all(part).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let bytes = read_all(stream);
    let answer = b"yuzuri-reverse 1 sends\n";
    assert_eq!(&bytes[..answer.len()], answer);
    assert!(bytes[answer.len()..] == buffer_content(400_000));
    let (summary, events) = receiving.join();
    assert_eq!(summary.sent_bytes, 400_000);
    assert_eq!(closed(&events)[0].end, End::Sent);
}

#[test]
fn a_time_limit_ends_a_fetch_at_both_ends() {
    let receiving = TestReceiver::start(ReceiveOptions { once: true, ..reverse_options() });
    let mut options = options(at_v4(&receiving));
    options.limits.time = Some(Duration::from_millis(400));
    let summary = fetched(&options).0.unwrap();
    assert!(summary.bytes > 0 && !summary.stopped);
    let (received, events) = receiving.join();
    assert_eq!(received.sent_bytes, summary.bytes);
    assert_eq!(closed(&events)[0].end, End::Sent);
}

#[test]
fn a_receiver_that_may_not_send_says_so() {
    let receiving = TestReceiver::start(receive_options());
    let (result, events) = fetched(&options(at_v4(&receiving)));
    let error = result.unwrap_err();
    assert_eq!(error.kind(), FailureKind::NotReversed);
    assert!(error.to_string().contains("yuzuri receive --reverse"), "{error}");
    assert!(matches!(events.last(), Some(FetchEvent::Failed { kind: FailureKind::NotReversed, .. })));
    let (summary, events) = receiving.stop();
    assert_eq!((summary.bytes, summary.sent_bytes), (0, 0));
    assert_eq!(closed(&events)[0].end, End::NotReversed);
}

#[test]
fn a_request_of_another_version_is_answered() {
    let receiving = TestReceiver::start(reverse_options());
    let mut stream = TcpStream::connect(at_v4(&receiving)).unwrap();
    stream.write_all(b"yuzuri-reverse 2 colour=red\n").unwrap();
    let text = String::from_utf8(read_all(stream)).unwrap();
    assert!(text.contains("versions differ"), "{text}");
    receiving.stop();
}

/// A receiver from before this request reads it as data, and closes once the other end has closed
/// its direction.
#[test]
fn an_older_receiver_and_other_programs_are_distinguished() {
    let older = TestServer::new("127.0.0.1", 1, read_all);
    let error = fetched(&options(older.address)).0.unwrap_err();
    assert_eq!(error.kind(), FailureKind::NotReversed);
    assert!(error.to_string().contains("an older `yuzuri receive`"), "{error}");
    assert!(older.join()[0].starts_with(b"yuzuri-reverse 1 ms=10000\n"));
    let web = TestServer::new("127.0.0.1", 1, |mut stream: TcpStream| {
        let mut request = Vec::new();
        stream.read_to_end(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let error = fetched(&options(web.address)).0.unwrap_err();
    assert_eq!(error.kind(), FailureKind::WebServer, "{error}");
    web.join();
}

#[test]
fn stopping_ends_a_fetch_and_the_receiver_continues() {
    let receiving = TestReceiver::start(reverse_options());
    let mut options = options(at_v4(&receiving));
    options.limits.time = Some(Duration::ZERO);
    options.progress_interval = Duration::from_millis(1);
    let stop = AtomicBool::new(false);
    let mut report = |event: &FetchEvent| {
        if matches!(event, FetchEvent::ReverseProgress { bytes: 1.., .. }) {
            stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    };
    let summary = fetch(&options, &mut report, &stop).unwrap();
    assert!(summary.stopped && summary.bytes > 0);
    // It still receives.
    let sent = run(&{
        let mut options = common::options(at_v4(&receiving));
        options.limits.bytes = Some(10_000);
        options
    });
    assert_eq!(sent.0.unwrap().bytes_acked, 10_000);
    receiving.stop();
}
