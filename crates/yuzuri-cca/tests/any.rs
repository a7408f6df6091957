//! Property test: whatever happens on a connection, no algorithm panics or reduces the window below
//! one segment.

use proptest::prelude::*;
use yuzuri_cca::{
    AckEvent, AckSample, Algorithm, CaState, CwndEvent, LostSegment, RateSample, SlowStartExit, Timestamps,
    Window,
};

#[derive(Clone, Debug)]
enum Step {
    /// After `after_us`, segments are acknowledged with the given RTT, some of them marked. The
    /// sender then fills the window.
    Ack {
        after_us: u64,
        acked: u32,
        marked: bool,
        rtt_us: Option<u64>,
        limited: bool,
    },
    /// A recovery or local reduction that lasts until all outstanding segments are acknowledged.
    Reduce {
        state: CaState,
        undone: bool,
    },
    Timeout,
    Pause {
        us: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let rtt_us = prop_oneof![Just(0_u64), 1_u64..2_000_000, 0_u64..(1 << 31)];
    let state = prop_oneof![Just(CaState::Disorder), Just(CaState::Cwr), Just(CaState::Recovery)];
    prop_oneof![
        12 => (0_u64..3_000_000, 0_u32..5000, any::<bool>(), prop::option::of(rtt_us), any::<bool>()).prop_map(
            |(after_us, acked, marked, rtt_us, limited)| Step::Ack { after_us, acked, marked, rtt_us, limited }
        ),
        2 => (state, any::<bool>()).prop_map(|(state, undone)| Step::Reduce { state, undone }),
        1 => Just(Step::Timeout),
        1 => (0_u64..100_000_000).prop_map(|us| Step::Pause { us }),
    ]
}

struct Bench {
    cca: Box<dyn yuzuri_cca::CongestionControl>,
    window: Window,
}

impl Bench {
    fn new(algorithm: Algorithm, srtt_us: u64, ecn: bool) -> Bench {
        let mut cca = algorithm.make(SlowStartExit::Hystart, 1);
        let mut window = Window::new(250, 1448, cca.controls_all());
        (window.srtt_us, window.min_rtt_us, window.ecn) = (srtt_us, Some(srtt_us), ecn);
        cca.init(&mut window);
        Bench { cca, window }
    }

    fn state(&mut self, state: CaState) {
        if state == self.window.state {
            return;
        }
        if state >= CaState::Cwr && self.window.state <= CaState::Disorder {
            self.window.prior_cwnd = self.window.cwnd;
            self.window.cwnd_cnt = 0;
            self.window.ssthresh = self.cca.ssthresh(&mut self.window);
        }
        if state == CaState::Loss {
            self.cca.cwnd_event(&mut self.window, CwndEvent::Loss);
            self.window.cwnd = 1;
        }
        self.cca.set_state(&mut self.window, state);
        self.window.state = state;
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Ack { after_us, acked, marked, rtt_us, limited } => {
                self.ack(after_us, acked, marked, rtt_us, limited);
            }
            Step::Reduce { state, undone } => {
                self.state(state);
                if undone && state > CaState::Disorder {
                    self.window.cwnd = self.cca.undo_cwnd(&self.window);
                }
            }
            Step::Timeout => self.state(CaState::Loss),
            Step::Pause { us } => {
                let last_sent_ns = self.window.now_ns;
                self.window.now_ns += us * 1000;
                self.cca.cwnd_event(&mut self.window, CwndEvent::Restart);
                self.cca.cwnd_event(&mut self.window, CwndEvent::TxStart { last_sent_ns });
            }
        }
    }

    fn ack(&mut self, after_us: u64, acked: u32, marked: bool, rtt_us: Option<u64>, limited: bool) {
        let w = &mut self.window;
        w.now_ns += after_us * 1000;
        let acked = acked.min(w.snd_nxt - w.snd_una);
        let prior_in_flight = w.snd_nxt - w.snd_una;
        let prior_delivered = w.delivered;
        w.snd_una += acked;
        w.in_flight = w.snd_nxt - w.snd_una;
        w.delivered += u64::from(acked);
        w.delivered_ce += if marked { u64::from(acked) } else { 0 };
        w.delivered_at_ns = w.now_ns;
        if let Some(rtt_us) = rtt_us {
            w.srtt_us = rtt_us.max(1);
            w.min_rtt_us = Some(w.min_rtt_us.unwrap_or(rtt_us).min(rtt_us));
        }
        let now_ms = (w.now_ns / 1_000_000) as u32;
        let sample = AckSample {
            acked,
            rtt_us,
            in_flight: acked,
            timestamps: Some(Timestamps { value_ms: now_ms ^ 0x5555, echo_ms: now_ms.wrapping_sub(7) }),
        };
        self.cca.pkts_acked(w, &sample);
        self.cca.in_ack_event(w, AckEvent { slow_path: acked == 0, ece: marked });
        if marked {
            w.lost += 1;
            let lost =
                LostSegment { tx_in_flight: prior_in_flight, lost_before: w.lost - 1, app_limited: false };
            self.cca.segment_lost(w, &lost);
        }
        if w.state != CaState::Open && w.in_flight == 0 {
            let reduced = w.state >= CaState::Cwr;
            self.state(CaState::Open);
            if reduced && !self.cca.controls_all() {
                self.window.cwnd = self.window.ssthresh.min(self.window.prior_cwnd).max(1);
                self.cca.cwnd_event(&mut self.window, CwndEvent::Reduced);
            }
        }
        let w = &mut self.window;
        if self.cca.controls_all() {
            let rate = RateSample {
                delivered: (acked > 0).then_some(u64::from(acked)),
                interval_us: after_us,
                prior_delivered,
                tx_in_flight: prior_in_flight,
                lost: u64::from(marked),
                acked,
                losses: u32::from(marked),
                prior_in_flight,
                rtt_us,
                app_limited: !limited,
            };
            self.cca.cong_control(w, &rate);
        } else if acked > 0 && matches!(w.state, CaState::Open | CaState::Disorder | CaState::Loss) {
            self.cca.cong_avoid(w, acked);
            if std::mem::take(&mut w.cwr_wanted) {
                self.state(CaState::Cwr);
            }
        }
        let w = &mut self.window;
        // Limit of the receive window.
        w.snd_nxt = w.snd_nxt.max(w.snd_una + w.cwnd.min(100_000));
        w.in_flight = w.snd_nxt - w.snd_una;
        w.max_packets_out = w.in_flight;
        w.cwnd_limited = limited;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_algorithm_panics_and_the_window_stays(
        cca in 0..Algorithm::ALL.len(),
        srtt_us in 1_u64..10_000_000,
        ecn in any::<bool>(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut bench = Bench::new(Algorithm::ALL[cca], srtt_us, ecn);
        for step in &steps {
            bench.take(step);
            let window = &bench.window;
            prop_assert!(window.cwnd >= 1, "{}: {:?} after {:?}", bench.cca.name(), window, step);
            prop_assert!(window.ssthresh >= 1, "{}: {:?} after {:?}", bench.cca.name(), window, step);
        }
    }
}
