//! Requests and responses over one TCP connection.

use crate::LabError;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PORT: u16 = 4951;
/// How often the stop flag is checked.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// A request starts with its own length and that of the response, both `u32`, big-endian.
const MIN_REQUEST_BYTES: u32 = yuzuri_scenario::WorkloadSpec::MIN_REQUEST_BYTES;

/// Answers requests until the flag is set.
pub fn serve(stop: &AtomicBool) -> Result<(), LabError> {
    let doing = "serving requests";
    let listener = TcpListener::bind(("0.0.0.0", PORT)).map_err(LabError::network(doing))?;
    listener.set_nonblocking(true).map_err(LabError::network(doing))?;
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((socket, _)) => {
                    // A client that disconnects ends only its own thread.
                    scope.spawn(move || answer(socket, stop));
                }
                Err(_) => std::thread::sleep(STOP_CHECK_INTERVAL),
            }
        }
    });
    Ok(())
}

fn answer(mut socket: TcpStream, stop: &AtomicBool) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
    socket.set_write_timeout(Some(STOP_CHECK_INTERVAL))?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let mut head = [0; MIN_REQUEST_BYTES as usize];
        read_exactly(&mut head, stop, |rest| socket.read(rest))?;
        let length = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        transfer(length(0).saturating_sub(MIN_REQUEST_BYTES), &mut buffer, stop, |part| socket.read(part))?;
        transfer(length(4), &mut buffer, stop, |part| socket.write(part))?;
    }
}

/// Sends requests until the flag is set. Returns the duration of each exchange, µs.
pub fn request(
    server: IpAddr,
    (request_bytes, response_bytes): (u32, u32),
    think: Duration,
    stop: &AtomicBool,
    times_us: &mut Vec<u64>,
    prepare: impl FnOnce(&TcpStream) -> io::Result<()>,
) -> io::Result<()> {
    let mut socket = TcpStream::connect_timeout(&SocketAddr::new(server, PORT), Duration::from_secs(60))?;
    prepare(&socket)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
    socket.set_write_timeout(Some(STOP_CHECK_INTERVAL))?;
    let mut buffer = vec![0; 64 << 10];
    let head = [request_bytes.to_be_bytes(), response_bytes.to_be_bytes()].concat();
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        let mut sent = 0;
        transfer(MIN_REQUEST_BYTES, &mut head.clone(), stop, |part| {
            let count = socket.write(&head[sent..][..part.len()])?;
            sent += count;
            Ok(count)
        })?;
        transfer(request_bytes - MIN_REQUEST_BYTES, &mut buffer, stop, |part| socket.write(part))?;
        transfer(response_bytes, &mut buffer, stop, |part| socket.read(part))?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        times_us.push(started.elapsed().as_micros() as u64);
        super::work::sleep_until(Instant::now() + think, stop);
    }
    Ok(())
}

/// Transfers this many bytes through `buffer`; returns early, without error, if the flag is set.
fn transfer(
    bytes: u32,
    buffer: &mut [u8],
    stop: &AtomicBool,
    mut step: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let mut left = bytes as usize;
    while left > 0 && !stop.load(Ordering::Relaxed) {
        let part = left.min(buffer.len());
        match step(&mut buffer[..part]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => left -= count,
            Err(e) if is_transient(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Whether the call may succeed if it is repeated.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Fills `buffer`; an error if the flag is set.
fn read_exactly(
    buffer: &mut [u8],
    stop: &AtomicBool,
    mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        if stop.load(Ordering::Relaxed) {
            return Err(ErrorKind::Interrupted.into());
        }
        match read(&mut buffer[filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(e) if is_transient(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn responses_have_the_requested_length() {
        let stop = AtomicBool::new(false);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| answer(listener.accept().unwrap().0, &stop));
            let mut socket = TcpStream::connect(address).unwrap();
            for (request, response) in [(8u32, 1u32), (100_000, 300_000)] {
                let mut bytes = vec![0; request as usize];
                bytes[..4].copy_from_slice(&request.to_be_bytes());
                bytes[4..8].copy_from_slice(&response.to_be_bytes());
                socket.write_all(&bytes).unwrap();
                let mut answer = vec![0; response as usize];
                socket.read_exact(&mut answer).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
