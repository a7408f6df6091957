//! What limited each flow of a stream, record by record, for output that names the limit next to
//! each record.

use crate::limited::FlowLimits;
use std::collections::HashMap;
use yuzuri_limits::Limit;
use yuzuri_trace::{FlowId, Item, Kind};

/// Follows all flows of a stream.
#[derive(Debug, Default)]
pub struct LimitedBy {
    flows: HashMap<FlowId, FlowLimits>,
}

impl LimitedBy {
    /// The source of the limits, in one line.
    pub const SOURCE: &str =
        "what kept the sender from sending until this record, by the rules of `yuzuri why`";

    /// What limited the sender until this record. `None` if the item is not a record of a sending
    /// flow, or if the record does not show the limit.
    pub fn limit_of(&mut self, item: &Item) -> Option<Limit> {
        match item {
            Item::Flow(flow) => {
                self.flows.entry(flow.id).or_default().controlled_by(&flow.congestion_control);
                None
            }
            Item::Event(event) => {
                let limits = self.flows.entry(event.flow).or_default();
                let mut is_known = false;
                limits.add(event, |_| is_known = true);
                let limit = (is_known && limits.sends()).then(|| limits.limit());
                if event.kind == Kind::Close {
                    self.flows.remove(&event.flow);
                }
                limit
            }
            Item::Account(_) | Item::Setting(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use yuzuri_trace::{Event, Flow, Snapshot};

    fn record(ms: u64, kind: Kind, acked_ms: u64) -> Item {
        let snapshot = Snapshot {
            cwnd: 20,
            ssthresh: Snapshot::SSTHRESH_INFINITE,
            packets_out: 20,
            mss: 1000,
            notsent: 100_000,
            srtt_us: 20_000,
            min_rtt_us: 20_000,
            snd_wnd: 1_000_000,
            bytes_acked: acked_ms * 1000,
            ..Snapshot::default()
        };
        Item::Event(Event { flow: FlowId(1), mono_ns: ms * 1_000_000, kind, snapshot, ..Event::default() })
    }

    #[test]
    fn each_senders_record_but_the_first_has_a_limit() {
        let mut by = LimitedBy::default();
        let named = |name: &str| {
            Item::Flow(Arc::new(Flow { id: FlowId(1), congestion_control: name.into(), ..Flow::default() }))
        };
        assert_eq!(by.limit_of(&named("cubic")), None);
        assert_eq!(by.limit_of(&record(0, Kind::Sample, 0)), None, "of the time before nothing is known");
        assert_eq!(by.limit_of(&record(1, Kind::Sample, 1)), Some(Limit::SlowStart));
        // The same windows of a flow whose congestion control has bounds, for longer than they can
        // stay there without one.
        by.limit_of(&named("yuzuri"));
        let last = (2..=60).map(|ms| by.limit_of(&record(ms, Kind::Sample, ms))).last().unwrap();
        assert_eq!(last, Some(Limit::Sharing));
        assert_eq!(by.limit_of(&record(61, Kind::Close, 61)), Some(Limit::Sharing));
        assert!(by.flows.is_empty());
        // A receiver does not see what limits its sender.
        let receives = |ms| match record(ms, Kind::Sample, 0) {
            Item::Event(event) => Item::Event(Event { snapshot: Snapshot::default(), ..event }),
            other => other,
        };
        assert_eq!((by.limit_of(&receives(70)), by.limit_of(&receives(71))), (None, None));
    }
}
