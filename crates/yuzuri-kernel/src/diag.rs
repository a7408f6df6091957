//! `sock_diag`: lists every TCP socket of a network namespace, with `TCP_INFO`. It needs no
//! privilege. (linux/inet_diag.h, linux/tcp.h)

use crate::tcp_state::{
    TCP_CLOSE_WAIT, TCP_CLOSING, TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_FIN_WAIT2, TCP_LAST_ACK, TCP_SYN_RECV,
    TCP_SYN_SENT, is_synchronized,
};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket,
    sockopt,
};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use yuzuri_trace::{CaState, Sender, Snapshot};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_CGROUP_ID: u16 = 21;
const HEADER: usize = 16;
const INET_DIAG_MSG: usize = 72;

/// States of interest: all but TCP_LISTEN, TCP_TIME_WAIT, TCP_CLOSE, and TCP_SYN_RECV and
/// TCP_NEW_SYN_RECV of requests.
const STATES: u32 = 1 << TCP_ESTABLISHED
    | 1 << TCP_SYN_SENT
    | 1 << TCP_FIN_WAIT1
    | 1 << TCP_FIN_WAIT2
    | 1 << TCP_CLOSE_WAIT
    | 1 << TCP_LAST_ACK
    | 1 << TCP_CLOSING;

/// The same, and sockets of TCP Fast Open whose handshake is incomplete (TCP_SYN_RECV): every
/// socket that a flow may have.
const STATES_OF_FLOWS: u32 = STATES | 1 << TCP_SYN_RECV;

/// A TCP socket as `sock_diag` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) cookie: u64,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// The connection's state ([`crate::tcp_state`]).
    pub(crate) state: u8,
    pub(crate) inode: u64,
    pub(crate) cgroup: u64,
    pub(crate) control: String,
    pub(crate) ca_state: CaState,
    pub(crate) app_limited: bool,
    pub(crate) snapshot: Snapshot,
}

/// A netlink socket in one network namespace.
pub(crate) struct Diag {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Diag {
    /// Opens a socket in the calling thread's namespace.
    pub(crate) fn open() -> std::io::Result<Diag> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )?;
        // An unanswered dump would block the watcher: the kernel answers immediately or not at all.
        setsockopt(&socket, sockopt::ReceiveTimeout, &nix::sys::time::TimeVal::new(2, 0))?;
        Ok(Diag::of(socket))
    }

    /// Wraps a socket opened by [`Diag::open`], possibly in another process.
    pub(crate) fn of(socket: OwnedFd) -> Diag {
        Diag { socket, sequence: 0, buffer: vec![0; 64 * 1024] }
    }

    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Lists every TCP socket of the namespace. The result shows whether the list changed while it
    /// was read, so that a socket may be missing or listed twice.
    pub(crate) fn dump(&mut self, out: &mut Vec<Socket>) -> std::io::Result<bool> {
        self.dump_states(STATES, out)
    }

    /// The same, for every socket that a flow may have.
    pub(crate) fn dump_of_flows(&mut self, out: &mut Vec<Socket>) -> std::io::Result<bool> {
        self.dump_states(STATES_OF_FLOWS, out)
    }

    fn dump_states(&mut self, states: u32, out: &mut Vec<Socket>) -> std::io::Result<bool> {
        let mut interrupted = false;
        for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            self.sequence = self.sequence.wrapping_add(1);
            let request = request(family, states, self.sequence);
            sendto(self.socket.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
            loop {
                let length = recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty())?;
                match parse(&self.buffer[..length], self.sequence, out)? {
                    Part::More(changed) => interrupted |= changed,
                    Part::Done => break,
                }
            }
        }
        Ok(interrupted)
    }
}

fn request(family: u8, states: u32, sequence: u32) -> [u8; HEADER + 56] {
    const LENGTH: usize = HEADER + 56;
    let mut bytes = [0u8; LENGTH];
    bytes[0..4].copy_from_slice(&(LENGTH as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    // struct inet_diag_req_v2: family, protocol, extensions (bit n-1 requests attribute n),
    // padding, states, id.
    bytes[16] = family;
    bytes[17] = libc::IPPROTO_TCP as u8;
    bytes[18] = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1) | 1 << (INET_DIAG_SKMEMINFO - 1);
    bytes[20..24].copy_from_slice(&states.to_ne_bytes());
    bytes
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// More follows; whether the dump was interrupted.
    More(bool),
    Done,
}

/// Reads the messages of one datagram.
fn parse(mut bytes: &[u8], sequence: u32, out: &mut Vec<Socket>) -> std::io::Result<Part> {
    let broken =
        || std::io::Error::new(std::io::ErrorKind::InvalidData, "sock_diag answered with a broken message");
    let mut interrupted = false;
    while bytes.len() >= HEADER {
        let length = u32_at(bytes, 0).ok_or_else(broken)? as usize;
        let kind = u16_at(bytes, 4).ok_or_else(broken)?;
        let message = bytes.get(HEADER..length).ok_or_else(broken)?;
        // Skip answers to an earlier dump that was abandoned.
        if u32_at(bytes, 8) == Some(sequence) {
            interrupted |= u16_at(bytes, 6).unwrap_or(0) & NLM_F_DUMP_INTR != 0;
            match kind {
                NLMSG_DONE => return Ok(Part::Done),
                NLMSG_ERROR => {
                    let errno = u32_at(message, 0).ok_or_else(broken)? as i32;
                    return Err(std::io::Error::from_raw_os_error(errno.saturating_neg()));
                }
                SOCK_DIAG_BY_FAMILY => out.extend(self::socket_of(message)),
                _ => {}
            }
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(Part::More(interrupted))
}

fn socket_of(message: &[u8]) -> Option<Socket> {
    let id = message.get(..INET_DIAG_MSG)?;
    // struct inet_diag_msg: family, state, timer, retrans; sport, dport, src, dst, if, cookie;
    // expires, rqueue, wqueue, uid, inode.
    let address = |at: usize, port: usize| {
        let port = u16::from_be_bytes([id[port], id[port + 1]]);
        let bytes: [u8; 16] = id[at..at + 16].try_into().ok()?;
        let ip = if i32::from(id[0]) == libc::AF_INET {
            IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]])
        } else {
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        };
        Some(SocketAddr::new(ip, port))
    };
    let mut socket = Socket {
        cookie: u64::from(u32_at(id, 44)?) | u64::from(u32_at(id, 48)?) << 32,
        local: address(8, 4)?,
        remote: address(24, 6)?,
        state: id[1],
        inode: u32_at(id, 68)?.into(),
        cgroup: 0,
        control: String::new(),
        ca_state: CaState::Open,
        app_limited: false,
        snapshot: Snapshot { sender: Sender::UNKNOWN, ..Snapshot::default() },
    };
    let mut has_info = false;
    let mut attributes = &message[INET_DIAG_MSG..];
    while attributes.len() >= 4 {
        let length = u16_at(attributes, 0)? as usize;
        let value = attributes.get(4..length)?;
        match u16_at(attributes, 2)? {
            INET_DIAG_INFO => has_info = tcp_info(value, &mut socket).is_some(),
            INET_DIAG_CONG => {
                socket.control = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
            }
            // Values of the `enum` in linux/sock_diag.h.
            INET_DIAG_SKMEMINFO => {
                let word = |number: usize| u32_at(value, number * 4);
                socket.snapshot.sender.wmem_alloc = word(2).unwrap_or(u32::MAX);
                socket.snapshot.sender.sndbuf = word(3).unwrap_or(0);
                socket.snapshot.wmem_queued = word(5).unwrap_or(0);
            }
            INET_DIAG_CGROUP_ID => socket.cgroup = u64_at(value, 0).unwrap_or(0),
            _ => {}
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    has_info.then_some(socket)
}

/// A bit of `tcpi_options`: both ends scale their windows (RFC 7323).
const TCPI_OPT_WSCALE: u8 = 4;

/// Reads `struct tcp_info`, which grows at its end: fields unknown to an older kernel stay 0.
/// `None` if even fields of the first release are missing.
pub(crate) fn tcp_info(info: &[u8], socket: &mut Socket) -> Option<()> {
    let word = |at| u32_at(info, at).unwrap_or(0);
    let long = |at| u64_at(info, at).unwrap_or(0);
    u32_at(info, 100)?;
    socket.ca_state = CaState::from_kernel(info[1]).unwrap_or_default();
    socket.app_limited = info[7] & 1 != 0;
    let bits =
        |bytes_per_s: u64| if bytes_per_s == u64::MAX { u64::MAX } else { bytes_per_s.saturating_mul(8) };
    let s = &mut socket.snapshot;
    s.mss = word(16);
    s.packets_out = word(24);
    s.sacked_out = word(28);
    s.lost_out = word(32);
    s.retrans_out = word(36);
    s.srtt_us = word(68);
    s.rttvar_us = word(72);
    s.ssthresh = word(76);
    s.cwnd = word(80);
    s.reordering = word(88);
    s.total_retrans = word(100);
    s.pacing_rate_bps = bits(long(104));
    s.bytes_acked = long(120);
    s.bytes_received = long(128);
    s.notsent = u32_at(info, 144).unwrap_or(u32::MAX);
    s.min_rtt_us = u32_at(info, 148).unwrap_or(u32::MAX);
    s.delivery_rate_bps = bits(long(160));
    s.snd_wnd = word(228);
    s.rcv_wnd = word(232);
    // Before the handshake no scale has been agreed upon.
    if is_synchronized(info[0]) {
        let scales = info[5] & TCPI_OPT_WSCALE != 0;
        let scale = if cfg!(target_endian = "little") { info[6] & 15 } else { info[6] >> 4 };
        s.sender.snd_wscale = if scales { scale.into() } else { 0 };
    }
    let unknown = u64::MAX;
    s.sender.busy_us = u64_at(info, 168).unwrap_or(unknown);
    s.sender.rwnd_limited_us = u64_at(info, 176).unwrap_or(unknown);
    s.sender.sndbuf_limited_us = u64_at(info, 184).unwrap_or(unknown);
    Some(())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// For the fuzzer: reads a datagram as the kernel's answer.
#[cfg(any(fuzzing, debug_assertions))]
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let _ = parse(bytes, 1, &mut Vec::new());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn our_own_connection_is_listed_with_its_window() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        for host in ["127.0.0.1", "[::1]"] {
            let to: SocketAddr = format!("{host}:{}", listener.local_addr().unwrap().port()).parse().unwrap();
            let stream = TcpStream::connect(to).unwrap();
            let _accepted = listener.accept().unwrap();
            let mut sockets = Vec::new();
            Diag::open().unwrap().dump(&mut sockets).unwrap();
            let ours =
                sockets.iter().find(|s| s.local == stream.local_addr().unwrap() && s.remote == to).unwrap();
            assert!(ours.cookie != 0 && ours.inode != 0);
            assert_eq!(ours.snapshot.cwnd, 10);
            assert!(ours.snapshot.mss > 500);
            assert!(!ours.control.is_empty());
            // Both are this host, which scales its windows unless that is disabled.
            let scaling = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_window_scaling").unwrap();
            let scale = ours.snapshot.sender.snd_wscale;
            assert_eq!(scale == 0, scaling.trim() == "0", "{scale}");
            assert!(scale <= 14 && ours.snapshot.sender.has_chronographs());
        }
    }

    /// `tcpi_notsent_bytes` was added after `tcpi_segs_in`, at byte 144.
    #[test]
    fn values_that_a_kernel_does_not_report_are_unknown() {
        let read = |length| {
            let mut socket = socket_of(&[0; INET_DIAG_MSG]);
            assert_eq!(socket, None, "without TCP_INFO");
            let mut message = vec![0; INET_DIAG_MSG];
            message.extend((4 + length as u16).to_ne_bytes());
            message.extend(INET_DIAG_INFO.to_ne_bytes());
            message.extend(vec![0; length]);
            socket = socket_of(&message);
            socket.unwrap().snapshot
        };
        let notsent = |length| read(length).known_notsent_bytes();
        assert_eq!((notsent(144), notsent(148)), (None, Some(0)));
        assert_eq!((read(148).min_rtt_us, read(152).min_rtt_us), (u32::MAX, 0));
    }

    #[test]
    fn a_kernel_error_is_returned() {
        let mut bytes = vec![0u8; 20];
        bytes[0] = 20;
        bytes[4] = NLMSG_ERROR as u8;
        bytes[8] = 1;
        bytes[16..20].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        let error = parse(&bytes, 1, &mut Vec::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_parsed_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..400), valid_header: bool) {
            if valid_header && bytes.len() >= HEADER {
                let length = bytes.len() as u32;
                bytes[0..4].copy_from_slice(&length.to_ne_bytes());
                bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
                bytes[8..12].copy_from_slice(&1u32.to_ne_bytes());
            }
            fuzz(&bytes);
        }
    }
}
