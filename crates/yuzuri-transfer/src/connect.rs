//! Connection setup: tries every address of the target in turn and sets the congestion control
//! before the SYN.

use crate::error::{SendError, available_congestion_control};
use crate::sys::{poll, poll_fd};
use crate::{SendOptions, Target};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval at which the stop flag is checked while connecting.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Resolves the target to its addresses of the requested family.
pub(crate) fn resolve(target: &Target, options: &SendOptions) -> Result<Vec<SocketAddr>, SendError> {
    let failed = |reason: String| SendError::Resolve { host: target.host.clone(), reason };
    let addresses = target.resolve(options.family).map_err(|error| failed(error.to_string()))?;
    if addresses.is_empty() {
        return Err(failed("it has no address of the requested family".to_owned()));
    }
    Ok(addresses)
}

/// Connects to the first address that answers, trying the addresses in order.
pub(crate) fn connect(
    addresses: &[SocketAddr],
    options: &SendOptions,
    stop: &AtomicBool,
) -> Result<(Socket, SocketAddr), SendError> {
    let mut attempts = Vec::new();
    for &address in addresses {
        let socket = prepare(address, options)?;
        match wait_connected(&socket, address, options.connect_timeout, stop) {
            Ok(true) => return Ok((socket, address)),
            Ok(false) => return Err(SendError::Stopped),
            Err(error) => attempts.push((address, error)),
        }
    }
    Err(SendError::Connect { target: options.target.clone(), attempts })
}

fn prepare(address: SocketAddr, options: &SendOptions) -> Result<Socket, SendError> {
    let failed = |doing: &str| {
        let doing = doing.to_owned();
        move |source| SendError::Socket { doing, source }
    };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .map_err(failed("open a socket"))?;
    if let Some(interface) = &options.interface {
        socket
            .bind_device(Some(interface.as_bytes()))
            .map_err(failed(&format!("send through interface {interface}")))?;
    }
    if let Some(from) = options.bind {
        let from = SocketAddr::new(from, 0);
        socket.bind(&from.into()).map_err(failed(&format!("send from {}", from.ip())))?;
    }
    if let Some(name) = &options.congestion_control {
        socket.set_tcp_congestion(name.as_bytes()).map_err(|source| SendError::CongestionControl {
            name: name.clone(),
            available: available_congestion_control(),
            source,
        })?;
    }
    if options.paced {
        crate::sys::pace(&socket).map_err(failed("enable pacing"))?;
    }
    // The last segment of a buffer is usually short. Nagle's algorithm must not hold it back until
    // an earlier short segment is acknowledged.
    socket.set_tcp_nodelay(true).map_err(failed("set TCP_NODELAY"))?;
    // The sender's own stall detection fires first. This timeout applies to data that is left in
    // the kernel afterwards.
    socket
        .set_tcp_user_timeout(Some(options.stall_timeout.saturating_add(Duration::from_secs(2))))
        .map_err(failed("set TCP_USER_TIMEOUT"))?;
    socket.set_nonblocking(true).map_err(failed("make the socket non-blocking"))?;
    Ok(socket)
}

/// Waits for the connection to be established. Returns `false` if the stop flag was set.
fn wait_connected(
    socket: &Socket,
    address: SocketAddr,
    timeout: Duration,
    stop: &AtomicBool,
) -> io::Result<bool> {
    match socket.connect(&SockAddr::from(address)) {
        Ok(()) => return Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    let started = Instant::now();
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let left = timeout.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no answer within {} s", timeout.as_secs_f64()),
            ));
        }
        let mut fds = [poll_fd(socket.as_raw_fd(), libc::POLLOUT)];
        if poll(&mut fds, left.min(CHECK_INTERVAL))? > 0 {
            return match socket.take_error()? {
                None => Ok(true),
                Some(error) => Err(error),
            };
        }
    }
}
