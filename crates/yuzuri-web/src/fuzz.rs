//! For the fuzzer: handles a connection's bytes without a socket, with the same HTTP code and the
//! same checks.

use crate::api::{self, App};
use crate::daemon_status::DaemonStatus;
use crate::guard::{Guard, Token};
use crate::page::Page;
use crate::serve::http1;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::{Service, service_fn};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;

/// Number of polls without a pending request after which the peer closes: by then all answers have
/// been written.
const IDLE_POLLS: u32 = 8;

/// A page that answers any input.
#[derive(Debug)]
pub struct Fuzzed {
    runtime: tokio::runtime::Runtime,
    router: axum::Router,
    timeout: Duration,
}

impl Fuzzed {
    /// Serves a page to everybody at a loopback address, or with a token, to its holders at any
    /// other address. `timeout` limits incomplete requests.
    ///
    /// # Errors
    /// If the runtime cannot be built.
    pub fn new(page: Page, secret: Option<&str>, timeout: Duration) -> io::Result<Fuzzed> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ip = if secret.is_some() { [0, 0, 0, 0] } else { [127, 0, 0, 1] };
        let guard = Guard { bound: (ip, 80).into(), token: secret.map(Token::of) };
        let share = Arc::new(DaemonStatus::at(None, None));
        let app = App {
            shared: page.shared,
            guard: Arc::new(guard),
            browser_connected: Arc::new(Notify::new()),
            share,
            bottlenecks: Arc::default(),
        };
        Ok(Fuzzed { runtime, router: api::router(app), timeout })
    }

    /// The answer to these bytes.
    pub fn answer(&self, bytes: &[u8]) -> Vec<u8> {
        let answer = Arc::new(Mutex::new(Vec::new()));
        let under_way = Arc::new(AtomicUsize::new(0));
        let wire = Wire {
            input: bytes.to_vec(),
            at: 0,
            output: answer.clone(),
            under_way: under_way.clone(),
            quiet_turns: 0,
        };
        let router = TowerToHyperService::new(self.router.clone());
        let service = service_fn(move |request| {
            under_way.fetch_add(1, Ordering::SeqCst);
            let (answered, under_way) = (router.call(request), under_way.clone());
            async move {
                let answered = answered.await;
                under_way.fetch_sub(1, Ordering::SeqCst);
                answered
            }
        });
        self.runtime.block_on(async {
            // HTTP returns an error to clients that do not speak it.
            let served = http1().serve_connection(wire, service);
            let _ = tokio::time::timeout(self.timeout, served).await;
        });
        std::mem::take(&mut *answer.lock())
    }
}

/// Both directions of a connection in memory.
struct Wire {
    input: Vec<u8>,
    at: usize,
    output: Arc<Mutex<Vec<u8>>>,
    /// Requests waiting for their answer: HTTP abandons them when the other end closes.
    under_way: Arc<AtomicUsize>,
    quiet_turns: u32,
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.at == self.input.len() && self.quiet_turns < IDLE_POLLS {
            if self.under_way.load(Ordering::SeqCst) == 0 {
                self.quiet_turns += 1;
            }
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let left = &self.input[self.at..];
        let count = left.len().min(buf.remaining());
        buf.put_slice(&left[..count]);
        self.at += count;
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.output.lock().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use yuzuri_trace::{Density, Flow, FlowId, Item, Session, Source};
    use yuzuri_view::{Limits, LiveModel, NoControl};

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn fuzzed(secret: Option<&str>) -> Fuzzed {
        let session = Session {
            yuzuri: String::new(),
            host: String::new(),
            kernel: String::new(),
            machine: String::new(),
            source: Source::Events,
            density: Density::default(),
            filter: String::new(),
            hooks: vec![],
            started_unix_ns: 0,
            started_mono_ns: 0,
        };
        let mut model = LiveModel::new(Arc::new(session), Limits::default());
        model.apply(&Item::Flow(Arc::new(Flow { id: FlowId(1), ..Flow::default() })));
        Fuzzed::new(
            Page::new(Arc::new(Mutex::new(model)), Arc::new(NoControl)),
            secret,
            Duration::from_secs(20),
        )
        .unwrap()
    }

    fn status(answer: &[u8]) -> u16 {
        let line = answer.strip_prefix(b"HTTP/1.1 ").unwrap_or_else(|| panic!("{}", answer.escape_ascii()));
        std::str::from_utf8(&line[..3]).unwrap().parse().unwrap()
    }

    /// The fuzzer's corpus reaches every request, and is admitted only with the token.
    #[test]
    fn the_fuzz_seeds_reach_every_request() {
        let (open, guarded) = (fuzzed(None), fuzzed(Some(SECRET)));
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/http");
        let mut seeds = 0;
        for seed in std::fs::read_dir(folder).unwrap().flatten() {
            let (name, bytes) = (seed.file_name(), std::fs::read(seed.path()).unwrap());
            let expected = match name.to_str().unwrap() {
                // Nothing can be changed here, and no browser is connected.
                "filter" | "density" | "replay" | "chunked" => 409,
                "choose" => 404,
                "options" => 403,
                _ => 200,
            };
            assert_eq!(status(&open.answer(&bytes)), expected, "{name:?}");
            let expected = match name.to_str().unwrap() {
                // With the token, or for one of the page's own files.
                "token" | "bearer" | "page" | "asset" => 200,
                _ if expected == 403 => 403,
                _ => 401,
            };
            assert_eq!(status(&guarded.answer(&bytes)), expected, "{name:?}");
            seeds += 1;
        }
        assert!(seeds >= 16);
        assert!(open.answer(b"\x16\x03\x01 no HTTP").starts_with(b"HTTP/1.1 400"));
        assert!(open.answer(b"").is_empty());
    }
}
