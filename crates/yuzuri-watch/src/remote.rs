//! Passes requests of user interfaces to the thread that reads the source.

use parking_lot::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;
use yuzuri_kernel::Watch;
use yuzuri_trace::{Density, Filter};
use yuzuri_view::{Control, Refused};

/// A request, with the channel for its answer.
struct Request {
    /// The new filter; `None` leaves it unchanged.
    filter: Option<Filter>,
    /// The new density; `None` leaves it unchanged.
    density: Option<Density>,
    answer: SyncSender<Result<(), Refused>>,
}

/// The user interfaces' end: a live source that accepts requests.
pub struct Remote {
    requests: Mutex<Sender<Request>>,
}

/// The loop's end: the requests made through a [`Remote`].
pub struct Requests(Receiver<Request>);

impl Remote {
    /// Creates a remote and the receiver of its requests.
    pub fn new() -> (Remote, Requests) {
        let (requests, asked) = channel();
        (Remote { requests: Mutex::new(requests) }, Requests(asked))
    }

    fn ask(&self, filter: Option<Filter>, density: Option<Density>) -> Result<(), Refused> {
        let failed = |why: &str| Refused::Failed(why.to_owned());
        let (answer, answered) = sync_channel(1);
        let requests = self.requests.lock();
        requests.send(Request { filter, density, answer }).map_err(|_| failed("watching has ended"))?;
        // The source reads about every 10 ms.
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
    /// Waits until the source is due again, or until a request arrives and is served. `gather`: as
    /// for [`Watch::wait`].
    pub(crate) fn read_interval(&self, watch: &mut dyn Watch, gather: Duration) {
        match self.0.recv_timeout(watch.read_interval()) {
            Ok(request) => {
                let filter = request.filter.unwrap_or_else(|| watch.filter().clone());
                let density = request.density.unwrap_or(watch.density());
                let result = watch.set(&filter, density);
                // The requester may have given up.
                let _ = request.answer.send(result.map_err(|error| Refused::Failed(error.to_string())));
            }
            Err(RecvTimeoutError::Timeout) => {}
            // All remotes are gone: no more requests can come.
            Err(RecvTimeoutError::Disconnected) => watch.wait(gather),
        }
    }
}
