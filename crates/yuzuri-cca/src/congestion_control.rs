//! Interface of an algorithm, with the callbacks of the kernel's `struct tcp_congestion_ops`.

use crate::CaState;
use crate::window::Window;

/// Delivery rate sample of one ACK (`struct rate_sample`,
/// draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Segments delivered over the interval; `None` if the sample is invalid.
    pub delivered: Option<u64>,
    /// Length of the interval, µs.
    pub interval_us: u64,
    /// [`Window::delivered`] when the sampled segment was sent.
    pub prior_delivered: u64,
    /// Segments in flight just after the sampled segment was sent, including it (`tx_in_flight` of
    /// BBR v3).
    pub tx_in_flight: u32,
    /// Segments marked lost between the transmission of the sampled segment and now (`lost` of BBR
    /// v3).
    pub lost: u64,
    /// Segments newly acknowledged by this ACK.
    pub acked: u32,
    /// Segments newly marked lost.
    pub losses: u32,
    /// Segments in flight before this ACK.
    pub prior_in_flight: u32,
    /// RTT of the most recently sent segment among those acknowledged, µs.
    pub rtt_us: Option<u64>,
    /// Whether the sender was application-limited.
    pub app_limited: bool,
}

/// TCP timestamps of an ACK (RFC 7323), in ms of the respective sender's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// When the peer sent the ACK (`rcv_tsval`).
    pub value_ms: u32,
    /// When the acknowledged segment was sent (`rcv_tsecr`).
    pub echo_ms: u32,
}

/// What an ACK removed from the retransmission queue (`struct ack_sample`).
#[derive(Clone, Copy, Debug, Default)]
pub struct AckSample {
    /// Segments acknowledged cumulatively, including those SACKed before.
    pub acked: u32,
    /// RTT of the most recently sent segment among those acknowledged, µs; below 2^31, as in the
    /// kernel.
    pub rtt_us: Option<u64>,
    /// Segments delivered since the newest of them was sent, which were in flight with it.
    pub in_flight: u32,
    /// Timestamps of the ACK.
    pub timestamps: Option<Timestamps>,
}

/// A segment that was just marked lost, with the state when it was sent (`skb_marked_lost` in BBR
/// v3's branch).
#[derive(Clone, Copy, Debug, Default)]
pub struct LostSegment {
    /// Segments in flight just after it was sent, including it.
    pub tx_in_flight: u32,
    /// [`Window::lost`] when it was sent.
    pub lost_before: u64,
    /// Whether the sender was application-limited when it was sent.
    pub app_limited: bool,
}

/// Properties of an ACK (`enum tcp_ca_ack_event_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckEvent {
    /// The ACK took the slow path (`CA_ACK_SLOWPATH`).
    pub slow_path: bool,
    /// The ACK echoes a congestion mark (`CA_ACK_ECE`).
    pub ece: bool,
}

/// Events other than ACKs (`enum tcp_ca_event`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CwndEvent {
    /// Transmission starts with nothing in flight (`CA_EVENT_TX_START`).
    TxStart {
        /// When the previous segment was sent, ns.
        last_sent_ns: u64,
    },
    /// The window is restarted after an idle period (`CA_EVENT_CWND_RESTART`).
    Restart,
    /// A reduction is complete (`CA_EVENT_COMPLETE_CWR`).
    Reduced,
    /// A retransmission timeout (`CA_EVENT_LOSS`).
    Loss,
    /// A tail loss probe repaired a loss (`CA_EVENT_TLP_RECOVERY` in BBR v3's branch).
    ProbeRepaired,
}

/// Copies an algorithm with its state, to compute what it would do.
pub trait CloneControl {
    /// A copy.
    fn copied(&self) -> Box<dyn CongestionControl>;
}

impl<T: CongestionControl + Clone + 'static> CloneControl for T {
    fn copied(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// A congestion control algorithm, called like the kernel's modules (`struct tcp_congestion_ops`).
pub trait CongestionControl: CloneControl + Send {
    /// Name of the algorithm as in Linux.
    fn name(&self) -> &'static str;

    /// Called when the connection is established (`init`).
    fn init(&mut self, _window: &mut Window) {}

    /// Called after [`init`](CongestionControl::init) for a flow that is observed from its middle:
    /// sets the algorithm's earlier estimate of a competing flow's window, segments (YeAH).
    fn competition_detected(&mut self, _cwnd: u32) {}

    /// Returns the slow start threshold after a loss (`ssthresh`).
    fn ssthresh(&mut self, window: &mut Window) -> u32;

    /// Grows the window for `acked` delivered segments (`cong_avoid`).
    fn cong_avoid(&mut self, window: &mut Window, acked: u32);

    /// Called when segments are acknowledged (`pkts_acked`).
    fn pkts_acked(&mut self, _window: &mut Window, _sample: &AckSample) {}

    /// Called for each ACK before losses are detected (`in_ack_event`).
    fn in_ack_event(&mut self, _window: &mut Window, _event: AckEvent) {}

    /// Called before the state changes to `state` (`set_state`).
    fn set_state(&mut self, _window: &mut Window, _state: CaState) {}

    /// Called for other events (`cwnd_event`).
    fn cwnd_event(&mut self, _window: &mut Window, _event: CwndEvent) {}

    /// Called when a segment is marked lost; [`Window::lost`] already includes it.
    fn segment_lost(&mut self, _window: &mut Window, _segment: &LostSegment) {}

    /// Returns the window after a spurious reduction is undone (`undo_cwnd`).
    fn undo_cwnd(&mut self, window: &Window) -> u32 {
        window.cwnd.max(window.prior_cwnd)
    }

    /// Called while an external upper bound limits the window. The algorithm must not accumulate
    /// growth during that time.
    fn held(&mut self) {}

    /// Whether the algorithm currently reduces the window to drain the queue (BBR's `PROBE_RTT`). A
    /// lower bound must not raise the window then.
    fn is_draining(&self) -> bool {
        false
    }

    /// Estimated bandwidth of the path, segments/µs; `None` if the algorithm has no such estimate.
    fn bandwidth(&self) -> Option<f64> {
        None
    }

    /// Whether the algorithm sets window and pacing rate itself in
    /// [`cong_control`](CongestionControl::cong_control), instead of `cong_avoid` and PRR (RFC
    /// 6937).
    fn controls_all(&self) -> bool {
        false
    }

    /// Called after each ACK if [`controls_all`](CongestionControl::controls_all) returns true
    /// (`cong_control`).
    fn cong_control(&mut self, _window: &mut Window, _sample: &RateSample) {}
}
