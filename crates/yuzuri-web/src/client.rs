//! A connected browser: its queue of messages and what it wants to see.

use crate::page::Shared;
use axum::body::Bytes;
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use yuzuri_trace::FlowId;

/// Maximum number of messages queued for a browser: those of about three seconds.
const QUEUE: usize = 64;
/// How long a full queue is tolerated.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The broadcaster's side of a browser.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) flows: Vec<FlowId>,
    /// Rows are sent as changes. This browser has missed some (or has none yet) and needs all of
    /// them.
    pub(crate) needs_all: bool,
    /// The browser missed buckets or events of its flows and should request their history.
    pub(crate) gap: bool,
    queue: mpsc::Sender<Bytes>,
    full_since: Option<Instant>,
}

impl Client {
    pub(crate) fn new(id: String, flows: Vec<FlowId>) -> (Client, mpsc::Receiver<Bytes>) {
        let (queue, outlet) = mpsc::channel(QUEUE);
        (Client { id, flows, needs_all: true, gap: false, queue, full_since: None }, outlet)
    }

    /// Queues a message; false if it had to be skipped.
    pub(crate) fn send(&mut self, message: Bytes) -> bool {
        match self.queue.try_send(message) {
            Ok(()) => {
                self.full_since = None;
                true
            }
            Err(_) => {
                self.full_since.get_or_insert_with(Instant::now);
                false
            }
        }
    }

    /// Whether the browser has disconnected, or its queue has been full for [`TIMEOUT`].
    pub(crate) fn is_lost(&self) -> bool {
        self.queue.is_closed() || self.full_since.is_some_and(|since| since.elapsed() > TIMEOUT)
    }
}

/// A server-sent event.
pub(crate) fn message(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// The response's body; dropping it ends the subscription.
pub(crate) struct LiveBody {
    outlet: mpsc::Receiver<Bytes>,
    id: String,
    shared: Arc<Shared>,
}

impl LiveBody {
    pub(crate) fn new(outlet: mpsc::Receiver<Bytes>, id: String, shared: Arc<Shared>) -> LiveBody {
        LiveBody { outlet, id, shared }
    }
}

impl Body for LiveBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.outlet.poll_recv(cx).map(|message| message.map(|data| Ok(Frame::data(data))))
    }
}

impl Drop for LiveBody {
    fn drop(&mut self) {
        let flows = self.shared.broadcast.lock().leave(&self.id);
        self.shared.with_feed(|feed| feed.unsubscribe(&flows));
    }
}
