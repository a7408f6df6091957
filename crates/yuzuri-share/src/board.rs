//! Where a sharing hangs out its status for others to read.

use crate::Status;
use std::sync::{Arc, Mutex, PoisonError};

/// The last status; cheap to clone, read from any thread.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<Arc<Status>>>);

impl Board {
    /// The last status.
    pub fn read(&self) -> Arc<Status> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn write(&self, status: Status) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(status);
    }
}
