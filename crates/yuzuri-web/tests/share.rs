//! The sharing daemon's status as the page receives it, over a real unix socket.
#![allow(clippy::unwrap_used)]

mod common;

use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use yuzuri_web::{NoControl, Options, Page, Server, serve};

/// A status as the daemon writes it; a test of `yuzuri` checks that its type is the same.
const STATUS: &str = include_str!("data/share-status.json");

struct Fixture {
    server: Server,
    folder: tempfile::TempDir,
}

fn fixture_at(ip: [u8; 4], socket: impl FnOnce(&Path) -> Option<PathBuf>) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let share_socket = socket(&folder.path().join("share.sock"));
    let options = Options { share_socket, ..Options::new((ip, 0).into()) };
    let server = serve(options, Page::new(common::model(), Arc::new(NoControl))).unwrap();
    Fixture { server, folder }
}

fn fixture() -> Fixture {
    fixture_at([127, 0, 0, 1], |socket| Some(socket.into()))
}

impl Fixture {
    fn socket(&self) -> PathBuf {
        self.folder.path().join("share.sock")
    }

    /// Sends a request with the token.
    fn ask(&self, head: &str) -> (u16, String) {
        let token = self.server.url().split_once("token=").unwrap().1;
        self.ask_as(&format!("Authorization: Bearer {token}\r\n{head}"))
    }

    fn ask_as(&self, head: &str) -> (u16, String) {
        let addr = SocketAddr::from(([127, 0, 0, 1], self.server.addr().port()));
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "GET /api/share HTTP/1.1\r\nConnection: close\r\n{head}\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.to_lowercase().contains("content-type: application/json"), "{head}");
        assert!(head.to_lowercase().contains("cache-control: no-store"), "{head}");
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn get(&self) -> (u16, String) {
        self.ask("Host: localhost\r\n")
    }

    /// The same as a JSON document.
    fn json(&self) -> (u16, serde_json::Value) {
        let (status, body) = self.get();
        (status, serde_json::from_str(&body).unwrap())
    }
}

/// A stand-in for a daemon: gives each client the next answer, repeats the last one, and counts.
fn daemon(socket: &Path, answers: Vec<Vec<u8>>) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(socket).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let turn = count.fetch_add(1, Ordering::SeqCst);
            let mut question = Vec::new();
            stream.read_to_end(&mut question).unwrap();
            assert_eq!(question, b"", "an empty question asks for the status");
            // A client may close early.
            let _ = stream.write_all(&answers[turn.min(answers.len() - 1)]);
        }
    });
    asked
}

#[test]
fn the_daemons_status_is_passed_on_unchanged() {
    let fixture = fixture();
    daemon(&fixture.socket(), vec![STATUS.into()]);
    assert_eq!(fixture.get(), (200, STATUS.to_owned()));
}

#[test]
fn without_a_daemon_the_answer_names_the_command_that_starts_one() {
    let fixture = fixture();
    let (status, answer) = fixture.json();
    assert_eq!((status, &answer["running"]), (200, &serde_json::json!(false)));
    assert!(answer["why"].as_str().unwrap().contains("share.sock"), "{answer}");
    assert!(answer["help"].as_str().unwrap().contains("yuzuri share"), "{answer}");
    // The daemon died and left its socket behind.
    let fixture = self::fixture();
    drop(UnixListener::bind(fixture.socket()).unwrap());
    let (status, answer) = fixture.json();
    assert_eq!((status, &answer["running"]), (200, &serde_json::json!(false)));
    // A page that is not live has no daemon, and suggests no command to start one.
    let (status, answer) = fixture_at([127, 0, 0, 1], |_| None).json();
    assert_eq!((status, &answer["running"]), (200, &serde_json::json!(false)));
    assert!(answer["help"].is_null());
}

#[test]
fn a_daemon_that_answers_late_too_much_or_no_json_gives_bad_gateway() {
    let fixture = fixture();
    let mut large = b"{\"a\":\"".to_vec();
    large.resize(3 << 20, b'x');
    let listener = UnixListener::bind(fixture.socket()).unwrap();
    // It neither answers nor closes.
    let begun = Instant::now();
    let (status, answer) = fixture.json();
    assert_eq!(status, 502, "{answer}");
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert!(answer["error"].as_str().unwrap().contains("within a second"), "{answer}");
    drop(listener);
    for (answer, words) in [
        (large, "more than"),
        (b"[1]".to_vec(), "not send a JSON object"),
        (b"{\"a\":".to_vec(), "not send a JSON object"),
        (vec![], "not send a JSON object"),
    ] {
        let fixture = self::fixture();
        daemon(&fixture.socket(), vec![answer]);
        let (status, answer) = fixture.json();
        assert_eq!(status, 502, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{answer}");
    }
}

#[test]
fn many_browsers_query_the_daemon_as_often_as_one() {
    let fixture = fixture();
    let asked = daemon(&fixture.socket(), vec![STATUS.into()]);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let browsers: Vec<_> = (0..16).map(|_| scope.spawn(|| fixture.get().0)).collect();
        assert!(browsers.into_iter().all(|browser| browser.join().unwrap() == 200));
    });
    // Each answer holds for a quarter of a second.
    let most = 1 + begun.elapsed().as_millis() as usize / 250;
    assert!((1..=most).contains(&asked.load(Ordering::SeqCst)), "{asked:?} times, at most {most}");
}

#[test]
fn the_sharing_status_needs_the_same_access_as_the_page() {
    let fixture = fixture();
    let asked = daemon(&fixture.socket(), vec![STATUS.into()]);
    assert_eq!(fixture.ask("Host: rebound.example\r\n").0, 403);
    assert_eq!(fixture.ask("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n").0, 403);
    assert_eq!(fixture.ask_as("Host: localhost\r\n").0, 401);
    let wide = fixture_at([0, 0, 0, 0], |_| Some(fixture.socket()));
    assert_eq!(wide.ask_as("Host: box.lan\r\n").0, 401);
    assert_eq!(asked.load(Ordering::SeqCst), 0, "the daemon was not even asked");
    assert_eq!(wide.ask("Host: box.lan\r\n").0, 200);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Any answer of the daemon is passed on if it is a JSON object, and refused in one line
    /// otherwise.
    #[test]
    fn any_answer_of_the_daemon_is_passed_on_or_refused(text in prop_oneof![
        "\\PC{0,60}",
        r#"\{"[a-z"\\\\]{0,4}":[\[\]{}0-9",:]{0,10}\}[\]} ]?"#,
        prop::collection::vec(any::<u8>(), 0..60).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ], tail in prop::collection::vec(any::<u8>(), 0..2)) {
        let mut bytes = text.into_bytes();
        bytes.extend(tail);
        let fixture = fixture();
        daemon(&fixture.socket(), vec![bytes.clone()]);
        let (status, body) = fixture.get();
        let is_object = serde_json::from_slice::<serde_json::Value>(&bytes).is_ok_and(|value| value.is_object());
        prop_assert_eq!(status, if is_object { 200 } else { 502 }, "{}", body);
        if is_object {
            prop_assert_eq!(body.into_bytes(), bytes);
        } else {
            let refusal: serde_json::Value = serde_json::from_str(&body).unwrap();
            prop_assert!(refusal["error"].is_string() && !body.contains('\n'));
        }
    }
}
