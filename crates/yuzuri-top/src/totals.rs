//! Totals of flows that have something in common.

use crate::frame_data::{Line, bottleneck_name};
use std::collections::HashMap;
use std::net::IpAddr;
use yuzuri_limits::Limit;
use yuzuri_stats::upper_median;

/// The group of flows whose process is not known.
pub(crate) const UNKNOWN: &str = "(unknown)";
/// The group of flows that are not known to share a bottleneck.
pub(crate) const NO_BOTTLENECK: &str = "(no shared bottleneck known)";

/// The keys by which flows are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TotalsBy {
    Process,
    Remote,
    Local,
    Bottleneck,
}

impl TotalsBy {
    /// The next grouping; the cycle includes `None`.
    pub(crate) fn next_key(by: Option<TotalsBy>) -> Option<TotalsBy> {
        match by {
            None => Some(TotalsBy::Process),
            Some(TotalsBy::Process) => Some(TotalsBy::Remote),
            Some(TotalsBy::Remote) => Some(TotalsBy::Local),
            Some(TotalsBy::Local) => Some(TotalsBy::Bottleneck),
            Some(TotalsBy::Bottleneck) => None,
        }
    }

    /// The name shown to users.
    pub(crate) fn label(self) -> &'static str {
        match self {
            TotalsBy::Process => "process",
            TotalsBy::Remote => "remote host",
            TotalsBy::Local => "local address and interface",
            TotalsBy::Bottleneck => "shared bottleneck",
        }
    }

    fn name(self, line: &Line) -> String {
        match self {
            TotalsBy::Process => match line.process() {
                process if process.is_empty() => UNKNOWN.into(),
                process => process,
            },
            TotalsBy::Remote => match &line.remote_name {
                Some(name) => name.to_string(),
                None => line.flow.remote.ip().to_canonical().to_string(),
            },
            TotalsBy::Local => line.flow.local.ip().to_canonical().to_string(),
            TotalsBy::Bottleneck => line.bottleneck.map_or(NO_BOTTLENECK.into(), bottleneck_name),
        }
    }
}

/// A group's totals. Flows that have ended count only as flows and with their retransmissions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Total {
    pub(crate) name: String,
    pub(crate) flows: usize,
    pub(crate) rate_bps: f64,
    pub(crate) cwnd: u64,
    /// The median of the measured values, microseconds.
    pub(crate) srtt_us: Option<u32>,
    pub(crate) retransmits: u64,
    /// What limits most of them.
    pub(crate) limit: Option<Limit>,
}

/// Sums all lines, as one group.
pub(crate) fn sum<'a>(name: String, lines: impl Iterator<Item = &'a Line>) -> Total {
    let mut total =
        Total { name, flows: 0, rate_bps: 0.0, cwnd: 0, srtt_us: None, retransmits: 0, limit: None };
    let mut srtts = Vec::new();
    let mut limits = [0; Limit::ALL.len()];
    for line in lines {
        total.flows += 1;
        total.retransmits += u64::from(line.last.snapshot.total_retrans);
        if line.closed_ns.is_some() {
            continue;
        }
        total.rate_bps += line.rate_bps;
        total.cwnd += u64::from(line.last.snapshot.cwnd);
        srtts.extend(line.last.snapshot.measured_srtt_us());
        if let Some((limit, _)) = line.limit {
            limits[limit as usize] += 1;
        }
    }
    total.srtt_us = upper_median(&mut srtts);
    let most = limits.iter().copied().max().filter(|most| *most > 0);
    total.limit = most.and_then(|most| limits.iter().position(|n| *n == most)).map(|n| Limit::ALL[n]);
    total
}

/// The groups of lines: first those in `order`, in that order, then the others, fastest first.
pub(crate) fn totals<'a>(
    lines: impl Iterator<Item = &'a Line>,
    by: TotalsBy,
    order: &[String],
) -> Vec<Total> {
    let mut groups: HashMap<String, Vec<&Line>> = HashMap::new();
    for line in lines {
        groups.entry(by.name(line)).or_default().push(line);
    }
    let mut totals: Vec<Total> =
        groups.into_iter().map(|(name, lines)| sum(name, lines.into_iter())).collect();
    let rank = |total: &Total| order.iter().position(|name| *name == total.name).unwrap_or(usize::MAX);
    totals.sort_by(|a, b| {
        rank(a).cmp(&rank(b)).then(b.rate_bps.total_cmp(&a.rate_bps)).then_with(|| a.name.cmp(&b.name))
    });
    totals
}

/// The interfaces of this machine's own addresses.
pub(crate) fn interfaces() -> HashMap<IpAddr, String> {
    let Ok(addresses) = nix::ifaddrs::getifaddrs() else { return HashMap::new() };
    addresses
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
            let ip = v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::from(a.ip())))?;
            Some((ip, interface.interface_name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use yuzuri_trace::{Event, Flow, FlowId, Owner, Snapshot};

    fn line(id: u64, remote: &str, process: Option<&str>, rate_bps: f64, closed: bool) -> Line {
        let owner = process.map(|name| Owner { pid: 7, name: name.into() });
        let local = "[::ffff:10.0.0.1]:5".parse().unwrap();
        let flow = Flow { id: FlowId(id), local, remote: remote.parse().unwrap(), owner, ..Flow::default() };
        let snapshot =
            Snapshot { cwnd: 10, srtt_us: 1000 * id as u32, total_retrans: id as u32, ..Snapshot::default() };
        Line {
            flow: Arc::new(flow),
            last: Event { snapshot, ..Event::default() },
            first_ns: 0,
            closed_ns: closed.then_some(1),
            is_unwatched: false,
            rate_bps,
            remote_name: None,
            bottleneck: (id < 3).then_some(1),
            limit: Some((if id == 1 { Limit::Pacing } else { Limit::Path }, 1.0)),
            sparkline_bps: vec![],
        }
    }

    #[test]
    fn groups_are_summed_and_keep_their_order_until_they_are_sorted_again() {
        let lines = [
            line(1, "10.0.0.9:1", Some("a"), 1e6, false),
            line(2, "10.0.0.8:1", Some("a"), 5e6, false),
            line(3, "[::ffff:10.0.0.9]:2", None, 2e6, false),
            line(4, "10.0.0.9:3", None, 9e6, true),
        ];
        let by = |by, order: &[String]| -> Vec<(String, usize, f64)> {
            totals(lines.iter(), by, order).into_iter().map(|t| (t.name, t.flows, t.rate_bps)).collect()
        };
        assert_eq!(by(TotalsBy::Process, &[]), [("a/7".into(), 2, 6e6), ("(unknown)".into(), 2, 2e6)]);
        assert_eq!(by(TotalsBy::Remote, &[]), [("10.0.0.8".into(), 1, 5e6), ("10.0.0.9".into(), 3, 3e6)]);
        assert_eq!(
            by(TotalsBy::Bottleneck, &[]),
            [("bottleneck-1".into(), 2, 6e6), (NO_BOTTLENECK.into(), 2, 2e6)]
        );
        let kept = ["10.0.0.9".to_owned()];
        assert_eq!(by(TotalsBy::Remote, &kept)[0].0, "10.0.0.9");
        let all = sum(String::new(), lines.iter());
        assert_eq!((all.flows, all.cwnd, all.srtt_us, all.retransmits), (4, 30, Some(2000), 10));
        assert_eq!(all.limit, Some(Limit::Path));
        assert_eq!(sum(String::new(), [].iter()).limit, None);
    }
}
