//! The iperf3 workload.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use super::work::{Job, sleep_until};
use crate::LabError;
use crate::net::{Host, Topology};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_scenario::Direction;

/// Each terminal's server has its own port, because a server handles one client at a time.
const FIRST_PORT: u16 = 5201;
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A child process that is killed when this value is dropped.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tool(error: &io::Error) -> LabError {
    LabError::Tool(format!(
        "`iperf3` cannot be run: {error}; install it (Debian, Ubuntu: apt install iperf3)"
    ))
}

/// Checks whether iperf3 is installed.
pub fn check() -> Result<(), LabError> {
    let tried = Command::new("iperf3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.map(drop).map_err(|e| tool(&e))
}

/// Starts iperf3 inside a host.
fn start(host: &Host, args: &[String]) -> Result<KilledOnDrop, LabError> {
    // On this thread, which lives until the job is done: the parent-death signal refers to the
    // thread that started the process.
    host.namespace.enter()?;
    let mut command = Command::new("iperf3");
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: prctl is async-signal-safe.
    unsafe {
        command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?));
    }
    command.spawn().map(KilledOnDrop).map_err(|e| tool(&e))
}

/// Runs a client at the terminal and a server at the server until the flag is set.
pub fn run(
    topology: &Topology,
    job: &Job,
    connections: u32,
    direction: Direction,
    stop: &AtomicBool,
) -> Result<(), LabError> {
    let port = FIRST_PORT + job.terminal as u16;
    let words = |text: String| text.split_whitespace().map(String::from).collect::<Vec<_>>();
    let _server = start(&topology.server, &words(format!("-s -p {port}")))?;
    let until = Instant::now() + LISTEN_TIMEOUT;
    while !listens(port) {
        if Instant::now() > until || !sleep_until(Instant::now() + Duration::from_millis(5), stop) {
            return match stop.load(Ordering::Relaxed) {
                true => Ok(()),
                false => Err(LabError::Tool(format!(
                    "iperf3 does not listen at port {port} after {LISTEN_TIMEOUT:?}"
                ))),
            };
        }
    }
    let mut line = format!("-c {} -p {port} -t 0 -P {connections}", topology.server.v4);
    if let Some(control) = &job.control {
        line += &format!(" -C {control}");
    }
    if direction == Direction::Down {
        line += " -R";
    }
    let mut client = start(&topology.terminals[job.terminal], &words(line))?;
    while sleep_until(Instant::now() + Duration::from_millis(20), stop) {
        if let Ok(Some(status)) = client.0.try_wait() {
            return Err(LabError::Tool(format!(
                "iperf3 at terminal {} ended by itself: {status}",
                job.terminal
            )));
        }
    }
    Ok(())
}

/// Whether there is a listener on a TCP port of the calling thread's namespace.
fn listens(port: u16) -> bool {
    let text = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"]
        .map(|path| std::fs::read_to_string(path).unwrap_or_default())
        .concat();
    text.lines().any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let (local, _, state) = (columns.next(), columns.next(), columns.next());
        local.is_some_and(|l| l.ends_with(&format!(":{port:04X}"))) && state == Some("0A")
    })
}
