//! Where a sharing hangs out its status for others to read.

use crate::Status;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The last status; cheap to clone, read from any thread.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last: Mutex<Arc<Status>>,
    all: Mutex<All>,
    came: Condvar,
}

/// The status with all flows: made for those who wait for it, and gone with them.
#[derive(Debug, Default)]
struct All {
    waiting: u32,
    /// Counts what was written.
    number: u64,
    status: Option<Arc<Status>>,
}

impl Board {
    /// The last status, with the largest flows of each interface ([`MAX_ROWS`](crate::MAX_ROWS)).
    pub fn read(&self) -> Arc<Status> {
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the next half second's status with all flows, so long at most. `None`: the sharing is too busy, or ends.
    pub fn read_all(&self, within: Duration) -> Option<Arc<Status>> {
        let mut all = self.0.all.lock().unwrap_or_else(PoisonError::into_inner);
        let number = all.number;
        all.waiting += 1;
        let waited = self.0.came.wait_timeout_while(all, within, |all| all.number == number);
        let (mut all, _) = waited.unwrap_or_else(PoisonError::into_inner);
        all.waiting -= 1;
        let status = all.status.clone().filter(|_| all.number != number);
        if all.waiting == 0 {
            all.status = None;
        }
        status
    }

    pub(crate) fn write(&self, status: Status) {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(status);
    }

    /// Whether somebody waits for all flows.
    pub(crate) fn is_asked_for_all(&self) -> bool {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner).waiting > 0
    }

    pub(crate) fn write_all(&self, status: Status) {
        let mut all = self.0.all.lock().unwrap_or_else(PoisonError::into_inner);
        // Who waited may have given up meanwhile.
        if all.waiting > 0 {
            all.status = Some(Arc::new(status));
            all.number += 1;
            self.0.came.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn all_flows_are_kept_for_those_only_who_wait() {
        let board = Board::default();
        assert!(board.read_all(Duration::from_millis(1)).is_none());
        board.write_all(Status::default());
        assert!(board.0.all.lock().unwrap().status.is_none(), "nobody asked");
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let board = board.clone();
                std::thread::spawn(move || board.read_all(Duration::from_secs(60)))
            })
            .collect();
        while board.0.all.lock().unwrap().waiting < 3 {
            std::thread::yield_now();
        }
        assert!(board.is_asked_for_all());
        board.write_all(Status { pid: 7, ..Status::default() });
        for reader in readers {
            assert_eq!(reader.join().unwrap().unwrap().pid, 7);
        }
        assert!(!board.is_asked_for_all());
        assert!(board.0.all.lock().unwrap().status.is_none(), "it is gone with the last reader");
    }
}
