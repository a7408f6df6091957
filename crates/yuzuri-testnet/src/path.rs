//! A path between the two namespaces with a rate, a delay, a queue and random losses. It is
//! implemented in user space, for kernels without netem.

#![expect(unsafe_code, reason = "a system call that no library here wraps")]

use crate::relay::tun;
use crate::{Net, Side, run};
use anyhow::{anyhow, bail};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use yuzuri_capture::checksum;

/// The properties of one direction of the path.
#[derive(Debug, Clone, Copy)]
pub struct PathDirection {
    /// Bits per second.
    pub rate_bps: u64,
    /// Propagation delay.
    pub delay: Duration,
    /// Maximum number of queued bytes; packets that do not fit are dropped.
    pub queue_bytes: u64,
    /// Loss probability of a packet, 0 to 1.
    pub loss: f64,
}

impl PathDirection {
    /// A line of 10 Gbit/s with a delay, on which nothing is lost.
    pub const fn with_delay(delay: Duration) -> PathDirection {
        PathDirection { rate_bps: 10_000_000_000, delay, queue_bytes: u64::MAX, loss: 0.0 }
    }
}

/// The path: a TUN device in each namespace and a thread between them. Dropping it removes the
/// path.
#[derive(Debug)]
pub struct Path {
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Path {
    /// Creates the path. `there` is the direction from A to B; `seed` determines the losses.
    ///
    /// # Errors
    /// If `/dev/net/tun` is not available or `ip` fails.
    pub fn new(net: &Net, there: PathDirection, back: PathDirection, seed: u64) -> anyhow::Result<Path> {
        Path::between(net, there, back, seed, false)
    }

    /// The same behind network cards that fill in checksums, as nearly all do: captures on their
    /// hosts have incomplete checksums.
    ///
    /// # Errors
    /// As [`Path::new`].
    pub fn with_checksum_offload(
        net: &Net,
        there: PathDirection,
        back: PathDirection,
        seed: u64,
    ) -> anyhow::Result<Path> {
        Path::between(net, there, back, seed, true)
    }

    fn between(
        net: &Net,
        there: PathDirection,
        back: PathDirection,
        seed: u64,
        cards: bool,
    ) -> anyhow::Result<Path> {
        let tuns = [tun(net, Side::A, "path", 79)?, tun(net, Side::B, "path", 79)?];
        if cards {
            tuns.iter().try_for_each(leave_sums_incomplete)?;
        }
        // Packets as on a wire, as on the veth pair.
        for side in [Side::A, Side::B] {
            let name = net.name(side);
            run("ip", &format!("netns exec {name} ethtool -K path tso off gso off gro off"))?;
        }
        let (stopped, stop) = nix::unistd::pipe().map_err(|e| anyhow!("making a pipe: {e}"))?;
        let thread = std::thread::spawn(move || carry(tuns, [there, back], seed, &stopped));
        Ok(Path { stop: Some(stop), thread: Some(thread) })
    }

    /// The IPv4 address of a side on this path.
    pub fn v4(side: Side) -> IpAddr {
        IpAddr::from([10, 79, 0, 1 + side as u8])
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of one direction.
struct Line {
    way: PathDirection,
    /// When the line will have sent everything that is queued.
    free_at: Instant,
    /// Packets in flight, in order.
    flying: VecDeque<(Instant, Vec<u8>)>,
}

impl Line {
    fn enter(&mut self, packet: &[u8], now: Instant, chance: f64) {
        let waits = self.free_at.saturating_duration_since(now);
        let waiting_bytes = waits.as_secs_f64() * self.way.rate_bps as f64 / 8.0;
        if chance < self.way.loss || waiting_bytes + packet.len() as f64 > self.way.queue_bytes as f64 {
            return;
        }
        let takes = Duration::from_secs_f64(packet.len() as f64 * 8.0 / self.way.rate_bps as f64);
        self.free_at = self.free_at.max(now) + takes;
        self.flying.push_back((self.free_at + self.way.delay, packet.to_vec()));
    }
}

/// Lets the kernel leave TCP checksums to the device (`NETIF_F_HW_CSUM`).
fn leave_sums_incomplete(tun: &File) -> anyhow::Result<()> {
    // SAFETY: the descriptor is open, and the argument is a number.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::TUN_F_CSUM) };
    if result < 0 {
        bail!("leaving checksums to a TUN device: {}", std::io::Error::last_os_error());
    }
    Ok(())
}

/// Completes a TCP checksum that has only the sum of the pseudo-header, as a network card does.
fn complete_sum(packet: &mut [u8]) {
    // IPv4, or IPv6 without extension headers.
    let (addresses, header, protocol) = match packet.first().map(|first| (first >> 4, first & 15)) {
        Some((4, words)) => (12..20, usize::from(words) * 4, packet.get(9).copied()),
        Some((6, _)) => (8..40, 40, packet.get(6).copied()),
        _ => return,
    };
    if protocol != Some(6) {
        return;
    }
    let Some(length) = packet.len().checked_sub(header).filter(|length| *length >= 20) else { return };
    let pseudo = checksum::sum(&packet[addresses]) + checksum::length_and_protocol(length as u32);
    let at = header + 16;
    if packet[at..at + 2] == checksum::fold(pseudo).to_ne_bytes() {
        let whole = checksum::of(&[&packet[header..]]);
        packet[at..at + 2].copy_from_slice(&whole);
    }
}

/// Raises the thread's priority above all programs, if the kernel permits it: a network does not
/// wait until the hosts at its ends have a free CPU.
fn raise_priority() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters live during the call, and 0 is the calling thread.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
}

fn carry(mut tuns: [File; 2], ways: [PathDirection; 2], seed: u64, stopped: &OwnedFd) {
    raise_priority();
    let begun = Instant::now();
    let mut lines = ways.map(|way| Line { way, free_at: begun, flying: VecDeque::new() });
    let mut random = seed | 1;
    let mut buffer = vec![0; 65536];
    loop {
        let next = lines.iter().filter_map(|line| line.flying.front().map(|(at, _)| *at)).min();
        let rest = next.map(|at| TimeSpec::from_duration(at.saturating_duration_since(Instant::now())));
        let mut ready = [
            PollFd::new(tuns[0].as_fd(), PollFlags::POLLIN),
            PollFd::new(tuns[1].as_fd(), PollFlags::POLLIN),
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        ];
        match ppoll(&mut ready, rest, None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return,
        }
        let any = ready.map(|fd| fd.any().unwrap_or(true));
        if any[2] {
            return;
        }
        for from in 0..2 {
            if any[from] {
                // The namespace is gone, and the path with it.
                let Ok(length) = tuns[from].read(&mut buffer) else { return };
                // Xorshift: a seed repeats the losses.
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let chance = (random >> 11) as f64 / (1u64 << 53) as f64;
                complete_sum(&mut buffer[..length]);
                lines[from].enter(&buffer[..length], Instant::now(), chance);
            }
            let now = Instant::now();
            let flying = &mut lines[from].flying;
            while flying.front().is_some_and(|(at, _)| *at <= now) {
                // A full receive queue drops packets, as any network may.
                let _ = flying.pop_front().map(|(_, packet)| tuns[1 - from].write(&packet));
            }
        }
    }
}
