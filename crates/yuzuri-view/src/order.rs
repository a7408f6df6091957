//! The order in which flows are listed.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use yuzuri_trace::{Event, Flow};

/// The key by which rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SortKey {
    /// Sending plus receiving rate, fastest first.
    #[default]
    Rate,
    /// cwnd, largest first.
    Cwnd,
    /// srtt, longest first.
    Srtt,
    /// Retransmissions since the connection's start, most first.
    Retransmits,
    /// Local then remote address and port.
    Address,
    /// Process name and id.
    Process,
    /// Congestion control.
    Control,
    /// Time of the first record, newest first.
    Age,
}

impl SortKey {
    /// Every key, in the order in which a user interface offers them.
    pub const ALL: [SortKey; 8] = [
        SortKey::Rate,
        SortKey::Cwnd,
        SortKey::Srtt,
        SortKey::Retransmits,
        SortKey::Address,
        SortKey::Process,
        SortKey::Control,
        SortKey::Age,
    ];
}

/// The values by which a flow is sorted: from a [`Row`](crate::Row), or from a user interface's
/// copy.
#[derive(Debug, Clone, Copy)]
pub struct SortValues<'a> {
    /// The flow's identity.
    pub flow: &'a Flow,
    /// The latest record.
    pub last: &'a Event,
    /// Time of the first record, `CLOCK_MONOTONIC`, nanoseconds.
    pub first_ns: u64,
    /// Sending plus receiving rate, bits per second.
    pub rate_bps: f64,
}

/// Sorts flows. Ties are broken by id, so the order is stable from one refresh to the next. `facts`
/// returns the values of one flow; it is called often.
pub fn sort<T>(flows: &mut [T], key: SortKey, reverse: bool, facts: impl Fn(&T) -> SortValues<'_>) {
    flows.sort_by(|a, b| {
        let (a, b) = (facts(a), facts(b));
        let order = compare(key, &a, &b).then(a.flow.id.cmp(&b.flow.id));
        if reverse { order.reverse() } else { order }
    });
}

fn compare(key: SortKey, a: &SortValues<'_>, b: &SortValues<'_>) -> Ordering {
    match key {
        SortKey::Rate => b.rate_bps.total_cmp(&a.rate_bps),
        SortKey::Cwnd => b.last.snapshot.cwnd.cmp(&a.last.snapshot.cwnd),
        SortKey::Srtt => b.last.snapshot.srtt_us.cmp(&a.last.snapshot.srtt_us),
        SortKey::Retransmits => b.last.snapshot.total_retrans.cmp(&a.last.snapshot.total_retrans),
        SortKey::Address => (a.flow.local, a.flow.remote).cmp(&(b.flow.local, b.flow.remote)),
        SortKey::Process => {
            // Flows without an owner come last.
            let owner = |f: &SortValues<'_>| f.flow.owner.as_ref().map(|o| (o.name.clone(), o.pid));
            let (a, b) = (owner(a), owner(b));
            a.is_none().cmp(&b.is_none()).then(a.cmp(&b))
        }
        SortKey::Control => a.flow.congestion_control.cmp(&b.flow.congestion_control),
        SortKey::Age => b.first_ns.cmp(&a.first_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use yuzuri_trace::{FlowId, Owner, Snapshot};

    struct Known(Flow, Event, u64, f64);

    fn known(id: u64, n: u32, owner: Option<&str>) -> Known {
        let flow = Flow {
            id: FlowId(id),
            local: ([10, 0, 0, n as u8], 80).into(),
            owner: owner.map(|name| Owner { pid: 1, name: name.to_owned() }),
            congestion_control: format!("control{n}"),
            ..Flow::default()
        };
        let snapshot = Snapshot { cwnd: n, srtt_us: n, total_retrans: n, ..Snapshot::default() };
        Known(flow, Event { snapshot, ..Event::default() }, u64::from(n), f64::from(n))
    }

    fn order(key: SortKey, reverse: bool) -> [u64; 4] {
        // Two flows that differ only in their ids.
        let mut flows =
            [known(1, 5, None), known(2, 7, Some("b")), known(4, 3, Some("a")), known(3, 3, Some("a"))];
        sort(&mut flows, key, reverse, |k| SortValues {
            flow: &k.0,
            last: &k.1,
            first_ns: k.2,
            rate_bps: k.3,
        });
        flows.map(|k| k.0.id.0)
    }

    #[test]
    fn quantities_sort_descending_and_words_ascending_and_ties_by_id() {
        for key in SortKey::ALL {
            let expected = match key {
                SortKey::Rate | SortKey::Cwnd | SortKey::Srtt | SortKey::Retransmits | SortKey::Age => {
                    [2, 1, 3, 4]
                }
                SortKey::Address | SortKey::Control => [3, 4, 1, 2],
                SortKey::Process => [3, 4, 2, 1],
            };
            assert_eq!(order(key, false), expected, "{key:?}");
            let mut backwards = expected;
            backwards.reverse();
            assert_eq!(order(key, true), backwards, "{key:?} reversed");
        }
    }
}
