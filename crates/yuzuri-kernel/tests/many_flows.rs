//! A program with 20,000 flows: each of them is reported, or counted if it cannot be.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Running, Watched, events, flows};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use yuzuri_kernel::{Monitor, Options, Watch};
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{Account, Density, FlowId, Item, LossReason, Marks};

const CONNECTIONS: &str = "YUZURI_TEST_LOAD";
/// Maximum number of files that a test process has open besides its sockets.
const OTHER_FILES: u64 = 100;
/// Runs of our programs that the kernel may skip on a busy machine.
const LEFT_OUT: usize = 50;

/// Not a test: a process named `load` that holds both ends of many connections over loopback. On
/// request, each end sends once.
#[test]
fn hold_many_flows() {
    let Ok(connections) = std::env::var(CONNECTIONS) else { return };
    let connections: usize = connections.parse().unwrap();
    let files = 2 * connections as u64 + OTHER_FILES;
    setrlimit(Resource::RLIMIT_NOFILE, files, files).unwrap();
    std::fs::write("/proc/self/comm", "load").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let pairs: Vec<(TcpStream, TcpStream)> = (0..connections)
        .map(|_| {
            let near = TcpStream::connect(to).unwrap();
            let far = listener.accept().unwrap().0;
            near.set_nodelay(true).unwrap();
            far.set_nodelay(true).unwrap();
            (near, far)
        })
        .collect();
    println!("holding {}", pairs.len());
    let mut byte = [0];
    for line in std::io::stdin().lines() {
        assert_eq!(line.unwrap(), "speak");
        for (near, far) in &pairs {
            { near }.write_all(&[1]).unwrap();
            { far }.read_exact(&mut byte).unwrap();
            { far }.write_all(&[1]).unwrap();
            { near }.read_exact(&mut byte).unwrap();
        }
        println!("spoken");
    }
}

/// Processes named `load`.
struct Load(Vec<Holder>);

struct Holder {
    _process: Running,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(net: &Net, flows: usize) -> Holder {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hold_many_flows", "--nocapture"]).env(CONNECTIONS, (flows / 2).to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = net.inside(Side::A, || Running::spawn(&mut command));
        let commands = process.0.stdin.take().unwrap();
        let answers = BufReader::new(process.0.stdout.take().unwrap()).lines();
        Holder { _process: process, commands, answers }
    }
}

impl Load {
    /// Four processes: the limit of open files may be too low for one, on some machines even for
    /// root.
    fn start(test: &str, net: &Net, flows: usize) -> Option<Load> {
        const PROCESSES: usize = 4;
        let files = (flows / PROCESSES) as u64 + OTHER_FILES;
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        if most < files {
            println!(
                "{test}: skipped: a process may have {most} files open here (ulimit -Hn), and {files} are needed"
            );
            return None;
        }
        let mut holders: Vec<Holder> =
            (0..PROCESSES).map(|_| Holder::start(net, flows / PROCESSES)).collect();
        for holder in &mut holders {
            assert!(holder.answers.any(|line| line.unwrap().contains("holding")), "it holds its flows");
        }
        Some(Load(holders))
    }

    /// Makes each flow send and receive a byte.
    fn speak(&mut self) {
        self.0.iter_mut().for_each(|holder| writeln!(holder.commands, "speak").unwrap());
        self.0.iter_mut().for_each(|holder| assert_eq!(holder.answers.next().unwrap().unwrap(), "spoken"));
    }

    /// The same while a monitor is read.
    fn speak_read(&mut self, watched: &mut Watched) {
        let read = || {
            watched.read();
            std::thread::sleep(watched.monitor.read_interval().min(Duration::from_millis(5)));
        };
        while_done(|| self.speak(), read);
    }
}

/// Runs one closure on its own thread, and repeats another until that is done.
fn while_done(thing: impl FnOnce() + Send, mut other: impl FnMut()) {
    std::thread::scope(|scope| {
        let thing = scope.spawn(thing);
        while !thing.is_finished() {
            other();
        }
        thing.join().unwrap();
    });
}

fn shown(items: &[Item]) -> usize {
    flows(items).iter().map(|flow| flow.id).collect::<HashSet<FlowId>>().len()
}

/// Flows reported by a hook.
fn hooked(items: &[Item]) -> usize {
    let unsampled = events(items).into_iter().filter(|event| !event.marks.contains(Marks::SAMPLED));
    unsampled.map(|event| event.flow).collect::<HashSet<FlowId>>().len()
}

fn owner_unknown(account: &Account) -> u64 {
    let lost = account.lost_by_reason();
    lost.iter().find(|(reason, _)| *reason == LossReason::OwnerUnknown).map_or(0, |(_, n)| *n)
}

/// Reads until `wanted` are there; three minutes at most, since a search through `/proc` takes long
/// on a busy machine.
fn until(watched: &mut Watched, what: &str, wanted: usize, count: impl Fn(&[Item]) -> usize) {
    let deadline = Instant::now() + Duration::from_secs(180);
    while count(watched.read()) < wanted {
        let there = count(&watched.items);
        assert!(Instant::now() < deadline, "{what}: {there} of {wanted}; {}", watched.monitor.account());
        std::thread::sleep(watched.monitor.read_interval());
    }
}

fn filter(net: &Net) -> String {
    format!("netns:{} name:load", net.name(Side::A))
}

#[test]
fn all_flows_of_a_program_with_20000_are_seen() {
    const TEST: &str = "all_flows_of_a_program_with_20000_are_seen";
    const FLOWS: usize = 20_000;
    // Room on each CPU for everything they send, however late a busy machine reads it.
    const RING_BYTES: usize = 64 << 20;
    let Some(net) = Net::or_skip(TEST) else { return };
    let Some(mut load) = Load::start(TEST, &net, FLOWS) else { return };

    // Silent flows, found by a dump: each is selected from its first segment on.
    let mut watched = Watched::with_ring(&filter(&net), Density::EveryAck, Some(RING_BYTES));
    until(&mut watched, "silent flows", FLOWS, shown);
    load.speak_read(&mut watched);
    until(&mut watched, "flows that spoke once", FLOWS - LEFT_OUT, hooked);
    let seen = watched.finish();
    println!("{TEST}: silent at first: {} flows shown; {}", shown(&seen.items), seen.account);
    assert_eq!(shown(&seen.items), FLOWS);
    assert_eq!(seen.account.seen(), seen.account.kept() + seen.account.lost());

    // They send before their owners can be known, and then are silent.
    let mut watched = Watched::with_ring(&filter(&net), Density::EveryAck, Some(RING_BYTES));
    load.speak();
    until(&mut watched, "flows that spoke too early", FLOWS, shown);
    // Their records are counted, because it is not known yet whether they will be kept.
    let account = watched.monitor.account();
    assert!(owner_unknown(&account) >= (FLOWS - LEFT_OUT) as u64, "{account}");
    load.speak_read(&mut watched);
    until(&mut watched, "flows that spoke again", FLOWS - LEFT_OUT, hooked);
    let seen = watched.finish();
    println!("{TEST}: speaking at first: {} flows shown; {}", shown(&seen.items), seen.account);
    assert_eq!(shown(&seen.items), FLOWS);
    assert!(owner_unknown(&seen.account) >= (FLOWS - LEFT_OUT) as u64, "{}", seen.account);
}

#[test]
fn what_a_full_table_of_owners_rejects_is_counted_and_comes_later() {
    const TEST: &str = "what_a_full_table_of_owners_rejects_is_counted_and_comes_later";
    const FLOWS: usize = 1000;
    const ROOM: u32 = 100;
    let Some(net) = Net::or_skip(TEST) else { return };
    let Some(mut load) = Load::start(TEST, &net, FLOWS) else { return };
    let options =
        Options { filter: filter(&net).parse().unwrap(), density: Density::EveryAck, ring_bytes: None };
    let room = yuzuri_kernel::TableSizes { owners: ROOM, stacks: 2048 };
    let monitor = Monitor::start_with_tables(&options, &room).unwrap_or_else(|error| panic!("{error}"));
    let mut watched = Watched { monitor: Box::new(monitor), items: Vec::new() };
    until(&mut watched, "silent flows", FLOWS, shown);
    // Nobody reads meanwhile: there is room for a tenth of them.
    load.speak();
    watched.read();
    let (first, account) = (hooked(&watched.items), watched.monitor.account());
    assert!(first <= ROOM as usize, "{first}");
    assert!(owner_unknown(&account) >= (FLOWS - ROOM as usize - LEFT_OUT) as u64, "{account}");
    let deadline = Instant::now() + Duration::from_secs(180);
    let mut rounds = 1;
    while hooked(&watched.items) < FLOWS {
        assert!(Instant::now() < deadline, "{} of {FLOWS} after {rounds} rounds", hooked(&watched.items));
        load.speak_read(&mut watched);
        rounds += 1;
    }
    let seen = watched.finish();
    println!("{TEST}: {first} flows at first, all after {rounds} rounds; {}", seen.account);
    assert_eq!(seen.account.seen(), seen.account.kept() + seen.account.lost());
    yuzuri_testnet::attack(
        "flows beyond the kernel's table of owners",
        (FLOWS - ROOM as usize) as u64,
        "flows",
        "counted, and shown later",
    );
}

/// Flows of others, and flows whose owner cannot be known: the former are no loss once they are
/// known, the latter stay counted.
#[test]
fn flows_of_other_processes_do_not_count_as_lost_once_their_owner_is_known() {
    const TEST: &str = "flows_of_other_processes_do_not_count_as_lost_once_their_owner_is_known";
    const FLOWS: usize = 200;
    let Some(net) = Net::or_skip(TEST) else { return };
    let Some(mut load) = Load::start(TEST, &net, FLOWS) else { return };
    let filter = format!("netns:{} name:another", net.name(Side::A));
    let mut watched = Watched::start(&filter, Density::EveryAck);
    load.speak();
    watched.read();
    let before = owner_unknown(&watched.monitor.account());
    assert!(before >= (FLOWS - LEFT_OUT) as u64, "{before}");
    let deadline = Instant::now() + Duration::from_secs(180);
    let mut account = watched.monitor.account();
    while owner_unknown(&account) > 0 {
        assert!(Instant::now() < deadline, "{account}");
        load.speak_read(&mut watched);
        account = watched.monitor.account();
    }
    println!("{TEST}: {before} runs of flows that were not known, then {account}");
    let seen = watched.finish();
    assert_eq!((shown(&seen.items), owner_unknown(&seen.account)), (0, 0), "{}", seen.account);
}
