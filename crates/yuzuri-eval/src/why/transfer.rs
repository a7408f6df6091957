//! Runs a transfer between two namespaces.

use super::case::{Case, IoPattern, Phase};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use yuzuri_kernel::own;
use yuzuri_testnet::{Net, Path, PathDirection, Side, set_max_pacing_rate};

/// The current phase, and whether the transfer is over.
#[derive(Default)]
struct TransferState {
    phase: AtomicUsize,
    /// The phase in which the writer began its latest write.
    written: AtomicUsize,
    ended: AtomicBool,
}

/// A transfer from A to B that continues until it is dropped.
pub struct Transfer {
    now: Arc<TransferState>,
    phases: Vec<Phase>,
    threads: Vec<JoinHandle<()>>,
    /// Shut down to wake the threads that wait on a full socket.
    sockets: Vec<TcpStream>,
    /// The sender's address.
    pub local: SocketAddr,
}

/// The path of a case.
pub fn path(net: &Net, case: &Case, seed: u64) -> Path {
    let forward = PathDirection {
        rate_bps: case.rate_bps as u64,
        delay: case.rtt / 2,
        queue_bytes: case.queue_bytes as u64,
        loss: case.loss,
    };
    let return_path = PathDirection::with_delay(case.rtt / 2);
    let path = if case.offloads_checksums {
        Path::with_checksum_offload(net, forward, return_path, seed)
    } else {
        Path::new(net, forward, return_path, seed)
    };
    let path = path.unwrap();
    if case.gso {
        // Software segmentation: TCP sends large segments, and the device gets small ones.
        let done = net.command(Side::A, "ethtool").args(["-K", "path", "gso", "on"]).status().unwrap();
        assert!(done.success());
    }
    if let Some((rate_bps, limit_bytes)) = case.device {
        let tbf = format!(
            "qdisc replace dev path root tbf rate {rate_bps:.0}bit burst 6000 limit {limit_bytes:.0}"
        );
        let done = net.command(Side::A, "tc").args(tbf.split_whitespace()).status().unwrap();
        assert!(done.success());
    }
    path
}

impl Transfer {
    /// Starts the transfer over the path.
    pub fn start(net: &Net, case: &Case, control: &str) -> Transfer {
        let listener = net.inside(Side::B, || {
            if let Some(bytes) = case.max_receive_buffer {
                let sizes = format!("4096 {} {bytes}", bytes.min(131_072));
                std::fs::write("/proc/sys/net/ipv4/tcp_rmem", sizes).unwrap();
            }
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            if let Some(bytes) = case.receive_buffer {
                socket.set_recv_buffer_size(bytes).unwrap();
            }
            socket.bind(&SocketAddr::new(Path::v4(Side::B), 0).into()).unwrap();
            socket.listen(1).unwrap();
            TcpListener::from(socket)
        });
        let to = listener.local_addr().unwrap();
        let near = net.inside(Side::A, || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_tcp_congestion(control.as_bytes()).unwrap();
            socket.set_tcp_nodelay(true).unwrap();
            if let Some(bytes) = case.send_buffer {
                socket.set_send_buffer_size(bytes).unwrap();
            }
            if let Some(rate) = case.phases[0].pacing {
                set_max_pacing_rate(&socket, rate);
            }
            socket.connect(&to.into()).unwrap();
            TcpStream::from(socket)
        });
        let (far, _) = listener.accept().unwrap();
        let now = Arc::new(TransferState::default());
        let sockets = vec![near.try_clone().unwrap(), far.try_clone().unwrap()];
        let local = near.local_addr().unwrap();
        let reads: Vec<IoPattern> = case.phases.iter().map(|phase| phase.reads).collect();
        let writes: Vec<IoPattern> = case.phases.iter().map(|phase| phase.writes).collect();
        let threads = vec![
            std::thread::spawn({
                let now = now.clone();
                move || run_io_pattern(&now, &reads, |_, buffer| matches!((&far).read(buffer), Ok(1..)))
            }),
            std::thread::spawn({
                let now = now.clone();
                move || {
                    run_io_pattern(&now, &writes, |phase, buffer| {
                        now.written.store(phase, Ordering::Relaxed);
                        (&near).write_all(buffer).is_ok()
                    });
                }
            }),
        ];
        Transfer { now, phases: case.phases.clone(), threads, sockets, local }
    }

    /// Switches to another phase.
    pub fn phase(&self, number: usize) {
        let rate = self.phases[number].pacing.unwrap_or(u64::MAX);
        set_max_pacing_rate(&self.sockets[0], rate);
        self.now.phase.store(number, Ordering::Relaxed);
    }

    /// Waits for the next retransmission, at most for the time that a window takes to fill the
    /// longest path.
    pub fn wait_for_loss(&self) {
        let retransmitted = || u32_at(&self.info(), 100);
        let before = retransmitted();
        wait_until(|| retransmitted() != before);
    }

    /// Waits until everything has been sent that the previous phase wrote. Until then, what limits
    /// the sender is not what limits its program.
    pub fn wait_until_sent(&self) {
        // A write that is blocked still adds data.
        let phase = self.now.phase.load(Ordering::Relaxed);
        wait_until(|| self.now.written.load(Ordering::Relaxed) == phase);
        // What tcpi_bytes_sent has beyond tcpi_bytes_retrans, and tcpi_notsent_bytes.
        let sent = |info: &[u8]| u64_at(info, 200).saturating_sub(u64_at(info, 208));
        let info = self.info();
        let written = sent(&info) + u64::from(u32_at(&info, 144));
        wait_until(|| sent(&self.info()) >= written);
    }

    /// The kernel's chronographs, as `ss -ti` shows them: busy, limited by the receiver's window,
    /// by the send buffer; microseconds.
    pub fn chronographs(&self) -> [u64; 3] {
        let info = self.info();
        [168, 176, 184].map(|at| u64_at(&info, at))
    }

    /// The sender's `TCP_INFO`.
    fn info(&self) -> Vec<u8> {
        own::info(self.sockets[0].as_fd()).unwrap()
    }
}

fn u32_at(info: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(info[at..at + 4].try_into().unwrap())
}

fn u64_at(info: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(info[at..at + 8].try_into().unwrap())
}

/// Waits, at most a minute.
fn wait_until(holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() && since.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.now.ended.store(true, Ordering::Relaxed);
        for socket in &self.sockets {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Calls `does` at the phase's interval. It catches up after a delay, but for at most a second.
/// `does` gets the phase and a buffer.
fn run_io_pattern(
    now: &TransferState,
    patterns: &[IoPattern],
    mut does: impl FnMut(usize, &mut [u8]) -> bool,
) {
    let most = patterns.iter().map(|pattern| pattern.bytes).max().unwrap_or(0);
    let mut buffer = vec![0; most];
    let mut due = Instant::now();
    while !now.ended.load(Ordering::Relaxed) {
        let phase = now.phase.load(Ordering::Relaxed);
        let pattern = patterns[phase];
        if !does(phase, &mut buffer[..pattern.bytes]) {
            return;
        }
        due = (due + pattern.every).max(Instant::now() - Duration::from_secs(1));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}
