//! Finds flows that share a bottleneck on a separate thread: comparing 64 flows takes a tenth of a
//! second.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use yuzuri_trace::FlowId;
use yuzuri_view::LiveModel;
use yuzuri_view::shared_bottleneck::{Delays, named_bottlenecks};

/// Pause between two comparisons: they compare the last minute, which changes slowly.
const PAUSE: Duration = Duration::from_secs(5);

/// The flows of a comparison, and its number.
type Question = (u64, Vec<(FlowId, Delays)>);

/// The number of a comparison, and the bottleneck of each flow that shares one.
type Answer = (u64, HashMap<FlowId, usize>);

/// Compares flows from time to time.
#[derive(Debug)]
pub(crate) struct Bottlenecks {
    ask: Sender<Question>,
    found: Arc<Mutex<Answer>>,
    asked: u64,
    asked_at: Option<Duration>,
    /// The model's time at the last comparison, nanoseconds.
    asked_ns: u64,
    /// The first comparison of the present part of a replay.
    first_valid: u64,
}

impl Bottlenecks {
    /// Starts the thread, which ends when the sender of questions is dropped.
    pub(crate) fn start() -> Bottlenecks {
        let (ask, questions) = channel::<Question>();
        let found: Arc<Mutex<Answer>> = Arc::default();
        let answer = found.clone();
        std::thread::spawn(move || {
            for (number, flows) in questions {
                let groups = (1..).zip(named_bottlenecks(&flows));
                let of =
                    |(n, (group, _)): (usize, (Vec<FlowId>, _))| group.into_iter().map(move |flow| (flow, n));
                *answer.lock() = (number, groups.flat_map(of).collect());
            }
        });
        Bottlenecks { ask, found, asked: 0, asked_at: None, asked_ns: 0, first_valid: 1 }
    }

    /// Compares the model's flows again if it is time. `elapsed` is any monotonic clock.
    pub(crate) fn refresh(&mut self, model: &LiveModel, elapsed: Duration) {
        let moved_back = model.now_ns() < self.asked_ns;
        if moved_back {
            // What was found in the part of a replay after this one is not valid here.
            self.first_valid = self.asked + 1;
        }
        let due = self.asked_at.is_none_or(|at| elapsed.saturating_sub(at) >= PAUSE);
        if due || moved_back {
            self.asked += 1;
            (self.asked_at, self.asked_ns) = (Some(elapsed), model.now_ns());
            // The thread ends only with this sender.
            let _ = self.ask.send((self.asked, model.recent_delays()));
        }
    }

    /// The number of the bottleneck that the flow shares with others, from 1 on, if it is known to
    /// share one.
    pub(crate) fn of(&self, flow: FlowId) -> Option<usize> {
        let found = self.found.lock();
        found.1.get(&flow).copied().filter(|_| found.0 >= self.first_valid)
    }
}
