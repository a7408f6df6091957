//! An access point in front of a wire, and its daemon.

use std::process::Child;
use yuzuri_testnet::{AccessPoint, Host};

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

/// A daemon; killed when dropped.
pub(crate) struct Daemon(pub(crate) Child);

impl Daemon {
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
