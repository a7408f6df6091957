//! Holds the latest status for readers on other threads.

use crate::Status;
use parking_lot::Mutex;
use std::sync::Arc;

/// A shared cell with the latest status. It is cheap to clone and can be read from any thread.
#[derive(Debug, Clone, Default)]
pub struct StatusCell(Arc<Inner>);

/// A shared cell with the latest status in serialised form.
#[derive(Debug, Clone, Default)]
pub struct TextCell(Arc<Mutex<Arc<[u8]>>>);

impl TextCell {
    /// Publishes a text.
    pub fn write(&self, text: &str) {
        *self.0.lock() = [text.as_bytes(), b"\n"].concat().into();
    }

    pub(crate) fn read(&self) -> Arc<[u8]> {
        self.0.lock().clone()
    }
}

#[derive(Debug, Default)]
struct Inner {
    last: Mutex<Arc<Status>>,
    all: Mutex<All>,
}

/// The status with all flows. It is built only on request and freed with its last reader.
#[derive(Debug, Default)]
struct All {
    wanted: bool,
    /// Incremented with each status written.
    number: u64,
    status: Option<Arc<Status>>,
}

impl StatusCell {
    /// The latest status, with the largest flows of each interface ([`MAX_ROWS`](crate::MAX_ROWS)).
    pub fn read(&self) -> Arc<Status> {
        self.0.last.lock().clone()
    }

    /// Requests a status with all flows at the next tick (500 ms). Pass the returned number to
    /// [`StatusCell::all_since`].
    pub fn ask_for_all(&self) -> u64 {
        let mut all = self.0.all.lock();
        all.wanted = true;
        all.number
    }

    /// The status with all flows, if one was written since the request `number`.
    pub fn all_since(&self, number: u64) -> Option<Arc<Status>> {
        let all = self.0.all.lock();
        all.status.clone().filter(|_| all.number != number)
    }

    /// Cancels the request and frees the status with all flows.
    pub(crate) fn forget_all(&self) {
        let mut all = self.0.all.lock();
        all.wanted = false;
        all.status = None;
    }

    /// Publishes a status.
    pub fn write(&self, status: Status) {
        *self.0.last.lock() = Arc::new(status);
    }

    /// Whether a status with all flows is requested.
    pub(crate) fn is_asked_for_all(&self) -> bool {
        self.0.all.lock().wanted
    }

    pub(crate) fn write_all(&self, status: Status) {
        let mut all = self.0.all.lock();
        // The request may have been cancelled meanwhile.
        if all.wanted {
            all.wanted = false;
            all.status = Some(Arc::new(status));
            all.number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn all_flows_are_prepared_only_for_clients_that_wait() {
        let status_cell = StatusCell::default();
        status_cell.write_all(Status::default());
        assert!(status_cell.0.all.lock().status.is_none(), "nobody asked");
        let first = status_cell.ask_for_all();
        assert!(status_cell.is_asked_for_all());
        assert!(status_cell.all_since(first).is_none());
        status_cell.write_all(Status { pid: 7, ..Status::default() });
        assert_eq!(status_cell.all_since(first).unwrap().pid, 7);
        // A later request waits for the next status.
        let second = status_cell.ask_for_all();
        assert!(status_cell.all_since(second).is_none());
        assert_eq!(status_cell.all_since(first).unwrap().pid, 7);
        status_cell.forget_all();
        assert!(!status_cell.is_asked_for_all());
        assert!(status_cell.0.all.lock().status.is_none(), "it is gone with the last reader");
    }
}
