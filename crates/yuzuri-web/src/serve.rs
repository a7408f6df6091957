//! The server: its port, its thread, its end.

use crate::api::{self, App};
use crate::guard::{Guard, Token};
use crate::hub;
use crate::page::{Page, Shared, lock};
use crate::share::Share;
use crate::stall::Stall;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::MissedTickBehavior;

/// Connections at most; more are answered 503 and closed.
const MOST_CONNECTIONS: usize = 128;
/// How long a connection may stand without a whole request head, and how long a write may wait.
const HEAD_PATIENCE: Duration = Duration::from_secs(15);
const WRITE_PATIENCE: Duration = Duration::from_secs(20);
/// How often browsers are told.
const CHART_TURN: Duration = Duration::from_millis(100);
const ROWS_TURN: Duration = Duration::from_millis(250);
const STATUS_TURN: Duration = Duration::from_millis(500);

/// Where and for whom to serve.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen at; port 0 chooses a free one.
    pub addr: SocketAddr,
    /// Who does not bring it is turned away. `None`: no token on a loopback address, a random one elsewhere.
    pub token: Option<Token>,
    /// The sharing daemon's unix socket. `None`: no daemon belongs to what is shown (a recording).
    pub share_socket: Option<PathBuf>,
}

impl Options {
    /// At an address, with a random token unless it is a loopback one, and without a sharing daemon.
    pub fn new(addr: SocketAddr) -> Options {
        Options { addr, token: None, share_socket: None }
    }
}

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Somebody has the port.
    #[error(
        "serving the page at {addr}: port {} is in use: choose another with --web ADDRESS:PORT, or find who has it with `ss -ltnp 'sport = :{}'`",
        addr.port(), addr.port()
    )]
    Busy {
        /// The address.
        addr: SocketAddr,
    },
    /// The port or address is not to be had.
    #[error("serving the page at {addr}: {why}: {}", hint(why))]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// The system's reason.
        why: io::Error,
    },
    /// The server's thread or random source failed.
    #[error("starting the page's server: {0}")]
    Start(#[source] io::Error),
}

fn hint(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::PermissionDenied => "ports below 1024 need privilege; choose a higher one",
        io::ErrorKind::AddrNotAvailable => "this machine has no such address; see `ip address`",
        _ => "choose another address and port",
    }
}

/// A server at work. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    token: Option<Token>,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// The address it listens at, with the port that was chosen.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address to open in a browser, with the token where one is needed.
    pub fn url(&self) -> String {
        let ip = if self.addr.ip().is_unspecified() { outward(self.addr.ip()) } else { self.addr.ip() };
        let host = SocketAddr::new(ip, self.addr.port());
        match &self.token {
            Some(token) => format!("http://{host}/?token={}", token.secret()),
            None => format!("http://{host}/"),
        }
    }

    /// Ends all streams, closes the port and waits for the thread (at most about a second).
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// The address under which other machines see this one, for a socket bound to all addresses. Nothing is sent:
/// connecting a UDP socket only asks the routing table (the far addresses are for documentation, RFC 5737, 3849).
fn outward(unspecified: IpAddr) -> IpAddr {
    let (far, loopback): (SocketAddr, IpAddr) = match unspecified {
        IpAddr::V4(_) => ((Ipv4Addr::new(192, 0, 2, 1), 9).into(), Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(_) => {
            ((Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into(), Ipv6Addr::LOCALHOST.into())
        }
    };
    let asked = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        socket.connect(far)?;
        socket.local_addr()
    });
    asked.map_or(loopback, |addr| addr.ip())
}

/// Serves a page from a thread of its own until the [`Server`] is stopped or dropped.
///
/// # Errors
/// [`ServeError`] where the port is busy or cannot be had, or the thread cannot be started.
pub fn serve(options: Options, page: Page) -> Result<Server, ServeError> {
    let addr = options.addr;
    let listener = std::net::TcpListener::bind(addr).map_err(|why| match why.kind() {
        io::ErrorKind::AddrInUse => ServeError::Busy { addr },
        _ => ServeError::Bind { addr, why },
    })?;
    listener.set_nonblocking(true).map_err(ServeError::Start)?;
    let bound = listener.local_addr().map_err(ServeError::Start)?;
    let token = match options.token {
        None if !bound.ip().is_loopback() => Some(Token::random().map_err(ServeError::Start)?),
        given => given,
    };
    let guard = Arc::new(Guard { bound, token: token.clone() });
    let share = Arc::new(Share::at(options.share_socket));
    let app = App { shared: page.shared, guard, came: Arc::new(Notify::new()), share };
    let (stop, stopped) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .build()
        .map_err(ServeError::Start)?;
    let run = move || {
        runtime.block_on(async {
            match TcpListener::from_std(listener) {
                Ok(listener) => run(listener, app, stopped).await,
                Err(error) => eprintln!("yuzuri: the page's server stops: {error}"),
            }
        });
        runtime.shutdown_timeout(Duration::from_millis(500));
    };
    let thread =
        std::thread::Builder::new().name("yuzuri-web".into()).spawn(run).map_err(ServeError::Start)?;
    Ok(Server { addr: bound, token, stop, thread: Some(thread) })
}

/// HTTP with its limits.
pub(crate) fn http1() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_headers(64)
        .max_buf_size(16 * 1024);
    builder
}

async fn run(listener: TcpListener, app: App, stopped: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let router = api::router(app.clone());
    let teller = tokio::spawn(tell(app.shared.clone(), app.came.clone()));
    let mut stop = stopped.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => break,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, or the other end is gone already: neither ends the server.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = room.clone().try_acquire_owned() else {
            refuse(&stream);
            continue;
        };
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let mut stop = stopped.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let connection =
                http1().serve_connection(Stall::new(TokioIo::new(stream), WRITE_PATIENCE), service);
            tokio::pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => return,
                _ = stop.changed() => connection.as_mut().graceful_shutdown(),
            }
            let _ = tokio::time::timeout(Duration::from_millis(500), connection).await;
        });
    }
    drop(listener);
    teller.abort();
    lock(&app.shared.hub).close();
    // All connections give their permit back as they end.
    let _ =
        tokio::time::timeout(Duration::from_millis(700), room.acquire_many(MOST_CONNECTIONS as u32)).await;
}

fn refuse(stream: &TcpStream) {
    let body = r#"{"error":"too many connections: close some browsers"}"#;
    let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length:";
    let _ = stream.try_write(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes());
}

async fn tell(shared: Arc<Shared>, came: Arc<Notify>) {
    let turns = |period| {
        let mut turns = tokio::time::interval(period);
        turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
        turns
    };
    let (mut chart, mut rows, mut status) = (turns(CHART_TURN), turns(ROWS_TURN), turns(STATUS_TURN));
    loop {
        tokio::select! {
            _ = came.notified() => {
                hub::tell_status(&shared);
                hub::tell_rows(&shared);
            }
            _ = chart.tick() => hub::tell_chart(&shared),
            _ = rows.tick() => hub::tell_rows(&shared),
            _ = status.tick() => hub::tell_status(&shared),
        }
    }
}
