//! What the rest of a capture shows about a round: a capture is evaluated once it is complete.

use super::limits::timed;
use super::observations::RoundObservations;
use crate::window_trace::WindowTrace;
use yuzuri_limits::came_before;

/// The later rounds of a flow.
#[derive(Clone, Debug, Default)]
pub(super) struct LaterRounds {
    /// Bytes acknowledged up to the end of each round.
    acked_bytes: Vec<u64>,
    /// The round in which the first loss was noticed, and how many there were.
    first_loss: usize,
    losses: u64,
    /// Flights of rounds without loss recovery, segments, with their RTTs, and the round of each.
    flights: Vec<(f64, f64)>,
    rounds: Vec<usize>,
}

impl LaterRounds {
    pub(super) fn new(trace: &WindowTrace, observations: &[RoundObservations]) -> LaterRounds {
        let mut later = LaterRounds::default();
        if trace.handshake_rtt_us.is_some() {
            // What came before was seen.
            return later;
        }
        let mut sum = 0.0;
        for round in &trace.rounds {
            sum += f64::from(round.acked) * f64::from(trace.mss_bytes);
            later.acked_bytes.push(sum as u64);
        }
        let losses = trace.reductions.iter().filter(|reduction| !reduction.undone);
        later.losses = losses.clone().count() as u64;
        let first_ns = losses.map(|reduction| reduction.at_ns).min().unwrap_or(i64::MAX);
        later.first_loss = trace.rounds.partition_point(|round| round.end_ns < first_ns);
        for (number, rounds) in trace.rounds.windows(2).enumerate().skip(1) {
            let calm = observations
                .get(number..number + 2)
                .is_some_and(|two| two.iter().all(|observations| !observations.repair));
            let flight = f64::from(rounds[0].window).max(1.0);
            if let Some(timed) = timed(flight, &rounds[1]).filter(|_| calm) {
                later.flights.push(timed);
                later.rounds.push(number + 1);
            }
        }
        later
    }

    /// Flights of the rounds from this one on, at most `count`.
    pub(super) fn flights(&self, round: usize, count: usize) -> std::slice::Iter<'_, (f64, f64)> {
        let from = self.rounds.partition_point(|number| *number < round);
        self.flights[from..self.flights.len().min(from + count)].iter()
    }

    /// Whether the losses that come after this round already came before it.
    pub(super) fn losses_came_before(&self, round: usize) -> bool {
        let bytes =
            |round: usize| self.acked_bytes.get(round).or(self.acked_bytes.last()).copied().unwrap_or(0);
        let first = bytes(self.first_loss);
        let after = self.acked_bytes.last().map_or(0, |last| last - first);
        came_before(self.losses, after, first.saturating_sub(bytes(round)))
    }
}
