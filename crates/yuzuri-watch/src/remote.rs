//! What a user interface may ask of the source, carried to the thread that reads it.

use parking_lot::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;
use yuzuri_kernel::Watch;
use yuzuri_trace::{Density, Filter};
use yuzuri_view::{Control, Refused};

/// A request, with where the answer goes.
struct Request {
    /// The new filter, or the one in force.
    filter: Option<Filter>,
    /// The new density, or the one in force.
    density: Option<Density>,
    answer: SyncSender<Result<(), Refused>>,
}

/// A live source as user interfaces see it.
pub struct Remote {
    requests: Mutex<Sender<Request>>,
}

/// The requests of a [`Remote`] as the loop sees them.
pub struct Requests(Receiver<Request>);

impl Remote {
    /// A remote and its requests.
    pub fn new() -> (Remote, Requests) {
        let (requests, asked) = channel();
        (Remote { requests: Mutex::new(requests) }, Requests(asked))
    }

    fn ask(&self, filter: Option<Filter>, density: Option<Density>) -> Result<(), Refused> {
        let failed = |why: &str| Refused::Failed(why.to_owned());
        let (answer, answered) = sync_channel(1);
        let requests = self.requests.lock();
        requests.send(Request { filter, density, answer }).map_err(|_| failed("watching has ended"))?;
        // The source looks every 10 ms or so.
        answered.recv_timeout(Duration::from_secs(5)).unwrap_or(Err(failed("the source does not answer")))
    }
}

impl Control for Remote {
    fn set_filter(&self, filter: Filter) -> Result<(), Refused> {
        self.ask(Some(filter), None)
    }

    fn set_density(&self, density: Density) -> Result<(), Refused> {
        self.ask(None, Some(density))
    }
}

impl Requests {
    /// Leaves the source alone for as long as it may be, or until something is wished, and does that.
    pub(crate) fn rest(&self, watch: &mut dyn Watch) {
        match self.0.recv_timeout(watch.rest()) {
            Ok(request) => {
                let filter = request.filter.unwrap_or_else(|| watch.filter().clone());
                let density = request.density.unwrap_or(watch.density());
                let result = watch.set(&filter, density);
                // Who asked may have given up.
                let _ = request.answer.send(result.map_err(|error| Refused::Failed(error.to_string())));
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Nobody can send requests any more.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(watch.rest()),
        }
    }
}
