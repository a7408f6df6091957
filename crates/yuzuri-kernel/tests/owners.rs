//! The search for owners through `/proc` takes long if many files are open; the ring buffers do not
//! wait for it.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Running, Watched, child, events, flow_id, flows};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::Density;

/// Processes that hold files.
const HOLDERS: usize = 8;
const HOLD: &str = "YUZURI_TEST_HOLD_FILES";

/// See [`child::be_one`].
#[test]
fn child() {
    child::be_one();
}

/// Not a test: a process that opens as many files as it may.
#[test]
fn hold_files() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most.min(50_000), most).unwrap();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    // Leave room for standard output.
    files.pop();
    println!("holding {}", files.len());
    loop {
        std::thread::park();
    }
}

/// A process that holds files, and how many.
fn holding() -> (Running, usize) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "hold_files", "--nocapture"]).env(HOLD, "1").stdout(Stdio::piped());
    let mut holder = Running::spawn(&mut command);
    let mut lines = BufReader::new(holder.0.stdout.take().unwrap()).lines();
    let held =
        lines.find_map(|line| line.unwrap().split_once("holding ").map(|(_, n)| n.trim().parse().unwrap()));
    (holder, held.unwrap())
}

#[test]
fn rings_are_read_while_a_search_is_under_way() {
    const TEST: &str = "rings_are_read_while_a_search_is_under_way";
    let Some(net) = Net::or_skip(TEST) else { return };
    let holders: Vec<(Running, usize)> = (0..HOLDERS).map(|_| holding()).collect();
    let held: usize = holders.iter().map(|(_, files)| files).sum();
    if held < 50_000 {
        return println!("{TEST}: skipped: {HOLDERS} processes may hold only {held} files open here");
    }
    // The process with the socket is started later: the search follows the processes' numbers.
    let (server, at) = child::listening(&net, Side::B);
    if holders.iter().any(|(holder, _)| server.0.id() < holder.0.id()) {
        return println!("{TEST}: skipped: the processes' numbers began anew");
    }
    let to = SocketAddr::new(net.v4(Side::B), at);
    let near = net.inside(Side::A, || TcpStream::connect(to).unwrap());
    near.set_nodelay(true).unwrap();
    let mut watched = Watched::of(&net, Side::B, Density::EveryAck);
    watched.until("the flow", |items| flow_id(items, to).is_some());
    let id = flow_id(&watched.items, to).unwrap();
    // From the first record on, its owner is searched for.
    let mut reads_meanwhile = 0;
    loop {
        let before = events(&watched.items).len();
        // A kernel may skip a program run: then another segment causes the record.
        watched.until("the segment's record", |items| {
            let come = events(items).len() > before;
            come || (&near).write(&[1]).is_err()
        });
        if flows(&watched.items).iter().any(|f| f.id == id && f.owner.is_some()) {
            break;
        }
        reads_meanwhile += 1;
    }
    let flow = flows(&watched.items).into_iter().rfind(|f| f.id == id && f.owner.is_some()).unwrap();
    assert_eq!(flow.owner.as_ref().map(|o| o.pid), Some(server.0.id()));
    println!("{TEST}: {reads_meanwhile} records one by one while {held} files were looked at");
    assert!(reads_meanwhile >= 5, "{reads_meanwhile}");
    watched.finish_whole();
}
