//! What a user interface may ask of the source, carried to the thread that reads it.

use parking_lot::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;
use yuzuri_kernel::Watch;
use yuzuri_trace::{Density, Filter};
use yuzuri_view::{Control, Refused};

/// A wish, with where the answer goes.
struct Wish {
    /// The new filter, or the one in force.
    filter: Option<Filter>,
    /// The new density, or the one in force.
    density: Option<Density>,
    answer: SyncSender<Result<(), Refused>>,
}

/// A live source as user interfaces see it.
pub struct Remote {
    wishes: Mutex<Sender<Wish>>,
}

/// The wishes of a [`Remote`] as the loop sees them.
pub struct Wishes(Receiver<Wish>);

impl Remote {
    /// A remote and what it wishes.
    pub fn new() -> (Remote, Wishes) {
        let (wishes, asked) = channel();
        (Remote { wishes: Mutex::new(wishes) }, Wishes(asked))
    }

    fn ask(&self, filter: Option<Filter>, density: Option<Density>) -> Result<(), Refused> {
        let failed = |why: &str| Refused::Failed(why.to_owned());
        let (answer, answered) = sync_channel(1);
        let wishes = self.wishes.lock();
        wishes.send(Wish { filter, density, answer }).map_err(|_| failed("watching has ended"))?;
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

impl Wishes {
    /// Leaves the source alone for as long as it may be, or until something is wished, and does that.
    pub(crate) fn rest(&self, watch: &mut dyn Watch) {
        match self.0.recv_timeout(watch.rest()) {
            Ok(wish) => {
                let filter = wish.filter.unwrap_or_else(|| watch.filter().clone());
                let density = wish.density.unwrap_or(watch.density());
                let result = watch.set(&filter, density);
                // Who asked may have given up.
                let _ = wish.answer.send(result.map_err(|error| Refused::Failed(error.to_string())));
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Nobody can wish any more.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(watch.rest()),
        }
    }
}
