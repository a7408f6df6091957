//! A second path between the two namespaces, through user space. A test decides the fate of each
//! packet by its contents and by earlier packets. A loss or a reordering thus happens exactly where
//! the test needs it and does not depend on a clock or a queue.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use crate::packet::Packet;
use crate::{Net, Side, feed};
use anyhow::{anyhow, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;
use std::fs::File;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Forward it.
    Pass,
    /// Drop it.
    Drop,
    /// Hold it until a release.
    Hold,
    /// Forward it, then all held packets of both directions, in order.
    PassAndRelease,
    /// Forward all held packets, then this one.
    ReleaseAndPass,
}

/// Decides the fate of each packet.
pub type Policy = Box<dyn FnMut(&mut Packet<'_>) -> Verdict + Send>;

/// The path: a TUN device in each namespace and a thread between them. Dropping it removes the
/// path.
pub struct Relay {
    policy: Arc<Mutex<Policy>>,
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Creates the path. It forwards every packet until [`Relay::decide`] is called.
    ///
    /// # Errors
    /// If `/dev/net/tun` is not available or `ip` fails.
    pub fn new(net: &Net) -> anyhow::Result<Relay> {
        let tuns = [tun(net, Side::A, "relay", 78)?, tun(net, Side::B, "relay", 78)?];
        let policy: Arc<Mutex<Policy>> = Arc::new(Mutex::new(Box::new(|_| Verdict::Pass)));
        let (stopped, stop) = nix::unistd::pipe().map_err(|e| anyhow!("creating a pipe: {e}"))?;
        let thread = std::thread::spawn({
            let policy = policy.clone();
            move || forward_packets(tuns, &policy, &stopped)
        });
        Ok(Relay { policy, stop: Some(stop), thread: Some(thread) })
    }

    /// Same as [`Relay::new`]; on failure prints that the test is skipped and why.
    pub fn or_skip(net: &Net, test: &str) -> Option<Relay> {
        Relay::new(net).map_err(|why| println!("{test}: skipped: {why}")).ok()
    }

    /// Replaces the policy from the next packet on. Held packets stay held.
    pub fn decide(&self, policy: impl FnMut(&mut Packet<'_>) -> Verdict + Send + 'static) {
        *self.policy.lock() = Box::new(policy);
    }

    /// The IPv4 address of a side on this path.
    pub fn v4(&self, side: Side) -> IpAddr {
        IpAddr::from([10, 78, 0, 1 + side as u8])
    }

    /// The IPv6 address of a side on this path.
    pub fn v6(&self, side: Side) -> IpAddr {
        IpAddr::from([0xfd78, 0, 0, 0, 0, 0, 0, 1 + side as u16])
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Creates a TUN device in a side's namespace, with addresses of 10.NUMBER.0.0/24 and
/// fdNUMBER::/64.
pub(crate) fn tun(net: &Net, side: Side, device: &str, number: u8) -> anyhow::Result<File> {
    let file = net.inside(side, || -> anyhow::Result<File> {
        let file = File::options().read(true).write(true).open("/dev/net/tun");
        let file = file.map_err(|e| anyhow!("/dev/net/tun cannot be opened: {e}"))?;
        // SAFETY: ifreq is plain integers; all zero is valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the descriptor is open and the request outlives the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request) };
        if result < 0 {
            bail!("creating a TUN device: {}", std::io::Error::last_os_error());
        }
        Ok(file)
    })?;
    let (name, host) = (net.name(side), 1 + side as u8);
    let lines = format!(
        "addr add 10.{number}.0.{host}/24 dev {device}\naddr add fd{number}::{host}/64 dev {device} nodad\n\
         link set {device} up\n"
    );
    feed(std::process::Command::new("ip").args(["-n", name, "-batch", "-"]), &lines)?;
    Ok(file)
}

fn forward_packets(mut tuns: [File; 2], policy: &Mutex<Policy>, stopped: &OwnedFd) {
    let mut held: Vec<(Side, Vec<u8>)> = Vec::new();
    let mut buffer = vec![0; 65536];
    loop {
        let mut ready = [
            PollFd::new(tuns[0].as_fd(), PollFlags::POLLIN),
            PollFd::new(tuns[1].as_fd(), PollFlags::POLLIN),
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return,
        }
        let any = ready.map(|fd| fd.any().unwrap_or(true));
        if any[2] {
            return;
        }
        for from in [Side::A, Side::B] {
            if !any[from as usize] {
                continue;
            }
            // The namespace is gone, and the path with it.
            let Ok(length) = tuns[from as usize].read(&mut buffer) else { return };
            let mut packet = Packet::read(from, &mut buffer[..length]);
            let verdict = policy.lock()(&mut packet);
            // A full receive queue drops packets, as any network may.
            let mut deliver = |from: Side, bytes: &[u8]| drop(tuns[from.other() as usize].write(bytes));
            if verdict == Verdict::ReleaseAndPass {
                held.drain(..).for_each(|(from, bytes)| deliver(from, &bytes));
            }
            match verdict {
                Verdict::Drop => {}
                Verdict::Hold => held.push((from, buffer[..length].to_vec())),
                _ => deliver(from, &buffer[..length]),
            }
            if verdict == Verdict::PassAndRelease {
                held.drain(..).for_each(|(from, bytes)| deliver(from, &bytes));
            }
        }
    }
}
