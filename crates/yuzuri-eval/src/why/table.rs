//! The figures as tables: flows seen from their beginning, and flows seen from their middle. For
//! the latter, recordings and packets often do not show the limit: then `unknown` is the right
//! answer, and only a wrong limit counts against the program.

use super::case::KINDS;
use super::judge::{Phase, SEEN_BY};
use std::collections::BTreeMap;
use yuzuri_limits::{Limit, LimitTimes};

/// For each observer, the fraction of the time for which the reported limit must be right in every
/// case.
const TARGETS: [f64; SEEN_BY.len()] = [0.95, 0.90, 0.85, 0.90, 0.80];

/// Limits that leave open which of two others it is.
const AMBIGUOUS: [(Limit, [Limit; 2]); 2] = [
    (Limit::SenderRate, [Limit::Pacing, Limit::OwnDevice]),
    (Limit::Receiver, [Limit::ReceiverWindow, Limit::SlowReader]),
];

/// Time with a right, a wrong and an unknown limit, and all time, microseconds; and the largest
/// parts of each in a case.
#[derive(Clone, Copy)]
struct Score {
    right: f64,
    wrong: f64,
    all: f64,
    least_right: f64,
    most_wrong: f64,
}

impl Default for Score {
    fn default() -> Score {
        Score { right: 0.0, wrong: 0.0, all: 0.0, least_right: 1.0, most_wrong: 0.0 }
    }
}

impl Score {
    /// A part of a case.
    fn of(phase: &Phase, classified: &LimitTimes, how: &str) -> Score {
        let all = phase.time_us();
        let right_words = phase.right_words(how);
        let (mut right, mut wrong) = (0.0, 0.0);
        for limit in Limit::ALL {
            let time_us = classified.time_us(limit) as f64;
            // An answer that covers two limits is less precise than the right one, but not wrong.
            let of_both = AMBIGUOUS.iter().any(|(both, two)| *both == limit && phase.is_right(two));
            match limit {
                _ if right_words.contains(&limit.name()) => right += time_us,
                Limit::Unknown => {}
                _ if of_both => {}
                _ => wrong += time_us,
            }
        }
        Score { right, wrong, all, least_right: right / all, most_wrong: wrong / all }
    }

    fn add(&mut self, other: &Score) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.all += other.all;
        self.least_right = self.least_right.min(other.least_right);
        self.most_wrong = self.most_wrong.max(other.most_wrong);
    }

    /// Right, wrong, unknown, right in the worst case, wrong in the worst case, per cent.
    fn percents(&self) -> [f64; 5] {
        let unknown = (self.all - self.right - self.wrong).max(0.0);
        let [right, wrong, unknown] = [self.right, self.wrong, unknown].map(|time| time / self.all);
        [right, wrong, unknown, self.least_right, self.most_wrong].map(|part| 100.0 * part)
    }
}

/// What others report about the cases of a kind: all time and the time of the kernel's
/// chronographs, microseconds; and all tenths of a second and those of tshark's expert information.
#[derive(Clone, Copy, Default)]
struct Others {
    chronographs: [f64; 3],
    expert: [f64; 3],
}

/// All figures.
#[derive(Default)]
pub struct Tables {
    /// Flows seen from their middle, and from their beginning.
    seen_from: [Seen; 2],
    others: BTreeMap<usize, Others>,
    words: BTreeMap<(usize, usize), LimitTimes>,
}

#[derive(Default)]
struct Seen {
    scores: BTreeMap<(usize, usize), Score>,
    cases: BTreeMap<usize, usize>,
    /// Parts of cases with the right limit for the required fraction of the time, and all parts.
    reached: BTreeMap<(usize, usize), (usize, usize)>,
    /// Parts of cases that did not reach it.
    short: Vec<String>,
}

impl Tables {
    /// Counts a case of this kind.
    pub fn count(&mut self, kind: usize, begins: bool) {
        *self.seen_from[usize::from(begins)].cases.entry(kind).or_default() += 1;
    }

    /// Adds what an observer reports about a part of a case.
    pub fn add(&mut self, (kind, by): (usize, usize), phase: &Phase, classified: &LimitTimes, case: &Case) {
        let score = Score::of(phase, classified, SEEN_BY[by]);
        let seen = &mut self.seen_from[usize::from(case.begins)];
        seen.scores.entry((kind, by)).or_default().add(&score);
        let (reached, all) = seen.reached.entry((kind, by)).or_default();
        *all += 1;
        if score.least_right >= TARGETS[by] {
            *reached += 1;
        } else {
            let [right, wrong, ..] = score.percents();
            let (kind, how, words) = (KINDS[kind], SEEN_BY[by], shares(classified, 0.005));
            seen.short.push(format!("{kind:<20} {how:<10} {right:5.1} {wrong:5.1}  {words}; {}", case.text));
        }
        self.words.entry((kind, by)).or_default().merge(classified);
    }

    /// Adds the kernel's chronographs of a part of a case.
    pub fn add_chronographs(&mut self, kind: usize, phase: &Phase) {
        let sum = &mut self.others.entry(kind).or_default().chronographs;
        sum[0] += phase.time_us();
        sum[1] += phase.rwnd_limited_us as f64;
        sum[2] += phase.sndbuf_limited_us as f64;
    }

    /// Adds the tenths of a second of a part of a case in which tshark reports a full window, and a
    /// retransmission.
    pub fn add_expert(&mut self, kind: usize, phase: &Phase, full: f64, again: f64) {
        let sum = &mut self.others.entry(kind).or_default().expert;
        sum[0] += phase.time_us() / 1e5;
        sum[1] += full;
        sum[2] += again;
    }

    /// Prints all tables.
    pub fn print(&self) {
        let [middle, begin] = &self.seen_from;
        println!(
            "Per cent of the time with the right limit, with a wrong one (the rest is unknown), and with the"
        );
        println!("right one in the worst case. Flows seen from their beginning.\n");
        begin.print(|score| [0, 1, 3].map(|of| score.percents()[of]));
        println!(
            "\nThe same of flows seen from their middle, where unknown is often the right answer, with the"
        );
        println!("per cent of the time with a wrong limit in the worst case.\n");
        middle.print(|score| [0, 1, 4].map(|of| score.percents()[of]));
        println!("\nAll kinds, per cent of the time; in the worst case.\n");
        println!(
            "{:<12} {:<18} {:>5} {:>7} {:>7} {:>7}  {:>12} {:>12}",
            "seen from", "by", "cases", "right", "wrong", "unknown", "least right", "most wrong"
        );
        for (from, seen) in [("beginning", begin), ("middle", middle)] {
            let cases: usize = seen.cases.values().sum();
            for (by, name) in NAMES.iter().enumerate() {
                let Some(score) = seen.sum(by) else { continue };
                let [right, wrong, unknown, least_right, most_wrong] = score.percents();
                println!(
                    "{from:<12} {name:<18} {cases:>5} {right:7.1} {wrong:7.1} {unknown:7.1}  {least_right:12.1} {most_wrong:12.1}"
                );
            }
        }
        self.print_others();
        let target = SEEN_BY.iter().zip(TARGETS);
        let target: Vec<String> =
            target.map(|(how, target)| format!("{how} {:.0}", target * 100.0)).collect();
        let target = target.join(", ");
        for (from, seen) in [("beginning", begin), ("middle", middle)] {
            println!(
                "\nSeen from their {from}: parts of cases with the right limit for the required per cent of the time \
                 ({target}).\n"
            );
            seen.print_reached();
        }
        println!("\nThe limits reported for each kind, per cent of the time with a report.\n");
        for ((kind, by), times) in &self.words {
            println!("{:<20} {:<10} {}", KINDS[*kind], SEEN_BY[*by], shares(times, 0.005));
        }
    }

    fn print_others(&self) {
        println!(
            "\nWhat others report, per cent of the time: the chronographs of `ss -ti`, and of tenths of a second"
        );
        println!(
            "tshark's expert information on the sender's capture: a full or closed window, a retransmission.\n"
        );
        println!(
            "{:<20} {:>12} {:>14} {:>7} {:>15}",
            "made", "rwnd_limited", "sndbuf_limited", "full", "retransmission"
        );
        for (&kind, others) in &self.others {
            let [all, rwnd, sndbuf] = others.chronographs;
            let mut line =
                format!("{:<20} {:12.0} {:14.0}", KINDS[kind], 100.0 * rwnd / all, 100.0 * sndbuf / all);
            let [all, full, again] = others.expert;
            if all > 0.0 {
                line += &format!(" {:7.0} {:15.0}", 100.0 * full / all, 100.0 * again / all);
            }
            println!("{line}");
        }
    }
}

/// The ways to observe, as the tables name them.
const NAMES: [&str; SEEN_BY.len()] =
    ["every ACK", "default density", "polling", "capture, sender", "capture, receiver"];

impl Seen {
    /// Over all kinds; `None` if nothing was observed in this way.
    fn sum(&self, by: usize) -> Option<Score> {
        let mut sum = Score::default();
        self.scores.iter().filter(|((_, of), _)| *of == by).for_each(|(_, score)| sum.add(score));
        (sum.all > 0.0).then_some(sum)
    }

    fn print(&self, figures: impl Fn(&Score) -> [f64; 3]) {
        let names: Vec<String> = NAMES.iter().map(|name| format!("{name:>18}")).collect();
        println!("{:<20} {:>5}  {}", "made", "cases", names.join("  "));
        let line = |name: &str, cases: usize, score: &dyn Fn(usize) -> Option<Score>| {
            let of = |by| match score(by) {
                Some(score) => {
                    let [first, second, third] = figures(&score);
                    format!("{first:5.1} {second:5.1} {third:6.1}")
                }
                None => format!("{:>18}", "-"),
            };
            let all: Vec<String> = (0..SEEN_BY.len()).map(of).collect();
            println!("{name:<20} {cases:>5}  {}", all.join("  "));
        };
        for (&kind, &cases) in &self.cases {
            line(KINDS[kind], cases, &|by| self.scores.get(&(kind, by)).copied());
        }
        line("all", self.cases.values().sum(), &|by| self.sum(by));
    }

    fn print_reached(&self) {
        for &kind in self.cases.keys() {
            let of = |by| match self.reached.get(&(kind, by)) {
                Some((reached, all)) => format!("{:>10}", format!("{reached} of {all}")),
                None => format!("{:>10}", "-"),
            };
            let counts: Vec<String> = (0..SEEN_BY.len()).map(of).collect();
            println!("{:<20} {}", KINDS[kind], counts.join(" "));
        }
        if !self.short.is_empty() {
            println!("\nThe others: per cent right and wrong, and what is reported.\n");
            self.short.iter().for_each(|line| println!("{line}"));
        }
    }
}

/// A case, as far as the tables show it.
pub struct Case {
    /// Its name and how it was made.
    pub text: String,
    /// It was observed from its beginning.
    pub begins: bool,
}

/// The limits that took more than the fraction `least` of the time, with their percentages.
pub fn shares(times: &LimitTimes, least: f64) -> String {
    let ranked = times.ranked();
    let words = ranked.iter().filter(|(_, share)| *share > least);
    words.map(|(limit, share)| format!("{limit} {:.1}", share * 100.0)).collect::<Vec<_>>().join(", ")
}
