//! Serves a rendezvous: the relay for networks where terminals cannot receive each other.

use crate::{ShareError, clock};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use yuzuri_policy::{Rendezvous, RendezvousConfig, RendezvousCounts, To};

/// How often the stop flag is checked.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// A rendezvous that is bound but not yet serving.
#[derive(Debug)]
pub struct Relay {
    socket: UdpSocket,
    address: SocketAddr,
}

impl Relay {
    /// Binds the socket. Serving needs no privilege, no file and no other socket.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn bind(listen: SocketAddr) -> Result<Relay, ShareError> {
        let bound = UdpSocket::bind(listen).and_then(|socket| {
            crate::sockets::widen(&socket);
            socket.set_read_timeout(Some(POLL_EVERY))?;
            let address = socket.local_addr()?;
            Ok(Relay { socket, address })
        });
        bound.map_err(|e| ShareError::system(format!("serving a rendezvous at {listen}"), e))
    }

    /// The bound address, with the port that the kernel chose if port 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the flag is set. Calls `each` every 500 ms with the counters and the number of
    /// registered groups and members.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn serve(
        self,
        stop: &AtomicBool,
        each: impl FnMut(&RendezvousCounts, (usize, usize)),
    ) -> Result<RendezvousCounts, ShareError> {
        serve(&self, stop, each)
    }
}

fn serve(
    Relay { socket, address }: &Relay,
    stop: &AtomicBool,
    mut each: impl FnMut(&RendezvousCounts, (usize, usize)),
) -> Result<RendezvousCounts, ShareError> {
    let failed = |e: std::io::Error| ShareError::system(format!("serving a rendezvous at {address}"), e);
    let mut rendezvous = Rendezvous::new(RendezvousConfig::new(clock::random()?), clock::now());
    let mut buffer = [0; 2048];
    let mut out = Vec::new();
    let mut reported_at = clock::now();
    each(rendezvous.counts(), rendezvous.registered());
    while !stop.load(Ordering::Relaxed) {
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                rendezvous.receive(clock::now(), from, &buffer[..length], &mut out);
                for outgoing in out.drain(..) {
                    if let To::One(address) = outgoing.to {
                        // A member that has gone expires on its own.
                        let _ = socket.send_to(&outgoing.bytes, address);
                    }
                }
            }
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            // An ICMP error for an earlier datagram.
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
            Err(e) => return Err(failed(e)),
        }
        let now = clock::now();
        if now.since(reported_at) >= POLL_EVERY {
            reported_at = now;
            each(rendezvous.counts(), rendezvous.registered());
        }
    }
    Ok(*rendezvous.counts())
}
