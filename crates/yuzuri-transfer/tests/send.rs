//! Tests of the sender over loopback, against foreign sinks and against Yuzuri's receiver.

#![expect(unsafe_code, reason = "system calls of the test")]
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_transfer::{
    Buffer, BufferSource, FailureKind, Family, ReceiveEvent, ReceiveOptions, SendError, SendEvent,
    SendOptions, Shown, payload, send,
};

#[test]
fn bytes_arrive_exactly_over_both_families() {
    for ip in ["127.0.0.1", "::1"] {
        for (wait_ack, stamps) in [(false, true), (true, true), (false, false)] {
            let sink = TestServer::new(ip, 1, read_all);
            let mut options = options(sink.address);
            options.buffer_bytes = 777_777;
            options.limits.bytes = Some(5 * 777_777 + 123);
            (options.wait_ack, options.stamps) = (wait_ack, stamps);
            let (result, events) = run(&options);
            let summary = result.unwrap();
            let received = sink.join().remove(0);
            let mut expected = buffer_content(777_777).repeat(5);
            expected.extend(buffer_content(123));
            assert!(received == expected, "{ip} {wait_ack} {stamps}: {} bytes", received.len());
            assert_eq!((summary.bytes_acked, summary.bytes_unacknowledged), (expected.len() as u64, 0));
            let buffers = buffers(&events);
            let sizes: Vec<u64> = buffers.iter().map(|buffer| buffer.bytes).collect();
            assert_eq!(sizes, [777_777, 777_777, 777_777, 777_777, 777_777, 123]);
            assert!(buffers.iter().all(|buffer| buffer.complete));
            check_buffers(&buffers);
            let source = if stamps { BufferSource::Timestamps } else { BufferSource::TcpInfo };
            assert!(buffers.iter().all(|buffer| buffer.source == source), "{buffers:#?}");
        }
    }
}

#[test]
fn all_connections_share_the_buffer_count() {
    let receiving = TestReceiver::start(ReceiveOptions { once: true, ..receive_options() });
    let mut options = options((Ipv4Addr::LOCALHOST, receiving.address.port()).into());
    options.connections = 7;
    options.limits.buffers = Some(100);
    let (result, events) = run(&options);
    let summary = result.unwrap();
    let buffers = buffers(&events);
    check_buffers(&buffers);
    assert_eq!((buffers.len(), summary.buffers, summary.bytes_acked), (100, 100, 100_000_000));
    assert_eq!(summary.connections.len(), 7);
    assert_eq!(summary.connections.iter().map(|c| c.bytes_acked).sum::<u64>(), 100_000_000);
    for connection in &summary.connections {
        let own = buffers.iter().filter(|buffer| buffer.connection == connection.connection);
        assert_eq!(own.map(|buffer| buffer.bytes).sum::<u64>(), connection.bytes_acked);
    }
    let (received, receiver_events) = receiving.join();
    assert_eq!((received.bytes, received.accepted), (100_000_000, 7));
    // Both ends report the same connections.
    let accepted = receiver_events.iter().filter_map(|event| match event {
        ReceiveEvent::Accepted { peer, .. } => Some(*peer),
        _ => None,
    });
    let mut accepted_from: Vec<SocketAddr> = accepted.collect();
    let mut local: Vec<SocketAddr> = summary.connections.iter().map(|c| c.local).collect();
    accepted_from.sort();
    local.sort();
    assert_eq!(accepted_from, local);
}

#[test]
fn a_time_ends_the_transfer_and_cuts_the_last_buffer() {
    let sink = TestServer::new("127.0.0.1", 1, read_all);
    let mut options = options(sink.address);
    // Even at memory speed, no buffer of this size completes within the time limit.
    options.buffer_bytes = SendOptions::MAX_BUFFER_BYTES;
    options.limits.time = Some(Duration::from_millis(60));
    let started = Instant::now();
    let (result, events) = run(&options);
    let took = started.elapsed();
    let summary = result.unwrap();
    assert!(took >= Duration::from_millis(60) && took < Duration::from_secs(3), "{took:?}");
    let received = sink.join().remove(0);
    assert_eq!(received.len() as u64, summary.bytes_acked);
    assert!(received.chunks(payload().len()).all(|piece| piece == &payload()[..piece.len()]));
    let buffers = buffers(&events);
    check_buffers(&buffers);
    let last = buffers.last().unwrap();
    assert_eq!((last.complete, last.source), (false, BufferSource::Timestamps));
    assert_eq!(buffers.iter().map(|buffer| buffer.bytes).sum::<u64>(), summary.bytes_acked);
    assert!(!summary.stopped);
}

#[test]
fn with_wait_ack_one_buffer_follows_the_other() {
    let sink = TestServer::new("127.0.0.1", 1, read_all);
    let mut options = options(sink.address);
    options.wait_ack = true;
    options.limits.buffers = Some(20);
    let (result, events) = run(&options);
    result.unwrap();
    let buffers = buffers(&events);
    check_buffers(&buffers);
    assert_eq!(buffers.len(), 20);
    for pair in buffers.windows(2) {
        assert!(pair[1].first_write_mono_ns >= pair[0].acked_mono_ns);
    }
    assert!(buffers.iter().all(|buffer| buffer.carried_bps == buffer.throughput_bps));
}

#[test]
fn small_buffers_are_distinguished() {
    // Without `MSG_EOR` the kernel would combine many buffers into one packet. Their timestamps
    // exceed the capacity of the error queue.
    for wait_ack in [false, true] {
        let sink = TestServer::new("127.0.0.1", 1, read_all);
        let mut options = options(sink.address);
        options.buffer_bytes = 10;
        options.wait_ack = wait_ack;
        options.limits.buffers = Some(3000);
        let (result, events) = run(&options);
        let summary = result.unwrap();
        assert_eq!(sink.join().remove(0).len(), 30_000);
        let buffers = buffers(&events);
        assert_eq!(
            buffers.iter().map(|buffer| buffer.index).collect::<Vec<_>>(),
            (0..3000).collect::<Vec<_>>()
        );
        let stamped = |buffer: &&Buffer| buffer.source == BufferSource::Timestamps;
        let by_stamps = buffers.iter().filter(stamped).count();
        assert_eq!(by_stamps as u64 + summary.connections[0].buffers_by_tcp_info, 3000);
        assert_eq!(buffers.iter().take_while(stamped).count().min(64), 64);
        assert!(!wait_ack || by_stamps == 3000, "{by_stamps}");
        if by_stamps == 3000 {
            check_buffers(&buffers);
        }
    }
}

#[test]
fn all_addresses_of_a_name_are_tried() {
    let addresses: Vec<SocketAddr> =
        std::net::ToSocketAddrs::to_socket_addrs(&("localhost", 1)).unwrap().collect();
    let sink = TestServer::new("127.0.0.1", 1, read_all);
    let mut options = SendOptions::new(format!("localhost:{}", sink.address.port()).parse().unwrap());
    options.limits.buffers = Some(1);
    if !addresses.iter().any(SocketAddr::is_ipv6) {
        eprintln!("note: localhost has no IPv6 address here, so that no fallback is tried");
    }
    run(&options).0.unwrap();
    sink.join();
    options.family = Family::V6;
    let error = run(&options).0.unwrap_err();
    assert!(matches!(error, SendError::Connect { .. } | SendError::Resolve { .. }), "{error}");
}

#[test]
fn the_requested_congestion_control_is_used() {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap();
    let usable = if nix::unistd::geteuid().is_root() { &available } else { &allowed };
    for name in usable.split_whitespace() {
        let sink = TestServer::new("127.0.0.1", 1, read_all);
        let mut options = options(sink.address);
        options.congestion_control = Some(name.to_owned());
        options.limits.buffers = Some(2);
        let (result, events) = run(&options);
        let summary = result.unwrap();
        assert_eq!(summary.connections[0].congestion_control, name);
        let SendEvent::Connected(connected) = &events[0] else { panic!("{events:?}") };
        assert_eq!(connected.congestion_control, name);
        sink.join();
    }
}

/// `SO_MAX_PACING_RATE`, bytes per second; all bits are set if pacing was not requested.
fn max_pacing_rate(socket: impl std::os::fd::AsFd) -> u64 {
    use std::os::fd::AsRawFd;
    let (mut rate, mut length) = (0_u64, size_of::<u64>() as libc::socklen_t);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes into `rate`, which lives through the call.
    let done = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw mut rate).cast(),
            &raw mut length,
        )
    };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
    rate
}

#[test]
fn segments_are_paced_on_request() {
    for (paced, rate) in [(false, u64::MAX), (true, u64::from(u32::MAX - 1))] {
        let sink = TestServer::new("127.0.0.1", 1, read_all);
        let mut options = options(sink.address);
        options.paced = paced;
        options.limits.buffers = Some(2);
        let (sender, rates) = std::sync::mpsc::channel();
        options.shown = Some(Shown::new(move |connection| {
            sender.send(max_pacing_rate(&*connection.socket.upgrade().unwrap())).unwrap();
        }));
        run(&options).0.unwrap();
        assert_eq!(rates.recv().unwrap(), rate);
        sink.join();
    }
}

#[test]
fn an_unknown_congestion_control_is_refused_with_a_list() {
    let mut options = options("127.0.0.1:9".parse().unwrap());
    options.congestion_control = Some("nosuch".to_owned());
    let (result, events) = run(&options);
    let error = result.unwrap_err();
    assert!(matches!(error, SendError::CongestionControl { .. }));
    assert_eq!(error.kind(), FailureKind::ControlUnknown);
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let text = error.to_string();
    assert!(text.contains("`nosuch`") && text.contains(available.trim()), "{text}");
    assert!(!text.contains('\n'));
    assert_eq!(events, [SendEvent::Failed { kind: FailureKind::ControlUnknown, message: text }]);
}

#[test]
fn a_congestion_control_that_is_not_allowed_is_reported() {
    let read = |what: &str| {
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{what}_congestion_control")).unwrap()
    };
    let (available, allowed) = (read("available"), read("allowed"));
    let allowed: Vec<&str> = allowed.split_whitespace().collect();
    let Some(name) = available.split_whitespace().find(|name| !allowed.contains(name)) else {
        return eprintln!("skipped: every congestion control is allowed to all here");
    };
    let mut options = options("127.0.0.1:9".parse().unwrap());
    options.congestion_control = Some(name.to_owned());
    let result = std::thread::spawn(move || {
        // SAFETY: unlike the C library's function, the raw system call changes the ids of this
        // thread only.
        unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        run(&options).0
    });
    let error = result.join().unwrap().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, SendError::CongestionControl { .. }), "{text}");
    assert_eq!(error.kind(), FailureKind::ControlRefused);
    assert!(text.contains("only root") && text.contains(allowed[0]), "{text}");
}

#[test]
fn a_refused_connection_is_reported_with_advice() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = run(&options(port)).0.unwrap_err();
    let SendError::Connect { attempts, .. } = &error else { panic!("{error}") };
    assert_eq!(attempts[0].1.kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(error.kind(), FailureKind::Refused);
    assert!(error.to_string().contains("yuzuri receive"), "{error}");
}

#[test]
fn a_name_without_an_address_is_reported() {
    let error = run(&SendOptions::new("nosuch.invalid".parse().unwrap())).0.unwrap_err();
    assert!(matches!(error, SendError::Resolve { .. }), "{error}");
    assert_eq!(error.kind(), FailureKind::UnknownHost);
    assert!(error.to_string().contains("nosuch.invalid"), "{error}");
}

#[test]
fn a_missing_address_or_interface_is_reported() {
    let mut options = options("127.0.0.1:9".parse().unwrap());
    options.bind = Some("192.0.2.77".parse().unwrap());
    let error = run(&options).0.unwrap_err();
    assert!(matches!(error, SendError::Socket { .. }) && error.to_string().contains("ip addr"), "{error}");
    assert_eq!(error.kind(), FailureKind::UnknownAddress);
    options.bind = None;
    options.interface = Some("nosuch0".to_owned());
    let error = run(&options).0.unwrap_err();
    assert!(matches!(error, SendError::Socket { .. }) && error.to_string().contains("nosuch0"), "{error}");
    assert_eq!(error.kind(), FailureKind::UnknownInterface);
}

#[test]
fn a_peer_that_never_reads_is_a_stall_with_a_closed_window() {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let wait = parking_lot::Mutex::new(wait);
    let sink = TestServer::new("127.0.0.1", 1, move |stream| {
        let _ = wait.lock().recv();
        drop(stream);
    });
    let mut options = options(sink.address);
    options.buffer_bytes = 100_000_000;
    options.stall_timeout = Duration::from_millis(700);
    let started = Instant::now();
    let (result, events) = run(&options);
    let error = result.unwrap_err();
    let took = started.elapsed();
    assert_eq!(error.kind(), FailureKind::NotReading);
    let SendError::Stalled { window_closed, acked_bytes, summary, .. } = &error else { panic!("{error}") };
    assert!(*window_closed, "{error}");
    assert!(took >= Duration::from_millis(700) && took < Duration::from_secs(8), "{took:?}");
    assert_eq!(summary.bytes_acked, *acked_bytes);
    assert!(summary.bytes_unacknowledged > 0);
    // The summary was reported before the failure.
    let [.., SendEvent::Summary(reported), SendEvent::Failed { message, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((reported, message), (&**summary, &error.to_string()));
    drop(done);
    sink.join();
}

#[test]
fn a_reset_is_reported_with_the_peers_message() {
    let sink = TestServer::new("127.0.0.1", 1, |mut stream| {
        let mut some = vec![0; 300_000];
        stream.read_exact(&mut some).unwrap();
        stream.write_all(b"no more, thank you\n").unwrap();
        // Dropping the socket with unread data sends a reset.
    });
    let mut options = options(sink.address);
    options.limits.bytes = Some(1 << 40);
    let error = run(&options).0.unwrap_err();
    assert_eq!(error.kind(), FailureKind::ClosedByPeer);
    let SendError::Closed { peer_text, summary, .. } = &error else { panic!("{error}") };
    assert_eq!(peer_text.as_deref(), Some("no more, thank you"));
    assert!(summary.bytes_acked >= 300_000);
    assert!(!error.to_string().contains('\n'));
    sink.join();
}

/// The kernel reports this as a broken pipe, which programs take for the end of their own output's
/// reader.
#[test]
fn a_reset_after_a_half_close_is_reported_as_a_reset() {
    let sink = TestServer::new("127.0.0.1", 1, |mut stream| {
        stream.read_exact(&mut [0; 1000]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // Dropping the socket with unread data sends a reset.
    });
    let mut options = options(sink.address);
    options.limits.bytes = Some(1 << 40);
    let error = run(&options).0.unwrap_err();
    let SendError::Closed { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    sink.join();
}

/// The sink behaves like a captive portal.
#[test]
fn a_web_server_is_distinguished_from_a_receiver_that_closes() {
    let sink = TestServer::new("127.0.0.1", 1, |mut stream| {
        stream.read_exact(&mut [0; 1000]).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let mut options = options(sink.address);
    options.limits.bytes = Some(1 << 40);
    let error = run(&options).0.unwrap_err();
    assert_eq!(error.kind(), FailureKind::WebServer, "{error}");
    assert!(error.to_string().contains("sign in with a browser"), "{error}");
    sink.join();
}

#[test]
fn one_failed_connection_ends_the_others() {
    let first = AtomicBool::new(true);
    let sink = TestServer::new("127.0.0.1", 3, move |mut stream| {
        let resets = first.swap(false, Ordering::Relaxed);
        let mut buffer = vec![0; 1 << 16];
        let mut total = 0;
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            total += count;
            if resets && total > 5_000_000 {
                return None;
            }
        }
        Some(total as u64)
    });
    let mut options = options(sink.address);
    options.connections = 3;
    options.limits.time = Some(Duration::ZERO);
    let error = run(&options).0.unwrap_err();
    let SendError::Closed { connection, summary, .. } = &error else { panic!("{error}") };
    // The other connections ended in order, and everything they sent arrived.
    let mut arrived: Vec<u64> = sink.join().into_iter().flatten().collect();
    let others = summary.connections.iter().filter(|other| other.connection != *connection);
    let mut acked: Vec<u64> = others.map(|other| other.bytes_acked).collect();
    arrived.sort();
    acked.sort();
    assert_eq!(arrived, acked);
}

#[test]
fn the_stop_flag_ends_a_transfer_with_a_summary() {
    let sink = TestServer::new("127.0.0.1", 2, read_all);
    let mut options = options(sink.address);
    options.connections = 2;
    options.buffer_bytes = 50_000;
    options.limits.time = Some(Duration::ZERO);
    let stop = AtomicBool::new(false);
    let mut bytes = 0;
    let mut report = |event: &SendEvent| {
        if let SendEvent::Buffer(buffer) = event {
            bytes += buffer.bytes;
            stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    };
    let summary = send(&options, &mut report, &stop).unwrap();
    assert!(summary.stopped);
    assert_eq!((summary.bytes_acked, summary.bytes_unacknowledged), (bytes, 0));
    assert_eq!(sink.join().iter().map(Vec::len).sum::<usize>() as u64, bytes);
}

#[test]
fn a_stop_while_connecting_is_reported() {
    let error =
        send(&options("127.0.0.1:9".parse().unwrap()), &mut |_: &SendEvent| Ok(()), &AtomicBool::new(true));
    // Loopback may refuse the connection before the flag is checked.
    let error = error.unwrap_err();
    assert!(matches!(error, SendError::Stopped | SendError::Connect { .. }), "{error}");
}

#[test]
fn a_report_that_cannot_be_written_ends_the_transfer() {
    let sink = TestServer::new("127.0.0.1", 1, read_all);
    let mut options = options(sink.address);
    options.limits.time = Some(Duration::ZERO);
    let mut report = |event: &SendEvent| match event {
        SendEvent::Buffer(_) => Err(io::ErrorKind::BrokenPipe.into()),
        _ => Ok(()),
    };
    let error = send(&options, &mut report, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, SendError::Report(_)), "{error}");
    sink.join();
}

#[test]
fn a_peer_that_closes_its_own_direction_still_gets_everything() {
    // `nc -l </dev/null` behaves like this.
    let sink = TestServer::new("127.0.0.1", 1, |stream| {
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        read_all(stream).len()
    });
    let mut options = options(sink.address);
    options.limits.buffers = Some(30);
    let (result, events) = run(&options);
    result.unwrap();
    check_buffers(&buffers(&events));
    assert_eq!(sink.join(), [30_000_000]);
}

#[test]
fn input_from_the_peer_does_not_stall_the_transfer() {
    let sink = TestServer::new("127.0.0.1", 1, |stream| {
        let mut writer = stream.try_clone().unwrap();
        let write_thread = std::thread::spawn(move || {
            let noise = vec![7u8; 1 << 16];
            for _ in 0..100 {
                if writer.write_all(&noise).is_err() {
                    break;
                }
            }
        });
        let bytes = read_all(stream).len();
        write_thread.join().unwrap();
        bytes
    });
    let mut options = options(sink.address);
    options.limits.buffers = Some(100);
    run(&options).0.unwrap();
    assert_eq!(sink.join(), [100_000_000]);
}

#[test]
fn a_slow_reader_is_reported_as_receive_window_limited() {
    let sink = TestServer::new("127.0.0.1", 1, |mut stream| {
        let mut buffer = vec![0; 1 << 16];
        let mut total = 0;
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            total += count;
            // The sleep sets the reader's pace, which is the subject of the test; it does not wait
            // for anything.
            std::thread::sleep(Duration::from_millis(3));
        }
        total
    });
    let mut options = options(sink.address);
    options.limits.bytes = Some(15_000_000);
    let (result, events) = run(&options);
    let summary = result.unwrap();
    assert_eq!(sink.join(), [15_000_000]);
    check_buffers(&buffers(&events));
    assert!(summary.connections[0].rwnd_limited_us > 0, "{summary:?}");
}

#[test]
fn progress_counts_acknowledged_bytes_and_the_remaining_time() {
    let sink = TestServer::new("127.0.0.1", 1, |mut stream| {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(1..) = stream.read(&mut buffer) {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let mut options = options(sink.address);
    options.limits.bytes = Some(20_000_000);
    options.progress_interval = Duration::from_millis(50);
    let (result, events) = run(&options);
    result.unwrap();
    sink.join();
    let progress = events.iter().filter_map(|event| match event {
        SendEvent::Progress(progress) => Some(progress),
        _ => None,
    });
    let progress: Vec<_> = progress.collect();
    assert!(progress.len() >= 5, "{progress:?}");
    for pair in progress.windows(2) {
        assert!(pair[0].bytes_acked <= pair[1].bytes_acked && pair[0].elapsed_ns < pair[1].elapsed_ns);
    }
    for one in progress.iter().filter(|one| one.bytes_acked > 0) {
        assert_eq!(one.total_bytes, Some(20_000_000));
        let mean = one.bytes_acked as f64 / one.elapsed_ns as f64;
        let expected = (20_000_000 - one.bytes_acked) as f64 / mean;
        let left = one.left_ns.unwrap() as f64;
        assert!((left - expected).abs() <= expected * 0.01 + 1e6, "{one:?}");
    }
}
