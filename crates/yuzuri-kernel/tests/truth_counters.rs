//! The monitor's events compared with the kernel's own counters (`nstat`): first each kind of
//! event, caused by dropping or delaying single packets, then all of them together on a path with
//! random loss.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Outcome, Pair, Watched, of_reason, retransmitted, side_by_side};
use std::collections::BTreeMap;
use yuzuri_testnet::{Net, Packet, Relay, Segment, Side, Verdict};
use yuzuri_trace::{CaState, Density, Event, Kind, Marks, Reason};

/// The sender's counters that the monitor's events must add up to.
const NAMES: [&str; 22] = [
    "RetransSegs",
    "TCPFastRetrans",
    "TCPSlowStartRetrans",
    "TCPLossProbes",
    "TCPTimeouts",
    "TCPSackRecovery",
    "TCPRenoRecovery",
    "TCPDSACKRecv",
    "TCPDSACKOfoRecv",
    "TCPFullUndo",
    "TCPPartialUndo",
    "TCPLossUndo",
    "TCPDSACKUndo",
    "TCPSACKReorder",
    "TCPRenoReorder",
    "TCPTSReorder",
    "TCPSpuriousRTOs",
    "TCPSpuriousRtxHostQueues",
    "TCPRetransFail",
    "TCPDeliveredCE",
    "TCPSynRetrans",
    "TCPLossProbeRecovery",
];

struct Counters(BTreeMap<&'static str, u64>);

impl Counters {
    fn read(net: &Net) -> Counters {
        Counters(NAMES.iter().map(|name| (*name, net.counter(Side::A, name))).collect())
    }

    fn since(&self, before: &Counters) -> Counters {
        Counters(self.0.iter().map(|(name, now)| (*name, now - before.0[name])).collect())
    }

    fn sum(&self, names: &[&str]) -> u64 {
        names.iter().map(|name| self.0[name]).sum()
    }
}

impl std::fmt::Display for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().filter(|(_, n)| **n > 0).try_for_each(|(name, n)| write!(f, "{name} {n}, "))
    }
}

/// Compares every event with the counters. Returns the difference as text.
fn check(events: &[&Event], counters: &Counters) -> Result<(), String> {
    let count = |holds: &dyn Fn(&Event) -> bool| events.iter().filter(|e| holds(e)).count() as u64;
    let again = retransmitted(events)?;
    let dsacks: u64 = events.iter().map(|e| u64::from(e.counts.dsacks)).sum();
    let timed_out = |e: &Event| e.kind == Kind::Timeout && e.reason == Reason::Timeout;
    let enters = |e: &Event| {
        e.kind == Kind::State && e.ca_state == CaState::Recovery && e.ca_before != CaState::Recovery
    };
    let reordered = count(&|e| e.kind == Kind::Reordering);
    let by_sack = counters.sum(&["TCPSACKReorder", "TCPRenoReorder"]);
    let by_stamp = counters.sum(&["TCPTSReorder"]);
    let fast = of_reason(&again, Reason::FastRetransmit);
    let pairs = [
        ("retransmissions", again.iter().map(|(_, n)| n).sum(), counters.sum(&["RetransSegs"])),
        ("fast retransmissions", fast, counters.sum(&["TCPFastRetrans"])),
        ("in slow start", of_reason(&again, Reason::LossRecovery), counters.sum(&["TCPSlowStartRetrans"])),
        ("timeouts", count(&timed_out), counters.sum(&["TCPTimeouts"])),
        ("recoveries", count(&enters), counters.sum(&["TCPSackRecovery", "TCPRenoRecovery"])),
        ("DSACKs", dsacks, counters.sum(&["TCPDSACKRecv", "TCPDSACKOfoRecv"])),
        (
            "undone",
            count(&|e| e.reason == Reason::Undo),
            counters.sum(&["TCPFullUndo", "TCPPartialUndo", "TCPLossUndo", "TCPDSACKUndo"]),
        ),
        // One ACK may show reordering twice, by SACK and by timestamp: one event.
        ("reordering", reordered, reordered.clamp(by_sack.max(by_stamp), by_sack + by_stamp)),
    ];
    let mut differences: Vec<String> = pairs
        .iter()
        .filter(|(_, ours, kernels)| ours != kernels)
        .map(|(what, ours, kernels)| format!("{what}: events {ours}, the kernel {kernels}"))
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    differences.push(format!("counters: {counters}; retransmitted {again:?}"));
    differences.extend(events.iter().filter(|e| e.kind != Kind::Sample).map(|e| {
        format!("{} {} {} {:?}>{:?}", e.kind.name(), e.reason.name(), e.place, e.ca_before, e.ca_state)
    }));
    Err(differences.join("\n"))
}

/// A connection through a relay that drops and delays its packets.
struct LossyRelay {
    relay: Relay,
    pair: Pair,
}

/// Runs a scenario between A and B and returns A's events and counters, already compared.
fn trouble(
    test: &str,
    control: &str,
    v6: bool,
    prepare: impl Fn(&Net),
    run: impl Fn(&LossyRelay),
) -> Option<(Vec<Event>, Counters)> {
    common::exactly(test, || {
        let net = Net::or_skip(test)?;
        let relay = Relay::or_skip(&net, test)?;
        // Otherwise a receiver whose reader holds the socket acknowledges several segments at a
        // time (since Linux 6.7), which hides the order of their arrival.
        let _ = net.set(Side::B, "net.ipv4.tcp_backlog_ack_defer", "0");
        prepare(&net);
        let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
        let before = Counters::read(&net);
        let to = if v6 { relay.v6(Side::B) } else { relay.v4(Side::B) };
        let trouble = LossyRelay { pair: Pair::new(&net, Side::A, to, control), relay };
        run(&trouble);
        trouble.relay.decide(|_| Verdict::Pass);
        let LossyRelay { pair, relay: _relay } = trouble;
        pair.settle();
        // Further segments: their records show the effect of the last ACK.
        for _ in 0..3 {
            pair.ping();
        }
        watched.read();
        let counters = Counters::read(&net).since(&before);
        let seen = watched.finish_whole();
        let events = seen.events();
        Some(match check(&events, &counters) {
            Ok(()) => Outcome::Exact((events.into_iter().copied().collect(), counters)),
            Err(how) => Outcome::Differs { how, skipped: seen.nested() },
        })
    })
}

/// Numbers data segments from A by their first sequence number: 0, 1, 2... in order of first
/// appearance; a retransmission has the number of its original, with the count of earlier
/// transmissions.
fn numbered() -> impl FnMut(&Packet<'_>) -> Option<(usize, usize)> {
    let mut seen: Vec<(u32, usize)> = Vec::new();
    move |packet| {
        let tcp = packet.tcp.as_ref().filter(|tcp| packet.from == Side::A && tcp.is_data())?;
        match seen.iter_mut().enumerate().find(|(_, (seq, _))| *seq == tcp.seq) {
            Some((number, (_, times))) => {
                *times += 1;
                Some((number, *times))
            }
            None => {
                seen.push((tcp.seq, 0));
                Some((seen.len() - 1, 0))
            }
        }
    }
}

fn kinds(events: &[Event], kind: Kind, reason: Reason) -> usize {
    events.iter().filter(|e| (e.kind, e.reason) == (kind, reason)).count()
}

#[test]
fn fast_retransmission() {
    side_by_side([("cubic", false), ("reno", true), ("bbr", false)], |(control, v6)| {
        let outcome = trouble(
            "fast_retransmission",
            control,
            v6,
            |_| {},
            |trouble| {
                let mut number = numbered();
                trouble.relay.decide(move |packet| match number(packet) {
                    Some((2 | 5, 0)) => Verdict::Drop,
                    _ => Verdict::Pass,
                });
                trouble.pair.send(200_000);
            },
        );
        let Some((events, counters)) = outcome else { return };
        assert!(counters.sum(&["TCPFastRetrans"]) >= 1, "{control}: {counters}");
        let recovery =
            events.iter().find(|e| e.kind == Kind::State && e.ca_state == CaState::Recovery).unwrap();
        assert_eq!(recovery.reason, Reason::FastRetransmit);
        assert!(events.iter().any(|e| e.kind == Kind::State && e.reason == Reason::Recovered), "{control}");
        assert!(events.iter().any(|e| e.marks.contains(Marks::SACK)), "{control}");
    });
}

#[test]
fn timeouts_in_a_blackout_and_the_slow_start_after_it() {
    side_by_side([("cubic", true), ("bbr", false)], |(control, v6)| {
        let outcome = trouble(
            "timeouts_in_a_blackout",
            control,
            v6,
            |_| {},
            |trouble| {
                let mut number = numbered();
                // Everything is lost until a segment is sent for the fourth time: first by the
                // tail-loss probe or the timer, then by the timer repeatedly.
                let mut dark = true;
                trouble.relay.decide(move |packet| {
                    match number(packet) {
                        Some((_, 3)) => dark = false,
                        Some(_) if dark => return Verdict::Drop,
                        _ => {}
                    }
                    Verdict::Pass
                });
                trouble.pair.send(100_000);
            },
        );
        let Some((events, counters)) = outcome else { return };
        assert!(counters.sum(&["TCPTimeouts"]) >= 2, "repeated: {counters}");
        assert!(counters.sum(&["TCPSlowStartRetrans"]) >= 1, "{counters}");
        assert!(kinds(&events, Kind::Retransmit, Reason::Timeout) >= 2);
    });
}

#[test]
fn a_tail_loss_probe() {
    let outcome = trouble(
        "a_tail_loss_probe",
        "cubic",
        false,
        |_| {},
        |trouble| {
            // A round trip first, so that the probe's timer has an RTT.
            trouble.pair.send(1000);
            let mut number = numbered();
            trouble.relay.decide(move |packet| match number(packet) {
                Some((3, 0)) => Verdict::Drop,
                _ => Verdict::Pass,
            });
            let mss = common::tcp_info::read(&trouble.pair.near).tcpi_snd_mss as usize;
            trouble.pair.send(4 * mss);
        },
    );
    let Some((events, counters)) = outcome else { return };
    let probes = kinds(&events, Kind::Retransmit, Reason::TailLossProbe) as u64;
    assert!((1..=counters.sum(&["TCPLossProbes"])).contains(&probes), "{probes}; {counters}");
    let probe = events.iter().find(|e| e.reason == Reason::TailLossProbe).unwrap();
    assert_eq!(probe.place.name(), "tcp_send_loss_probe");
}

#[test]
fn reordering_without_loss() {
    side_by_side([("cubic", false), ("bbr", true)], |(control, v6)| {
        let outcome = trouble(
            "reordering_without_loss",
            control,
            v6,
            |_| {},
            |trouble| {
                let mut number = numbered();
                trouble.relay.decide(move |packet| match number(packet) {
                    Some((6, 0)) => Verdict::Hold,
                    Some((7, 0)) => Verdict::PassAndRelease,
                    _ => Verdict::Pass,
                });
                trouble.pair.send(300_000);
            },
        );
        let Some((events, counters)) = outcome else { return };
        let reordered = counters.sum(&["TCPSACKReorder", "TCPTSReorder"]);
        assert!(reordered >= 1, "{control}: {counters}");
        assert!(events.iter().any(|e| e.kind == Kind::Reordering));
    });
}

/// A delayed original and its retransmission both arrive: the receiver reports the duplicate.
#[test]
fn a_spurious_fast_retransmission_is_undone() {
    side_by_side(
        [("cubic", "1"), ("cubic", "0"), ("reno", "0"), ("bbr", "1"), ("bbr", "0")],
        |(control, timestamps)| {
            let prepare = |net: &Net| net.set(Side::A, "net.ipv4.tcp_timestamps", timestamps).unwrap();
            let outcome =
                trouble("a_spurious_fast_retransmission_is_undone", control, false, prepare, |trouble| {
                    let mut number = numbered();
                    trouble.relay.decide(move |packet| match number(packet) {
                        Some((4, 0)) => Verdict::Hold,
                        Some((4, 1)) => Verdict::ReleaseAndPass,
                        _ => Verdict::Pass,
                    });
                    trouble.pair.send(400_000);
                });
            let Some((events, counters)) = outcome else { return };
            assert!(counters.sum(&["TCPDSACKRecv"]) >= 1, "{control}: {counters}");
            let undos = counters.sum(&["TCPFullUndo", "TCPDSACKUndo", "TCPPartialUndo", "TCPLossUndo"]);
            assert!(undos >= 1, "{control} {timestamps}: {counters}");
            assert!(events.iter().any(|e| e.marks.contains(Marks::DSACK)));
        },
    );
}

/// The duplicate is reported late, by the very acknowledgement that shows the next loss: it ends in
/// Recovery, which sets the marker again before any hook could see that it was reset.
#[test]
fn a_reduction_is_undone_by_the_segment_that_begins_the_next() {
    side_by_side([("cubic", false), ("reno", true)], |(control, v6)| {
        let prepare = |net: &Net| {
            // Timestamps would immediately show that the retransmission was spurious; a probe would
            // be one more.
            net.set(Side::A, "net.ipv4.tcp_timestamps", "0").unwrap();
            net.set(Side::A, "net.ipv4.tcp_early_retrans", "0").unwrap();
        };
        let outcome = trouble(
            "a_reduction_is_undone_by_the_segment_that_begins_the_next",
            control,
            v6,
            prepare,
            |trouble| {
                let mss = common::tcp_info::read(&trouble.pair.near).tcpi_snd_mss as usize;
                let mut number = numbered();
                trouble.relay.decide(move |packet| match number(packet) {
                    Some((2, 0)) => Verdict::Hold,
                    _ => Verdict::Pass,
                });
                trouble.pair.send(10 * mss);
                let mut number = numbered();
                trouble.relay.decide(move |packet| {
                    let gap = |tcp: &Segment| tcp.sacks.len() == 1 && !tcp.is_dsack();
                    match number(packet) {
                        Some((0, 0)) => Verdict::Drop,
                        Some((4, 0)) => Verdict::PassAndRelease,
                        None if packet.tcp.as_ref().is_some_and(gap) => Verdict::Drop,
                        _ => Verdict::Pass,
                    }
                });
                trouble.pair.send(5 * mss);
            },
        );
        let Some((events, counters)) = outcome else { return };
        assert_eq!(counters.sum(&["TCPDSACKUndo"]), 1, "{control}: {counters}");
        assert_eq!(counters.sum(&["TCPSackRecovery"]), 2, "{control}: {counters}");
        let undone = events.iter().position(|e| e.reason == Reason::Undo).unwrap();
        let (undone, next) = (&events[undone], &events[undone + 1]);
        assert_eq!((next.kind, next.ca_state), (Kind::State, CaState::Recovery), "{undone:?} {next:?}");
    });
}

/// The acknowledgements wait until the timer has fired.
#[test]
fn a_spurious_timeout_is_undone() {
    side_by_side([("cubic", false), ("reno", true), ("bbr", false)], |(control, v6)| {
        let outcome = trouble(
            "a_spurious_timeout_is_undone",
            control,
            v6,
            |_| {},
            |trouble| {
                let mut number = numbered();
                let (mut dark, mut again) = (true, 0);
                trouble.relay.decide(move |packet| {
                    match number(packet) {
                        // The tail-loss probe and the first retransmission by the timer may both be
                        // needed to enter Loss.
                        Some((_, times)) if dark && times > 0 => {
                            again += 1;
                            if again == 2 {
                                dark = false;
                                return Verdict::PassAndRelease;
                            }
                        }
                        None if dark && packet.from == Side::B => return Verdict::Hold,
                        _ => {}
                    }
                    Verdict::Pass
                });
                trouble.pair.send(60_000);
            },
        );
        let Some((_, counters)) = outcome else { return };
        assert!(counters.sum(&["TCPTimeouts"]) >= 1, "{control}: {counters}");
        assert!(counters.sum(&["TCPLossUndo"]) >= 1, "{control}: {counters}");
    });
}

/// A small generator, so that a failing pattern can be repeated by its seed.
struct Lcg(u64);

impl Lcg {
    fn one_in(&mut self, n: u64) -> bool {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33).is_multiple_of(n)
    }
}

#[test]
fn everything_together_on_a_path_that_loses_and_reorders() {
    side_by_side(
        [(1, "cubic", false), (2, "bbr", true), (3, "reno", false), (4, "cubic", true)],
        |(seed, control, v6)| {
            let outcome = trouble(
                "everything_together",
                control,
                v6,
                |_| {},
                |trouble| {
                    let mut random = Lcg(seed);
                    trouble.relay.decide(move |packet| {
                        let is_data = packet.tcp.as_ref().is_some_and(|tcp| tcp.is_data());
                        match (packet.from, is_data) {
                            (Side::A, true) if random.one_in(40) => Verdict::Drop,
                            (Side::A, true) if random.one_in(60) => Verdict::Hold,
                            (Side::A, true) if random.one_in(8) => Verdict::PassAndRelease,
                            (Side::B, _) if random.one_in(50) => Verdict::Drop,
                            // Waiting packets leave at the latest when the timer has sent a packet
                            // of its own.
                            _ if random.one_in(30) => Verdict::PassAndRelease,
                            _ => Verdict::Pass,
                        }
                    });
                    trouble.pair.send(1_500_000);
                },
            );
            let Some((_, counters)) = outcome else { return };
            assert!(counters.sum(&["RetransSegs"]) > 10, "seed {seed}: {counters}");
            println!("seed {seed}, {control}: {counters}");
        },
    );
}
