//! Transfers with a known limit, between two namespaces.

use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use yuzuri_kernel::own;
use yuzuri_testnet::{Net, Path, PathDirection, Side, set_max_pacing_rate};

/// What limits a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// The receiver's buffer is this small (SO_RCVBUF, bytes).
    ReceiveBuffer(usize),
    /// The receiver reads this many bytes, and then pauses.
    SlowReader(usize, Duration),
    /// The sender writes this many bytes, and then pauses.
    SlowWriter(usize, Duration),
    /// The sender's buffer is this small (SO_SNDBUF, bytes).
    SendBuffer(usize),
    /// The sender is paced (SO_MAX_PACING_RATE), bytes per second.
    Paced(u64),
}

/// A transfer from A to B that continues until it is dropped.
pub struct Transfer {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Wakes a thread that waits for a full socket.
    sockets: Vec<TcpStream>,
    /// The kernel's account of the threads that read and write.
    accounts: Vec<PathBuf>,
    /// The sender's address.
    pub local: SocketAddr,
    _path: Path,
}

impl Transfer {
    /// Starts the transfer over a path with an RTT of 80 ms: the delay that a busy machine adds is
    /// small in comparison.
    pub fn start(net: &Net, fault: Fault) -> Transfer {
        let way =
            PathDirection { rate_bps: 200_000_000, ..PathDirection::with_delay(Duration::from_millis(40)) };
        let path = Path::new(net, way, way, 1).unwrap();
        let listener = net.inside(Side::B, || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            if let Fault::ReceiveBuffer(bytes) = fault {
                socket.set_recv_buffer_size(bytes).unwrap();
            }
            socket.bind(&SocketAddr::new(Path::v4(Side::B), 0).into()).unwrap();
            socket.listen(1).unwrap();
            TcpListener::from(socket)
        });
        let to = listener.local_addr().unwrap();
        let near = net.inside(Side::A, || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_tcp_congestion(b"cubic").unwrap();
            match fault {
                Fault::Paced(rate) => set_max_pacing_rate(&socket, rate),
                Fault::SendBuffer(bytes) => socket.set_send_buffer_size(bytes).unwrap(),
                _ => {}
            }
            socket.connect(&to.into()).unwrap();
            TcpStream::from(socket)
        });
        let (far, _) = listener.accept().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let sockets = vec![near.try_clone().unwrap(), far.try_clone().unwrap()];
        let local = near.local_addr().unwrap();
        let (sender, sent) = mpsc::channel();
        let threads = vec![
            std::thread::spawn({
                let (stop, sender) = (stop.clone(), sender.clone());
                move || {
                    sender.send(account()).unwrap();
                    read(far, fault, &stop);
                }
            }),
            std::thread::spawn({
                let stop = stop.clone();
                move || {
                    sender.send(account()).unwrap();
                    write(near, fault, &stop);
                }
            }),
        ];
        let accounts = sent.iter().take(threads.len()).collect();
        Transfer { stop, threads, sockets, accounts, local, _path: path }
    }
}

/// The kernel's chronographs of a sender (`TCP_INFO`), microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Chronographs {
    /// Time with data outstanding or unsent.
    pub busy_us: u64,
    /// Part of it with the receiver's window full.
    pub rwnd_limited_us: u64,
    /// Part of it with the send buffer full.
    #[allow(dead_code, reason = "not every test asks")]
    pub sndbuf_limited_us: u64,
}

impl Transfer {
    /// The chronographs, as `ss -ti` shows them.
    pub fn chronographs(&self) -> Chronographs {
        let info = own::info(self.sockets[0].as_fd()).unwrap();
        let at = |at: usize| u64::from_ne_bytes(info[at..at + 8].try_into().unwrap());
        Chronographs { busy_us: at(168), rwnd_limited_us: at(176), sndbuf_limited_us: at(184) }
    }

    /// For how long the reading and writing threads waited for a processor although they were
    /// runnable: their work was late by that time.
    pub fn late(&self) -> Duration {
        let waited_ns = |account: &PathBuf| -> u64 {
            let text = std::fs::read_to_string(account).unwrap();
            text.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        Duration::from_nanos(self.accounts.iter().map(waited_ns).sum())
    }

    /// Bytes acknowledged so far.
    pub fn acked_bytes(&self) -> u64 {
        let info = own::info(self.sockets[0].as_fd()).unwrap();
        u64::from_ne_bytes(info[120..128].try_into().unwrap())
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for socket in &self.sockets {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The file in which the kernel reports how long this thread ran, and waited to run
/// (`Documentation/scheduler/sched-stats.rst`).
fn account() -> PathBuf {
    std::fs::canonicalize("/proc/thread-self/schedstat").unwrap()
}

fn read(mut far: TcpStream, fault: Fault, stop: &AtomicBool) {
    let (bytes, rest) = match fault {
        Fault::SlowReader(bytes, rest) => (bytes, rest),
        _ => (1 << 18, Duration::ZERO),
    };
    let mut buffer = vec![0; bytes];
    while !stop.load(Ordering::Relaxed) {
        match far.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(_) => std::thread::sleep(rest),
        }
    }
}

fn write(mut near: TcpStream, fault: Fault, stop: &AtomicBool) {
    let (bytes, rest) = match fault {
        Fault::SlowWriter(bytes, rest) => (bytes, rest),
        // The kernel accepts a write as a whole, however small the buffer is.
        Fault::SendBuffer(_) => (4096, Duration::ZERO),
        _ => (1 << 18, Duration::ZERO),
    };
    let buffer = vec![0; bytes];
    while !stop.load(Ordering::Relaxed) && near.write_all(&buffer).is_ok() {
        std::thread::sleep(rest);
    }
}
