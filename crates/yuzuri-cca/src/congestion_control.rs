//! What an algorithm is: the calls of the kernel's `struct tcp_congestion_ops`.

use crate::window::{CaState, Window};

/// A delivery-rate sample of one acknowledgement (`struct rate_sample`, draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Segments delivered over the interval; `None` if the sample is not valid.
    pub delivered: Option<u64>,
    /// The interval, µs.
    pub interval_us: u64,
    /// `delivered` when the sampled segment was sent.
    pub prior_delivered: u64,
    /// In flight right after the sampled segment was sent, itself included (`tx_in_flight` of BBR v3).
    pub tx_in_flight: u32,
    /// Segments marked lost from when the sampled segment was sent until now (`lost` of BBR v3).
    pub lost: u64,
    /// Segments newly acknowledged by this acknowledgement.
    pub acked: u32,
    /// Segments newly marked lost.
    pub losses: u32,
    /// In flight before this acknowledgement.
    pub prior_in_flight: u32,
    /// Round-trip time of the segment sent last among those acknowledged, µs.
    pub rtt_us: Option<u64>,
    /// Whether the application held the sender back.
    pub app_limited: bool,
}

/// The timestamp option of an acknowledgement (RFC 7323), ms of either side's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// When the other side sent it (`rcv_tsval`).
    pub value_ms: u32,
    /// When the segment it answers was sent (`rcv_tsecr`).
    pub echo_ms: u32,
}

/// What one acknowledgement took off the retransmission queue (`struct ack_sample`).
#[derive(Clone, Copy, Debug, Default)]
pub struct AckSample {
    /// Segments acknowledged cumulatively, those that were SACKed before included.
    pub acked: u32,
    /// Round-trip time of the segment sent last among those acknowledged, µs; below 2^31, as in the kernel.
    pub rtt_us: Option<u64>,
    /// Segments delivered since the newest of them was sent: what was in flight with it.
    pub in_flight: u32,
    /// Its timestamps.
    pub timestamps: Option<Timestamps>,
}

/// A segment that was just marked lost (`skb_marked_lost` of BBR v3's branch): how things stood when it was sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct LostSegment {
    /// In flight right after it was sent, itself included.
    pub tx_in_flight: u32,
    /// Segments marked lost by then, in all.
    pub lost_before: u64,
    /// Whether the application held the sender back.
    pub app_limited: bool,
}

/// How an acknowledgement came (`enum tcp_ca_ack_event_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckEvent {
    /// Not the plain case of the next segments in order (`CA_ACK_SLOWPATH`).
    pub slow_path: bool,
    /// It echoes a congestion mark (`CA_ACK_ECE`).
    pub ece: bool,
}

/// What happens beside acknowledgements (`enum tcp_ca_event`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CwndEvent {
    /// Sending begins with nothing in flight; the last segment was sent at `last_sent_ns` (`CA_EVENT_TX_START`).
    TxStart {
        /// ns
        last_sent_ns: u64,
    },
    /// The window restarts after a pause (`CA_EVENT_CWND_RESTART`).
    Restart,
    /// A reduction is complete (`CA_EVENT_COMPLETE_CWR`).
    Reduced,
    /// A retransmission timeout (`CA_EVENT_LOSS`).
    Loss,
    /// A tail-loss probe turned out to have repaired a loss (`CA_EVENT_TLP_RECOVERY` of BBR v3's branch).
    ProbeRepaired,
}

/// A congestion-control algorithm, called as the kernel calls its modules (`struct tcp_congestion_ops`).
pub trait CongestionControl: Send {
    /// Its name as Linux writes it.
    fn name(&self) -> &'static str;

    /// The connection is established (`init`).
    fn init(&mut self, _window: &mut Window) {}

    /// The threshold after a loss (`ssthresh`).
    fn ssthresh(&mut self, window: &mut Window) -> u32;

    /// The window grows by `acked` delivered segments (`cong_avoid`).
    fn cong_avoid(&mut self, window: &mut Window, acked: u32);

    /// Segments were acknowledged (`pkts_acked`).
    fn pkts_acked(&mut self, _window: &mut Window, _sample: &AckSample) {}

    /// After each acknowledgement, before losses are judged (`in_ack_event`).
    fn in_ack_event(&mut self, _window: &mut Window, _event: AckEvent) {}

    /// The state is about to become `state` (`set_state`).
    fn set_state(&mut self, _window: &mut Window, _state: CaState) {}

    /// Something else happened to the window (`cwnd_event`).
    fn cwnd_event(&mut self, _window: &mut Window, _event: CwndEvent) {}

    /// A segment was marked lost; [`Window::lost`] counts it already.
    fn segment_lost(&mut self, _window: &mut Window, _segment: &LostSegment) {}

    /// The window after a reduction that turned out to be unfounded (`undo_cwnd`).
    fn undo_cwnd(&mut self, window: &Window) -> u32 {
        window.cwnd.max(window.prior_cwnd)
    }

    /// The window stands at an upper bound set from outside: growth must not be saved up for later.
    fn held(&mut self) {}

    /// Whether it wants congestion marks (`TCP_CONG_NEEDS_ECN`).
    fn needs_ecn(&self) -> bool {
        false
    }

    /// Whether it keeps the window small on purpose at this moment, to see the path empty (BBR's `PROBE_RTT`): no lower bound is to raise it.
    fn is_draining(&self) -> bool {
        false
    }

    /// The delivery rate that it takes the path to have, segments/µs, where it goes by one.
    fn bandwidth(&self) -> Option<f64> {
        None
    }

    /// Whether it sets window and pacing rate by itself in [`cong_control`](CongestionControl::cong_control), instead of `cong_avoid` and PRR.
    fn controls_all(&self) -> bool {
        false
    }

    /// After each acknowledgement, if it [controls all](CongestionControl::controls_all) (`cong_control`).
    fn cong_control(&mut self, _window: &mut Window, _sample: &RateSample) {}
}
