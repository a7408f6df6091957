//! The queueing delays of members: in their own interface, beyond it on the forward path, or on the
//! return path.

use super::draw::Drawn;
use serde::Serialize;
use yuzuri_netmodel::Time;
use yuzuri_sim::Observation;

/// Mean delays above the path's minimum, ms, of the members that upload from beginning to end.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct QueueDelays {
    /// In the queue of the member's own interface.
    pub interface_ms: f64,
    /// Beyond it on the forward path: channel access, and the queue of the wire.
    pub forward_ms: f64,
    /// On the return path: in the wire's queue, and at the access point, where downloads and all
    /// ACKs wait.
    pub return_ms: f64,
}

impl QueueDelays {
    /// The longest of the three as text.
    pub fn place(&self) -> &'static str {
        if self.return_ms >= self.interface_ms.max(self.forward_ms) {
            QUEUE_LOCATIONS[2]
        } else if self.forward_ms > self.interface_ms {
            QUEUE_LOCATIONS[1]
        } else {
            QUEUE_LOCATIONS[0]
        }
    }
}

/// The places where segments and their ACKs wait.
pub const QUEUE_LOCATIONS: [&str; 3] = ["own interfaces", "beyond them, on the way there", "on the way back"];

/// Sums over samples.
pub struct Sums {
    from: Time,
    /// By terminal: the path's minimum round-trip time, ms; `None` if it is not evaluated.
    base_ms: Vec<Option<f64>>,
    /// By terminal: the minimum of the receiver's clock minus ours, ms.
    min_offset_ms: Vec<Option<u32>>,
    sum: QueueDelays,
    samples: u32,
}

impl Sums {
    pub fn of(drawn: &Drawn) -> Sums {
        let scenario = &drawn.scenario;
        let path_us = scenario.wire.up.delay_us + scenario.wire.down.delay_us;
        let member_count = drawn.phys.len() - drawn.outsider_count;
        let base_ms = |n: usize| {
            let base_us = path_us + scenario.terminals[n].extra_rtt_us;
            (n < member_count && drawn.is_steady(n)).then_some(base_us as f64 / 1e3)
        };
        Sums {
            from: Time::from_nanos(scenario.warm_up_ms * 1_000_000),
            base_ms: (0..drawn.phys.len()).map(base_ms).collect(),
            min_offset_ms: vec![None; drawn.phys.len()],
            sum: QueueDelays::default(),
            samples: 0,
        }
    }

    /// Adds a tick, and returns the queues of the evaluated members, ms.
    pub fn add(&mut self, now: Time, terminals: &[Option<Observation>]) -> Vec<f64> {
        let mut queues_ms = Vec::new();
        for ((seen, base_ms), min_offset_ms) in
            terminals.iter().zip(&self.base_ms).zip(&mut self.min_offset_ms)
        {
            let (Some(seen), Some(base_ms)) = (seen, base_ms) else { continue };
            let Some(stamps) = seen.timestamps else { continue };
            let forward = stamps.value_ms.wrapping_sub(stamps.echo_ms);
            let before = min_offset_ms.unwrap_or(forward);
            let above_ms = f64::from(forward.wrapping_sub(before) as i32);
            *min_offset_ms = Some(if above_ms < 0.0 { forward } else { before });
            if now < self.from || seen.in_flight == 0 {
                continue;
            }
            let round_trip_ms = seen.srtt_us as f64 / 1e3;
            let queue_ms = (round_trip_ms - base_ms).max(0.0);
            let forward_ms = above_ms.clamp(0.0, queue_ms);
            // Little's law: the fraction of the flight in the interface's queue is the fraction of
            // the round-trip time spent there.
            let in_interface = f64::from(seen.local_segments) / f64::from(seen.in_flight);
            let interface_ms = (round_trip_ms * in_interface).min(forward_ms);
            self.sum.interface_ms += interface_ms;
            self.sum.forward_ms += forward_ms - interface_ms;
            self.sum.return_ms += queue_ms - forward_ms;
            self.samples += 1;
            queues_ms.push(queue_ms);
        }
        queues_ms
    }

    pub fn mean(&self) -> QueueDelays {
        let samples = f64::from(self.samples.max(1));
        QueueDelays {
            interface_ms: self.sum.interface_ms / samples,
            forward_ms: self.sum.forward_ms / samples,
            return_ms: self.sum.return_ms / samples,
        }
    }
}
