//! Serves a rendezvous: the relay for networks where terminals do not hear each other.

use crate::{ShareError, clock};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use yuzuri_policy::{Rendezvous, RendezvousConfig, RendezvousCounts, To};

/// How often the flag is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Serves until the flag is set; `each` is told the counts, and how many groups and members are registered, twice a second. Needs no
/// privilege.
///
/// # Errors
/// Where the address cannot be listened at.
pub fn serve_rendezvous(
    listen: SocketAddr,
    stop: &AtomicBool,
    mut each: impl FnMut(SocketAddr, &RendezvousCounts, (usize, usize)),
) -> Result<RendezvousCounts, ShareError> {
    let doing = || format!("serving a rendezvous at {listen}");
    let failed = |e: std::io::Error| ShareError::system(doing(), e);
    let socket = UdpSocket::bind(listen).map_err(failed)?;
    crate::sockets::widen(&socket);
    let bound = socket.local_addr().map_err(failed)?;
    socket.set_read_timeout(Some(LOOK)).map_err(failed)?;
    let mut rendezvous = Rendezvous::new(RendezvousConfig::new(clock::random()?), clock::now());
    let mut buffer = [0; 2048];
    let mut out = Vec::new();
    let mut told = clock::now();
    each(bound, rendezvous.counts(), rendezvous.registered());
    while !stop.load(Ordering::Relaxed) {
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                rendezvous.receive(clock::now(), from, &buffer[..length], &mut out);
                for outgoing in out.drain(..) {
                    if let To::One(address) = outgoing.to {
                        // A member that is gone is forgotten by itself.
                        let _ = socket.send_to(&outgoing.bytes, address);
                    }
                }
            }
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            // What an earlier datagram met (ICMP).
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
            Err(e) => return Err(failed(e)),
        }
        let now = clock::now();
        if now.since(told) >= LOOK {
            told = now;
            each(bound, rendezvous.counts(), rendezvous.registered());
        }
    }
    Ok(*rendezvous.counts())
}
