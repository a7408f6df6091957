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
const REPORT_LIFETIME: Duration = Duration::from_secs(5);

/// Messages in flight and messages received.
pub(crate) struct MessageLinks {
    loss: f64,
    random: Random,
    /// To the leader, by sender.
    reports: Vec<Link<Option<Report>>>,
    /// From the leader, by receiver.
    summaries: Vec<Link<Summary>>,
}

/// Messages in one direction.
struct Link<T> {
    /// Send time, arrival time and content of each message in flight.
    in_flight: VecDeque<(Moment, Moment, T)>,
    arrived: Option<(Moment, T)>,
}

impl<T> Link<T> {
    fn new() -> Link<T> {
        Link { in_flight: VecDeque::new(), arrived: None }
    }

    fn send(&mut self, now: Moment, delay: Duration, message: T) {
        self.in_flight.push_back((now, now + delay, message));
    }

    /// The newest message received, if it was sent within `max_age`. An older message never
    /// replaces a newer one.
    fn latest(&mut self, now: Moment, max_age: Duration) -> Option<&T> {
        let arrived = &mut self.arrived;
        let mut still_in_flight = VecDeque::new();
        for (sent_at, arrives_at, message) in self.in_flight.drain(..) {
            if arrives_at > now {
                still_in_flight.push_back((sent_at, arrives_at, message));
            } else if arrived.as_ref().is_none_or(|(before, _)| *before <= sent_at) {
                *arrived = Some((sent_at, message));
            }
        }
        self.in_flight = still_in_flight;
        arrived.as_ref().filter(|(sent_at, _)| now.since(*sent_at) <= max_age).map(|(_, message)| message)
    }
}

impl MessageLinks {
    pub(crate) fn new(messages: Messages, terminals: usize) -> MessageLinks {
        MessageLinks {
            loss: messages.loss,
            random: Pcg32::seed_from_u64(messages.seed).into(),
            reports: (0..terminals).map(|_| Link::new()).collect(),
            summaries: (0..terminals).map(|_| Link::new()).collect(),
        }
    }

    fn is_lost(&mut self) -> bool {
        self.random.bernoulli(self.loss)
    }

    /// Sends a terminal's report to the leader; `None` means that the terminal sends no data.
    pub(crate) fn send_report(&mut self, now: Moment, from: usize, queue: Duration, report: Option<Report>) {
        if !self.is_lost() {
            self.reports[from].send(now, queue, report);
        }
    }

    /// The leader's own report, which is no message.
    pub(crate) fn own_report(&mut self, now: Moment, leader: usize, report: Option<Report>) {
        self.reports[leader].send(now, Duration::ZERO, report);
    }

    /// The reports that the leader has received and that have not expired.
    pub(crate) fn received_reports(&mut self, now: Moment) -> Vec<Report> {
        self.reports.iter_mut().filter_map(|link| link.latest(now, REPORT_LIFETIME)?.clone()).collect()
    }

    /// Sends the leader's summary to a terminal.
    pub(crate) fn send_summary(&mut self, now: Moment, to: usize, queue: Duration, summary: &Summary) {
        if !self.is_lost() {
            self.summaries[to].send(now, queue, summary.clone());
        }
    }

    /// The newest summary that a terminal has received.
    pub(crate) fn received_summary(&mut self, now: Moment, to: usize) -> Option<Summary> {
        self.summaries[to].latest(now, SUMMARY_FRESH).cloned()
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
    fn a_message_is_delayed_and_expires() {
        let mut links = MessageLinks::new(Messages { loss: 0.0, seed: 1 }, 1);
        let queue = Duration::from_millis(700);
        links.send_report(at_ms(1000), 0, queue, rate(1));
        assert!(links.received_reports(at_ms(1500)).is_empty());
        assert_eq!(links.received_reports(at_ms(2000)), [rate(1).unwrap_or_default()]);
        assert_eq!(links.received_reports(at_ms(6000)).len(), 1);
        assert!(links.received_reports(at_ms(6001)).is_empty());
    }

    #[test]
    fn a_reordered_message_does_not_replace_a_newer_one() {
        let mut links = MessageLinks::new(Messages { loss: 0.0, seed: 1 }, 1);
        links.send_report(at_ms(1000), 0, Duration::from_secs(2), rate(1));
        links.send_report(at_ms(1500), 0, Duration::ZERO, None);
        assert!(links.received_reports(at_ms(2000)).is_empty());
        assert!(links.received_reports(at_ms(3500)).is_empty());
    }

    #[test]
    fn the_loss_rate_matches_the_probability() {
        let mut links = MessageLinks::new(Messages { loss: 0.05, seed: 1 }, 1);
        let lost = (0..10_000).filter(|_| links.is_lost()).count();
        assert!((400..600).contains(&lost), "{lost}");
        let mut none = MessageLinks::new(Messages { loss: 0.0, seed: 1 }, 1);
        assert!((0..10_000).all(|_| !none.is_lost()));
    }
}
