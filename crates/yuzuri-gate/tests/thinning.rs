//! The ACKs that the gate drops, and every kind that it never drops (`BPF_PROG_TEST_RUN`).
#![allow(clippy::unwrap_used, missing_docs)]

mod frames;
mod loaded;

use frames::*;
use std::cell::Cell;
use std::time::{Duration, Instant};
use yuzuri_gate::{Bound, Direction, Gate, Options};

const LONG: Duration = Duration::from_secs(3600);
const MSS: u32 = 1448;
const THIN: u32 = 8 * MSS;
/// The data that the station sends before the first ACK.
const SENT: u32 = 20 * MSS;
/// A machine that stalls between two ACKs lets both pass: a case is tried this many times.
const TRIES: u32 = 20;

struct Bench {
    gate: Gate,
    next: Cell<u16>,
}

/// A connection whose station has sent `SENT` bytes from sequence number 1001 on, of which the
/// first segment is acknowledged.
struct Open<'a> {
    bench: &'a Bench,
    form: Form,
    n: u16,
}

fn bench(test: &str) -> Option<Bench> {
    Some(Bench { gate: loaded::gate(test, &Options::default())?, next: Cell::new(0) })
}

impl Bench {
    fn open(&mut self, form: Form, options: &[u8], bound: Bound) -> Open<'_> {
        let n = self.next.get();
        self.next.set(n + 1);
        self.gate.bound(&[(key(form, n), bound)], LONG).unwrap();
        let open = Open { bench: self, form, n };
        open.up(&Tcp::new(SYN, 1000, 0, 65_535).with(options));
        assert!(open.goes(&Tcp::new(SYN | ACK, 5000, 1001, 65_535).with(options)));
        for segment in 0..SENT / MSS {
            open.up(&data(1001 + segment * MSS));
        }
        assert!(open.goes(&ack(1)), "the first ACK");
        open
    }

    /// Whether an ACK is dropped in any of several tries, each with a separate connection that
    /// `before` has prepared.
    fn is_left_out(&mut self, before: impl Fn(&Open<'_>), tcp: &Tcp) -> bool {
        let forms = FORMS.into_iter().cycle().take(TRIES as usize);
        let left_out = forms.filter(|form| {
            let bound = Bound { bytes: 0, thin_bytes: THIN };
            let open = self.open(*form, &syn_options(Some(7)), bound);
            before(&open);
            !open.goes(tcp)
        });
        left_out.count() > 0
    }
}

impl Open<'_> {
    fn up(&self, tcp: &Tcp) {
        let made = frame(self.form, Direction::Up, self.n, tcp);
        assert!(self.bench.gate.try_packet(Direction::Up, &made, 1).unwrap().passes);
    }

    fn goes(&self, tcp: &Tcp) -> bool {
        self.goes_as(&frame(self.form, Direction::Down, self.n, tcp))
    }

    fn goes_as(&self, made: &[u8]) -> bool {
        self.bench.gate.try_packet(Direction::Down, made, 1).unwrap().passes
    }
}

fn data(seq: u32) -> Tcp {
    Tcp::new(ACK, seq, 5001, 500).carrying(vec![7; MSS as usize])
}

/// Acknowledges this many of the station's segments.
fn ack(segments: u32) -> Tcp {
    Tcp::new(ACK, 5001, 1001 + segments * MSS, 1000)
}

fn changed(change: impl Fn(&mut Tcp)) -> Tcp {
    let mut tcp = ack(2);
    change(&mut tcp);
    tcp
}

#[test]
fn an_ack_that_a_later_one_covers_is_left_out() {
    let Some(mut bench) = bench("an_ack_that_a_later_one_covers_is_left_out") else { return };
    assert!(bench.is_left_out(|_| {}, &ack(2)));
    assert!(bench.is_left_out(|_| {}, &ack(2).with(&stamps(8, 9))), "time stamps are no news");
    assert!(bench.is_left_out(|_| {}, &changed(|tcp| tcp.window -= 50)));
    // Several consecutive ones are dropped as well, but not one that acknowledges more than THIN.
    let left_out = |open: &Open<'_>| (2..=8).map(|n| open.goes(&ack(n))).filter(|goes| !goes).count();
    let all = (0..TRIES).map(|_| {
        let open = bench.open(Form::V6, &syn_options(Some(7)), Bound { bytes: 0, thin_bytes: THIN });
        let left_out = left_out(&open);
        assert!(open.goes(&ack(9)), "eight segments since the first ACK");
        left_out
    });
    assert!(all.max().unwrap() == 7);
    let counts = bench.gate.counts().unwrap();
    let of_flows: u64 = bench.gate.flows().unwrap().iter().map(|flow| flow.thinned).sum();
    assert!(counts.thinned > 0 && counts.thinned == of_flows, "{counts:?}");
    assert_eq!((counts.lowered, counts.failed), (0, 0), "thinning needs no bound of the window");
}

#[test]
fn acks_that_are_never_left_out() {
    let Some(mut bench) = bench("acks_that_are_never_left_out") else { return };
    let sack = [1, 1, 5, 10, 0, 0, 9, 0, 0, 0, 10, 0];
    let nothing = |_: &Open<'_>| {};
    for (what, tcp) in [
        ("the last one", ack(SENT / MSS)),
        ("one behind which less than four segments have passed", ack(SENT / MSS - 3)),
        ("one of more than was sent", ack(SENT / MSS + 1)),
        ("a duplicate", ack(1)),
        ("an older one", ack(0)),
        ("one that says more than eight segments", ack(9)),
        ("SACK", ack(2).with(&sack)),
        ("SACK behind time stamps", ack(2).with(&[stamps(8, 9), sack.to_vec()].concat())),
        ("an option that is not known", ack(2).with(&[172, 5, 0, 0, 0])),
        ("time stamps at another place", ack(2).with(&[[8, 10].as_slice(), &[0; 8]].concat())),
        ("an echo of congestion", changed(|tcp| tcp.flags |= 64)),
        ("a window reduced, or AccECN's counter", changed(|tcp| tcp.flags |= 128)),
        ("FIN", changed(|tcp| tcp.flags |= FIN)),
        ("PSH", changed(|tcp| tcp.flags |= PSH)),
        ("an urgent pointer", changed(|tcp| tcp.flags |= 32)),
        ("data", ack(2).carrying(vec![1; 10])),
        ("a window of 0", changed(|tcp| tcp.window = 0)),
        ("a window that opens", changed(|tcp| tcp.window += (THIN / 128) as u16 + 1)),
        ("a window update", { Tcp { window: 1100, ..ack(1) } }),
    ] {
        assert!(!bench.is_left_out(nothing, &tcp), "{what}");
    }
    // Behind the previous ones, the same ACK that would otherwise be dropped.
    let tcp = ack(2);
    type Before<'a> = &'a dyn Fn(&Open<'_>);
    let cases: [(&str, Before<'_>); 6] = [
        ("a window of 0 was advertised", &|open| assert!(open.goes(&Tcp { window: 0, ..ack(1) }))),
        ("a duplicate", &|open| assert!(open.goes(&ack(1)))),
        ("SACK", &|open| assert!(open.goes(&ack(1).with(&sack)))),
        ("an echo of congestion", &|open| assert!(open.goes(&Tcp { flags: ACK | 64, ..ack(1) }))),
        ("data sent again", &|open| open.up(&data(1001))),
        ("10 ms and more", &|_| std::thread::sleep(Duration::from_millis(10))),
    ];
    for (what, before) in cases {
        assert!(!bench.is_left_out(before, &tcp), "after {what}");
    }
    assert!(bench.is_left_out(nothing, &tcp), "or none of this says anything");
}

#[test]
fn after_a_loss_acks_are_left_out_once_all_is_acknowledged() {
    let Some(mut bench) = bench("after_a_loss_acks_are_left_out_once_all_is_acknowledged") else { return };
    let bound = Bound { bytes: 0, thin_bytes: THIN };
    let tries = FORMS.into_iter().cycle().take(TRIES as usize).map(|form| {
        let open = bench.open(form, &syn_options(Some(7)), bound);
        assert!(open.goes(&ack(1)), "a duplicate");
        // New data does not end recovery.
        open.up(&data(1001 + SENT));
        (2..=SENT / MSS).for_each(|n| assert!(open.goes(&ack(n)), "in recovery: {n}"));
        (1..10).for_each(|segment| open.up(&data(1001 + SENT + segment * MSS)));
        open.goes(&ack(SENT / MSS + 1))
    });
    assert!(tries.filter(|goes| !goes).count() > 0, "after recovery");
}

#[test]
fn waits_for_an_ack_that_was_left_out_are_measured() {
    let Some(mut bench) = bench("waits_for_an_ack_that_was_left_out_are_measured") else { return };
    let tries = FORMS.into_iter().cycle().take(TRIES as usize).map(|form| {
        let open = bench.open(form, &syn_options(Some(7)), Bound { bytes: 0, thin_bytes: THIN });
        let waited_byte_us = || {
            let of = key(form, open.n);
            open.bench.gate.flows().unwrap().iter().find(|flow| flow.key == of).unwrap().waited_byte_us
        };
        let begin = Instant::now();
        if open.goes(&ack(3)) {
            return false;
        }
        let left_out = Instant::now();
        std::thread::sleep(Duration::from_millis(12));
        let least = left_out.elapsed();
        assert!(open.goes(&ack(4)), "the last one went more than 10 ms ago");
        let most = begin.elapsed();
        // Two segments waited from one ACK to the other.
        let waited = Duration::from_micros(waited_byte_us() / u64::from(2 * MSS));
        assert!(
            waited + Duration::from_micros(1) >= least && waited <= most,
            "{least:?} {waited:?} {most:?}"
        );
        let before = waited_byte_us();
        std::thread::sleep(Duration::from_millis(1));
        open.goes(&ack(5));
        assert_eq!(waited_byte_us(), before, "all that was acknowledged had gone");
        true
    });
    assert!(tries.filter(|measured| *measured).count() > 0, "no ACK was left out");
}

#[test]
fn ecn_marks_are_never_left_out() {
    let Some(mut bench) = bench("ecn_marks_are_never_left_out") else { return };
    let mut control = 0;
    for _ in 0..TRIES {
        for (form, ip) in [(Form::V4, 15), (Form::V6, 15)] {
            let bound = Bound { bytes: 0, thin_bytes: THIN };
            // The low four bits of IPv6's traffic class are the high bits of the second byte.
            let ecn = |mark: u8| if form == Form::V4 { mark } else { mark << 4 };
            let of = |open: &Open<'_>, change: &dyn Fn(&mut Vec<u8>)| {
                let mut made = frame(form, Direction::Down, open.n, &ack(2));
                change(&mut made);
                open.goes_as(&made)
            };
            let open = bench.open(form, &syn_options(Some(7)), bound);
            assert!(of(&open, &|made| made[ip] |= ecn(3)), "congestion experienced on the way of the ACK");
            let open = bench.open(form, &syn_options(Some(7)), bound);
            assert!(of(&open, &|made| made[tcp_at(form) + 12] |= 1), "the third bit of AccECN's counter");
            let open = bench.open(form, &syn_options(Some(7)), bound);
            control += u32::from(!of(&open, &|made| made[ip] |= ecn(2)));
        }
    }
    assert!(control > 0, "ECT is no mark");
}

#[test]
fn only_selected_stations_acks_are_thinned() {
    let Some(mut bench) = bench("only_selected_stations_acks_are_thinned") else { return };
    let chosen = Bound { bytes: 0, thin_bytes: THIN };
    let tcp = ack(2);
    for _ in 0..TRIES {
        for (what, options, bound) in [
            ("not chosen", syn_options(Some(7)), Bound { thin_bytes: 0, ..chosen }),
            ("MPTCP", [syn_options(Some(7)), vec![30, 4, 0, 0]].concat(), chosen),
            ("a signed header", [syn_options(Some(7)), vec![29, 4, 1, 1]].concat(), chosen),
        ] {
            assert!(bench.open(Form::V4, &options, bound).goes(&tcp), "{what}");
        }
        let open = bench.open(Form::V4, &syn_options(Some(7)), chosen);
        let (form, n) = (open.form, open.n);
        bench.gate.bound(&[(key(form, n), chosen)], Duration::ZERO).unwrap();
        assert!(Open { bench: &bench, form, n }.goes(&tcp), "what was chosen has expired");
        bench.gate.forget(&key(form, n));
        assert!(Open { bench: &bench, form, n }.goes(&tcp), "a stranger");
    }
}

/// A station that retransmits after a silence waited for ACKs; its application did not pause. The
/// gate knows only what passes it.
#[test]
fn a_silence_that_ends_with_a_repetition_is_no_pause() {
    let Some(mut bench) = bench("a_silence_that_ends_with_a_repetition_is_no_pause") else { return };
    let seen = |bench: &Bench| {
        let flows = bench.gate.flows().unwrap();
        flows
            .iter()
            .map(|flow| (flow.quiets, flow.quiet_ns, flow.quiet_since_ns.is_some()))
            .next_back()
            .unwrap()
    };
    bench.open(Form::V4, &syn_options(Some(7)), Bound::default()).goes(&ack(SENT / MSS));
    assert_eq!(seen(&bench), (0, 0, true), "all that came up is acknowledged");
    let again = |bench: &Bench, tcp: &Tcp| {
        let made = frame(Form::V4, Direction::Up, 0, tcp);
        assert!(bench.gate.try_packet(Direction::Up, &made, 1).unwrap().passes);
    };
    again(&bench, &data(1001 + SENT - MSS));
    assert_eq!(seen(&bench), (0, 0, false), "a timeout");
    let made = frame(Form::V4, Direction::Down, 0, &ack(SENT / MSS));
    assert!(bench.gate.try_packet(Direction::Down, &made, 1).unwrap().passes);
    again(&bench, &data(1001 + SENT));
    let (quiets, quiet_ns, passes) = seen(&bench);
    assert!(quiets == 1 && quiet_ns > 0 && !passes, "a pause: {quiets}, {quiet_ns} ns");
}
