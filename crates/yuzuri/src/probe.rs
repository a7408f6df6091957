//! Latency under load: handshakes with the receiver during a transfer. A handshake is a packet each
//! way that no program answers, so it waits only in the queues of the path.

use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use yuzuri_stats::nearest_rank;
use yuzuri_transfer::{Report, SendEvent};
use yuzuri_view::text;

const INTERVAL: Duration = Duration::from_millis(200);
/// The kernel retransmits a SYN after a second (RFC 6298): a later answer may belong to that one.
const TIMEOUT: Duration = Duration::from_millis(950);

/// The results of the handshakes.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Latency {
    #[serde(rename = "type")]
    kind: &'static str,
    handshakes: usize,
    /// Handshakes without an answer within [`TIMEOUT`].
    unanswered: usize,
    min_us: Option<u64>,
    median_us: Option<u64>,
    p95_us: Option<u64>,
    max_us: Option<u64>,
}

impl Latency {
    /// Summarises measured times, in microseconds; `None`: no answer.
    fn of(times_us: &[Option<u64>]) -> Latency {
        let mut answered: Vec<u64> = times_us.iter().flatten().copied().collect();
        answered.sort_unstable();
        let at = |part: f64| nearest_rank(&answered, part);
        Latency {
            kind: "latency",
            handshakes: times_us.len(),
            unanswered: times_us.len() - answered.len(),
            min_us: answered.first().copied(),
            median_us: at(0.5),
            p95_us: at(0.95),
            max_us: answered.last().copied(),
        }
    }

    fn sentence(&self) -> String {
        let time = |us: Option<u64>| us.map_or("-".to_owned(), |us| text::time_us(us as f64));
        let unanswered = match self.unanswered {
            0 => String::new(),
            n => format!("; {n} without an answer within {}", text::time_us(TIMEOUT.as_micros() as f64)),
        };
        format!(
            "latency under load: median {}, minimum {}, 95 % within {}, maximum {} ({} \
             handshakes{unanswered})",
            time(self.median_us),
            time(self.min_us),
            time(self.p95_us),
            time(self.max_us),
            self.handshakes,
        )
    }
}

/// Measures from the first connection of a transfer to its end.
#[derive(Default)]
pub struct Probe {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Option<u64>>>>,
}

impl Probe {
    /// Ends the measurement, and prints its result.
    pub fn finish(self, json: bool) {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread else { return };
        thread.thread().unpark();
        let times_us = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let latency = Latency::of(&times_us);
        let line = match json {
            true => serde_json::to_string(&latency).unwrap_or_default(),
            false => latency.sentence(),
        };
        // If the reader is gone, the transfer has reported it.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

impl Report<SendEvent> for Probe {
    fn report(&mut self, event: &SendEvent) -> std::io::Result<()> {
        if let (SendEvent::Connected(connected), None) = (event, &self.thread) {
            let (peer, stop) = (connected.peer, self.stop.clone());
            self.thread = Some(std::thread::spawn(move || measure(peer, &stop)));
        }
        Ok(())
    }
}

fn measure(peer: SocketAddr, stop: &AtomicBool) -> Vec<Option<u64>> {
    let mut times_us = Vec::new();
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        if now < due {
            std::thread::park_timeout(due - now);
            continue;
        }
        due = now + INTERVAL;
        let answer = TcpStream::connect_timeout(&peer, TIMEOUT);
        let time_us = u64::try_from(now.elapsed().as_micros()).unwrap_or(u64::MAX);
        match answer {
            Ok(_) => times_us.push(Some(time_us)),
            // The receiver's kernel also sends the refusal, so it measures the path like a SYN-ACK.
            Err(error)
                if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset) =>
            {
                times_us.push(Some(time_us));
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => times_us.push(None),
            Err(error) => {
                yuzuri_exit::note!(
                    "yuzuri: measuring latency under load: a handshake with {peer} failed: {error}"
                );
                break;
            }
        }
    }
    times_us
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_answered_handshakes() {
        let times: Vec<Option<u64>> = (1..=20).rev().map(|ms| Some(ms * 1000)).chain([None, None]).collect();
        let latency = Latency::of(&times);
        assert_eq!((latency.handshakes, latency.unanswered), (22, 2));
        let ranks = (latency.min_us, latency.median_us, latency.p95_us, latency.max_us);
        assert_eq!(ranks, (Some(1_000), Some(10_000), Some(19_000), Some(20_000)));
        let sentence = latency.sentence();
        assert!(
            sentence.contains("median 10.0 ms") && sentence.contains("2 without an answer"),
            "{sentence}"
        );
        assert_eq!(Latency::of(&[None]).median_us, None);
        assert_eq!(Latency::of(&[Some(5)]).p95_us, Some(5));
    }
}
