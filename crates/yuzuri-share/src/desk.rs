//! Where a running daemon is asked: a unix socket with one JSON document each way, and Prometheus metrics over HTTP.

use crate::event::Order;
use crate::show::metrics;
use crate::{Board, ShareError, Status};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;
use yuzuri_policy::{Objective, PolicyConfig, PolicyName};

/// Who asks must say so within this time, and take the answer within it: others wait.
const PATIENCE: Duration = Duration::from_secs(1);
/// The status with every flow is made at the next half second.
const ALL_WITHIN: Duration = Duration::from_secs(2);
/// Longest question, bytes.
const MOST_ASKED: u64 = 4096;
/// How often the end is looked for.
const LOOK_MS: u16 = 500;

/// Where a desk is.
#[derive(Debug, Clone, Default)]
pub struct DeskOptions {
    /// The unix socket, mode 0660.
    pub socket: PathBuf,
    /// Where metrics are served, if they are.
    pub metrics: Option<SocketAddr>,
}

/// What is asked: a JSON document, ended by the end of writing. Nothing at all asks for the status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Question {
    /// The status.
    #[default]
    Status,
    /// The status with every flow.
    StatusAll,
    /// Another policy; the objective stays if none is named.
    Policy {
        /// Which.
        name: PolicyName,
        /// What it aims at.
        #[serde(default)]
        objective: Option<Objective>,
    },
}

/// What is answered: a JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// The order was handed on.
    Done {
        /// What will be in force within half a second.
        done: String,
    },
    /// The question was not understood.
    Error {
        /// Why.
        error: String,
    },
    /// The status.
    Status(Box<Status>),
}

/// A desk: a thread of its own, so that who asks slowly keeps nobody from his work.
pub struct Desk {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
    metrics: Option<SocketAddr>,
}

struct Listeners {
    unix: UnixListener,
    http: Option<TcpListener>,
}

impl Desk {
    /// Opens the desk of a sharing. Whoever holds the lock of its places may: what another instance left there is removed.
    ///
    /// # Errors
    /// Where the socket or the address cannot be had.
    pub fn open(options: &DeskOptions, board: Board, orders: Sender<Order>) -> Result<Desk, ShareError> {
        let path = &options.socket;
        let failed =
            |e: std::io::Error| ShareError::system(format!("opening the socket {}", path.display()), e);
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let unix = UnixListener::bind(path).map_err(failed)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)).map_err(failed)?;
        unix.set_nonblocking(true).map_err(failed)?;
        let http = options.metrics.map(|address| {
            let failed = |e| ShareError::system(format!("serving metrics at {address}"), e);
            let listener = TcpListener::bind(address).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            Ok::<_, ShareError>(listener)
        });
        let http = http.transpose()?;
        let metrics = http.as_ref().and_then(|listener| listener.local_addr().ok());
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let listeners = Listeners { unix, http };
        let thread = std::thread::Builder::new().name("desk".into()).stack_size(256 * 1024);
        let thread = thread.spawn(move || serve(&listeners, &board, &orders, &stopping));
        let thread = thread.map_err(|e| ShareError::system("starting a thread", e))?;
        Ok(Desk { stop, thread: Some(thread), socket: path.clone(), metrics })
    }

    /// Where metrics are served.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it panicked over has been printed.
            let _ = thread.join();
        }
        // A next start removes it, too.
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn serve(listeners: &Listeners, board: &Board, orders: &Sender<Order>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let descriptors =
            std::iter::once(listeners.unix.as_fd()).chain(listeners.http.as_ref().map(AsFd::as_fd));
        let mut fds: Vec<PollFd<'_>> = descriptors.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        if poll(&mut fds, PollTimeout::from(LOOK_MS)).is_err() {
            continue;
        }
        // Who goes away in the middle is not our trouble.
        if let Ok((stream, _)) = listeners.unix.accept() {
            let _ = answer(stream, board, orders);
        }
        if let Some(Ok((stream, _))) = listeners.http.as_ref().map(TcpListener::accept) {
            let _ = scrape(stream, board);
        }
    }
}

fn answer(mut stream: UnixStream, board: &Board, orders: &Sender<Order>) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut asked = Vec::new();
    (&stream).take(MOST_ASKED).read_to_end(&mut asked)?;
    let question = match asked.trim_ascii() {
        [] => Ok(Question::Status),
        asked => serde_json::from_slice(asked),
    };
    let answer = match question {
        Ok(Question::Status) => Answer::Status(Box::new(board.read().as_ref().clone())),
        Ok(Question::StatusAll) => match board.read_all(ALL_WITHIN) {
            Some(status) => Answer::Status(Box::new(status.as_ref().clone())),
            None => Answer::Error { error: "the daemon is too busy to list every flow: ask again".into() },
        },
        Ok(Question::Policy { name, objective }) => {
            let before = board.read().policy;
            let objective = objective.unwrap_or(before.objective);
            let policy = PolicyConfig { name, objective, capacity_bps: before.capacity_bps };
            match orders.send(Order::Policy(policy)) {
                Ok(()) => Answer::Done { done: format!("policy {name}, objective {}", objective.name()) },
                Err(_) => Answer::Error { error: "the daemon is ending".into() },
            }
        }
        Err(error) => Answer::Error {
            error: format!("{error}; ask \"status\" or {{\"policy\": {{\"name\": \"yuzuri\"}}}}"),
        },
    };
    serde_json::to_writer(&mut stream, &answer)?;
    stream.write_all(b"\n")
}

fn scrape(mut stream: std::net::TcpStream, board: &Board) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut part = [0; 512];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MOST_ASKED as usize {
        match stream.read(&mut part)? {
            0 => break,
            length => head.extend_from_slice(&part[..length]),
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (code, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => ("200 OK", metrics(&board.read())),
        (b"GET" | b"HEAD", _) => ("404 Not Found", "metrics are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", "GET /metrics\n".into()),
    };
    let length = body.len();
    let body = if method == b"HEAD" { "" } else { &body };
    write!(
        stream,
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}",
    )
}

/// Asks a running daemon.
///
/// # Errors
/// Where none runs, or we may not ask.
pub fn ask(socket: &Path, question: Question) -> Result<Answer, ShareError> {
    let doing = || format!("asking the daemon at {}", socket.display());
    let mut stream = UnixStream::connect(socket).map_err(|e| {
        let why = match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                "no daemon runs there: start one with `yuzuri share`, or name its folder with --runtime"
                    .to_owned()
            }
            ErrorKind::PermissionDenied => {
                format!("{e}: run it as root, or as a member of the socket's group")
            }
            _ => e.to_string(),
        };
        ShareError::system(doing(), why)
    })?;
    let failed = |e: std::io::Error| ShareError::system(doing(), e);
    stream.set_read_timeout(Some(5 * PATIENCE)).map_err(failed)?;
    serde_json::to_writer(&mut stream, &question).map_err(|e| ShareError::system(doing(), e))?;
    stream.shutdown(std::net::Shutdown::Write).map_err(failed)?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|e| ShareError::system(doing(), format!("its answer: {e}")))
}
