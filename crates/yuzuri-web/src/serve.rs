//! The server: its port, its thread, its shutdown.

use crate::api::{self, App};
use crate::broadcast;
use crate::connections::{self, Connections};
use crate::daemon_status::{DaemonConnector, DaemonStatus};
use crate::guard::{Guard, Token};
use crate::page::{Page, Shared};
use crate::stall::Stall;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::MissedTickBehavior;

/// Maximum number of established connections waiting for accept; the kernel limits it to
/// `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// How long a connection with the token may lack a complete request head, and how long a write may
/// block.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Intervals at which browsers are updated.
const CHART_INTERVAL: Duration = Duration::from_millis(100);
const ROWS_INTERVAL: Duration = Duration::from_millis(250);
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// The server's address and access control.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen at; port 0 chooses a free one.
    pub addr: SocketAddr,
    /// Clients without it are refused. `None`: a random one.
    pub token: Option<Token>,
    /// The sharing daemon's unix socket. `None`: no daemon belongs to what is shown (a recording).
    pub share_socket: Option<PathBuf>,
    /// How to connect to that socket if this process may not do so itself. `None`: it may.
    pub share_reach: Option<DaemonConnector>,
}

impl Options {
    /// Serves at an address, with a random token and without a sharing daemon.
    pub fn new(addr: SocketAddr) -> Options {
        Options { addr, token: None, share_socket: None, share_reach: None }
    }
}

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is in use.
    #[error(
        "serving the page at {addr}: port {} is in use: choose another with --web ADDRESS:PORT, or find who has it with `ss -ltnp 'sport = :{}'`",
        addr.port(), addr.port()
    )]
    Busy {
        /// The address.
        addr: SocketAddr,
    },
    /// The port or address is unavailable.
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

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    url: String,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// The address it listens at, with the actual port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL to open in a browser, with the token in its fragment, which a browser does not send.
    pub fn url(&self) -> &str {
        &self.url
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

/// The address under which other machines see this one, for a socket bound to all addresses.
/// Nothing is sent: connecting a UDP socket only consults the routing table (the remote addresses
/// are for documentation, RFC 5737, 3849).
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

/// Serves a page from its own thread until the [`Server`] is stopped or dropped.
///
/// # Errors
/// [`ServeError`] if the port is busy or unavailable, or the thread cannot be started.
pub fn serve(options: Options, page: Page) -> Result<Server, ServeError> {
    Bound::at(options)?.serve(page)
}

/// A bound port that is not served yet. Later steps need no privilege and open no file.
#[derive(Debug)]
pub struct Bound {
    listener: std::net::TcpListener,
    addr: SocketAddr,
    url: String,
    token: Token,
    options: Options,
    descriptors: u64,
}

impl Bound {
    /// Listens, and raises the process's limit of descriptors as far as possible.
    ///
    /// # Errors
    /// [`ServeError`] if the port is busy or unavailable.
    pub fn at(options: Options) -> Result<Bound, ServeError> {
        let addr = options.addr;
        let listener = listen(addr).map_err(|why| match why.kind() {
            io::ErrorKind::AddrInUse => ServeError::Busy { addr },
            _ => ServeError::Bind { addr, why },
        })?;
        let addr = listener.local_addr().map_err(ServeError::Start)?;
        let token = match options.token.clone() {
            Some(token) => token,
            None => Token::random().map_err(ServeError::Start)?,
        };
        let ip = if addr.ip().is_unspecified() { outward(addr.ip()) } else { addr.ip() };
        let url = format!("http://{}/#token={}", SocketAddr::new(ip, addr.port()), token.secret());
        Ok(Bound { listener, addr, url, token, options, descriptors: connections::raise_descriptor_limit() })
    }

    /// Serves a page at this port; see [`serve`].
    ///
    /// # Errors
    /// [`ServeError::Start`] if the thread cannot be started.
    pub fn serve(self, page: Page) -> Result<Server, ServeError> {
        let Bound { listener, addr, url, token, options, descriptors } = self;
        let guard = Arc::new(Guard { bound: addr, token: Some(token) });
        let share = Arc::new(DaemonStatus::at(options.share_socket, options.share_reach));
        let app = App {
            shared: page.shared,
            guard,
            browser_connected: Arc::new(Notify::new()),
            share,
            bottlenecks: Arc::default(),
        };
        let connections = Connections::new(descriptors);
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(2)
            .build()
            .map_err(ServeError::Start)?;
        let run = move || {
            runtime.block_on(async {
                match TcpListener::from_std(listener) {
                    Ok(listener) => run(listener, app, connections, stopped).await,
                    Err(error) => eprintln!("yuzuri: the page's server stopped: {error}"),
                }
            });
            runtime.shutdown_timeout(Duration::from_millis(500));
        };
        let thread =
            std::thread::Builder::new().name("yuzuri-web".into()).spawn(run).map_err(ServeError::Start)?;
        Ok(Server { addr, url, stop, thread: Some(thread) })
    }
}

fn listen(addr: SocketAddr) -> io::Result<std::net::TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of a previous run in TIME_WAIT do not block the port.
    socket.set_reuse_address(true)?;
    // Inherited by all accepted connections.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// HTTP with its limits.
pub(crate) fn http1() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(64)
        .max_buf_size(16 * 1024);
    builder
}

async fn run(listener: TcpListener, app: App, connections: Arc<Connections>, stopped: watch::Receiver<bool>) {
    let router = api::router(app.clone());
    let updates = tokio::spawn(send_updates(app.shared.clone(), app.browser_connected.clone()));
    let mut stop = stopped.clone();
    // Each connection holds a sender; the receiver ends once all are gone.
    let (open, mut all_closed) = mpsc::channel::<()>(1);
    let mut accepted_in_a_row = 0;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => break,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or the peer has already closed: the server continues.
                if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) {
                    connections.evict_one();
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                continue;
            }
        };
        let slot = connections.admit(from.ip());
        let router = TowerToHyperService::new(router.clone());
        let asking = slot.clone();
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            asking.asked();
            request.extensions_mut().insert(asking.clone());
            let (answer, asking) = (router.call(request), asking.clone());
            async move {
                let answer = answer.await;
                asking.answered();
                answer
            }
        });
        let (mut stop, open) = (stopped.clone(), open.clone());
        tokio::spawn(async move {
            let _open = open;
            let connection =
                http1().serve_connection(Stall::new(TokioIo::new(stream), WRITE_TIMEOUT), service);
            tokio::pin!(connection);
            tokio::select! {
                // Serve what has arrived before the connection may have to go.
                biased;
                _ = connection.as_mut() => return,
                () = slot.leave() => return,
                _ = stop.changed() => connection.as_mut().graceful_shutdown(),
            }
            let _ = tokio::time::timeout(Duration::from_millis(500), connection).await;
        });
        // The request of a client with the token has usually arrived with the connection: read it
        // before accepting so many more that they could displace it.
        accepted_in_a_row = (accepted_in_a_row + 1) % connections.accepts_in_a_row();
        if accepted_in_a_row == 0 {
            tokio::task::yield_now().await;
        }
    }
    drop((listener, open));
    updates.abort();
    app.shared.broadcast.lock().close();
    let _ = tokio::time::timeout(Duration::from_millis(700), all_closed.recv()).await;
}

async fn send_updates(shared: Arc<Shared>, browser_connected: Arc<Notify>) {
    let every = |period| {
        let mut interval = tokio::time::interval(period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
        interval
    };
    let (mut chart, mut rows, mut status) =
        (every(CHART_INTERVAL), every(ROWS_INTERVAL), every(STATUS_INTERVAL));
    loop {
        tokio::select! {
            _ = browser_connected.notified() => {
                broadcast::send_status(&shared);
                broadcast::send_rows(&shared);
            }
            _ = chart.tick() => broadcast::send_chart(&shared),
            _ = rows.tick() => broadcast::send_rows(&shared),
            _ = status.tick() => broadcast::send_status(&shared),
        }
    }
}
