//! The distributions that settings are drawn from. A seed and a number determine a setting.
//!
//! "Log-even" means even over the logarithm.
//!
//! | What | Distribution |
//! |---|---|
//! | Terminals | 2 to 40, log-even |
//! | Radios | 60 %: each terminal draws its own standard; else one standard for all, half of the time also one rate. g at 6 to 54 Mbit/s; n, 20 MHz, 1 stream, MCS 0 to 7; ac, 80 MHz, 1 stream, MCS 0 to 9; ax, 20 MHz, 1 stream, MCS 0 to 11 |
//! | Path | RTT 2 to 300 ms, log-even; 5 to 900 Mbit/s, log-even |
//! | Queue of the wire | drop-tail of 50 to 2000 packets, log-even (50 %), CoDel (25 %), FQ-CoDel (25 %) |
//! | Access point | drop-tail of 100 (20 %), 400 (40 %) or 1000 packets (20 %); FQ-CoDel with airtime fairness (20 %) |
//! | Loss | none (50 %), random 1e-4 or 1e-3 (17 % each), bursts of 10 packets on average that begin once per 3,000 to 100,000 packets, log-even (17 %) |
//! | Destinations | 25 %: 2 to 8, each 1 to 200 ms further away, log-even |
//! | Traffic | the first terminal uploads all the time; the others: 50 % upload all the time, 10 % upload 1 MB once, 10 % on/off of 0.5 to 8 s, 10 % web (a request of 400 bytes, 10 kB to 1 MB of answer, 0.5 to 8 s of thinking), 5 % calls (160 bytes each way, 20 ms between an answer and the next question), 5 % large requests (1 to 200 kB), 10 % download all the time |
//! | Newcomers, leavers | 25 % of the settings: a third of the terminals begins after 0 to 32 s, a third ends after 5 to 29 s |
//! | Changes | once, between 10 and 30 s: the first radio (12.5 %), all radios (12.5 %), to another rate of the same standard; the wire (25 %), by a factor of 0.2 to 4, log-even |
//! | Outsiders | 25 % of the settings with 3 terminals or more: 1 up to a third of the terminals, at most 4; they upload all the time with CUBIC |
//! | Messages | each is lost with a probability of 0 (50 %), 1 % or 5 % (25 % each); each waits behind its terminal's queue |
//!
//! The model lacks: several connections of one terminal, calls whose rate does not depend on
//! answers, jitter of the path, more than one change, reports that become rarer with more senders,
//! and stations with FQ-CoDel as in Linux drivers.

use yuzuri_netmodel::Random;
use yuzuri_netmodel::queue::{CodelConfig, FqCodelConfig, QueueConfig};
use yuzuri_netmodel::radio::{Phy, Standard};
use yuzuri_netmodel::wire::LossConfig;
use yuzuri_sim::{Change, ChangeKind, Direction, Scenario, Terminal, Traffic, path};

pub(super) const DURATION_MS: u64 = 40_000;
pub(super) const WARM_UP_MS: u64 = 5_000;
/// The number of terminals from which on a cell counts as crowded.
pub const MIN_CROWDED_TERMINALS: usize = 9;

/// A random setting.
pub struct Drawn {
    /// The setting's number within its seed.
    pub number: u64,
    /// The simulation's input.
    pub scenario: Scenario,
    /// The radio of each terminal at the beginning.
    pub phys: Vec<Phy>,
    /// Terminals that do not take part, counted from the last.
    pub outsider_count: usize,
    /// Probability that a message between members is lost.
    pub message_loss: f64,
    /// The classes that it belongs to; one setting may belong to several.
    pub classes: Vec<&'static str>,
    /// The path and the access point as text.
    pub description: String,
}

impl Drawn {
    /// Whether a terminal uploads from beginning to end: fairness is evaluated among these.
    pub fn is_steady(&self, terminal: usize) -> bool {
        let terminal = &self.scenario.terminals[terminal];
        terminal.traffic == Terminal::uploading().traffic
            && terminal.start_ms == 0
            && terminal.stop_ms.is_none()
    }
}

/// Random setting `number` of this seed.
pub fn setting(seed: u64, number: u64) -> Drawn {
    Draw(Random::new(number, seed)).setting(number)
}

/// Draws settings.
pub(super) struct Draw(pub(super) Random);

impl Draw {
    pub(super) fn even(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.uniform()
    }

    pub(super) fn phys(&mut self, n: usize) -> (Vec<Phy>, bool) {
        if self.0.uniform() < 0.6 {
            let phys = (0..n).map(|_| {
                let standard = self.0.choose(&Standard::ALL);
                standard.random(&mut self.0)
            });
            return (phys.collect(), true);
        }
        let standard = self.0.choose(&Standard::ALL);
        if self.0.uniform() < 0.5 {
            return (vec![standard.random(&mut self.0); n], false);
        }
        ((0..n).map(|_| standard.random(&mut self.0)).collect(), false)
    }

    fn traffic(&mut self) -> Traffic {
        let bulk = |direction, bytes| Traffic::Bulk { direction, bytes };
        match self.0.uniform_index(20) {
            0..10 => bulk(Direction::Up, None),
            10..12 => bulk(Direction::Up, Some(1_000_000)),
            12..14 => Traffic::OnOff {
                direction: Direction::Up,
                on_ms: self.0.log_uniform(500.0, 8000.0) as u64,
                off_ms: self.0.log_uniform(500.0, 8000.0) as u64,
            },
            14..16 => Traffic::RequestResponse {
                request_bytes: 400,
                response_bytes: self.0.log_uniform(10e3, 1e6) as u64,
                think_ms: self.0.log_uniform(500.0, 8000.0) as u64,
            },
            16 => Traffic::RequestResponse { request_bytes: 160, response_bytes: 160, think_ms: 20 },
            17 => Traffic::RequestResponse {
                request_bytes: self.0.log_uniform(1e3, 200e3) as u64,
                response_bytes: 2_000,
                think_ms: self.0.log_uniform(10.0, 2000.0) as u64,
            },
            _ => bulk(Direction::Down, None),
        }
    }

    fn loss(&mut self) -> LossConfig {
        match self.0.uniform_index(6) {
            0..3 => LossConfig::None,
            3 => LossConfig::Random { probability: 1e-4 },
            4 => LossConfig::Random { probability: 1e-3 },
            _ => LossConfig::GilbertElliott {
                good_to_bad: 1.0 / self.0.log_uniform(3e3, 1e5),
                bad_to_good: 0.1,
                loss_in_good: 0.0,
                loss_in_bad: 1.0,
            },
        }
    }

    fn setting(&mut self, number: u64) -> Drawn {
        let n = self.0.log_uniform(2.0, 41.0) as usize;
        let (phys, mixed) = self.phys(n);
        let outsider_count =
            if n >= 3 && self.0.uniform() < 0.25 { 1 + self.0.uniform_index((n / 3).min(4)) } else { 0 };
        let (rtt_ms, wire_mbps) = (self.0.log_uniform(2.0, 300.0), self.0.log_uniform(5.0, 900.0));
        let packets = self.0.log_uniform(50.0, 2000.0) as u32;
        let mut wire = path((wire_mbps * 1e6) as u64, packets, (rtt_ms * 1000.0) as u64);
        let (queue, config) = match self.0.uniform_index(4) {
            0 => ("CoDel".to_owned(), QueueConfig::Codel(CodelConfig::default())),
            1 => ("FQ-CoDel".to_owned(), QueueConfig::FqCodel(FqCodelConfig::default())),
            _ => (format!("{packets} packets"), QueueConfig::drop_tail(packets)),
        };
        (wire.up.queue, wire.down.queue) = (config.clone(), config);
        let managed = !matches!(wire.up.queue, QueueConfig::DropTail { .. });
        wire.up.loss = self.loss();
        let lossy = wire.up.loss != LossConfig::None;
        let (moves, far) = (self.0.uniform() < 0.25, self.0.uniform() < 0.25);
        let terminals = self.terminals(n, outsider_count, moves, far);
        let download = Traffic::Bulk { direction: Direction::Down, bytes: None };
        let downloads = terminals.iter().any(|terminal| terminal.traffic == download);
        let mut scenario = Scenario::wireless(&phys, wire, terminals, DURATION_MS).seeded(number + 1);
        scenario.warm_up_ms = WARM_UP_MS;
        let ap_packets = self.0.choose(&[100, 400, 400, 1000, 0]);
        if let Some(cell) = &mut scenario.cell {
            cell.ap.airtime_fairness = ap_packets == 0;
            cell.ap.queue = match ap_packets {
                0 => QueueConfig::FqCodel(FqCodelConfig::default()),
                packets => QueueConfig::drop_tail(packets),
            };
        }
        let change = self.change(&mut scenario, &phys, wire_mbps);
        let message_loss = self.0.choose(&[0.0, 0.0, 0.01, 0.05]);

        let mut classes = vec!["all", if outsider_count > 0 { "outsiders" } else { "no outsiders" }];
        let mut class = |holds: bool, name| classes.extend(holds.then_some(name));
        class(n >= MIN_CROWDED_TERMINALS, "9 terminals or more");
        class(mixed, "mixed standards");
        class(far, "several destinations");
        class(moves, "newcomers and leavers");
        class(matches!(change, Some(("a radio changes" | "all radios change", _))), "radios change");
        class(matches!(change, Some(("the wire changes", _))), "the wire changes");
        class(lossy, "loss");
        class(downloads, "downloads");
        class(managed || ap_packets == 0, "managed queues");
        let ap = if ap_packets == 0 { "FQ-CoDel".to_owned() } else { ap_packets.to_string() };
        let mut description =
            format!("{n} terminals, {rtt_ms:.0} ms, {wire_mbps:.0} Mbit/s, {queue}, AP {ap}");
        if let Some((what, factor)) = change {
            description += &format!(", {what}");
            description += &factor.map_or(String::new(), |factor| format!(" by {factor:.2}"));
        }
        for (holds, text) in [(lossy, "loss"), (moves, "come and go"), (far, "several destinations")] {
            if holds {
                description += &format!(", {text}");
            }
        }
        if outsider_count > 0 {
            description += &format!(", {outsider_count} outside");
        }
        Drawn { number, scenario, phys, outsider_count, message_loss, classes, description }
    }

    pub(super) fn terminals(
        &mut self,
        n: usize,
        outsider_count: usize,
        moves: bool,
        far: bool,
    ) -> Vec<Terminal> {
        let distances_us: Vec<u64> = (0..2 + self.0.uniform_index(7))
            .map(|_| (self.0.log_uniform(1.0, 200.0) * 1000.0) as u64)
            .collect();
        let mut terminals = Vec::new();
        for number in 0..n {
            let traffic = self.traffic();
            let always = number == 0 || number >= n - outsider_count;
            let mut terminal = if always { Terminal::uploading() } else { Terminal::new(traffic) };
            let comes_ms = self.even(0.0, 0.8 * DURATION_MS as f64) as u64;
            let goes_ms = self.even(5_000.0, 29_000.0) as u64;
            let role = self.0.uniform_index(3);
            if matches!(terminal.traffic, Traffic::Bulk { bytes: Some(_), .. }) {
                // It starts in a busy cell, with enough time to finish.
                terminal.start_ms = comes_ms;
            } else if moves && !always {
                match role {
                    0 => terminal.start_ms = comes_ms,
                    1 => terminal.stop_ms = Some(goes_ms),
                    _ => {}
                }
            }
            terminal.extra_rtt_us = if far { self.0.choose(&distances_us) } else { 0 };
            terminals.push(terminal);
        }
        terminals
    }

    fn change(
        &mut self,
        scenario: &mut Scenario,
        phys: &[Phy],
        wire_mbps: f64,
    ) -> Option<(&'static str, Option<f64>)> {
        let at_ms = self.even(10_000.0, 30_000.0) as u64;
        let (kind, factor) = (self.0.uniform_index(8), self.0.log_uniform(0.2, 4.0));
        match kind {
            0 | 1 => {
                let all = kind == 1;
                for (number, before) in phys.iter().enumerate().take(if all { phys.len() } else { 1 }) {
                    let phy = before.standard().random(&mut self.0);
                    let what = ChangeKind::Radio { terminal: number as u16, phy };
                    scenario.changes.push(Change { at_ms, what });
                }
                Some((if all { "all radios change" } else { "a radio changes" }, None))
            }
            2 | 3 => {
                let rate_bps = (wire_mbps * factor * 1e6) as u64;
                scenario.changes.push(Change { at_ms, what: ChangeKind::Wire { rate_bps } });
                Some(("the wire changes", Some(factor)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_number_determine_a_setting() {
        for number in 0..20 {
            assert_eq!(setting(5, number).scenario, setting(5, number).scenario);
            assert_ne!(setting(5, number).scenario, setting(6, number).scenario);
        }
    }

    /// Each class occurs, and every draw is within the table at the top.
    #[test]
    fn all_kinds_are_drawn() {
        let settings: Vec<Drawn> = (0..400).map(|number| setting(5, number)).collect();
        for class in &super::super::CLASSES[..12] {
            let met = settings.iter().filter(|drawn| drawn.classes.contains(class)).count();
            assert!(met >= 20, "{class}: {met} of 400");
        }
        for drawn in &settings {
            let n = drawn.phys.len();
            assert!((2..=40).contains(&n));
            assert!(drawn.outsider_count <= n / 3 && drawn.outsider_count <= 4);
            assert!(drawn.is_steady(0));
            assert!((n - drawn.outsider_count..n).all(|terminal| drawn.is_steady(terminal)));
        }
        let all = || settings.iter().flat_map(|drawn| &drawn.scenario.terminals);
        assert!(
            all().any(|t| matches!(t.traffic, Traffic::Bulk { direction: Direction::Down, .. })),
            "downloads"
        );
        assert!(all().any(|t| matches!(t.traffic, Traffic::Bulk { bytes: Some(1_000_000), .. })), "1 MB");
        assert!(
            settings.iter().any(|d| matches!(d.scenario.wire.up.loss, LossConfig::GilbertElliott { .. })),
            "bursts"
        );
    }
}
