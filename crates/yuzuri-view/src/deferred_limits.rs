//! What limited a flow, for the closing table: records that decide nothing are not classified one
//! by one.

use crate::limited::FlowLimits;
use yuzuri_trace::{CaState, Event, Kind, Marks, Snapshot};

/// The limits of a flow up to its last record.
///
/// While a sender has sent all that its application wrote, the application limits it. Of successive
/// records that show this, with the same windows and losses, only the first and the last are
/// classified: those between them would only divide the same time. Where many connections exchange
/// small messages, these are nearly all records.
#[derive(Debug, Clone)]
pub(crate) struct DeferredLimits {
    limits: FlowLimits,
    /// The latest record, if it is like the one before and not classified yet.
    pending: Option<Event>,
    /// The latest record that was classified had nothing to send.
    last: Option<Deciding>,
}

/// What decides what limits a sender that has nothing to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Deciding {
    marks: u16,
    cwnd: u32,
    ssthresh: u32,
    prior_cwnd: u32,
    snd_wnd: u32,
    max_window: u32,
    sndbuf: u32,
    total_retrans: u32,
    /// Bytes acknowledged by a flow that is not known to send: the first ones decide that it does.
    first_acked_bytes: Option<u64>,
}

/// Marks that belong to a sender's state, not to its latest segments.
const STATE: [Marks; 5] =
    [Marks::AT_BOUND, Marks::REPORTS_BOUND, Marks::NO_SPACE, Marks::CWND_LIMITED, Marks::THROTTLED];

impl Deciding {
    /// `None`: the record is classified in any case. It is no plain sample, the sender had
    /// something to send or waited for room, the receiver's window was nearly full, or an RTT is so
    /// long that a gap in the records matters.
    fn of(event: &Event, sends: bool) -> Option<Deciding> {
        /// Far below the least time that the classifier takes for a gap.
        const MAX_SRTT_US: u32 = 500_000;
        /// The receiver's window has room for more than the segments of an acknowledgement.
        const ROOM_SEGMENTS: u64 = 4;
        let s: &Snapshot = &event.snapshot;
        let is_plain = event.kind == Kind::Sample
            && s.mss > 0
            && !event.marks.contains(Marks::SAMPLED)
            && event.ca_state == CaState::Open
            && event.ca_before == CaState::Open;
        let had_sent_all = s.notsent == 0 && s.sender.has_marks() && !event.marks.contains(Marks::NO_SPACE);
        let outstanding_bytes = u64::from(s.packets_out) * u64::from(s.mss);
        let has_room = u64::from(s.snd_wnd) >= outstanding_bytes + ROOM_SEGMENTS * u64::from(s.mss);
        if !is_plain || !had_sent_all || !has_room || s.srtt_us > MAX_SRTT_US || (!sends && s.packets_out > 1)
        {
            return None;
        }
        Some(Deciding {
            marks: event.marks.0 & STATE.iter().fold(0, |all, mark| all | mark.0),
            cwnd: s.cwnd,
            ssthresh: s.ssthresh,
            prior_cwnd: s.sender.prior_cwnd,
            snd_wnd: s.snd_wnd,
            max_window: s.sender.max_window,
            sndbuf: s.sender.sndbuf,
            total_retrans: s.total_retrans,
            first_acked_bytes: (!sends).then_some(s.bytes_acked),
        })
    }
}

impl Default for DeferredLimits {
    fn default() -> DeferredLimits {
        DeferredLimits { limits: FlowLimits::without_figures(), pending: None, last: None }
    }
}

impl DeferredLimits {
    /// See [`FlowLimits::controlled_by`].
    pub(crate) fn controlled_by(&mut self, congestion_control: &str) {
        self.classify_pending();
        self.limits.controlled_by(congestion_control);
    }

    /// Whether the flow sent anything while it was observed.
    pub(crate) fn sends(&self) -> bool {
        self.limits.sends()
    }

    /// Processes a record.
    pub(crate) fn add(&mut self, event: &Event) {
        let deciding = Deciding::of(event, self.limits.sends());
        if deciding.is_some() && deciding == self.last {
            self.pending = Some(*event);
            return;
        }
        self.classify_pending();
        self.limits.add(event, |_| {});
        // With this record, the flow may have become one that sends.
        self.last = Deciding::of(event, self.limits.sends());
    }

    fn classify_pending(&mut self) {
        if let Some(event) = self.pending.take() {
            self.limits.add(&event, |_| {});
        }
    }

    /// The limits up to the last record.
    pub(crate) fn limits(&self) -> FlowLimits {
        let mut all = self.clone();
        all.classify_pending();
        all.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use yuzuri_trace::{FlowId, Sender};

    /// One record after another: a time, and values of which most stay as they are.
    fn record() -> impl Strategy<Value = Event> {
        let kind = prop_oneof![20 => Just(Kind::Sample), 1 => Just(Kind::Retransmit), 1 => Just(Kind::State)];
        let state = prop_oneof![20 => Just(CaState::Open), 1 => Just(CaState::Recovery)];
        let marks =
            prop_oneof![10 => Just(0), 1 => Just(Marks::NO_SPACE.0), 1 => Just(Marks::CWND_LIMITED.0)];
        let notsent = prop_oneof![10 => Just(0), 1 => Just(500), 1 => Just(100_000)];
        let sent = (prop_oneof![Just(0u32), Just(1), Just(2), Just(10), Just(20)], notsent);
        let windows = (
            prop_oneof![10 => Just(10u32), 1 => Just(20)],
            prop_oneof![10 => Just(65_535u32), 1 => Just(4_000), 1 => Just(20_000), 1 => Just(0)],
        );
        let steps = (1..2_000_000_000u64, 0..3_000u64, prop_oneof![20 => Just(0u32), 1 => Just(1)]);
        (kind, state, marks, sent, windows, steps, 1_000..900_000u32).prop_map(
            |(kind, state, marks, (packets_out, notsent), (cwnd, snd_wnd), steps, srtt_us)| Event {
                flow: FlowId(1),
                mono_ns: steps.0,
                kind,
                ca_state: state,
                ca_before: state,
                marks: Marks(marks),
                snapshot: Snapshot {
                    cwnd,
                    ssthresh: Snapshot::SSTHRESH_INFINITE,
                    packets_out,
                    notsent,
                    snd_wnd,
                    mss: 1000,
                    srtt_us,
                    min_rtt_us: 1_000,
                    bytes_acked: steps.1,
                    total_retrans: steps.2,
                    pacing_rate_bps: u64::MAX,
                    sender: Sender {
                        sndbuf: 100_000,
                        pacing_wait_us: 0,
                        max_window: 65_535,
                        ..Sender::UNKNOWN
                    },
                    ..Snapshot::default()
                },
                ..Event::default()
            },
        )
    }

    proptest! {
        /// Without pacing, the times are the same as if every record had been classified.
        #[test]
        fn deferred_records_change_no_time(records in prop::collection::vec(record(), 1..200)) {
            let (mut all, mut deferred) = (FlowLimits::without_figures(), DeferredLimits::default());
            let (mut now_ns, mut acked, mut retransmitted) = (0, 0, 0);
            for mut event in records {
                now_ns += event.mono_ns;
                acked += event.snapshot.bytes_acked;
                retransmitted += event.snapshot.total_retrans;
                event.mono_ns = now_ns;
                event.snapshot.bytes_acked = acked;
                event.snapshot.total_retrans = retransmitted;
                all.add(&event, |_| {});
                deferred.add(&event);
                prop_assert_eq!(deferred.sends(), all.sends());
                let limits = deferred.limits();
                prop_assert_eq!(limits.times(), all.times());
                prop_assert_eq!(limits.limit(), all.limit());
                prop_assert_eq!(limits.acked_bytes(), all.acked_bytes());
                prop_assert_eq!(limits.time_us(), all.time_us());
            }
        }
    }

    #[test]
    fn small_messages_are_hardly_classified() {
        let mut deferred = DeferredLimits::default();
        let mut classified = 0;
        for n in 0..1000u64 {
            let sender = Sender { pacing_wait_us: 0, ..Sender::UNKNOWN };
            let snapshot = Snapshot {
                cwnd: 10,
                packets_out: 1,
                snd_wnd: 65_535,
                mss: 1000,
                srtt_us: 1_000,
                bytes_acked: n * 100,
                sender,
                ..Snapshot::default()
            };
            deferred.add(&Event { mono_ns: n * 1_000_000, kind: Kind::Sample, snapshot, ..Event::default() });
            classified += u32::from(deferred.pending.is_none());
        }
        assert_eq!(classified, 2, "the first, and the first of a flow that is known to send");
        assert_eq!(deferred.limits().times().time_us(yuzuri_limits::Limit::Application), 999_000);
    }
}
