//! Group messages with delay and loss.

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use std::collections::VecDeque;
use std::time::Duration;
use yuzuri_netmodel::Random;
use yuzuri_policy::{Moment, Report, SUMMARY_FRESH, Summary};

/// Models message delivery between members: a message waits behind its terminal's queued data and
/// may be lost. The delay is the terminal's RTT minus its minimum RTT, which is too long if the
/// queue is on the wire. Every member sends each half second; a daemon in a large group reports
/// less often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Messages {
    /// Probability that a message is lost, 0 to 1.
    pub loss: f64,
    /// Seed of the losses; the same seed loses the same messages.
    pub seed: u64,
}

/// A report expires after this time. A daemon's leader keeps it longer the more members it has.
const REPORT_FRESH: Duration = Duration::from_secs(5);

/// Messages in flight and messages received.
pub(crate) struct Post {
    loss: f64,
    random: Random,
    /// To the leader, by sender.
    reports: Vec<Line<Option<Report>>>,
    /// From the leader, by receiver.
    summaries: Vec<Line<Summary>>,
}

/// Messages in one direction.
struct Line<T> {
    /// Send time, arrival time and content of each message in flight.
    on_the_way: VecDeque<(Moment, Moment, T)>,
    arrived: Option<(Moment, T)>,
}

impl<T> Line<T> {
    fn new() -> Line<T> {
        Line { on_the_way: VecDeque::new(), arrived: None }
    }

    fn say(&mut self, now: Moment, takes: Duration, what: T) {
        self.on_the_way.push_back((now, now + takes, what));
    }

    /// The newest message received, if it was sent within `fresh`. An older message never replaces
    /// a newer one.
    fn heard(&mut self, now: Moment, fresh: Duration) -> Option<&T> {
        let arrived = &mut self.arrived;
        let mut left = VecDeque::new();
        for (said, due, what) in self.on_the_way.drain(..) {
            if due > now {
                left.push_back((said, due, what));
            } else if arrived.as_ref().is_none_or(|(before, _)| *before <= said) {
                *arrived = Some((said, what));
            }
        }
        self.on_the_way = left;
        arrived.as_ref().filter(|(said, _)| now.since(*said) <= fresh).map(|(_, what)| what)
    }
}

impl Post {
    pub(crate) fn new(messages: Messages, terminals: usize) -> Post {
        Post {
            loss: messages.loss,
            random: Pcg32::seed_from_u64(messages.seed).into(),
            reports: (0..terminals).map(|_| Line::new()).collect(),
            summaries: (0..terminals).map(|_| Line::new()).collect(),
        }
    }

    fn is_lost(&mut self) -> bool {
        self.random.happens(self.loss)
    }

    /// Sends a terminal's report to the leader; `None` means that the terminal sends no data.
    pub(crate) fn report(&mut self, now: Moment, from: usize, queue: Duration, report: Option<Report>) {
        if !self.is_lost() {
            self.reports[from].say(now, queue, report);
        }
    }

    /// The reports that the leader has received and that have not expired.
    pub(crate) fn heard(&mut self, now: Moment) -> Vec<Report> {
        self.reports.iter_mut().filter_map(|line| line.heard(now, REPORT_FRESH)?.clone()).collect()
    }

    /// Sends the leader's summary to a terminal.
    pub(crate) fn tell(&mut self, now: Moment, to: usize, queue: Duration, summary: &Summary) {
        if !self.is_lost() {
            self.summaries[to].say(now, queue, summary.clone());
        }
    }

    /// The newest summary that a terminal has received.
    pub(crate) fn told(&mut self, now: Moment, to: usize) -> Option<Summary> {
        self.summaries[to].heard(now, SUMMARY_FRESH).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Moment {
        Moment::at(Duration::from_millis(ms))
    }

    fn rate(rate_bps: u64) -> Option<Report> {
        Some(Report { rate_bps, ..Report::default() })
    }

    #[test]
    fn a_message_waits_and_goes_stale() {
        let mut post = Post::new(Messages { loss: 0.0, seed: 1 }, 1);
        let queue = Duration::from_millis(700);
        post.report(at_ms(1000), 0, queue, rate(1));
        assert!(post.heard(at_ms(1500)).is_empty());
        assert_eq!(post.heard(at_ms(2000)), [rate(1).unwrap_or_default()]);
        assert_eq!(post.heard(at_ms(6000)).len(), 1);
        assert!(post.heard(at_ms(6001)).is_empty());
    }

    #[test]
    fn a_message_that_was_overtaken_does_not_replace_a_newer_one() {
        let mut post = Post::new(Messages { loss: 0.0, seed: 1 }, 1);
        post.report(at_ms(1000), 0, Duration::from_secs(2), rate(1));
        post.report(at_ms(1500), 0, Duration::ZERO, None);
        assert!(post.heard(at_ms(2000)).is_empty());
        assert!(post.heard(at_ms(3500)).is_empty());
    }

    #[test]
    fn as_many_are_lost_as_the_probability_says() {
        let mut post = Post::new(Messages { loss: 0.05, seed: 1 }, 1);
        let lost = (0..10_000).filter(|_| post.is_lost()).count();
        assert!((400..600).contains(&lost), "{lost}");
        let mut none = Post::new(Messages { loss: 0.0, seed: 1 }, 1);
        assert!((0..10_000).all(|_| !none.is_lost()));
    }
}
