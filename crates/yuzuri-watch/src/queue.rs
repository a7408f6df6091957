//! A queue between two threads, whose sender wakes the receiver after it has released the lock.
//!
//! The channels of the standard library (and of crossbeam, where they come from) wake the receiver
//! while they hold a lock that the receiver takes before it waits again. If both threads share a
//! CPU, each item then takes three switches between them instead of one.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

struct State<T> {
    items: VecDeque<T>,
    has_sender: bool,
    has_receiver: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
}

/// The end that fills the queue.
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// The end that empties it.
pub(crate) struct Receiver<T>(Arc<Shared<T>>);

/// An empty queue.
pub(crate) fn queue<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { items: VecDeque::new(), has_sender: true, has_receiver: true };
    let shared = Arc::new(Shared { state: Mutex::new(state), arrived: Condvar::new() });
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Sender<T> {
    /// Adds an item. False: the receiver is gone, and so is the item.
    pub(crate) fn send(&self, item: T) -> bool {
        let mut state = self.0.state.lock();
        if !state.has_receiver {
            return false;
        }
        state.items.push_back(item);
        drop(state);
        self.0.arrived.notify_one();
        true
    }
}

impl<T> Receiver<T> {
    /// Takes the oldest item, and waits for one if there is none.
    ///
    /// # Errors
    /// If none has come after `timeout`, or if there is none and the sender is gone.
    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let until = Instant::now() + timeout;
        let mut state = self.0.state.lock();
        loop {
            if let Some(item) = state.items.pop_front() {
                return Ok(item);
            }
            if !state.has_sender {
                return Err(RecvTimeoutError::Disconnected);
            }
            if self.0.arrived.wait_until(&mut state, until).timed_out() && state.items.is_empty() {
                return Err(RecvTimeoutError::Timeout);
            }
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state.lock().has_sender = false;
        self.0.arrived.notify_one();
    }
}

impl<T> Drop for Receiver<T> {
    /// Drops what nobody will take: an item may hold the channel for its answer.
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.has_receiver = false;
        let items = std::mem::take(&mut state.items);
        drop(state);
        drop(items);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::mpsc::sync_channel;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn items_arrive_in_order_and_then_the_end() {
        let (sender, receiver) = queue();
        let thread = std::thread::spawn(move || {
            let mut taken = Vec::new();
            loop {
                match receiver.recv_timeout(LONG) {
                    Ok(n) => taken.push(n),
                    Err(end) => return (taken, end),
                }
            }
        });
        for n in 0..10_000 {
            assert!(sender.send(n));
            if n % 100 == 0 {
                std::thread::yield_now();
            }
        }
        drop(sender);
        assert_eq!(thread.join().unwrap(), ((0..10_000).collect(), RecvTimeoutError::Disconnected));
    }

    #[test]
    fn an_empty_queue_times_out_and_remains_usable() {
        let (sender, receiver) = queue();
        let began = Instant::now();
        assert_eq!(receiver.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
        assert!(began.elapsed() >= Duration::from_millis(20));
        assert!(sender.send(1));
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(1));
    }

    #[test]
    fn a_waiting_receiver_is_woken_when_the_sender_is_dropped() {
        let (sender, receiver) = queue::<()>();
        let thread = std::thread::spawn(move || receiver.recv_timeout(LONG));
        drop(sender);
        assert_eq!(thread.join().unwrap(), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn items_for_a_receiver_that_ends_are_dropped() {
        let (sender, receiver) = queue();
        let (answer, answered) = sync_channel::<()>(1);
        assert!(sender.send(answer.clone()));
        drop(receiver);
        assert!(!sender.send(answer));
        assert!(answered.recv().is_err());
    }
}
