//! The control socket of a running daemon: a Unix socket with one JSON document in each direction,
//! and Prometheus metrics over HTTP.

mod answers;
mod client;
mod serve;

use crate::event::LoopCommand;
use crate::{ShareError, Status, StatusCell, TextCell, folder};
use answers::Responder;
use serde::{Deserialize, Serialize};
use serve::{ClientListener, serve};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{ErrorKind, PipeWriter, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use yuzuri_policy::{Objective, PolicyName};

/// Time that [`ask`] waits for the complete answer.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The addresses of a control socket.
#[derive(Debug, Clone, Default)]
pub struct ControlSocketOptions {
    /// The Unix socket, mode 0660.
    pub socket: PathBuf,
    /// The HTTP address of the metrics; `None`: not served.
    pub metrics: Option<SocketAddr>,
}

/// A request: a JSON document. The client ends it by shutting down its side of the connection. An
/// empty request is one for the status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Question {
    /// Returns the status.
    #[default]
    Status,
    /// Returns the status with every flow, as of the next tick (500 ms).
    StatusAll,
    /// Changes the policy. If no objective is given, the objective is kept.
    Policy {
        /// The new policy.
        name: PolicyName,
        /// The objective of the policy.
        #[serde(default)]
        objective: Option<Objective>,
    },
}

/// An answer: a JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// The command was accepted.
    Done {
        /// The change that takes effect within 500 ms.
        done: String,
    },
    /// The request was invalid.
    Error {
        /// The error message.
        error: String,
    },
    /// The status.
    Status(Box<Status>),
}

/// The control socket: one thread serves all clients without blocking on any of them. A slow client
/// delays neither the daemon nor other clients.
pub struct ControlSocket {
    /// Closing this end of the pipe stops the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
    metrics: Option<SocketAddr>,
}

impl ControlSocket {
    /// Opens the control socket. Call it while holding the lock of
    /// [`DaemonFiles`](crate::DaemonFiles): a socket file left by a former instance is removed.
    ///
    /// # Errors
    /// If the socket cannot be created or an address cannot be bound.
    pub fn open(
        options: &ControlSocketOptions,
        status_cell: StatusCell,
        orders: Sender<LoopCommand>,
    ) -> Result<ControlSocket, ShareError> {
        ControlSocket::begin(options, Responder::new(status_cell, orders))
    }

    /// Opens the control socket of a daemon that only reports its status, such as an access
    /// point's.
    ///
    /// # Errors
    /// As [`ControlSocket::open`].
    pub fn of_text(socket: &Path, text: TextCell) -> Result<ControlSocket, ShareError> {
        let options = ControlSocketOptions { socket: socket.to_owned(), metrics: None };
        ControlSocket::begin(&options, Responder::of_text(text))
    }

    fn begin(options: &ControlSocketOptions, responder: Responder) -> Result<ControlSocket, ShareError> {
        let path = &options.socket;
        let failed =
            |e: std::io::Error| ShareError::system(format!("opening the socket {}", path.display()), e);
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let unix = UnixListener::bind(path).map_err(failed)?;
        folder::set_group_mode(path).map_err(failed)?;
        unix.set_nonblocking(true).map_err(failed)?;
        let mut listeners = vec![ClientListener::status(unix)];
        let mut metrics = None;
        if let Some(address) = options.metrics {
            let failed = |e| ShareError::system(format!("serving metrics at {address}"), e);
            let listener = TcpListener::bind(address).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            metrics = listener.local_addr().ok();
            listeners.push(ClientListener::metrics(listener));
        }
        let starting = |e| ShareError::system("starting the thread that answers requests", e);
        let (stopped, stop) = std::io::pipe().map_err(starting)?;
        let thread = std::thread::Builder::new().name("control_socket".into()).stack_size(256 * 1024);
        let thread = thread.spawn(move || serve(listeners, responder, &stopped)).map_err(starting)?;
        Ok(ControlSocket { stop: Some(stop), thread: Some(thread), socket: path.clone(), metrics })
    }

    /// The bound address of the metrics.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the message has already been printed.
            let _ = thread.join();
        }
        // The next start removes it as well.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Sends a request to a running daemon and waits for its answer, at most 5 s.
///
/// # Errors
/// If no daemon is running, if it does not answer, or if access is denied.
pub fn ask(socket: &Path, question: Question) -> Result<Answer, ShareError> {
    let until = Instant::now() + MAX_WAIT;
    let failed = |e: std::io::Error| {
        let why = match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                "no daemon runs there: start one with `yuzuri share`, or name its folder with --runtime"
                    .to_owned()
            }
            ErrorKind::PermissionDenied => {
                format!("{e}: run it as root, or as a member of the socket's group")
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!(
                "it did not answer within {} s: check whether it hangs, or try again",
                MAX_WAIT.as_secs()
            ),
            _ => e.to_string(),
        };
        ShareError::system(format!("asking the daemon at {}", socket.display()), why)
    };
    let text = exchange(socket, question, until).map_err(failed)?;
    if text.is_empty() {
        let why = "it closed the connection without an answer, as it does when too many clients connect at once: \
             try again";
        return Err(ShareError::system(format!("asking the daemon at {}", socket.display()), why));
    }
    serde_json::from_slice(&text).map_err(|e| failed(std::io::Error::other(format!("its answer: {e}"))))
}

fn exchange(path: &Path, question: Question, until: Instant) -> std::io::Result<Vec<u8>> {
    let mut socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // This timeout also limits how long `connect` waits for room in the listen queue (unix(7)).
    socket.set_write_timeout(Some(MAX_WAIT))?;
    socket.connect(&SockAddr::unix(path)?)?;
    serde_json::to_writer(&mut socket, &question)?;
    socket.shutdown(std::net::Shutdown::Write)?;
    let mut text = Vec::new();
    let mut part = [0; 8192];
    loop {
        // A timeout of 0 would mean no timeout.
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut part) {
            Ok(0) => return Ok(text),
            Ok(length) => text.extend_from_slice(&part[..length]),
            Err(e) if e.kind() == ErrorKind::Interrupted && Instant::now() < until => {}
            Err(e) => return Err(e),
        }
    }
}
