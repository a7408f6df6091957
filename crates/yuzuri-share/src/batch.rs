//! Receives datagrams in batches. Under a flood, one system call per datagram would cost as much as
//! processing the datagram.

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg};
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

/// Datagrams received per call.
const MAX_OF_CALL: usize = 64;
/// Longer than any Yuzuri message. A longer datagram is truncated to this length, which is still
/// too long to be valid.
const SLOT_BYTES: usize = 256;
const _: () = assert!(SLOT_BYTES > yuzuri_policy::MAX_BYTES);

/// The receive buffers.
pub(crate) struct Batch(Box<[u8]>);

impl Batch {
    pub(crate) fn new() -> Batch {
        Batch(vec![0; MAX_OF_CALL * SLOT_BYTES].into())
    }

    /// Drains a socket without blocking, up to about `max` datagrams. Calls `each` with the source
    /// address and the bytes.
    pub(crate) fn drain(&mut self, socket: &impl AsFd, max: usize, mut each: impl FnMut(SocketAddr, &[u8])) {
        let fd = socket.as_fd().as_raw_fd();
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(MAX_OF_CALL, None);
        for _ in 0..max.div_ceil(MAX_OF_CALL) {
            let mut slots: Vec<_> =
                self.0.chunks_exact_mut(SLOT_BYTES).map(|slot| [IoSliceMut::new(slot)]).collect();
            match recvmmsg(fd, &mut headers, slots.iter_mut(), MsgFlags::MSG_DONTWAIT, None) {
                Ok(received) => {
                    let mut count = 0;
                    for datagram in received {
                        count += 1;
                        if let Some(from) = datagram.address.and_then(address) {
                            each(from, datagram.iovs().next().unwrap_or_default());
                        }
                    }
                    if count < MAX_OF_CALL {
                        break;
                    }
                }
                Err(Errno::EAGAIN) => break,
                // An ICMP error for a datagram that we sent, or a network that is down. The call
                // clears either error.
                Err(_) => {}
            }
        }
    }
}

fn address(of: SockaddrStorage) -> Option<SocketAddr> {
    let v4 = || of.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    let v6 = || of.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into()));
    v4().or_else(v6)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn queued_datagrams_are_received_in_order_with_length_and_source() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(loopback) else {
                println!("{loopback}: skipped: this machine has none");
                continue;
            };
            let to = socket.local_addr().unwrap();
            let senders = [UdpSocket::bind(loopback).unwrap(), UdpSocket::bind(loopback).unwrap()];
            let mut batch = Batch::new();
            batch.drain(&socket, 1000, |_, _| panic!("nothing was sent"));
            // More datagrams than one call receives, with lengths around the slot size and
            // length 0.
            let lengths: Vec<usize> = (0..150).chain([0, 255, 256, 257, 2000, 9000]).collect();
            for (number, length) in lengths.iter().enumerate() {
                senders[number % 2].send_to(&vec![number as u8; *length], to).unwrap();
            }
            let mut seen = Vec::new();
            batch.drain(&socket, 1000, |from, bytes| {
                assert!(bytes.iter().all(|byte| *byte == seen.len() as u8));
                assert_eq!(from, senders[seen.len() % 2].local_addr().unwrap());
                seen.push(bytes.len());
            });
            let wanted: Vec<usize> = lengths.iter().map(|length| *length.min(&SLOT_BYTES)).collect();
            assert_eq!(seen, wanted);
            batch.drain(&socket, 1000, |_, _| panic!("all were taken"));
        }
    }

    #[test]
    fn a_flood_does_not_hinder_other_clients() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..200 {
            socket.send_to(&[1], socket.local_addr().unwrap()).unwrap();
        }
        let (mut first, mut rest) = (0, 0);
        let mut batch = Batch::new();
        batch.drain(&socket, 128, |_, _| first += 1);
        batch.drain(&socket, 128, |_, _| rest += 1);
        assert_eq!((first, rest), (128, 72));
    }
}
