//! The latest status of a sharing daemon, for other threads to read.

use crate::Status;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// The last status; cheap to clone, read from any thread.
#[derive(Debug, Clone, Default)]
pub struct StatusCell(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last: Mutex<Arc<Status>>,
    all: Mutex<All>,
}

/// The status with all flows: made for those who wait for it, and gone with them.
#[derive(Debug, Default)]
struct All {
    wanted: bool,
    /// Counts what was written.
    number: u64,
    status: Option<Arc<Status>>,
}

impl StatusCell {
    /// The last status, with the largest flows of each interface ([`MAX_ROWS`](crate::MAX_ROWS)).
    pub fn read(&self) -> Arc<Status> {
        self.0.last.lock().clone()
    }

    /// Asks for the next half second's status with all flows; [`StatusCell::all_since`] gives it for what this returns.
    pub fn ask_for_all(&self) -> u64 {
        let mut all = self.all();
        all.wanted = true;
        all.number
    }

    /// The status with all flows, if one was made since it was asked for.
    pub fn all_since(&self, number: u64) -> Option<Arc<Status>> {
        let all = self.all();
        all.status.clone().filter(|_| all.number != number)
    }

    /// Nobody waits for it any more.
    pub(crate) fn forget_all(&self) {
        let mut all = self.all();
        all.wanted = false;
        all.status = None;
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.all.lock()
    }

    /// Publishes a status.
    pub fn write(&self, status: Status) {
        *self.0.last.lock() = Arc::new(status);
    }

    /// Whether somebody waits for all flows.
    pub(crate) fn is_asked_for_all(&self) -> bool {
        self.all().wanted
    }

    pub(crate) fn write_all(&self, status: Status) {
        let mut all = self.all();
        // Who waited may have given up meanwhile.
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
    fn all_flows_are_kept_for_those_only_who_wait() {
        let status_cell = StatusCell::default();
        status_cell.write_all(Status::default());
        assert!(status_cell.all().status.is_none(), "nobody asked");
        let first = status_cell.ask_for_all();
        assert!(status_cell.is_asked_for_all());
        assert!(status_cell.all_since(first).is_none());
        status_cell.write_all(Status { pid: 7, ..Status::default() });
        assert_eq!(status_cell.all_since(first).unwrap().pid, 7);
        // Who asks later waits for the next one.
        let second = status_cell.ask_for_all();
        assert!(status_cell.all_since(second).is_none());
        assert_eq!(status_cell.all_since(first).unwrap().pid, 7);
        status_cell.forget_all();
        assert!(!status_cell.is_asked_for_all());
        assert!(status_cell.all().status.is_none(), "it is gone with the last reader");
    }
}
