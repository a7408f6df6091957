//! A separate process for tests that need one: the test binary again, with its role in the
//! environment.

use super::Running;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use yuzuri_testnet::{Net, Side};

const CONNECT: &str = "YUZURI_TEST_CONNECT";
const LISTEN: &str = "YUZURI_TEST_LISTEN";
const CGROUP: &str = "YUZURI_TEST_CGROUP";

/// Called from a test named `child` in each binary that uses this: plays the role given by the
/// environment, until the other end closes.
pub fn be_one() {
    let wait = |mut stream: TcpStream| while stream.read(&mut [0; 64]).is_ok_and(|n| n > 0) {};
    if let Ok(procs) = std::env::var(CGROUP) {
        std::fs::write(&procs, std::process::id().to_string()).unwrap();
    }
    if let Ok(address) = std::env::var(CONNECT) {
        // A thread with a name of its own, as many programs have.
        let named = std::thread::Builder::new().name("some-thread".into());
        named.spawn(move || wait(TcpStream::connect(address).unwrap())).unwrap().join().unwrap();
    } else if let Ok(address) = std::env::var(LISTEN) {
        let listener = TcpListener::bind(address).unwrap();
        println!("listening {}", listener.local_addr().unwrap().port());
        wait(listener.accept().unwrap().0);
    }
}

/// Starts one inside a side's namespace; not by `ip netns exec`, which hides the control groups.
fn spawn(net: &Net, side: Side, variables: &[(&str, String)], stdout: Stdio) -> Running {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).stdout(stdout);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    net.inside(side, || Running::spawn(&mut command))
}

/// A process that connects to an address and holds the connection; within a cgroup, if one is
/// given.
pub fn connecting(
    net: &Net,
    side: Side,
    to: std::net::SocketAddr,
    cgroup: Option<&std::path::Path>,
) -> Running {
    let mut variables = vec![(CONNECT, to.to_string())];
    if let Some(folder) = cgroup {
        variables.push((CGROUP, folder.join("cgroup.procs").display().to_string()));
    }
    spawn(net, side, &variables, Stdio::null())
}

/// A process that accepts one connection and holds it; returns it with its port.
pub fn listening(net: &Net, side: Side) -> (Running, u16) {
    let address = std::net::SocketAddr::new(net.v4(side), 0);
    let mut running = spawn(net, side, &[(LISTEN, address.to_string())], Stdio::piped());
    let lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    let port = lines.map(Result::unwrap).find_map(|line| {
        let (_, port) = line.split_once("listening ")?;
        port.trim().parse().ok()
    });
    (running, port.unwrap())
}

/// The name of this binary's processes (`/proc/PID/comm`).
pub fn name() -> String {
    std::fs::read_to_string("/proc/self/comm").unwrap().trim_end().to_owned()
}
