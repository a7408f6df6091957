//! The round-trip times of each flow of an observation, for its shared bottlenecks.

use crate::shared_bottleneck::{Delays, MAX_FLOWS, SharedBottleneck, named_bottlenecks};
use yuzuri_trace::{Event, Kind};

/// Maximum number of flows whose round-trip times are stored; the largest of these are compared.
const MAX_TIMED: usize = 16 * MAX_FLOWS;

/// Number of flows whose round-trip times are stored.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimedFlows(usize);

/// The round-trip times of a flow.
///
/// The current cell of the grid is kept here, next to the other values that a record changes: only
/// one record in a cell reads other memory.
#[derive(Debug, Clone, Default)]
pub struct FlowDelays {
    cell: u64,
    /// The minimum RTT of that cell, microseconds; 0 where there is none.
    least_us: u32,
    /// Those of the earlier cells; `None` if [`MAX_TIMED`] other flows have some.
    stored: Option<Box<Delays>>,
}

impl FlowDelays {
    /// Adds the round-trip time of a record, if the flow sends, or notes that it has closed.
    pub fn add_event(&mut self, event: &Event, sends: bool, timed: &mut TimedFlows) {
        if event.kind == Kind::Close {
            self.close(timed);
        } else if let Some(srtt_us) = event.snapshot.measured_srtt_us().filter(|_| sends) {
            self.add(event.mono_ns / 1000, srtt_us, timed);
        }
    }

    /// Adds a round-trip time measured at `now_us`.
    pub fn add(&mut self, now_us: u64, rtt_us: u32, timed: &mut TimedFlows) {
        let cell = Delays::cell(now_us, rtt_us);
        if self.cell != cell {
            self.store(timed);
            (self.cell, self.least_us) = (cell, 0);
        }
        self.least_us = if self.least_us == 0 { rtt_us } else { rtt_us.min(self.least_us) };
    }

    /// The flow has closed. What can never be compared with other flows makes room for another
    /// flow.
    pub fn close(&mut self, timed: &mut TimedFlows) {
        self.store(timed);
        self.least_us = 0;
        if self.stored.take_if(|delays| delays.are_too_few()).is_some() {
            timed.0 -= 1;
        }
    }

    fn store(&mut self, timed: &mut TimedFlows) {
        if self.least_us == 0 || (self.stored.is_none() && timed.0 >= MAX_TIMED) {
            return;
        }
        let stored = self.stored.get_or_insert_with(|| {
            timed.0 += 1;
            Box::default()
        });
        stored.place(self.cell, self.least_us);
    }
}

/// Which of these flows share a bottleneck, as far as it can be known. The largest come first: only
/// [`MAX_FLOWS`] of them are compared.
pub fn share_bottlenecks<'a, T: Copy>(
    flows: impl IntoIterator<Item = (T, &'a FlowDelays)>,
) -> Vec<(Vec<T>, SharedBottleneck)> {
    let timed = flows.into_iter().filter_map(|(flow, delays)| Some((flow, delays.stored.as_deref()?)));
    named_bottlenecks(&timed.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH_US: u64 = 100_000;

    /// Adds round-trip times that vary like a queue, one each 10 ms, for `seconds`.
    fn add_queue(delays: &mut FlowDelays, base_us: u32, seconds: u64, timed: &mut TimedFlows) {
        let mut chance = 1u64;
        let mut queue_us = 0u32;
        for step in 0..seconds * 100 {
            if step % 10 == 0 {
                chance =
                    chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                queue_us = (chance >> 48) as u32;
            }
            // The first ACK of each cell is on time, and the others are late.
            let late_us = (step % 10) as u32 * 1_000;
            let rtt_us = base_us + queue_us + late_us;
            delays.add(TENTH_US * 10 + step * 10_000 + u64::from(rtt_us), rtt_us, timed);
        }
    }

    #[test]
    fn each_cell_has_its_least_round_trip_time() {
        let (mut flow, mut timed) = (FlowDelays::default(), TimedFlows::default());
        let mut expected = Delays::default();
        let times = [(1_000, 30), (1_010, 20), (1_020, 40), (1_150, 60), (1_140, 50), (1_400, 70)];
        for (now_ms, rtt_ms) in times {
            flow.add(now_ms * 1_000, rtt_ms * 1_000, &mut timed);
            // The last cell is not complete.
            if now_ms < 1_400 {
                expected.add(now_ms * 1_000, rtt_ms * 1_000);
            }
        }
        assert_eq!(flow.stored.as_deref(), Some(&expected));
        assert_eq!(timed.0, 1);
    }

    #[test]
    fn flows_are_named_by_what_the_caller_gave() {
        let mut timed = TimedFlows::default();
        let (mut one, mut two, mut short) = Default::default();
        add_queue(&mut one, 20_000, 20, &mut timed);
        add_queue(&mut two, 70_000, 20, &mut timed);
        add_queue(&mut short, 20_000, 3, &mut timed);
        let found = share_bottlenecks([("short", &short), ("one", &one), ("two", &two)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, ["one", "two"]);
    }

    /// Connections that were too short would otherwise take the place of later transfers.
    #[test]
    fn closed_flows_that_were_too_short_make_room() {
        let mut timed = TimedFlows::default();
        let mut closed = vec![FlowDelays::default(); 2 * MAX_TIMED];
        for flow in &mut closed {
            add_queue(flow, 20_000, 2, &mut timed);
            flow.close(&mut timed);
        }
        assert!(closed.iter().all(|flow| flow.stored.is_none()));
        assert_eq!(timed.0, 0);
        let (mut long, mut open) = (FlowDelays::default(), vec![FlowDelays::default(); 2 * MAX_TIMED]);
        add_queue(&mut long, 20_000, 10, &mut timed);
        long.close(&mut timed);
        assert!(long.stored.is_some());
        open.iter_mut().for_each(|flow| add_queue(flow, 20_000, 1, &mut timed));
        assert_eq!(timed.0, MAX_TIMED);
        assert_eq!(open.iter().filter(|flow| flow.stored.is_some()).count(), MAX_TIMED - 1);
    }
}
