//! Which shares are believed, which are not, and for how long.

use super::*;
use proptest::prelude::*;

fn at(seconds: f64) -> Moment {
    Moment::at(Duration::from_secs_f64(seconds))
}

fn fair() -> Claim {
    Claim {
        rate_bps: 10e6,
        share_bps: 10e6,
        capacity_bps: 40e6,
        alone_bps: 300e6,
        senders: 4,
        claimed: 4,
        proved: 4,
        heard: 4,
        srtt: Duration::from_millis(80),
        held: Duration::from_millis(80),
        elastic: true,
        bounded: true,
        queue: None,
    }
}

/// Judges `claim` in ticks of half a second; returns the verdicts.
fn verdicts(trust: &mut Trust, from: f64, to: f64, claim: impl Fn(f64) -> Claim) -> Vec<Verdict> {
    let ticks = (from * 2.0) as u32..(to * 2.0) as u32;
    ticks.map(|tick| f64::from(tick) / 2.0).map(|s| trust.judge(at(s), claim(s))).collect()
}

/// A terminal that has received its share for this long.
fn trusting(seconds: f64) -> Trust {
    let mut trust = Trust::default();
    verdicts(&mut trust, 0.0, seconds, |_| fair());
    trust
}

fn all_obey(judged: &[Verdict]) -> bool {
    judged.iter().all(|verdict| *verdict == Verdict::Obey)
}

#[test]
fn it_observes_first_and_obeys_a_fair_share() {
    let mut trust = Trust::default();
    let judged = verdicts(&mut trust, 0.0, 60.0, |_| fair());
    // Until then, the terminal keeps at least half of its rate.
    assert!(judged[..3].iter().all(|verdict| *verdict == Verdict::Undecided(0.5 * fair().rate_bps)));
    assert!(all_obey(&judged[3..]));
}

#[test]
fn a_share_far_below_what_was_carried_is_never_obeyed() {
    // For four seconds it keeps its previous share. Since it carries that, the leader is refuted.
    let mut trust = trusting(10.0);
    let judged = verdicts(&mut trust, 10.0, 600.0, |_| Claim { share_bps: 1e5, ..fair() });
    let kept = judged.iter().take_while(|verdict| **verdict == Verdict::Keep(10e6)).count();
    assert!((3..=8).contains(&kept), "{kept} ticks");
    assert!(judged[kept..].iter().all(|verdict| *verdict == Verdict::Mistrust));
    // A terminal without a previous share keeps half of its rate until then.
    let mut trust = Trust::default();
    let judged = verdicts(&mut trust, 0.0, 60.0, |_| Claim { share_bps: 1e5, ..fair() });
    assert!(judged.iter().all(|verdict| matches!(verdict, Verdict::Undecided(_) | Verdict::Mistrust)));
}

#[test]
fn alternating_false_summaries_are_never_obeyed() {
    let mut trust = trusting(20.0);
    let lies = |s: f64| s % 3.0 < 1.0;
    let lie = |s: f64| if lies(s) { Claim { share_bps: 1e5, ..fair() } } else { fair() };
    let judged = verdicts(&mut trust, 21.0, 60.0, lie);
    for (tick, verdict) in judged.iter().enumerate() {
        let expected = if lies(21.0 + tick as f64 / 2.0) { Verdict::Keep(10e6) } else { Verdict::Obey };
        assert_eq!(*verdict, expected, "tick {tick}");
    }
}

#[test]
fn more_senders_are_a_reason_for_less() {
    let mut trust = Trust::default();
    let alone = Claim { rate_bps: 40e6, share_bps: 40e6, senders: 1, claimed: 1, ..fair() };
    verdicts(&mut trust, 0.0, 10.0, |_| alone);
    assert!(all_obey(&verdicts(&mut trust, 10.0, 30.0, |_| fair())));
    // A smaller share is also explained if members that had little to send have more now, as long
    // as the group carries as much.
    let mut trust = Trust::default();
    verdicts(&mut trust, 0.0, 20.0, |_| Claim { rate_bps: 36e6, share_bps: 36e6, ..fair() });
    let changed = |_: f64| Claim { rate_bps: 36e6, ..fair() };
    assert!(all_obey(&verdicts(&mut trust, 20.0, 30.0, changed)));
}

#[test]
fn a_slower_radio_is_a_reason_for_less() {
    let mut trust = Trust::default();
    let radio =
        |alone_bps: f64| Claim { alone_bps, rate_bps: 0.2 * alone_bps, share_bps: 0.2 * alone_bps, ..fair() };
    verdicts(&mut trust, 0.0, 20.0, |_| radio(50e6));
    // Its rate is measured over a while: at first it is unchanged.
    let slowed = |s: f64| Claim { rate_bps: if s < 22.0 { 10e6 } else { 1e6 }, ..radio(5e6) };
    assert!(all_obey(&verdicts(&mut trust, 20.0, 60.0, slowed)));
    // With the previous radio it does not.
    let mut trust = Trust::default();
    verdicts(&mut trust, 0.0, 20.0, |_| radio(50e6));
    let slowed = |_: f64| Claim { rate_bps: 10e6, alone_bps: 50e6, ..radio(5e6) };
    assert!(verdicts(&mut trust, 20.0, 60.0, slowed).iter().all(|verdict| *verdict != Verdict::Obey));
}

#[test]
fn the_step_from_wire_to_air_is_a_reason_for_less() {
    // Among fast radios, a slow one had an equal share of the wire: 5 of 100 Mbit/s, although it
    // carries 10 alone. By airtime it is due a tenth.
    let slow = Claim { alone_bps: 10e6, senders: 10, claimed: 10, heard: 10, capacity_bps: 100e6, ..fair() };
    let mut trust = Trust::default();
    verdicts(&mut trust, 0.0, 20.0, |_| Claim { rate_bps: 5e6, share_bps: 5e6, ..slow });
    let by_air = |_: f64| Claim { rate_bps: 5e6, share_bps: 0.7e6, ..slow };
    assert!(all_obey(&verdicts(&mut trust, 20.0, 60.0, by_air)));
}

#[test]
fn a_fallen_capacity_is_believed_by_a_terminal_that_carries_no_more() {
    let mut trust = trusting(20.0);
    // The earlier queue drains within a few round trips.
    let fell = |s: f64| Claim {
        rate_bps: 2.5e6,
        share_bps: 2e6,
        capacity_bps: 8e6,
        srtt: Duration::from_millis(if s < 21.0 { 400 } else { 80 }),
        ..fair()
    };
    assert!(all_obey(&verdicts(&mut trust, 20.0, 60.0, fell)));
    // If the share stays low although this terminal has reduced its rate, another sender uses the
    // rest.
    let mut trust = trusting(20.0);
    let taken = |_: f64| Claim { srtt: Duration::from_millis(400), ..fell(20.0) };
    let judged = verdicts(&mut trust, 20.0, 40.0, taken);
    let obeyed = judged.iter().take_while(|verdict| **verdict == Verdict::Obey).count();
    assert!(obeyed <= 4, "{obeyed} ticks");
    assert!(judged[obeyed..].iter().all(|verdict| *verdict == Verdict::Mistrust));
}

#[test]
fn a_terminal_that_wants_no_more_does_not_doubt() {
    let mut trust = trusting(10.0);
    let judged = verdicts(&mut trust, 10.0, 30.0, |_| Claim { share_bps: 1e5, elastic: false, ..fair() });
    assert!(all_obey(&judged));
}

#[test]
fn small_shares_are_neither_obeyed_nor_refuted_while_members_arrive() {
    let mut trust = Trust::default();
    let small = Claim { share_bps: 1e6, senders: 1, claimed: 1, ..fair() };
    let coming = |s: f64| Claim { heard: 1 + (s / 2.0) as u16, ..small };
    assert!(
        verdicts(&mut trust, 0.0, 8.0, coming).iter().all(|verdict| matches!(verdict, Verdict::Undecided(_)))
    );
    assert!(all_obey(&verdicts(&mut trust, 8.0, 30.0, |_| fair())));
    // If the number of members stays the same, the leader is judged.
    let later = verdicts(&mut trust, 30.0, 35.0, |_| Claim { heard: 4, ..small });
    assert_eq!(later.last(), Some(&Verdict::Mistrust));
}

#[test]
fn senders_that_prove_nothing_explain_no_small_share() {
    // The leader claims a thousand, and this terminal knows one other.
    let mut trust = Trust::default();
    verdicts(&mut trust, 0.0, 20.0, |_| Claim { senders: 2, claimed: 2, ..fair() });
    let starved = Claim { share_bps: 2e4, senders: 2, claimed: 1001, ..fair() };
    let judged = verdicts(&mut trust, 20.0, 620.0, |_| starved);
    // They are challenged; meanwhile the terminal keeps its share.
    assert!(judged[..10].iter().all(|verdict| *verdict == Verdict::Keep(10e6)));
    assert!(trust.wants_proof());
    assert!(judged.iter().all(|verdict| *verdict != Verdict::Obey));
    // Senders that prove their liveness in time explain it.
    let mut trust = Trust::default();
    let two = Claim { rate_bps: 40e6, share_bps: 40e6, senders: 2, claimed: 2, capacity_bps: 80e6, ..fair() };
    verdicts(&mut trust, 0.0, 20.0, |_| two);
    let proved =
        |s: f64| Claim { rate_bps: 40e6, senders: if s < 23.0 { 2 } else { 8 }, claimed: 8, ..fair() };
    let judged = verdicts(&mut trust, 20.0, 60.0, proved);
    assert!(judged.iter().all(|verdict| *verdict != Verdict::Mistrust));
    assert!(all_obey(&judged[6..]));
    assert!(!trust.wants_proof());
}

/// The leader claims a thousand senders for five seconds, and is honest for as long: at first the
/// terminal waits for them to prove their liveness, later not.
#[test]
fn a_leader_that_claims_the_same_senders_again_gets_no_more_time() {
    let alternating =
        |answering: bool| {
            let mut trust = trusting(20.0);
            let starved = |answering: bool| Claim {
                share_bps: 2e4,
                claimed: 1001,
                proved: if answering { 5 } else { 4 },
                ..fair()
            };
            let lies = |s: f64| s % 10.0 < 5.0;
            verdicts(&mut trust, 20.0, 60.0, |s| {
                if lies(s) { starved(answering && s % 10.0 > 1.0) } else { fair() }
            })
        };
    let first = alternating(false).iter().position(|verdict| *verdict == Verdict::Mistrust);
    assert!(first.is_some_and(|tick| (20..30).contains(&tick)), "the second time: {first:?}");
    // If senders answer, a repeated claim gets time again.
    assert!(!alternating(true).contains(&Verdict::Mistrust));
}

/// False summaries between summaries without bounds, each too short to be refuted, reduce no
/// window.
#[test]
fn who_was_believed_without_bounds_is_not_obeyed_with_some() {
    let mut trust = Trust::default();
    let starts_up = Claim { bounded: false, ..fair() };
    verdicts(&mut trust, 0.0, 20.0, |_| starts_up);
    let lies = |s: f64| s % 10.0 < 1.0;
    let judged = verdicts(&mut trust, 20.0, 60.0, |s| {
        if lies(s) { Claim { share_bps: 2e4, ..fair() } } else { starts_up }
    });
    for (tick, verdict) in judged.iter().enumerate() {
        let expected = if lies(20.0 + tick as f64 / 2.0) { Verdict::KeepUnbounded } else { Verdict::Obey };
        assert_eq!(*verdict, expected, "tick {tick}");
    }
}

#[test]
fn the_rate_of_plain_cubic_refutes_the_leader_or_confirms_it() {
    let less = |rate_bps: f64| Claim { share_bps: 4e6, rate_bps, ..fair() };
    for (alone_bps, mistrusted) in [(10e6, true), (5e6, false)] {
        let mut trust = trusting(20.0);
        verdicts(&mut trust, 20.0, 25.0, |_| less(10e6));
        let judged = verdicts(&mut trust, 25.0, 1225.0, |_| less(alone_bps));
        let mistrusts = judged.iter().filter(|verdict| **verdict == Verdict::Mistrust).count();
        let all = judged.len();
        if mistrusted {
            assert_eq!(mistrusts, all);
        } else {
            assert!((1..=60).contains(&mistrusts), "{mistrusts} of {all} ticks");
        }
    }
}

#[test]
fn a_leader_that_is_refuted_again_is_not_followed_for_twice_as_long() {
    let mut trust = trusting(20.0);
    let mut tick = 40;
    let mut judge = |claim: Claim| {
        tick += 1;
        trust.judge(at(f64::from(tick) / 2.0), claim)
    };
    let mut times_s = Vec::new();
    for _ in 0..4 {
        // The leader lies until it is refuted, and is honest until it is followed again.
        while judge(Claim { share_bps: 1e5, ..fair() }) != Verdict::Mistrust {}
        let mut ticks = 1;
        while judge(fair()) == Verdict::Mistrust {
            ticks += 1;
        }
        times_s.push(ticks / 2);
    }
    assert_eq!(times_s, [32, 64, 128, 256]);
    // A leader that is honest for as long as it was not followed starts again without a history.
    for _ in 0..2 * 512 + 2 {
        assert_eq!(judge(fair()), Verdict::Obey);
    }
    while judge(Claim { share_bps: 1e5, ..fair() }) != Verdict::Mistrust {}
    let ticks = (1..).find(|_| judge(fair()) != Verdict::Mistrust);
    assert_eq!(ticks, Some(64));
}

/// One terminal of a group: the rate that its radio carries alone, and the rate of its
/// applications, bit/s.
type Sender = (f64, f64);

proptest! {
    /// For any radios and their changes, and any members that come, go and send, limited by wire or
    /// air: an honest leader's shares are explained.
    #[test]
    fn an_honest_leader_is_never_doubted(
        wire_bps in 5e6..900e6_f64,
        efficiency in 0.6..0.95_f64,
        times in prop::collection::vec(
            prop::collection::vec((1e6..400e6_f64, prop_oneof![Just(f64::INFINITY), 1e4..50e6_f64]), 2..20),
            1..8,
        ),
    ) {
        let mut trust = Trust::default();
        let mut judged = Vec::new();
        for (number, senders) in times.iter().enumerate() {
            let mut senders: Vec<Sender> = senders.clone();
            senders[0].1 = f64::INFINITY;
            let (share_bps, capacity_bps) = honest_share(wire_bps, efficiency, &senders);
            let n = senders.len() as u16;
            let claim = Claim {
                rate_bps: share_bps, share_bps, capacity_bps, alone_bps: senders[0].0, senders: n, claimed: n, heard: n,
                ..fair()
            };
            let from = 20.0 * number as f64;
            judged.extend(verdicts(&mut trust, from, from + 20.0, |_| claim));
        }
        prop_assert!(judged.iter().all(|verdict| matches!(verdict, Verdict::Obey | Verdict::Undecided(_))), "{judged:?}");
    }
}

/// The first one's share of the air or of the wire, and the total: the level up to which each may
/// fill its share, when those that want less leave the rest.
fn honest_share(wire_bps: f64, efficiency: f64, senders: &[Sender]) -> (f64, f64) {
    // By bisection: the highest level that takes no more than is available.
    let level = |amount: f64, taken: &dyn Fn(f64) -> f64| {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if taken(middle) > amount { high = middle } else { low = middle }
        }
        low
    };
    // Each takes its rate over its rate alone of the air.
    let of_air = level(efficiency, &|level| senders.iter().map(|s| s.1.min(level * s.0) / s.0).sum());
    let by_air: f64 = senders.iter().map(|s| s.1.min(of_air * s.0)).sum();
    if by_air <= wire_bps {
        return (of_air * senders[0].0, by_air);
    }
    let alone = |s: &Sender| s.0.min(wire_bps);
    let of_wire = level(wire_bps, &|level| senders.iter().map(|s| s.1.min(level * alone(s))).sum());
    (of_wire * alone(&senders[0]), wire_bps)
}
