//! The control socket with clients that are slow, malformed or many. Needs no privilege.
#![allow(clippy::unwrap_used)]

mod slow;

use slow::{SlowClients, raise_open_files};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use yuzuri_policy::PolicyName;
use yuzuri_share::{
    Answer, ControlSocket, ControlSocketOptions, LoopCommand, Question, StatusCell, TextCell, ask,
};
use yuzuri_testnet::eventually;

const CLIENTS: usize = 1000;
/// The total time in which a client must send its request and read the answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Tolerance for deadlines on a machine that is busy with other tests.
const BUSY: Duration = Duration::from_secs(3);

struct Open {
    control_socket: ControlSocket,
    socket: PathBuf,
    metrics: SocketAddr,
    orders: Receiver<LoopCommand>,
    _folder: tempfile::TempDir,
}

fn open() -> Open {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("share.sock");
    let (order, orders) = channel();
    let options =
        ControlSocketOptions { socket: socket.clone(), metrics: Some(SocketAddr::from(([127, 0, 0, 1], 0))) };
    let control_socket = ControlSocket::open(&options, StatusCell::default(), order).unwrap();
    let metrics = control_socket.metrics().unwrap();
    Open { control_socket, socket, metrics, orders, _folder: folder }
}

fn http(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Measures the duration of each of several calls.
fn times(mut call: impl FnMut()) -> Vec<Duration> {
    let once = |()| {
        let began = Instant::now();
        call();
        began.elapsed()
    };
    std::iter::repeat_n((), 11).map(once).collect()
}

/// The socket of a daemon that only reports its status.
#[test]
fn a_status_only_daemon_returns_its_status_and_refuses_orders() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("ap.sock");
    let text = TextCell::default();
    let control_socket = ControlSocket::of_text(&socket, text.clone()).unwrap();
    let answer_to = |question: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for status in ["{\"stations\":[]}", "{\"stations\":[1]}"] {
        text.write(status);
        for question in ["", "\"status\""] {
            assert_eq!(answer_to(question), format!("{status}\n"));
        }
    }
    for question in ["{\"policy\":{\"name\":\"off\"}}", "\"status-all\"", "nonsense"] {
        assert!(answer_to(question).contains("answers \\\"status\\\" only"), "{}", answer_to(question));
    }
    drop(control_socket);
    assert!(!socket.exists());
}

#[test]
fn a_thousand_slow_clients_on_each_listener_delay_nobody() {
    raise_open_files();
    let open = open();
    let crowds = [SlowClients::at_socket(&open.socket, CLIENTS), SlowClients::at_port(open.metrics, CLIENTS)];
    assert!(eventually(|| crowds.iter().all(|crowd| crowd.connected() == CLIENTS)));
    let asked = times(|| {
        assert!(matches!(ask(&open.socket, Question::Status).unwrap(), Answer::Status(_)));
    });
    let ordered = times(|| {
        let question = Question::Policy { name: PolicyName::Steady, objective: None };
        assert!(matches!(ask(&open.socket, question).unwrap(), Answer::Done { .. }));
    });
    assert_eq!(open.orders.try_iter().count(), ordered.len());
    let scraped = times(|| {
        let answer = http(open.metrics, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    });
    let began = Instant::now();
    drop(open.control_socket);
    let closed = began.elapsed();
    let [asked, ordered, scraped] = [asked, ordered, scraped].map(|times| {
        assert!(times.iter().all(|time| *time < TIMEOUT + BUSY), "{times:?}");
        median(times)
    });
    println!(
        "with {CLIENTS} slow clients on each: status {asked:?}, policy {ordered:?}, metrics {scraped:?}, closing {closed:?}"
    );
    assert!([asked, ordered, scraped].iter().all(|time| *time < Duration::from_secs(1)));
    assert!(closed < Duration::from_secs(1), "{closed:?}");
    let clients = 2 * CLIENTS as u64;
    yuzuri_testnet::attack(
        "clients that send slowly to status and metrics",
        clients,
        "clients",
        "others wait below 1 s",
    );
}

/// How long the daemon keeps a client that sends one byte every 0.3 s.
fn closed_after(mut stream: impl Read + Write) -> Duration {
    let began = Instant::now();
    let mut byte = [0];
    while stream.write_all(b"x").is_ok() && began.elapsed() < 4 * TIMEOUT {
        match stream.read(&mut byte) {
            Ok(0) => break,
            Err(e) if !matches!(e.kind(), std::io::ErrorKind::WouldBlock) => break,
            _ => {}
        }
    }
    began.elapsed()
}

#[test]
fn a_client_has_two_seconds_in_all_however_it_spends_them() {
    let open = open();
    let unix = UnixStream::connect(&open.socket).unwrap();
    let tcp = TcpStream::connect(open.metrics).unwrap();
    unix.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    tcp.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let other = std::thread::spawn(move || closed_after(unix));
    for after in [closed_after(tcp), other.join().unwrap()] {
        assert!((TIMEOUT / 2..TIMEOUT + BUSY).contains(&after), "{after:?}");
    }
}

#[test]
fn a_client_that_does_not_read_its_answer_is_closed() {
    let open = open();
    let mut silent: Vec<TcpStream> = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(open.metrics).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        silent.push(stream);
    }
    assert!(matches!(ask(&open.socket, Question::Status).unwrap(), Answer::Status(_)));
    let began = Instant::now();
    drop(open.control_socket);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[test]
fn each_request_gets_its_kind_of_answer() {
    let open = open();
    for (request, answer) in [
        ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n"),
        ("GET /metrics?x=y HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n"),
        // A proxy sends the absolute form.
        ("GET http://here/metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n"),
        ("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n"),
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 405 Method Not Allowed\r\n"),
        ("GET /metrics\u{1} HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"),
        ("\u{16}\u{3}\u{1}\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"),
    ] {
        let got = http(open.metrics, request);
        assert!(got.starts_with(answer), "{request:?}: {got}");
        let (head, body) = got.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.is_empty(), request.starts_with("HEAD"), "{request:?}: {got}");
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        assert!(body.is_empty() || body.len() == length.parse::<usize>().unwrap(), "{got}");
    }
    let long = format!("GET /metrics HTTP/1.1\r\nCookie: {}\r\n\r\n", "x".repeat(10_000));
    let got = http(open.metrics, &long);
    assert!(got.starts_with("HTTP/1.1 431 "), "{got}");
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(200));
    let got = http(open.metrics, &many);
    assert!(got.starts_with("HTTP/1.1 431 "), "{got}");
}

#[test]
fn an_unknown_request_is_answered_with_an_error() {
    let open = open();
    let answer = |question: &[u8]| {
        let mut stream = UnixStream::connect(&open.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // The daemon may have closed the connection before the rest of the oversized request.
        let _ = stream.write_all(question);
        let _ = stream.shutdown(Shutdown::Write);
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(answer(b"").contains("\"version\""));
    assert!(answer(b" \"status\" \n").contains("\"version\""));
    assert!(answer(b"\"weather\"").contains("\"error\""));
    assert!(answer(b"{\"policy\": {\"name\": \"fast\"}}").contains("\"error\""));
    assert!(answer(&b"x".repeat(20_000)).contains("longer than"));
}

#[test]
fn a_daemon_that_does_not_answer_is_reported_within_a_few_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("share.sock");
    let address = socket2::SockAddr::unix(&path).unwrap();
    let hangs = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    hangs.bind(&address).unwrap();
    hangs.listen(0).unwrap();
    // The first connection is queued and never answered; the second finds the queue full.
    let asking: Vec<_> = (0..2)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || {
                let began = Instant::now();
                let error = ask(&path, Question::Status).unwrap_err().to_string();
                (error, began.elapsed())
            })
        })
        .collect();
    for asking in asking {
        let (error, after) = asking.join().unwrap();
        assert!(error.contains("it did not answer within 5 s"), "{error}");
        assert!(after < Duration::from_secs(5) + BUSY, "{after:?}");
    }
}
