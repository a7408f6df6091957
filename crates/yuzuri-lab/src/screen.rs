//! Terminal output of a batch: progress with the remaining time, and one line for each finished
//! run.

use parking_lot::Mutex;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use yuzuri_lab::batch::{Event, Planned};
use yuzuri_lab::run::RunRecord;
use yuzuri_stats::counted;

/// Progress on standard error: one line that is rewritten on a terminal, and an occasional line
/// otherwise.
pub struct Screen {
    begun: Instant,
    last: Mutex<Option<Instant>>,
    live: bool,
}

impl Screen {
    pub fn new() -> Screen {
        Screen { begun: Instant::now(), last: Mutex::new(None), live: std::io::stderr().is_terminal() }
    }

    pub fn show(&self, event: &Event<'_>) {
        match event {
            Event::Started(_) => {}
            Event::Progress { done, of, part } => {
                let every = Duration::from_millis(if self.live { 200 } else { 10_000 });
                let mut last = self.last.lock();
                if last.is_some_and(|last| last.elapsed() < every) {
                    return;
                }
                *last = Some(Instant::now());
                let gone = self.begun.elapsed().as_secs_f64();
                let left = if *part > 0.01 {
                    format!(", about {} left", span(gone / part - gone))
                } else {
                    String::new()
                };
                let text = format!("{done} of {}, {:.0} %{left}", counted(of, "run"), part * 100.0);
                if self.live {
                    eprint!("\r\x1b[K{text}");
                    let _ = std::io::stderr().flush();
                } else {
                    yuzuri_exit::note!("yuzuri-lab: {text}");
                }
            }
            Event::Done(planned, record) => {
                self.clear();
                println!("{}", line(planned, record));
            }
            Event::Failed(planned, error) => {
                self.clear();
                println!("{}: FAILED: {error}", planned.name());
            }
        }
    }

    pub fn clear(&self) {
        if self.live {
            eprint!("\r\x1b[K");
        }
    }
}

fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// One line for a run, followed by its terminals.
fn line(planned: &Planned, record: &RunRecord) -> String {
    let totals = &record.totals;
    let ms = |value: Option<f64>| value.map_or("-".into(), |v| format!("{v:.1}"));
    let mut text = format!(
        "{}: total {:.2} Mbit/s, Jain {}, RTT mean {} ms, p95 {} ms, {}, {}; seen {} = kept {} + lost {}; late {:.2} %",
        planned.name(),
        totals.throughput_mbps,
        totals.jain.map_or("-".into(), |j| format!("{j:.3}")),
        ms(totals.rtt_mean_ms),
        ms(totals.rtt_p95_ms),
        counted(totals.retransmissions, "retransmission"),
        counted(totals.drops, "drop"),
        record.watched.seen,
        record.watched.kept,
        record.watched.lost,
        record.lateness.share() * 100.0
    );
    for terminal in &record.terminals {
        text += &format!(
            "\n    {:16} {:8.2} Mbit/s  cwnd {:>7}  RTT {:>7} ms  {:5} retransmissions  air {:4.1} %  {}",
            terminal.name,
            terminal.throughput_mbps,
            terminal.cwnd_mean.map_or("-".into(), |w| format!("{w:.1}")),
            ms(terminal.rtt_mean_ms),
            terminal.retransmissions,
            terminal.radio.airtime * 100.0,
            terminal.control
        );
    }
    for why in &record.invalid_because {
        text += &format!("\n    NOT VALID: {why}");
    }
    for note in &record.notes {
        text += &format!("\n    note: {note}");
    }
    text
}
