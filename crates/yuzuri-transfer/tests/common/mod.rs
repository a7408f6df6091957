//! Sinks, receivers and networks for the tests. They use real sockets and real namespaces.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use yuzuri_testnet::{Net, Side};
use yuzuri_transfer::{
    Buffer, Listener, ReceiveError, ReceiveEvent, ReceiveOptions, ReceiveSummary, SendError, SendEvent,
    SendOptions, SendSummary, payload, send,
};

pub fn options(to: SocketAddr) -> SendOptions {
    SendOptions::new(to.into())
}

/// Runs a transfer and collects every event.
pub fn run(options: &SendOptions) -> (Result<SendSummary, SendError>, Vec<SendEvent>) {
    let mut events = Vec::new();
    let result = send(
        options,
        &mut |event: &SendEvent| {
            events.push(event.clone());
            Ok(())
        },
        &AtomicBool::new(false),
    );
    (result, events)
}

pub fn buffers(events: &[SendEvent]) -> Vec<Buffer> {
    let buffer = |event: &SendEvent| match event {
        SendEvent::Buffer(buffer) => Some(buffer.clone()),
        _ => None,
    };
    events.iter().filter_map(buffer).collect()
}

/// Checks the invariants of buffers, whatever the path.
pub fn check_buffers(buffers: &[Buffer]) {
    let mut last: std::collections::HashMap<u32, (u64, u64)> = Default::default();
    for buffer in buffers {
        let sent = buffer.sent_mono_ns.expect("the sending was seen");
        assert!(buffer.first_write_mono_ns <= sent, "{buffer:?}");
        assert!(sent <= buffer.acked_mono_ns, "{buffer:?}");
        if let Some(wire) = buffer.wire_mono_ns {
            assert!(sent <= wire && wire <= buffer.acked_mono_ns, "{buffer:?}");
        }
        let duration = u128::from(buffer.acked_mono_ns - buffer.first_write_mono_ns);
        let expected = u128::from(buffer.bytes) * 8_000_000_000 / duration.max(1);
        assert_eq!(u128::from(buffer.throughput_bps), expected, "{buffer:?}");
        assert!(buffer.carried_bps >= buffer.throughput_bps, "{buffer:?}");
        assert!(buffer.cwnd > 0 && buffer.srtt_us.is_some(), "{buffer:?}");
        assert!(!buffer.clock_stepped, "{buffer:?}");
        if let Some((index, acked)) = last.insert(buffer.connection, (buffer.index, buffer.acked_mono_ns)) {
            assert_eq!(buffer.index, index + 1, "{buffer:?}");
            assert!(buffer.acked_mono_ns >= acked, "{buffer:?}");
        } else {
            assert_eq!(buffer.index, 0, "{buffer:?}");
        }
    }
}

/// A foreign receiver: accepts `count` connections and passes each to `serve` in a thread.
pub struct TestServer<T> {
    pub address: SocketAddr,
    threads: JoinHandle<Vec<JoinHandle<T>>>,
}

impl<T: Send + 'static> TestServer<T> {
    pub fn new(
        ip: &str,
        count: usize,
        serve: impl Fn(TcpStream) -> T + Send + Sync + 'static,
    ) -> TestServer<T> {
        let listener = TcpListener::bind((ip.parse::<IpAddr>().unwrap(), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let serve = Arc::new(serve);
        let threads = std::thread::spawn(move || {
            let serve_next = |_| {
                let (stream, _) = listener.accept().unwrap();
                let serve = serve.clone();
                std::thread::spawn(move || serve(stream))
            };
            (0..count).map(serve_next).collect()
        });
        TestServer { address, threads }
    }

    /// Results of `serve`, in the order of acceptance.
    pub fn join(self) -> Vec<T> {
        self.threads.join().unwrap().into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

pub fn read_all(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Contents of a buffer of this length.
pub fn buffer_content(bytes: u64) -> Vec<u8> {
    payload().iter().copied().cycle().take(bytes as usize).collect()
}

/// Yuzuri's receiver, running in a thread.
pub struct TestReceiver {
    pub address: SocketAddr,
    pub stop: Arc<AtomicBool>,
    pub events: mpsc::Receiver<ReceiveEvent>,
    thread: JoinHandle<Result<ReceiveSummary, ReceiveError>>,
}

impl TestReceiver {
    pub fn start(options: ReceiveOptions) -> TestReceiver {
        let listener = Listener::bind(options).unwrap();
        let (sender, events) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let address = listener.address();
        let flag = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut report = |event: &ReceiveEvent| {
                sender.send(event.clone()).unwrap();
                Ok(())
            };
            listener.run(&mut report, &flag)
        });
        TestReceiver { address, stop, events, thread }
    }

    /// Waits for the first event that `choose` accepts and returns what it selected.
    pub fn wait<T>(&self, choose: impl Fn(&ReceiveEvent) -> Option<T>) -> T {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left).expect("the receiver reports it in time");
            if let Some(found) = choose(&event) {
                return found;
            }
        }
    }

    pub fn stop(self) -> (ReceiveSummary, Vec<ReceiveEvent>) {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    pub fn join(self) -> (ReceiveSummary, Vec<ReceiveEvent>) {
        let summary = self.thread.join().unwrap().unwrap();
        (summary, self.events.iter().collect())
    }
}

/// Options for a free port on both loopback addresses.
pub fn receive_options() -> ReceiveOptions {
    ReceiveOptions { port: 0, ..Default::default() }
}

/// Starts a receiver at the far end of the path.
pub fn receiving(net: &Net, options: ReceiveOptions) -> TestReceiver {
    net.inside(Side::B, || TestReceiver::start(options))
}

/// Sends from the near end of the path.
pub fn send_through(net: &Net, options: SendOptions) -> (Result<SendSummary, SendError>, Vec<SendEvent>) {
    net.inside(Side::A, || run(&options))
}
