//! Slow clients: each sends one byte at a time, never completes its request, and reconnects when it
//! is closed.
#![allow(clippy::unwrap_used, missing_docs, dead_code)]

use socket2::{Domain, SockAddr, Socket, Type};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between the bytes of a client: shorter than a read timeout of 1 s.
const BYTE_EVERY: Duration = Duration::from_millis(800);

/// A crowd of slow clients; they disconnect when it is dropped.
pub struct SlowClients {
    stop: Arc<AtomicBool>,
    connected: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl SlowClients {
    /// Connects to a Unix socket; the bytes are the beginning of a JSON string.
    pub fn at_socket(path: &Path, clients: usize) -> SlowClients {
        SlowClients::start(SockAddr::unix(path).unwrap(), clients, b'"')
    }

    /// Connects to a TCP port in the calling thread's network namespace; the bytes are the
    /// beginning of an HTTP method.
    pub fn at_port(address: SocketAddr, clients: usize) -> SlowClients {
        SlowClients::start(address.into(), clients, b'G')
    }

    /// Creates all sockets before it returns, in the caller's network namespace. A client that was
    /// closed reconnects on the new thread, which inherits the caller's namespace.
    fn start(address: SockAddr, clients: usize, byte: u8) -> SlowClients {
        let stop = Arc::new(AtomicBool::new(false));
        let connected = Arc::new(AtomicUsize::new(0));
        let (stopping, counting) = (stop.clone(), connected.clone());
        let thread = std::thread::spawn(move || {
            let mut crowd: Vec<Option<Socket>> = (0..clients).map(|_| None).collect();
            while !stopping.load(Ordering::Relaxed) {
                let began = Instant::now();
                for client in &mut crowd {
                    let alive = client.as_ref().is_some_and(|socket| socket.send(&[byte]).is_ok());
                    if !alive {
                        *client = connect(&address);
                        if let Some(socket) = client {
                            let _ = socket.send(&[byte]);
                        }
                    }
                }
                counting.store(crowd.iter().flatten().count(), Ordering::Relaxed);
                while began.elapsed() < BYTE_EVERY && !stopping.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        SlowClients { stop, connected, thread: Some(thread) }
    }

    /// The number of clients that were connected after the last round.
    pub fn connected(&self) -> usize {
        self.connected.load(Ordering::Relaxed)
    }
}

impl Drop for SlowClients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Connects without blocking; if the listen queue is full, the next round tries again.
fn connect(address: &SockAddr) -> Option<Socket> {
    let domain = if address.is_unix() { Domain::UNIX } else { Domain::for_address(address.as_socket()?) };
    let socket = Socket::new(domain, Type::STREAM, None).ok()?;
    socket.set_nonblocking(true).ok()?;
    match socket.connect(address) {
        Ok(()) => Some(socket),
        Err(error) if error.raw_os_error() == Some(nix::libc::EINPROGRESS) => Some(socket),
        Err(_) => None,
    }
}

/// Raises this process's limit of open files to the maximum.
pub fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    assert!(hard >= 4096, "these tests open 2,000 sockets; the limit is {hard}: raise it with ulimit -Hn");
}
