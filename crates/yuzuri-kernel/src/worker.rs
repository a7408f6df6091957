//! A thread for long jobs: the caller continues and collects the answer later.

use crate::helper;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Passed to a job: whether the caller has given up on the answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Whether to return immediately, with any answer.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// One thread, one job at a time: neither jobs nor answers can accumulate.
pub(crate) struct Worker<J, A> {
    jobs: Option<SyncSender<J>>,
    answers: Receiver<A>,
    is_busy: bool,
    cancellation: Cancellation,
    thread: Option<JoinHandle<()>>,
}

impl<J: Send + 'static, A: Send + 'static> Worker<J, A> {
    /// Starts the thread. `run` does a job; it checks [`Cancellation::is_cancelled`] now and then.
    ///
    /// # Errors
    /// If the system has no room for a thread.
    pub(crate) fn new(
        name: &str,
        mut run: impl FnMut(J, &Cancellation) -> A + Send + 'static,
    ) -> std::io::Result<Worker<J, A>> {
        let (jobs, to_do) = sync_channel::<J>(1);
        let (done, answers) = sync_channel(1);
        let cancellation = Cancellation::default();
        let for_thread = cancellation.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            helper::drop_capabilities_of_thread();
            for job in to_do {
                if done.send(run(job, &for_thread)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Worker { jobs: Some(jobs), answers, is_busy: false, cancellation, thread: Some(thread) })
    }

    /// Whether it can take a job: it has none, and its last answer was taken.
    pub(crate) fn is_free(&self) -> bool {
        !self.is_busy
    }

    /// Sends a job; if the worker is busy, nothing happens and the job is returned.
    pub(crate) fn send(&mut self, job: J) -> Result<(), J> {
        let Some(jobs) = self.jobs.as_ref().filter(|_| !self.is_busy) else { return Err(job) };
        // A thread that ended (its job panicked) counts as busy from then on: its answer stays
        // unknown.
        self.is_busy = true;
        let _ = jobs.send(job);
        Ok(())
    }

    /// The answer, if there is one.
    pub(crate) fn take(&mut self) -> Option<A> {
        let answer = self.answers.try_recv().ok()?;
        self.is_busy = false;
        Some(answer)
    }

    /// The answer, waiting at most this long.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Option<A> {
        let answer = self.answers.recv_timeout(timeout).ok()?;
        self.is_busy = false;
        Some(answer)
    }
}

impl<J, A> Drop for Worker<J, A> {
    fn drop(&mut self) {
        self.cancellation.0.store(true, Ordering::Relaxed);
        self.jobs.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn sending_does_not_block_and_a_busy_worker_refuses_jobs() {
        let (go, gate) = channel::<()>();
        let mut worker = Worker::new("test", move |n: u32, _| {
            let _ = gate.recv();
            n + 1
        })
        .unwrap();
        assert!(worker.is_free() && worker.take().is_none());
        assert_eq!(worker.send(1), Ok(()));
        assert_eq!((worker.is_free(), worker.take(), worker.send(5)), (false, None, Err(5)));
        go.send(()).unwrap();
        assert_eq!(worker.wait(Duration::from_secs(20)), Some(2));
        assert!(worker.is_free());
    }

    #[test]
    fn dropping_a_worker_ends_its_thread() {
        let (left, gone) = channel();
        let mut worker = Worker::new("test", move |(), cancellation: &Cancellation| {
            while !cancellation.is_cancelled() {
                std::thread::yield_now();
            }
            left.send(()).unwrap();
        })
        .unwrap();
        worker.send(()).unwrap();
        drop(worker);
        // The thread has ended: its answer is available, or it never began.
        assert!(gone.try_recv().is_ok());
    }
}
