//! What a face may ask of the source, carried to the thread that runs it.

use parking_lot::Mutex;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::time::Duration;
use yuzuri_trace::{Density, Filter};
use yuzuri_view::{Control, Refused};

/// A wish, with where the answer goes.
pub struct Wish {
    /// The new filter, or the one in force.
    pub filter: Option<Filter>,
    /// The new density, or the one in force.
    pub density: Option<Density>,
    /// The answer.
    pub answer: SyncSender<Result<(), String>>,
}

/// A live source as the faces see it.
pub struct Remote {
    wishes: Mutex<Sender<Wish>>,
}

impl Remote {
    /// A remote whose wishes go there.
    pub fn new(wishes: Sender<Wish>) -> Remote {
        Remote { wishes: Mutex::new(wishes) }
    }

    fn ask(&self, filter: Option<Filter>, density: Option<Density>) -> Result<(), String> {
        let (answer, answered) = sync_channel(1);
        let wishes = self.wishes.lock();
        wishes.send(Wish { filter, density, answer }).map_err(|_| "watching has ended".to_owned())?;
        // The source looks every 10 ms or so.
        answered.recv_timeout(Duration::from_secs(5)).unwrap_or(Err("the source does not answer".into()))
    }
}

impl Control for Remote {
    fn set_filter(&self, filter: Filter) -> Result<(), Refused> {
        self.ask(Some(filter), None).map_err(Refused::Failed)
    }

    fn set_density(&self, density: Density) -> Result<(), Refused> {
        self.ask(None, Some(density)).map_err(Refused::Failed)
    }
}
