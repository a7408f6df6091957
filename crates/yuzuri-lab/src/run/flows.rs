//! Computes the figures of each terminal's flows from a recording, for the evaluated part of the
//! run.

use crate::LabError;
use std::collections::HashMap;
use std::path::Path;
use yuzuri_trace::recording::Reader;
use yuzuri_trace::{CaState, Event, Flow, FlowId, Item, Kind, Snapshot};

/// A sample is weighted by the time until the next one, but at most by this time.
const MAX_HELD_NS: u64 = 1_000_000_000;

/// The figures of one flow.
#[derive(Debug, Clone, Default)]
pub struct FlowFigures {
    /// The terminal of the flow.
    pub terminal: usize,
    /// The congestion control.
    pub control: String,
    /// Bytes acknowledged in the evaluated part.
    pub bytes_acked: u64,
    /// Bytes received in the evaluated part: the responses, if the flow carries exchanges.
    pub bytes_received: u64,
    /// Segments retransmitted in the evaluated part.
    pub retransmissions: u64,
    /// Entries into fast recovery in the evaluated part.
    pub recoveries: u64,
    /// Retransmission timeouts in the evaluated part.
    pub timeouts: u64,
    /// Smoothed round-trip times, µs, weighted by their duration in ns.
    pub srtt: Weighted,
    /// Congestion windows, segments, with the same weights.
    pub cwnd: Weighted,
    /// Minimum round-trip time, µs.
    pub min_rtt_us: Option<u32>,
}

impl FlowFigures {
    /// Payload in both directions.
    pub fn bytes(&self) -> u64 {
        self.bytes_acked + self.bytes_received
    }
}

/// Weighted values.
#[derive(Debug, Clone, Default)]
pub struct Weighted {
    values: Vec<(u32, u64)>,
}

impl Weighted {
    /// Adds a value.
    pub fn add(&mut self, value: u32, weight: u64) {
        if weight > 0 {
            self.values.push((value, weight));
        }
    }

    /// Adds the values of another set.
    pub fn extend(&mut self, other: &Weighted) {
        self.values.extend(&other.values);
    }

    /// The weighted mean.
    pub fn mean(&self) -> Option<f64> {
        let weight: f64 = self.values.iter().map(|(_, w)| *w as f64).sum();
        let sum: f64 = self.values.iter().map(|(v, w)| f64::from(*v) * *w as f64).sum();
        (weight > 0.0).then(|| sum / weight)
    }

    /// The distribution: ascending values, each with the fraction of the weight that does not
    /// exceed it, thinned to about `most` points: one for each step of 1/`most` of the weight.
    pub fn cumulative(&self, most: usize) -> Vec<(u32, f64)> {
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        let weight: f64 = sorted.iter().map(|(_, w)| *w as f64).sum();
        let mut points: Vec<(u32, f64)> = Vec::new();
        let (mut below, mut next) = (0.0, 0.0);
        for (place, (value, w)) in sorted.iter().enumerate() {
            below += *w as f64;
            let is_last = sorted.get(place + 1).is_none_or(|(after, _)| after != value);
            let ends = place + 1 == sorted.len();
            if is_last && (below >= next * weight || ends || points.is_empty()) {
                let part = if ends { 1.0 } else { below / weight };
                points.push((*value, part));
                next = part + 1.0 / most.max(1) as f64;
            }
        }
        points
    }

    /// The smallest value that is not exceeded by a fraction `part` of the weight: the nearest rank
    /// of `yuzuri-stats`, with weights.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        let weight: f64 = sorted.iter().map(|(_, w)| *w as f64).sum();
        let mut below = 0.0;
        sorted.iter().find_map(|(v, w)| {
            below += *w as f64;
            (below >= part * weight).then_some(f64::from(*v))
        })
    }
}

#[derive(Default)]
struct FlowState {
    figures: FlowFigures,
    last: Option<(u64, Snapshot)>,
    before: Option<Snapshot>,
    /// Whether a record from after the evaluated part was read.
    is_past_end: bool,
}

/// Computes the figures between two times (`CLOCK_MONOTONIC`, ns). `terminal_of` returns the
/// terminal of a sending flow; flows without one are omitted.
///
/// # Errors
/// If the recording cannot be read.
pub fn read(
    recording: &Path,
    from_ns: u64,
    to_ns: u64,
    terminal_of: impl Fn(&Flow) -> Option<usize>,
) -> Result<Vec<FlowFigures>, LabError> {
    let wrong = |e: yuzuri_trace::recording::ReadError| LabError::Results {
        path: recording.to_owned(),
        why: e.to_string(),
    };
    let mut reader = Reader::open(recording).map_err(wrong)?;
    let mut states: HashMap<FlowId, FlowState> = HashMap::new();
    let mut order = Vec::new();
    while let Some(items) = reader.next_batch().map_err(wrong)? {
        for item in items {
            match item {
                Item::Flow(flow) => {
                    if let Some(terminal) = terminal_of(&flow) {
                        let state = states.entry(flow.id).or_insert_with(|| {
                            order.push(flow.id);
                            FlowState::default()
                        });
                        state.figures.terminal = terminal;
                        if !flow.congestion_control.is_empty() {
                            state.figures.control.clone_from(&flow.congestion_control);
                        }
                    }
                }
                // A close that was inferred, not observed, has no socket variables.
                Item::Event(event) if !event.has_snapshot() => {}
                Item::Event(event) => {
                    if let Some(state) = states.get_mut(&event.flow) {
                        state.take(&event, from_ns, to_ns);
                    }
                }
                Item::Account(_) | Item::Setting(_) => {}
            }
        }
    }
    let figures = order.iter().filter_map(|id| states.remove(id)).map(|state| state.end(from_ns, to_ns));
    Ok(figures.collect())
}

impl FlowState {
    fn take(&mut self, event: &Event, from_ns: u64, to_ns: u64) {
        if self.is_past_end {
            return;
        }
        self.add_until(event.mono_ns, from_ns, to_ns);
        self.is_past_end = event.mono_ns > to_ns;
        if self.is_past_end {
            return;
        }
        if event.mono_ns <= from_ns {
            self.before = Some(event.snapshot);
        } else {
            let enters = |state| event.ca_state == state && event.ca_before != state;
            self.figures.recoveries += u64::from(event.kind == Kind::State && enters(CaState::Recovery));
            self.figures.timeouts += u64::from(event.kind == Kind::Timeout);
        }
        if let Some(min) = event.snapshot.measured_min_rtt_us() {
            self.figures.min_rtt_us = Some(self.figures.min_rtt_us.map_or(min, |known| known.min(min)));
        }
        self.last = Some((event.mono_ns, event.snapshot));
    }

    /// Accounts for the last sample until `now_ns`.
    fn add_until(&mut self, now_ns: u64, from_ns: u64, to_ns: u64) {
        if let Some((since_ns, snapshot)) = &self.last {
            let until = now_ns.min(to_ns).min(since_ns + MAX_HELD_NS);
            let weight = until.saturating_sub(*since_ns.max(&from_ns));
            self.figures.cwnd.add(snapshot.cwnd, weight);
            if let Some(srtt) = snapshot.measured_srtt_us() {
                self.figures.srtt.add(srtt, weight);
            }
        }
    }

    fn end(mut self, from_ns: u64, to_ns: u64) -> FlowFigures {
        if let Some((_, last)) = self.last {
            let before = self.before.unwrap_or_default();
            if !self.is_past_end {
                self.add_until(to_ns, from_ns, to_ns);
            }
            self.figures.bytes_acked = last.bytes_acked.saturating_sub(before.bytes_acked);
            self.figures.bytes_received = last.bytes_received.saturating_sub(before.bytes_received);
            self.figures.retransmissions = u64::from(last.total_retrans.saturating_sub(before.total_retrans));
        }
        self.figures
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn quantiles_are_weighted() {
        let mut weighted = Weighted::default();
        weighted.add(10, 94);
        weighted.add(100, 6);
        weighted.add(7, 0);
        assert_eq!(weighted.quantile(0.5), Some(10.0));
        assert_eq!(weighted.quantile(0.95), Some(100.0));
        assert!((weighted.mean().unwrap() - 15.4).abs() < 1e-9);
        assert_eq!(Weighted::default().quantile(0.5), None);
    }

    #[test]
    fn a_distribution_has_each_value_once_and_few_points() {
        let mut weighted = Weighted::default();
        assert!(weighted.cumulative(100).is_empty());
        for (value, weight) in [(20, 1), (10, 4), (20, 2), (30, 3)] {
            weighted.add(value, weight);
        }
        assert_eq!(weighted.cumulative(100), [(10, 0.4), (20, 0.7), (30, 1.0)]);
        let mut many = Weighted::default();
        (1..=10_000).for_each(|value| many.add(value, 5));
        let points = many.cumulative(100);
        assert!((100..=102).contains(&points.len()), "{}", points.len());
        assert_eq!(points.last(), Some(&(10_000, 1.0)));
        for (value, part) in points {
            assert!((f64::from(value) / 10_000.0 - part).abs() < 1e-9, "{value}: {part}");
        }
    }

    #[test]
    fn only_the_evaluated_part_counts() {
        let event = |mono_ns, bytes_acked, cwnd| Event {
            mono_ns,
            snapshot: Snapshot { bytes_acked, cwnd, srtt_us: 1000, ..Snapshot::default() },
            ..Event::default()
        };
        let mut flow = FlowState::default();
        for (at, acked, cwnd) in
            [(50, 5, 1), (100, 10, 2), (150, 20, 4), (200, 35, 6), (250, 50, 100), (260, 60, 9)]
        {
            flow.take(&event(at, acked, cwnd), 100, 200);
        }
        let figures = flow.end(100, 200);
        assert_eq!(figures.bytes_acked, 25);
        assert_eq!(figures.cwnd.mean(), Some(3.0));
    }
}
