//! System calls that neither `std` nor `socket2` provides. All `unsafe` code of this crate is here.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use crate::tcp_info::TcpInfo;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// `SO_TIMESTAMPING_OLD` of asm-generic (x86, ARM, RISC-V): timestamps are pairs of `long`.
pub(crate) const SO_TIMESTAMPING_OLD: libc::c_int = 37;
/// `SO_TIMESTAMPING_NEW` of asm-generic, since Linux 5.1: timestamps are pairs of 64-bit integers
/// on every architecture.
pub(crate) const SO_TIMESTAMPING_NEW: libc::c_int = 65;
/// `SCM_TIMESTAMPING_OPT_STATS` of asm-generic.
pub(crate) const SCM_TIMESTAMPING_OPT_STATS: libc::c_int = 54;

const SOF_TIMESTAMPING_TX_SOFTWARE: u32 = 1 << 1;
const SOF_TIMESTAMPING_SOFTWARE: u32 = 1 << 4;
const SOF_TIMESTAMPING_OPT_ID: u32 = 1 << 7;
const SOF_TIMESTAMPING_TX_SCHED: u32 = 1 << 8;
const SOF_TIMESTAMPING_TX_ACK: u32 = 1 << 9;
const SOF_TIMESTAMPING_OPT_TSONLY: u32 = 1 << 11;
const SOF_TIMESTAMPING_OPT_STATS: u32 = 1 << 12;

/// Room for the control data of one timestamp: times, statistics (about 320 bytes on Linux 6.18)
/// and the extended error.
const CONTROL_ROOM: usize = 2048;

/// Control data with the alignment that `struct cmsghdr` requires.
#[repr(C, align(16))]
struct Control([u8; CONTROL_ROOM]);

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Reads a clock, nanoseconds.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid `timespec` for the call to fill; the clocks asked for exist on
    // every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    #[allow(clippy::unnecessary_cast)] // `long` and `time_t` are 32 bits wide on some architectures
    {
        time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64
    }
}

fn set_option<T: Copy>(fd: BorrowedFd, level: libc::c_int, name: libc::c_int, value: T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes at `value`, which lives through the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) })?;
    Ok(())
}

/// Reads a socket option into `value` and returns the length that the kernel filled in.
fn get_option(fd: BorrowedFd, level: libc::c_int, name: libc::c_int, value: &mut [u8]) -> io::Result<usize> {
    let mut size = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes into `value` and the written length into
    // `size`.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut size)
    })?;
    Ok((size as usize).min(value.len()))
}

/// Maximum rate for `SO_MAX_PACING_RATE`, bytes per second. Any value other than `u32::MAX` (no
/// limit) makes TCP pace internally (`SK_PACING_NEEDED`); this is the highest one that 32 bits
/// hold.
pub(crate) const PACED_BELOW: u32 = u32::MAX - 1;

/// Makes the kernel pace the socket's segments.
pub(crate) fn pace(fd: impl AsFd) -> io::Result<()> {
    set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, PACED_BELOW)
}

/// The kernel's socket cookie, by which the monitor identifies the flow.
pub(crate) fn cookie(fd: impl AsFd) -> io::Result<u64> {
    let mut value = [0u8; 8];
    get_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_COOKIE, &mut value)?;
    Ok(u64::from_ne_bytes(value))
}

/// The connection's `TCP_INFO`.
pub(crate) fn tcp_info(fd: impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = [0u8; 512];
    let length = get_option(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut raw)?;
    Ok(TcpInfo::decode(&raw[..length]))
}

/// The name of the congestion control in use.
pub(crate) fn congestion_control(fd: impl AsFd) -> io::Result<String> {
    let mut raw = [0u8; 16];
    let length = get_option(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut raw)?;
    let name = raw[..length].split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Sets the amount of unsent data below which the socket is writable (`TCP_NOTSENT_LOWAT`).
pub(crate) fn set_notsent_lowat(fd: impl AsFd, bytes: u32) -> io::Result<()> {
    set_option(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Enables timestamps with the byte's number since this call as id, without packet data, and with
/// the connection's statistics. Which packets are timestamped is requested per write. Returns the
/// kind of timestamp that the kernel supports.
pub(crate) fn enable_stamps(fd: impl AsFd) -> io::Result<StampKind> {
    let flags = SOF_TIMESTAMPING_SOFTWARE
        | SOF_TIMESTAMPING_OPT_ID
        | SOF_TIMESTAMPING_OPT_TSONLY
        | SOF_TIMESTAMPING_OPT_STATS;
    let fd = fd.as_fd();
    match set_option(fd, libc::SOL_SOCKET, SO_TIMESTAMPING_NEW, flags) {
        Ok(()) => Ok(StampKind(SO_TIMESTAMPING_NEW)),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            set_option(fd, libc::SOL_SOCKET, SO_TIMESTAMPING_OLD, flags)?;
            Ok(StampKind(SO_TIMESTAMPING_OLD))
        }
        Err(error) => Err(error),
    }
}

/// The socket option that requests timestamps; it is also the type of the control message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StampKind(libc::c_int);

/// Writes without blocking. With `stamp`, the kernel is asked to timestamp the packet that carries
/// the last byte: when TCP passes it to the device queue, when the driver accepts it and when its
/// ACK arrives. `MSG_EOR` keeps later data out of that packet.
pub(crate) fn write(fd: impl AsFd, data: &[u8], stamp: Option<StampKind>) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    let mut control = Control([0; CONTROL_ROOM]);
    // SAFETY: all zeros is a valid `msghdr`: null pointers with lengths of zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    let mut flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    if let Some(StampKind(kind)) = stamp {
        flags |= libc::MSG_EOR;
        let requested = SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_TX_ACK;
        message.msg_control = (&raw mut control.0).cast();
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u32>() as u32) } as _;
        // SAFETY: `msg_control` points to `msg_controllen` aligned bytes, enough for one header and
        // a u32, so the first header is inside, not null, and its data may be written.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<u32>() as u32) as _;
            libc::CMSG_DATA(header).cast::<u32>().write_unaligned(requested);
        }
    }
    // SAFETY: `message` points to `part` and `control`, which live through the call; the kernel
    // only reads the data although `iov_base` is mutable by type.
    check_size(unsafe { libc::sendmsg(fd.as_fd().as_raw_fd(), &raw const message, flags) })
}

/// Reads one message from the socket's error queue and passes its control data to `decode`. Returns
/// `None` if the queue is empty.
pub(crate) fn read_error_queue<T>(fd: impl AsFd, decode: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
    let mut control = Control([0; CONTROL_ROOM]);
    // SAFETY: all zeros is a valid `msghdr`: null pointers with lengths of zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = (&raw mut control.0).cast();
    message.msg_controllen = CONTROL_ROOM as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: `message` points to `control`, which lives through the call and has `msg_controllen`
    // bytes.
    match check_size(unsafe { libc::recvmsg(fd.as_fd().as_raw_fd(), &raw mut message, flags) }) {
        Ok(_) => {
            #[allow(clippy::unnecessary_cast)] // `socklen_t` (u32) with musl
            let length = (message.msg_controllen as usize).min(CONTROL_ROOM);
            Ok(Some(decode(&control.0[..length])))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Discards up to `max_bytes` bytes from a TCP socket without copying them (`MSG_TRUNC`, tcp(7))
/// and without blocking. Returns their number, 0 if the peer has closed its direction.
pub(crate) fn discard(fd: impl AsFd, max_bytes: usize) -> io::Result<usize> {
    let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    // SAFETY: with MSG_TRUNC the kernel's TCP does not touch the buffer, so null is allowed
    // (tcp(7)).
    check_size(unsafe { libc::recv(fd.as_fd().as_raw_fd(), std::ptr::null_mut(), max_bytes, flags) })
}

/// One descriptor for [`poll`], with the events asked for and returned.
pub(crate) type PollFd = libc::pollfd;

/// Builds an entry for [`poll`].
pub(crate) fn poll_fd(fd: RawFd, events: libc::c_short) -> PollFd {
    PollFd { fd, events, revents: 0 }
}

/// Waits until a descriptor is ready or `timeout` expires. Returns 0 if a signal interrupts it, so
/// that the caller checks its stop flag and calls again.
pub(crate) fn poll(fds: &mut [PollFd], timeout: Duration) -> io::Result<usize> {
    let time = libc::timespec {
        tv_sec: timeout.as_secs().min(3600) as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as _,
    };
    // SAFETY: `fds` is a valid array of its length, `time` lives through the call, no signal mask
    // is given.
    let result = unsafe {
        libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &raw const time, std::ptr::null())
    };
    match check(result) {
        Ok(count) => Ok(count as usize),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            for fd in fds {
                fd.revents = 0;
            }
            Ok(0)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::stamps::{Stamp, StampEvent, decode};
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    /// Writes with a timestamp request and waits for the timestamp of the ACK.
    fn stamped(stream: &TcpStream, data: &[u8], kind: StampKind) -> Vec<Stamp> {
        assert_eq!(write(stream, data, Some(kind)).unwrap(), data.len());
        let mut stamps = Vec::new();
        let started = Instant::now();
        while stamps.last().is_none_or(|stamp: &Stamp| stamp.event != StampEvent::Acked) {
            assert!(started.elapsed() < Duration::from_secs(10), "{stamps:?}");
            poll(&mut [poll_fd(stream.as_raw_fd(), 0)], Duration::from_millis(100)).unwrap();
            while let Some(stamp) = read_error_queue(stream, decode).unwrap() {
                stamps.push(stamp.unwrap());
            }
        }
        stamps
    }

    #[test]
    fn the_statistics_of_a_stamp_are_those_of_tcp_info() {
        for ip in ["127.0.0.1", "::1"] {
            let listener = TcpListener::bind((ip, 0)).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let kind = enable_stamps(&stream).unwrap();
            let mut sent = 0;
            for length in [100_000, 1, 1000, 1, 50_000] {
                // Nothing is in flight, so the statistics do not change between this call and the
                // transmission.
                let quiet = tcp_info(&stream).unwrap();
                let stamps = stamped(&stream, &vec![7; length], kind);
                sent += length as u32;
                // Further timestamps of sending are tail loss probes (RFC 8985), because the peer
                // delays its ACK.
                let kinds: Vec<StampEvent> = stamps.iter().map(|stamp| stamp.event).collect();
                assert_eq!(
                    (&kinds[..2], kinds.last()),
                    (&[StampEvent::Sent, StampEvent::Wire][..], Some(&StampEvent::Acked)),
                    "{ip}"
                );
                assert!(stamps.iter().all(|stamp| stamp.byte == sent - 1), "{stamps:?}");
                assert!(stamps.windows(2).all(|pair| pair[0].unix_ns <= pair[1].unix_ns), "{stamps:?}");
                let stats = stamps[0].stats;
                if length == 1 {
                    assert_eq!(stats.cwnd, Some(quiet.cwnd));
                    assert_eq!(stats.ssthresh, Some(quiet.ssthresh));
                    assert_eq!(stats.srtt_us, Some(quiet.srtt_us));
                    assert_eq!(stats.min_rtt_us, Some(quiet.min_rtt_us));
                    assert_eq!(stats.ca_state, Some(quiet.ca_state));
                    assert_eq!(stats.total_retrans, Some(quiet.total_retrans.into()));
                    assert_eq!(stats.delivery_rate_bytes_per_s, Some(quiet.delivery_rate_bytes_per_s));
                }
                let mut received = vec![0; length];
                peer.read_exact(&mut received).unwrap();
            }
            assert_ne!(cookie(&stream).unwrap(), 0);
        }
    }

    #[test]
    fn discarded_bytes_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        assert_eq!(discard(&peer, 10).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(write(&stream, &[1; 1000], None).unwrap(), 1000);
        drop(stream);
        let mut total = 0;
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < Duration::from_secs(10));
            poll(&mut [poll_fd(peer.as_raw_fd(), libc::POLLIN)], Duration::from_millis(100)).unwrap();
            match discard(&peer, 300).unwrap() {
                0 => break,
                count => {
                    assert!(count <= 300);
                    total += count;
                }
            }
        }
        assert_eq!(total, 1000);
    }
}
