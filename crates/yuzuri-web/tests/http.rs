//! The server over real sockets: access, answers to invalid input, and messages to browsers.
#![allow(clippy::unwrap_used)]

mod common;

use common::{STARTED_NS, model};
use parking_lot::Mutex;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use yuzuri_trace::{
    CaState, Density, Event, Filter, Flow, FlowId, Item, Kind, Marks, Owner, Place, Reason, Snapshot,
};
use yuzuri_view::LiveModel;
use yuzuri_web::{Control, NoControl, Options, Page, Refused, ServeError, Server, serve};

struct Fixture {
    model: Arc<Mutex<LiveModel>>,
    page: Page,
    server: Option<Server>,
    addr: SocketAddr,
    token: String,
}

fn fixture_with(control: Arc<dyn Control>) -> Fixture {
    let model = model();
    let page = Page::new(model.clone(), control);
    let server = serve(Options::new(([127, 0, 0, 1], 0).into()), page.clone()).unwrap();
    let token = token(&server);
    Fixture { model, page, addr: server.addr(), server: Some(server), token }
}

/// From the printed URL.
fn token(server: &Server) -> String {
    server.url().split_once("/#token=").unwrap().1.to_owned()
}

fn fixture() -> Fixture {
    fixture_with(Arc::new(NoControl))
}

impl Fixture {
    fn feed(&self, items: &[Item]) {
        let mut model = self.model.lock();
        items.iter().for_each(|item| model.apply(item));
        drop(model);
        self.page.ingest(items);
    }

    /// Sends bytes and reads until the other end closes.
    fn raw(&self, bytes: &[u8]) -> String {
        self.exchange(bytes, false)
    }

    /// The same; `and_leave` sends a FIN, so that the server need not wait for the rest of an
    /// incomplete request.
    fn exchange(&self, bytes: &[u8], and_leave: bool) -> String {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        // The server may have answered and closed before everything is written.
        let _ = stream.write_all(bytes);
        if and_leave {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a request with the token.
    fn get(&self, path: &str) -> String {
        self.ask(path, &format!("Authorization: Bearer {}\r\n", self.token))
    }

    fn ask(&self, path: &str, headers: &str) -> String {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        self.raw(head.as_bytes())
    }

    fn post(&self, path: &str, body: &str) -> String {
        self.raw(
            format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                self.token,
                body.len()
            )
            .as_bytes(),
        )
    }
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0)
}

/// The error of a refusal: one line of JSON.
fn error(answer: &str) -> String {
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert!(!body.contains('\n'), "{body}");
    let value: serde_json::Value = serde_json::from_str(body).unwrap();
    value["error"].as_str().unwrap().to_string()
}

fn sample(id: u64, ms: u64, cwnd: u32) -> Item {
    let snapshot = Snapshot {
        cwnd,
        ssthresh: Snapshot::SSTHRESH_INFINITE,
        srtt_us: 20_000,
        min_rtt_us: 18_000,
        bytes_acked: ms * 1250,
        pacing_rate_bps: u64::MAX,
        ..Snapshot::default()
    };
    let mono_ns = STARTED_NS + ms * 1_000_000;
    Item::Event(Event { mono_ns, flow: FlowId(id), snapshot, ..Event::default() })
}

fn flow(id: u64, name: &str) -> Item {
    Item::Flow(Arc::new(Flow {
        id: FlowId(id),
        local: "10.0.0.1:40000".parse().unwrap(),
        remote: "[2001:db8::1]:443".parse().unwrap(),
        owner: Some(Owner { pid: 7, name: name.into() }),
        congestion_control: "cubic".into(),
        ..Flow::default()
    }))
}

/// A browser's stream of events.
struct Stream {
    stream: TcpStream,
    text: String,
}

impl Stream {
    fn open(fixture: &Fixture, flows: &str) -> Stream {
        let mut stream = TcpStream::connect(fixture.addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let head = format!("GET /api/live?flows={flows} HTTP/1.1\r\nHost: localhost");
        write!(stream, "{head}\r\nAuthorization: Bearer {}\r\n\r\n", fixture.token).unwrap();
        Stream { stream, text: String::new() }
    }

    /// Reads until `found` finds something in the messages so far, for at most ten seconds.
    fn until<T>(&mut self, mut found: impl FnMut(&[(String, serde_json::Value)]) -> Option<T>) -> T {
        let start = Instant::now();
        let mut buffer = [0u8; 65536];
        while start.elapsed() < Duration::from_secs(10) {
            if let Ok(n) = self.stream.read(&mut buffer) {
                assert!(n > 0, "the stream ended: {}", self.text);
                self.text.push_str(&String::from_utf8_lossy(&buffer[..n]));
            }
            let messages: Vec<(String, serde_json::Value)> = self
                .text
                .split("event: ")
                .skip(1)
                .filter(|message| message.contains("\n\n"))
                .filter_map(|message| {
                    let (name, rest) = message.split_once("\ndata: ")?;
                    Some((name.to_string(), serde_json::from_str(rest.split("\n\n").next()?).ok()?))
                })
                .collect();
            if let Some(value) = found(&messages) {
                return value;
            }
        }
        panic!("not received within ten seconds; so far: {}", self.text);
    }
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}: not within 30 seconds");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_page_is_served_complete_compressed_and_with_security_headers() {
    let fixture = fixture();
    let page = fixture.get("/");
    assert_eq!(status(&page), 200);
    let lower = page.to_lowercase();
    for part in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "x-content-type-options: nosniff",
        "etag: \"",
        "frame-ancestors 'none'",
    ] {
        assert!(lower.contains(part), "{part} in {page}");
    }
    assert!(!lower.contains("unsafe-inline") && page.contains("<title>Yuzuri"));
    let packed = fixture.raw(
        b"GET /app.js HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: br, gzip\r\nConnection: close\r\n\r\n",
    );
    assert!(packed.to_lowercase().contains("content-encoding: gzip"));
    let tag = page
        .lines()
        .find(|l| l.to_lowercase().starts_with("etag"))
        .unwrap()
        .split_once(' ')
        .unwrap()
        .1
        .to_string();
    let again = fixture.raw(
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: {tag}\r\nConnection: close\r\n\r\n")
            .as_bytes(),
    );
    assert_eq!(status(&again), 304);
    assert!(fixture.get("/api/session").to_lowercase().contains("cache-control: no-store"));
}

#[test]
fn requests_from_other_sites_and_hosts_are_refused() {
    let fixture = fixture();
    let ask = |head: &str| fixture.raw(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes());
    assert_eq!(status(&ask("GET / HTTP/1.1\r\nHost: rebound.example")), 403);
    assert_eq!(status(&ask("GET / HTTP/1.1\r\nAccept: */*")), 400);
    assert_eq!(
        status(&ask("GET /api/session HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site")),
        403
    );
    let post =
        "POST /api/filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Type: application/json";
    assert_eq!(status(&ask(&format!("{post}\r\nOrigin: http://evil.example"))), 403);
    assert_eq!(
        status(&ask(
            "POST /api/filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Type: text/plain"
        )),
        415
    );
    yuzuri_testnet::attack(
        "page asked from foreign sites and under foreign names",
        5,
        "requests",
        "all refused",
    );
}

/// Numbers of a bucket (`fields.rs`).
const STRIDE: usize = 28;

/// Every route, and paths that only look like one.
const ROUTES: [&str; 16] = [
    "/api/flows/1",
    "/api/session",
    "/api/live",
    "/api/live?flows=1",
    "/api/share",
    "/api/bottlenecks",
    "/api/flows/1/history",
    "/api/flows/1/history.csv",
    "/api/filter",
    "/api/density",
    "/api/replay",
    "/api/",
    "/nowhere",
    "/api/session?token=0",
    "/%61pi/session",
    "//api/session",
];

/// All that a client without the token may have: the page's own files, which are the same for
/// everybody.
fn assert_only_page_files_without_token(fixture: &Fixture) {
    for path in ROUTES {
        for method in ["GET", "POST", "HEAD", "PUT", "DELETE"] {
            for more in [
                String::new(),
                "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n".to_owned(),
                format!("Authorization: Basic {}\r\n", fixture.token),
                // A browser sends a cookie to all ports of a host, so a cookie admits nobody.
                format!(
                    "Cookie: yuzuri_{}={}; token={}\r\n",
                    fixture.addr.port(),
                    fixture.token,
                    fixture.token
                ),
                format!("Referer: http://localhost/?token={}\r\n", fixture.token),
            ] {
                let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close");
                let body = "Content-Type: application/json\r\nContent-Length: 2";
                let answer = fixture.raw(format!("{head}\r\n{body}\r\n{more}\r\n{{}}").as_bytes());
                assert_eq!(status(&answer), 401, "{method} {path} {more}: {answer}");
                assert!(answer.to_lowercase().contains("www-authenticate: bearer"), "{answer}");
                assert!(!answer.contains(&fixture.token));
                if method != "HEAD" {
                    let error = error(&answer);
                    assert!(error.contains("open the address that yuzuri printed"), "{error}");
                }
            }
        }
    }
    for own in ["/", "/app.js", "/app.css", "/icon.svg"] {
        let answer = fixture.ask(own, "");
        assert_eq!(status(&answer), 200, "{own}");
        let lower = answer.to_lowercase();
        assert!(!answer.contains(&fixture.token) && !lower.contains("set-cookie"));
    }
}

#[test]
fn on_loopback_every_route_needs_the_token() {
    let fixture = fixture();
    assert_eq!(fixture.token.len(), 32);
    assert_only_page_files_without_token(&fixture);
    assert_eq!(status(&fixture.get("/api/session")), 200);
    assert_eq!(status(&fixture.ask(&format!("/api/session?token={}", fixture.token), "")), 200);
    // Another page's token is not valid here.
    let other = self::fixture();
    assert_ne!(other.token, fixture.token);
    assert_eq!(
        status(&fixture.ask("/api/session", &format!("Authorization: Bearer {}\r\n", other.token))),
        401
    );
}

#[test]
fn on_a_wildcard_address_every_route_needs_the_token() {
    let model = model();
    let page = Page::new(model.clone(), Arc::new(NoControl));
    let server = serve(Options::new(([0, 0, 0, 0], 0).into()), page.clone()).unwrap();
    let addr = SocketAddr::from(([127, 0, 0, 1], server.addr().port()));
    let token = token(&server);
    let fixture = Fixture { model, page, addr, server: Some(server), token };
    assert_only_page_files_without_token(&fixture);
    let head = "GET /api/session HTTP/1.1\r\nHost: box.lan\r\nConnection: close";
    let answer = fixture.raw(format!("{head}\r\nAuthorization: Bearer {}\r\n\r\n", fixture.token).as_bytes());
    assert_eq!(status(&answer), 200);
    let tried = (ROUTES.len() * 5 * 5) as u64;
    yuzuri_testnet::attack("page asked without the token", tried, "requests", "all refused");
}

#[test]
fn invalid_requests_are_refused_in_one_line() {
    let fixture = fixture();
    for (path, expected) in [
        ("/nowhere", 404),
        ("/../../etc/passwd", 404),
        ("/%2e%2e/Cargo.toml", 404),
        ("/api/flows/zz/history", 400),
        ("/api/flows/11111111111111111/history", 400),
        ("/api/flows/%00/history", 400),
        ("/api/flows/1/history", 404),
        ("/api/flows/1", 404),
        ("/api/flows/zz", 400),
        ("/api/live?flows=x", 400),
        ("/api/live?flows=1,2,3,4,5,6,7,8,9,a,b,c,d,e,f,10,11", 400),
        ("/api/filter", 405),
    ] {
        let answer = fixture.get(path);
        assert_eq!(status(&answer), expected, "{path}: {answer}");
        assert!(!error(&answer).is_empty());
    }
    fixture.feed(&[flow(1, "a"), sample(1, 1, 10)]);
    for query in ["from=a", "points=0", "points=5000", "from=9&to=1", "from=99999999999999999999", "to=%ff"] {
        assert_eq!(status(&fixture.get(&format!("/api/flows/1/history?{query}"))), 400, "{query}");
    }
    assert_eq!(
        status(&fixture.get("/api/flows/1/history?from=-9223372036854775808&to=9223372036854775807")),
        200
    );
    for (path, body, expected) in [
        ("/api/filter", "", 400),
        ("/api/filter", "{", 400),
        ("/api/filter", "[]", 400),
        ("/api/filter", r#"{"filter":1}"#, 400),
        ("/api/filter", r#"{"filter":"prot:80"}"#, 400),
        ("/api/filter", r#"{"filter":"","more":1}"#, 400),
        ("/api/filter", r#"{"filter":""}"#, 409),
        ("/api/density", r#"{"interval_us":-1}"#, 400),
        ("/api/density", r#"{"interval_us":1e300}"#, 400),
        ("/api/density", r#"{"interval_us":1000}"#, 409),
        ("/api/replay", "{}", 400),
        ("/api/replay", r#"{"speed":0}"#, 400),
        ("/api/replay", r#"{"paused":true}"#, 409),
        ("/api/live", r#"{"client":"nobody","flows":[]}"#, 404),
        ("/api/session", "{}", 405),
        ("/api/share", "{}", 405),
        ("/", "{}", 405),
    ] {
        let answer = fixture.post(path, body);
        assert_eq!(status(&answer), expected, "{path} {body}: {answer}");
        assert!(!error(&answer).is_empty());
    }
    assert!(error(&fixture.post("/api/filter", r#"{"filter":"prot:80"}"#)).contains("prot:80"));
    assert_eq!(status(&fixture.post("/api/filter", &"x".repeat(20_000))), 413);
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(40_000));
    assert!((400..500).contains(&status(&fixture.raw(long.as_bytes()))));
    let many: String = (0..200).map(|n| format!("X-{n}: 1\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n");
    assert!((400..500).contains(&status(&fixture.raw(many.as_bytes()))));
    assert_eq!(status(&fixture.get("/api/session")), 200);
    yuzuri_testnet::attack("malformed requests to the page", 37, "requests", "all refused in one line");
}

fn fuzzed() -> &'static Fixture {
    static HOUSE: std::sync::OnceLock<Fixture> = std::sync::OnceLock::new();
    HOUSE.get_or_init(fixture)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever bytes arrive, the server refuses or closes, and continues to serve.
    #[test]
    fn the_server_serves_on_after_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let fixture = fuzzed();
        let answer = fixture.exchange(&bytes, true);
        prop_assert!(answer.is_empty() || (400..500).contains(&status(&answer)), "{}", answer);
        prop_assert_eq!(status(&fixture.get("/api/session")), 200);
        yuzuri_testnet::attack("noise at the page's port", 1, "connections", "it continues to serve");
    }

    #[test]
    fn any_path_and_query_is_answered(path in "/[!-~]{0,80}", query in "[!-~]{0,80}") {
        let fixture = fuzzed();
        for text in [format!("{path}?{query}"), format!("/api/flows/{path}"), format!("/api/flows/1/history?{query}"), format!("/api/share{path}?{query}"), format!("/api/share?{query}")] {
            let text = text.replace('#', "");
            let answer = fixture.get(&text);
            prop_assert!([200, 400, 404, 405].contains(&status(&answer)), "{} {}", text, answer);
        }
        yuzuri_testnet::attack("noise as paths and queries of the page", 5, "requests", "answered or refused");
    }

    #[test]
    fn any_body_is_answered(body in "\\PC{0,200}", which in 0usize..4) {
        let fixture = fuzzed();
        let answer = fixture.post(["/api/filter", "/api/density", "/api/replay", "/api/live"][which], &body);
        prop_assert!((400..500).contains(&status(&answer)), "{}", answer);
        prop_assert!(!error(&answer).is_empty());
        yuzuri_testnet::attack("noise as commands to the page", 1, "requests", "all refused");
    }

    #[test]
    fn any_filter_is_accepted_or_refused(text in "\\PC{0,80}") {
        let fixture = fuzzed();
        let body = serde_json::json!({ "filter": text }).to_string();
        let expected = if text.parse::<Filter>().is_ok() { 409 } else { 400 };
        prop_assert_eq!(status(&fixture.post("/api/filter", &body)), expected);
    }
}

#[test]
fn a_browser_receives_rows_then_changes_buckets_and_events() {
    let fixture = fixture();
    fixture.feed(&[flow(0x2a, "curl \"<b>\""), sample(0x2a, 1, 10)]);
    let mut stream = Stream::open(&fixture, "2a");
    let row =
        stream.until(|m| m.iter().find(|(n, v)| n == "rows" && v["all"] == true).map(|(_, v)| v.clone()));
    assert_eq!(row["flows"][0]["process"], "curl \"<b>\"");
    assert_eq!(row["flows"][0]["remote"], "[2001:db8::1]:443");
    assert_eq!(row["rows"][0][0], "2a");
    assert_eq!(row["rows"][0][3], 10);
    assert_eq!(row["rows"][0][4], 0, "no ssthresh yet");
    assert_eq!(row["rows"][0][18], 0, "unlimited pacing");
    wait("subscribed", || fixture.page.browsers() == 1);
    // A window that falls and recovers within a pixel must not vanish.
    let items: Vec<Item> = (2..400).map(|ms| sample(0x2a, ms, if ms == 101 { 3 } else { 50 })).collect();
    fixture.feed(&items);
    let recovery = Event {
        mono_ns: 5_401_000_000,
        flow: FlowId(0x2a),
        kind: Kind::State,
        reason: Reason::FastRetransmit,
        place: Place::named("tcp_enter_recovery"),
        ca_state: CaState::Recovery,
        ca_before: CaState::Disorder,
        marks: Marks::SACK,
        snapshot: Snapshot { cwnd: 50, ..Snapshot::default() },
        ..Event::default()
    };
    fixture.feed(&[Item::Event(recovery), sample(0x2a, 420, 50), sample(0x2a, 440, 50)]);
    let buckets = stream.until(|m| {
        let all: Vec<f64> = m
            .iter()
            .filter(|(n, _)| n == "chart")
            .flat_map(|(_, v)| v["flows"]["2a"].as_array().cloned().unwrap_or_default())
            .filter_map(|v| v.as_f64())
            .collect();
        (all.len() >= STRIDE * 95).then_some(all)
    });
    assert_eq!(buckets.len() % STRIDE, 0);
    let smallest = buckets.chunks(STRIDE).map(|b| b[3] as u32).min();
    assert_eq!(smallest, Some(3), "the dip is in the buckets");
    assert!(buckets.chunks(STRIDE).any(|b| b[3] == 3.0 && b[4] == 50.0));
    assert!(buckets.chunks(STRIDE).skip(1).all(|b| b[10] == 18_000.0 || b[10] == 0.0));
    let event = stream.until(|m| {
        m.iter()
            .find(|(n, v)| n == "events" && v["events"][0].is_array())
            .map(|(_, v)| v["events"][0].clone())
    });
    assert_eq!(
        event,
        serde_json::json!([1, 401_000, "2a", 1, 4, "tcp_enter_recovery", 3, 1, 2, 50, 0, 0, 0])
    );
    let changed = stream.until(|m| {
        m.iter()
            .rev()
            .find(|(n, v)| n == "rows" && v["all"] == false && v["rows"][0][3] == 50)
            .map(|(_, v)| v.clone())
    });
    assert_eq!(changed["flows"].as_array().unwrap().len(), 0, "its identity was sent before");
    // A new choice on the same stream.
    let client = stream.until(|m| {
        m.iter().find(|(n, _)| n == "hello").map(|(_, v)| v["client"].as_str().unwrap().to_string())
    });
    assert_eq!(
        status(&fixture.post("/api/live", &format!(r#"{{"client":"{client}","flows":["2b"]}}"#))),
        200
    );
    fixture.feed(&[sample(0x2b, 500, 9), sample(0x2b, 600, 9)]);
    stream.until(|m| m.iter().any(|(n, v)| n == "chart" && v["flows"]["2b"].is_array()).then_some(()));
    drop(stream);
    wait("the browser is gone", || fixture.page.browsers() == 0);
}

#[test]
fn history_gives_the_extremes_as_json_and_csv() {
    let fixture = fixture();
    let items: Vec<Item> = (0..5000).map(|ms| sample(1, ms, if ms == 777 { 999 } else { 20 })).collect();
    fixture.feed(&items);
    let answer = fixture.get("/api/flows/1/history?points=10");
    let body: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let numbers: Vec<f64> = body["buckets"].as_array().unwrap().iter().filter_map(|v| v.as_f64()).collect();
    assert!(numbers.len() <= 11 * STRIDE);
    assert!(numbers.chunks(STRIDE).any(|b| b[4] == 999.0));
    assert_eq!(numbers.chunks(STRIDE).map(|b| b[2]).sum::<f64>(), 5000.0);
    let csv = fixture.get("/api/flows/1/history.csv?points=4000");
    assert!(csv.contains("text/csv") && csv.contains("start_us,last_us,events,cwnd_min"));
    assert!(csv.lines().any(|line| line.split(',').nth(4) == Some("999")));
}

#[test]
fn flows_that_share_a_bottleneck_are_named() {
    let fixture = fixture();
    let answer = || {
        let answer = fixture.get("/api/bottlenecks");
        let body: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        (body["compared"].clone(), body["bottlenecks"].clone())
    };
    assert_eq!(answer(), (0.into(), serde_json::json!([])));
    // A queue that rises by varying amounts and overflows; the second flow waits in another one.
    let mut seed = 1_u64;
    let mut draw = || {
        // Any fixed sequence serves: a linear congruential generator (Knuth's MMIX).
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as u32
    };
    let mut queues = [0_u32; 2];
    let mut items: Vec<Item> = [(1, "a"), (2, "b"), (3, "c")].map(|(id, name)| flow(id, name)).into();
    for ms in (0..20_000).step_by(50) {
        for queue in &mut queues {
            let grown = *queue + draw() % 8_000;
            *queue = if grown > 60_000 { draw() % 20_000 } else { grown };
        }
        for (id, queue) in [(1, queues[0]), (2, queues[1]), (3, queues[0])] {
            let Item::Event(mut event) = sample(id, ms, 20) else { unreachable!() };
            event.snapshot.srtt_us = 20_000 + 10_000 * id as u32 + queue;
            (event.snapshot.packets_out, event.snapshot.notsent) = (20, 90_000);
            items.push(Item::Event(event));
        }
    }
    fixture.feed(&items);
    // The answer of a moment ago is reused.
    wait("the flows are compared again", || answer().0 == 3);
    let (_, found) = answer();
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found[0]["flows"], serde_json::json!(["1", "3"]));
    assert!(found[0]["correlation"].as_f64().unwrap() > 0.5, "{found}");
    // After a seek, the answer is about the flows of then.
    *fixture.model.lock() = Arc::into_inner(model()).unwrap().into_inner();
    fixture.page.reset();
    assert_eq!(answer(), (0.into(), serde_json::json!([])));
}

#[test]
fn every_number_of_a_record_is_shown_with_its_unit() {
    let fixture = fixture();
    fixture.feed(&[sample(1, 5, 20)]);
    let answer = fixture.get("/api/flows/1");
    let body: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let numbers = body["numbers"].as_array().unwrap();
    assert_eq!(numbers.len(), Event::default().numbers().count());
    let of = |name: &str| numbers.iter().find(|number| number["name"] == name).unwrap();
    assert_eq!((&of("cwnd")["value"], &of("cwnd")["unit"]), (&20.into(), &"segments".into()));
    assert_eq!(of("pacing_wait_us")["value"], serde_json::Value::Null);
    assert_eq!(of("pacing_wait_us")["missing"], "unknown");
}

#[test]
fn a_request_reaches_the_control_and_its_refusal_is_returned() {
    struct Picky(Mutex<Vec<String>>);
    impl Control for Picky {
        fn set_filter(&self, filter: Filter) -> Result<(), Refused> {
            if filter.netns.is_empty() {
                self.0.lock().push(filter.to_string());
                return Ok(());
            }
            Err(Refused::Failed("no such namespace: see `ip netns`".into()))
        }
        fn set_density(&self, _: Density) -> Result<(), Refused> {
            panic!("the control's own fault");
        }
    }
    let picky = Arc::new(Picky(Mutex::default()));
    let fixture = fixture_with(picky.clone());
    assert_eq!(status(&fixture.post("/api/filter", r#"{"filter":"port:443"}"#)), 200);
    assert_eq!(*picky.0.lock(), ["port:443"]);
    let refused = fixture.post("/api/filter", r#"{"filter":"netns:x"}"#);
    assert_eq!((status(&refused), error(&refused).as_str()), (422, "no such namespace: see `ip netns`"));
    assert_eq!(status(&fixture.post("/api/density", r#"{"interval_us":0}"#)), 500);
    assert_eq!(status(&fixture.get("/api/session")), 200);
}

#[test]
fn the_thirty_third_browser_is_refused_and_a_blocked_one_affects_no_other() {
    let fixture = fixture();
    let flows: Vec<Item> = (1..=400).map(|id| flow(id, "p")).collect();
    fixture.feed(&flows);
    let mut streams: Vec<Stream> = (0..32).map(|_| Stream::open(&fixture, "")).collect();
    wait("32 browsers", || fixture.page.browsers() == 32);
    let refused = fixture.get("/api/live");
    assert_eq!(status(&refused), 503);
    assert!(error(&refused).contains("close one"));
    // Only the last one keeps reading; rows of 400 flows fill the others' queues and sockets.
    let mut reader = streams.pop().unwrap();
    let start = Instant::now();
    let mut ms = 0;
    while fixture.page.not_shown() == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing was skipped");
        ms += 1;
        let items: Vec<Item> = (1..=400).map(|id| sample(id, ms, ms as u32)).collect();
        fixture.feed(&items);
        reader.text.clear();
        reader.until(|m| m.iter().any(|(n, _)| n == "rows").then_some(()));
    }
    assert!(reader.text.contains("event: "));
    drop(streams);
    yuzuri_testnet::attack("browsers that take nothing", 31, "streams", "another is served");
}

#[test]
fn a_busy_port_is_reported_with_advice() {
    let fixture = fixture();
    let page = Page::new(fixture.model.clone(), Arc::new(NoControl));
    let refused = serve(Options::new(fixture.addr), page).unwrap_err();
    assert!(matches!(refused, ServeError::Busy { .. }));
    let text = refused.to_string();
    assert!(
        text.contains(&format!("port {} is in use", fixture.addr.port())) && text.contains("ss -ltnp"),
        "{text}"
    );
}

#[test]
fn stopping_ends_streams_and_frees_the_port() {
    let mut fixture = fixture();
    let mut stream = Stream::open(&fixture, "");
    stream.until(|m| m.iter().any(|(n, _)| n == "hello").then_some(()));
    let start = Instant::now();
    fixture.server.take().unwrap().stop();
    assert!(start.elapsed() < Duration::from_secs(3));
    assert!(TcpStream::connect(fixture.addr).is_err());
    let mut rest = Vec::new();
    stream.stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.stream.read_to_end(&mut rest).unwrap();
    let page = Page::new(fixture.model.clone(), Arc::new(NoControl));
    wait("the port is free", || serve(Options::new(fixture.addr), page.clone()).is_ok());
}
