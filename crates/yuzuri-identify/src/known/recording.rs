//! Recordings of this project: the kernel's own variables.

use super::LogFlows;
use crate::analyse::Options;
use crate::error::IdentifyError;
use crate::report::FileReport;
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;
use yuzuri_infer::samples::Sample;
use yuzuri_trace::recording::Reader;
use yuzuri_trace::{CaState, Event, Flow, FlowId, Item, Kind, Marks, Reason};

/// The state of a flow between its records.
#[derive(Debug, Default)]
struct PreviousState {
    flow: Arc<Flow>,
    /// The reason of the present congestion avoidance state.
    reason: Reason,
    /// When an acknowledgement carried ECN-Echo last.
    ece_ns: Option<u64>,
}

/// Smoothed round-trip times after which an ECN-Echo is no longer the reason.
const ECE_RTTS: u64 = 2;

pub(crate) fn read(
    reader: impl Read,
    report: &mut FileReport,
    options: &Options,
) -> Result<(), IdentifyError> {
    let mut recording = Reader::new(reader, report.path.clone())?;
    let mut log_flows: LogFlows<'_, FlowId> = LogFlows::new(options);
    let mut flows: HashMap<FlowId, PreviousState> = HashMap::new();
    let mut result = Ok(());
    loop {
        let items = match recording.next_batch() {
            Ok(Some(items)) => items,
            Ok(None) => break,
            Err(error) => {
                result = Err(error.into());
                break;
            }
        };
        for item in items {
            match item {
                Item::Flow(flow) => {
                    log_flows.rename(flow.id, &flow);
                    if flows.len() < super::MAX_FLOWS || flows.contains_key(&flow.id) {
                        let id = flow.id;
                        flows.entry(id).or_default().flow = flow;
                    }
                }
                Item::Event(event) => {
                    let unknown = flows.len() >= super::MAX_FLOWS && !flows.contains_key(&event.flow);
                    if unknown {
                        log_flows.log.unreadable += 1;
                        continue;
                    }
                    let former = flows.entry(event.flow).or_default();
                    // A close that was not seen has no variables.
                    if event.has_snapshot() {
                        let sample = sample(&event, former);
                        log_flows.sample(event.flow, || (*former.flow).clone(), &sample);
                    }
                    if event.kind == Kind::Close {
                        log_flows.end(event.flow);
                        flows.remove(&event.flow);
                    }
                }
                Item::Account(account) => {
                    let lost =
                        account.cpus.iter().flat_map(|cpu| cpu.lost.iter().map(|(_, lost)| lost)).sum();
                    log_flows.log.lost = lost;
                }
                Item::Setting(_) => {}
            }
        }
    }
    log_flows.log.complete = recording.complete();
    log_flows.log.cut = log_flows.log.complete == Some(false);
    log_flows.log.ending = recording.tail().map(|tail| tail.to_string());
    log_flows.log.unreadable += recording.unknown_rows();
    log_flows.finish(report);
    result
}

fn sample(event: &Event, former: &mut PreviousState) -> Sample {
    let snapshot = &event.snapshot;
    let ece = event.marks.contains(Marks::ECE);
    if ece {
        former.ece_ns = Some(event.mono_ns);
    }
    if event.kind == Kind::State {
        let recent_ns = u64::from(snapshot.srtt_us) * 1000 * ECE_RTTS;
        let echoed = former.ece_ns.is_some_and(|ns| event.mono_ns.saturating_sub(ns) <= recent_ns);
        // An algorithm that enters CWR itself does so during an acknowledgement, as ECN does.
        former.reason = if event.reason == Reason::Ecn && !echoed { Reason::None } else { event.reason };
    }
    let state = match event.ca_state {
        // Neither the network nor the device caused it: the algorithm itself did.
        CaState::Cwr if !matches!(former.reason, Reason::Ecn | Reason::LocalCongestion) => CaState::Open,
        state => state,
    };
    Sample {
        at_ns: i64::try_from(event.mono_ns).unwrap_or(i64::MAX),
        cwnd: snapshot.cwnd,
        ssthresh: snapshot.finite_ssthresh(),
        srtt_us: snapshot.srtt_us,
        min_rtt_us: snapshot.measured_min_rtt_us().unwrap_or(0),
        acked_bytes: snapshot.bytes_acked,
        sacked_bytes: Some(u64::from(snapshot.sacked_out) * u64::from(snapshot.mss)),
        // Derived from the outstanding packets.
        sent_bytes: Some(
            snapshot.bytes_acked.saturating_add(u64::from(snapshot.packets_out) * u64::from(snapshot.mss)),
        ),
        flight: Some(snapshot.in_flight()),
        acks: u32::from(event.counts.acks),
        retransmitted: Some(u64::from(snapshot.total_retrans)),
        window_bytes: u64::from(snapshot.snd_wnd),
        state: Some(state),
        loss_signs: u32::from(event.counts.dup_acks),
        undone: event.kind == Kind::Undo || event.reason == Reason::Undo,
        application: event.marks.contains(Marks::APP_LIMITED),
        ece: u32::from(ece),
        midway: event.kind != Kind::Sample,
        mss_bytes: snapshot.mss,
        ..Sample::default()
    }
}
