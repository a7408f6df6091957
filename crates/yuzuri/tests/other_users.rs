//! What the user `nobody` can do to the page, the relay and the receiver of root, with real user
//! ids, and which privileges these processes keep.

#![expect(unsafe_code, reason = "system calls of the test")]
#![allow(clippy::unwrap_used, missing_docs)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use yuzuri_testnet::{Net, Side, eventually};

const YUZURI: &str = env!("CARGO_BIN_EXE_yuzuri");
const NOBODY: libc::c_long = 65534;

fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        println!("{test}: skipped: it needs root, to be somebody else than nobody");
    }
    root
}

/// Runs `what` as `nobody`: the kernel has user ids per thread.
fn as_nobody<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let nobody = scope.spawn(|| {
            // SAFETY: the arguments are integers. The C library's own calls would change all
            // threads.
            unsafe {
                assert_eq!(libc::syscall(libc::SYS_setgroups, 0, 0), 0);
                assert_eq!(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 0);
                assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
            }
            what()
        });
        nobody.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A child process that ends with the test. Its standard error is read line by line; its output is
/// discarded.
struct Running(Child, BufReader<std::process::ChildStderr>);

impl Running {
    fn start(command: &mut Command) -> Running {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Running(child, stderr)
    }

    fn wait_for_message(&mut self, words: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            assert!(self.1.read_line(&mut line).unwrap() > 0, "it ended without saying '{words}': {all}");
            if line.contains(words) {
                return line.trim_end().to_owned();
            }
            all.push_str(&line);
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }

    /// Ends it with SIGTERM; returns the rest of its standard error.
    fn end(mut self) -> String {
        kill(self.pid(), Signal::SIGTERM).unwrap();
        let mut rest = String::new();
        self.1.read_to_string(&mut rest).unwrap();
        assert!(self.0.wait().unwrap().success(), "{rest}");
        rest
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn field(status: &str, name: &str) -> String {
    let line =
        status.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {status}"));
    line.split_once(':').unwrap().1.trim().to_owned()
}

/// Asserts that no thread of a process has a capability, root's user id or all system calls.
fn assert_confined(pid: Pid) {
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        // A thread may end meanwhile.
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(field(&status, set), "0000000000000000", "{set}: {status}");
        }
        for ids in ["Uid", "Gid"] {
            let ids: Vec<u32> =
                field(&status, ids).split_whitespace().map(|id| id.parse().unwrap()).collect();
            assert!(ids.iter().all(|id| *id == ids[0] && (60_578..=61_183).contains(id)), "{ids:?}");
        }
        assert_eq!(field(&status, "Groups"), "");
        assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), ("1".into(), "2".into()));
    }
}

/// The children of a process: name, effective capabilities, user id.
fn children(pid: Pid) -> Vec<(String, u64, u32, Pid)> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let child = |pid: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), ("1".into(), "2".into()));
        assert_eq!(field(&status, "CapPrm"), field(&status, "CapEff"));
        let user = field(&status, "Uid").split_whitespace().next().unwrap().parse().unwrap();
        let capabilities = u64::from_str_radix(&field(&status, "CapEff"), 16).unwrap();
        (field(&status, "Name"), capabilities, user, Pid::from_raw(pid.parse().unwrap()))
    };
    list.split_whitespace().map(child).collect()
}

/// Asserts that only root may signal, inspect or trace it.
fn assert_out_of_reach(pid: Pid) {
    as_nobody(|| {
        for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGKILL), Some(Signal::SIGSTOP)] {
            assert_eq!(kill(pid, signal), Err(nix::errno::Errno::EPERM));
        }
        for file in ["mem", "environ", "maps", "fd"] {
            let path = format!("/proc/{pid}/{file}");
            let denied = std::fs::File::open(&path).and_then(|_| std::fs::read_dir(&path).map(drop));
            assert!(denied.is_err(), "{path}");
        }
    });
}

fn ask(address: SocketAddr, method: &str, path: &str, more: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}");
    let length = body.len();
    write!(stream, "{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// Reads the stream until all these words have appeared.
fn stream_contains(address: SocketAddr, bearer: &str, words: &[&str]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    write!(stream, "GET /api/live HTTP/1.1\r\nHost: {address}\r\n{bearer}\r\n").unwrap();
    let mut received = String::new();
    let all = eventually(|| {
        let mut part = [0; 65536];
        let length = stream.read(&mut part).unwrap_or(0);
        received.push_str(&String::from_utf8_lossy(&part[..length]));
        words.iter().all(|word| received.contains(word))
    });
    assert!(all, "{words:?} in {received}");
}

/// Address and token, from the line that announces the page.
fn page(messages: &str) -> (SocketAddr, String) {
    let url = messages.split("http://").nth(1).unwrap().split([';', ' ']).next().unwrap();
    let (address, token) = url.split_once("/#token=").unwrap();
    (address.parse().unwrap(), token.to_owned())
}

/// A daemon's socket as `yuzuri share` creates it: root's, with mode 0660.
fn daemon(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o660)).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut question = String::new();
            stream.read_to_string(&mut question).unwrap();
            assert_eq!(question, "");
            let _ = stream.write_all(b"{\"secret\":1}");
        }
    });
}

const ROUTES: [(&str, &str, &str); 11] = [
    ("GET", "/api/session", ""),
    ("GET", "/api/live", ""),
    ("GET", "/api/share", ""),
    ("GET", "/api/bottlenecks", ""),
    ("GET", "/api/flows/1/history", ""),
    ("GET", "/api/flows/1/history.csv", ""),
    ("POST", "/api/live", r#"{"client":"a","flows":[]}"#),
    ("POST", "/api/filter", r#"{"filter":"port:1"}"#),
    ("POST", "/api/filter", r#"{"filter":"cgroup:../../etc"}"#),
    ("POST", "/api/density", r#"{"interval_us":0}"#),
    ("POST", "/api/replay", r#"{"paused":true}"#),
];

#[test]
fn only_root_can_open_the_page_which_runs_without_privilege() {
    const TEST: &str = "only_root_can_open_the_page_which_runs_without_privilege";
    if !is_root(TEST) {
        return;
    }
    let Some(net) = Net::or_skip(TEST) else { return };
    // A silent connection, in namespaces that only a process with CAP_SYS_ADMIN can enter.
    let listener = net.inside(Side::B, || TcpListener::bind((net.v4(Side::B), 7001))).unwrap();
    let _silent = net.inside(Side::A, || TcpStream::connect((net.v4(Side::B), 7001))).unwrap();
    let _other = listener.accept().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (socket, recording) = (folder.path().join("share.sock"), folder.path().join("r.arrows"));
    daemon(&socket);
    let mut watch = Running::start(
        Command::new(YUZURI)
            .args(["watch", "port:1", "--web", "127.0.0.1:0", "--quiet", "--record"])
            .arg(&recording)
            .arg("--share-socket")
            .arg(&socket),
    );
    let (address, token) = page(&watch.wait_for_message("the page is at"));
    watch.wait_for_message("Ctrl-C ends it");
    let bearer = format!("Authorization: Bearer {token}\r\n");

    // nobody
    as_nobody(|| {
        for (method, path, body) in ROUTES {
            let (status, answer) = ask(address, method, path, "", body);
            assert_eq!(status, 401, "{method} {path}");
            assert!(answer.contains("open the address that yuzuri printed") && !answer.contains("secret"));
        }
        let denied = std::io::ErrorKind::PermissionDenied;
        assert_eq!(UnixStream::connect(&socket).unwrap_err().kind(), denied);
        assert_eq!(std::fs::OpenOptions::new().write(true).open(&recording).unwrap_err().kind(), denied);
    });
    assert_out_of_reach(watch.pid());
    assert_eq!(ask(address, "GET", "/api/session", &bearer, "").0, 200);
    // The filter stays as root chose it.
    stream_contains(address, &bearer, &["\"filter\":\"port:1\""]);

    // The listening process, and its two helper processes.
    assert_confined(watch.pid());
    let mut helpers = children(watch.pid());
    helpers.sort();
    let names: Vec<_> =
        helpers.iter().map(|(name, capabilities, ..)| (name.as_str(), *capabilities)).collect();
    let (ptrace, admin, search) = (1 << 19, 1 << 21, 1 << 2);
    assert_eq!(names, [("yuzuri-owners", ptrace | search), ("yuzuri-sockets", ptrace | admin)]);
    assert!(helpers[0].2 > 60_000 && helpers[1].2 == 0, "{helpers:?}");
    helpers.iter().for_each(|(.., pid)| assert_out_of_reach(*pid));

    // Holders of the token choose, within the permitted range.
    let filter = |text: &str| {
        let body = serde_json::json!({ "filter": text }).to_string();
        let (status, answer) = ask(address, "POST", "/api/filter", &bearer, &body);
        (status, answer.replace(text, "TERM"))
    };
    let outside = filter("cgroup:../../etc");
    assert_eq!(outside.0, 400);
    for path in ["cgroup:../../no-such", "cgroup:../../etc/passwd", "cgroup:a/../../../root", "cgroup:.."] {
        assert_eq!(filter(path), outside, "{path}");
    }
    for name in ["netns:../../etc/passwd", "netns:../../no-such", "netns:/proc/1/ns/net"] {
        assert_eq!(filter(name).0, 400, "{name}");
    }
    assert_eq!(filter("cgroup:no-such-group").0, 422);
    assert_eq!(ask(address, "GET", "/api/share", &bearer, ""), (200, "{\"secret\":1}".into()));
    // A dump in another namespace, and an owner whose process belongs to another user: the
    // helpers do both.
    assert_eq!(filter(&format!("netns:{} port:7001", net.name(Side::A))), (200, "{}".into()));
    stream_contains(address, &bearer, &[":7001", &format!("\"pid\":{}", std::process::id())]);
    assert_confined(watch.pid());

    let rest = watch.end();
    assert!(rest.contains("recorded") && !rest.contains("does not answer"), "{rest}");
    assert!(eventually(|| helpers.iter().all(|(.., pid)| !Path::new(&format!("/proc/{pid}")).exists())));
    let replayed =
        Command::new(YUZURI).arg("replay").arg(&recording).args(["--json", "--speed", "1000"]).output();
    assert!(String::from_utf8_lossy(&replayed.unwrap().stdout).contains(":7001"));

    // A replay is served in the same way, and can be rewound.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut replay =
        Running::start(Command::new(YUZURI).arg("replay").arg(&recording).args(["--web", "127.0.0.1:0"]));
    let (address, token) = page(&replay.wait_for_message("replaying"));
    let bearer = format!("Authorization: Bearer {token}\r\n");
    as_nobody(|| assert_eq!(ask(address, "GET", "/api/session", "", "").0, 401));
    assert_confined(replay.pid());
    assert_out_of_reach(replay.pid());
    for position in [500_000, 0] {
        let body = serde_json::json!({ "position_us": position }).to_string();
        assert_eq!(ask(address, "POST", "/api/replay", &bearer, &body).0, 200);
    }
    assert_eq!(ask(address, "GET", "/api/session", &bearer, "").0, 200);
    replay.end();
    yuzuri_testnet::attack(
        "another local user at root's page",
        ROUTES.len() as u64,
        "requests",
        "all refused",
    );
    yuzuri_testnet::attack(
        "paths that lead out of the control groups or namespaces",
        8,
        "filters",
        "all refused in the same way",
    );
}

#[test]
fn polling_with_the_page_is_confined_too() {
    const TEST: &str = "polling_with_the_page_is_confined_too";
    if !is_root(TEST) {
        return;
    }
    let Some(net) = Net::or_skip(TEST) else { return };
    let mut watch =
        Running::start(Command::new(YUZURI).args(["watch", "--poll", "--web", "127.0.0.1:0", "--quiet"]));
    let (address, token) = page(&watch.wait_for_message("the page is at"));
    assert_confined(watch.pid());
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let body = serde_json::json!({ "filter": format!("netns:{}", net.name(Side::A)) }).to_string();
    assert_eq!(ask(address, "POST", "/api/filter", &bearer, &body), (200, "{}".into()));
    watch.end();
}

#[test]
fn the_receiver_and_the_relay_run_without_privilege() {
    const TEST: &str = "the_receiver_and_the_relay_run_without_privilege";
    if !is_root(TEST) {
        return;
    }
    let Some(net) = Net::or_skip(TEST) else { return };
    // A port that only root may bind.
    let mut receive = Running::start(net.command(Side::B, YUZURI).args(["receive", "--port", "450"]));
    let to = format!("{}:450", net.v4(Side::B));
    let send = || net.command(Side::A, YUZURI).args(["send", &to, "--buffers", "3"]).output().unwrap();
    assert!(eventually(|| send().status.success()));
    assert_confined(receive.pid());
    assert_out_of_reach(receive.pid());
    assert!(children(receive.pid()).is_empty());
    kill(receive.pid(), Signal::SIGTERM).unwrap();
    assert!(receive.0.wait().unwrap().success());

    let mut relay =
        Running::start(net.command(Side::A, YUZURI).args(["share", "rendezvous", "127.0.0.1:451"]));
    assert!(relay.wait_for_message("rendezvous at").contains("127.0.0.1:451"));
    assert_confined(relay.pid());
    assert_out_of_reach(relay.pid());
    assert!(relay.end().contains("datagrams received"));

    // As a named user.
    let mut relay = Running::start(net.command(Side::A, YUZURI).args([
        "share",
        "rendezvous",
        "127.0.0.1:0",
        "--user",
        "60001:60002",
    ]));
    relay.wait_for_message("rendezvous at");
    let status = std::fs::read_to_string(format!("/proc/{}/status", relay.pid())).unwrap();
    assert_eq!(field(&status, "Uid").split_whitespace().next(), Some("60001"));
    assert_eq!(field(&status, "Gid").split_whitespace().next(), Some("60002"));
    relay.end();
    let unknown = Command::new(YUZURI).args(["receive", "--user", "no such user"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("/etc/passwd has no such user"), "{unknown:?}");
}

#[test]
fn a_filter_with_a_path_outside_the_hierarchy_is_a_usage_error() {
    for term in ["cgroup:../../etc", "cgroup:../../no-such", "netns:../../etc/passwd"] {
        let refused = Command::new(YUZURI).args(["watch", term]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(term), "{refused:?}");
    }
}
