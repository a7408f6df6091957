//! An access point in front of a wire, and its daemon.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use yuzuri_share::ApStatus;
use yuzuri_testnet::{AccessPoint, Host, eventually};

pub(crate) const YUZURI: &str = env!("CARGO_BIN_EXE_yuzuri");

/// The wire: 50 Mbit/s, and a queue of 200 ms at that rate.
pub(crate) const RATE_MBIT: u32 = 50;
const QUEUE_BYTES: u32 = 1_250_000;

pub(crate) fn network(test: &str, stations: u8) -> Option<AccessPoint> {
    let net = AccessPoint::or_skip(test, stations)?;
    net.shape(RATE_MBIT, QUEUE_BYTES).unwrap();
    for station in (0..stations).map(Host::Station) {
        net.set(station, "net.ipv4.tcp_no_metrics_save", "1").unwrap();
    }
    Some(net)
}

/// The status of the daemon in this folder; `None` while it does not answer.
pub(crate) fn status(runtime: &Path) -> Option<ApStatus> {
    let asked =
        Command::new(YUZURI).args(["ap", "status", "--json", "--runtime"]).arg(runtime).output().unwrap();
    asked.status.success().then(|| serde_json::from_slice(&asked.stdout).unwrap())
}

/// A daemon; killed when dropped.
pub(crate) struct Daemon(pub(crate) Child);

impl Daemon {
    /// Starts `yuzuri ap` with this rate limit for every station, which bounds its uploads from the
    /// first tick on, and waits until it answers. `None`, with a printed reason, if this machine
    /// does not support the gate.
    pub(crate) fn or_skip(
        net: &AccessPoint,
        runtime: &Path,
        max_mbps: u32,
        words: &[&str],
    ) -> Option<Daemon> {
        let file = runtime.join("ap.toml");
        std::fs::write(&file, format!("[guests]\nmax_mbps = {max_mbps}\n")).unwrap();
        let mut command = net.command(Host::AccessPoint, YUZURI);
        command.args(["ap", "--runtime"]).arg(runtime).arg("--config").arg(&file).args(words);
        let mut daemon = Daemon(command.stderr(Stdio::piped()).spawn().unwrap());
        let is_there = || status(runtime).is_some();
        let mut ended = || daemon.0.try_wait().unwrap().is_some();
        assert!(eventually(|| is_there() || ended()), "the daemon does not start");
        if is_there() {
            return Some(daemon);
        }
        let mut why = String::new();
        daemon.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
        println!("skipped: {why}");
        None
    }

    /// Ends it as a service manager does; returns its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
