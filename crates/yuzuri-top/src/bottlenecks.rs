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
const COMPARISON_INTERVAL: Duration = Duration::from_secs(5);

/// The flows of a comparison, and its number.
type Comparison = (u64, Vec<(FlowId, Delays)>);

/// The number of a comparison, and the bottleneck of each flow that shares one.
type Groups = (u64, HashMap<FlowId, usize>);

/// Compares flows from time to time.
#[derive(Debug)]
pub(crate) struct Bottlenecks {
    comparisons: Sender<Comparison>,
    groups_found: Arc<Mutex<Groups>>,
    last_number: u64,
    compared_at: Option<Duration>,
    /// The model's time at the last comparison, nanoseconds.
    compared_ns: u64,
    /// The first comparison of the present part of a replay.
    first_valid: u64,
}

impl Bottlenecks {
    /// Starts the thread, which ends when the sender of questions is dropped.
    pub(crate) fn start() -> Bottlenecks {
        let (comparisons, received) = channel::<Comparison>();
        let groups_found: Arc<Mutex<Groups>> = Arc::default();
        let answer = groups_found.clone();
        std::thread::spawn(move || {
            for (number, flows) in received {
                let groups = (1..).zip(named_bottlenecks(&flows));
                let of =
                    |(n, (group, _)): (usize, (Vec<FlowId>, _))| group.into_iter().map(move |flow| (flow, n));
                *answer.lock() = (number, groups.flat_map(of).collect());
            }
        });
        Bottlenecks {
            comparisons,
            groups_found,
            last_number: 0,
            compared_at: None,
            compared_ns: 0,
            first_valid: 1,
        }
    }

    /// Compares the model's flows again if it is time. `elapsed` is any monotonic clock.
    pub(crate) fn refresh(&mut self, model: &LiveModel, elapsed: Duration) {
        let moved_back = model.now_ns() < self.compared_ns;
        if moved_back {
            // What was found in the part of a replay after this one is not valid here.
            self.first_valid = self.last_number + 1;
        }
        let due = self.compared_at.is_none_or(|at| elapsed.saturating_sub(at) >= COMPARISON_INTERVAL);
        if due || moved_back {
            self.last_number += 1;
            (self.compared_at, self.compared_ns) = (Some(elapsed), model.now_ns());
            // The thread ends only with this sender.
            let _ = self.comparisons.send((self.last_number, model.recent_delays()));
        }
    }

    /// The number of the bottleneck that the flow shares with others, from 1 on, if it is known to
    /// share one.
    pub(crate) fn of(&self, flow: FlowId) -> Option<usize> {
        let groups_found = self.groups_found.lock();
        groups_found.1.get(&flow).copied().filter(|_| groups_found.0 >= self.first_valid)
    }
}
