//! An upload over QUIC, and its figures. It is built with the feature `quic`: `make demo` needs
//! neither QUIC nor TLS, and is built faster without them.

#[cfg(feature = "quic")]
mod connection;

use super::work::Job;
use super::{FlowFigures, Weighted};
use crate::LabError;
use crate::net::Topology;
use std::sync::atomic::AtomicBool;
use yuzuri_scenario::Scenario;
#[cfg(not(feature = "quic"))]
use yuzuri_scenario::WorkloadSpec;

/// Converts QUIC's windows to segments, bytes.
const SEGMENT_BYTES: u64 = 1448;

/// The state of the sender, and the bytes received, at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    mono_ns: u64,
    received_bytes: u64,
    srtt_us: u32,
    window_bytes: u64,
    lost_packets: u64,
}

/// One connection over time.
#[derive(Debug, Clone, Default)]
pub struct QuicFlow {
    samples: Vec<Sample>,
    min_rtt_us: Option<u32>,
}

impl QuicFlow {
    /// Its figures between two times (`CLOCK_MONOTONIC`, ns). Packets declared lost count as
    /// retransmissions.
    pub fn figures(&self, terminal: usize, from_ns: u64, to_ns: u64) -> FlowFigures {
        let at =
            |ns: u64| self.samples.iter().rfind(|sample| sample.mono_ns <= ns).copied().unwrap_or_default();
        let (from, to) = (at(from_ns), at(to_ns));
        let (mut srtt, mut cwnd) = (Weighted::default(), Weighted::default());
        for pair in self.samples.windows(2) {
            let weight = pair[1].mono_ns.min(to_ns).saturating_sub(pair[0].mono_ns.max(from_ns));
            srtt.add(pair[0].srtt_us, weight);
            cwnd.add((pair[0].window_bytes / SEGMENT_BYTES) as u32, weight);
        }
        FlowFigures {
            terminal,
            control: "quic-cubic".into(),
            bytes_acked: to.received_bytes.saturating_sub(from.received_bytes),
            retransmissions: to.lost_packets.saturating_sub(from.lost_packets),
            srtt,
            cwnd,
            min_rtt_us: self.min_rtt_us,
            ..FlowFigures::default()
        }
    }
}

/// Uploads until the flag is set, or until the connection is lost.
///
/// # Errors
/// If a socket or the keys cannot be created, if the connection is lost, or if this program was
/// built without QUIC.
#[cfg_attr(not(feature = "quic"), expect(unused_variables, reason = "the error needs none"))]
pub fn upload(
    topology: &Topology,
    job: &Job,
    stop: &AtomicBool,
    flow: &mut QuicFlow,
) -> Result<(), LabError> {
    #[cfg(feature = "quic")]
    return connection::upload(topology, job, stop, flow);
    #[cfg(not(feature = "quic"))]
    Err(not_built())
}

/// Refuses a scenario that needs QUIC if this program was built without it, before anything is set
/// up.
///
/// # Errors
/// In that case.
#[cfg_attr(feature = "quic", expect(unused_variables, reason = "everything is built"))]
pub fn check_built(scenario: &Scenario) -> Result<(), LabError> {
    #[cfg(not(feature = "quic"))]
    {
        let uploads = |spec: &WorkloadSpec| matches!(spec, WorkloadSpec::Quic {});
        if scenario.terminals().any(|terminal| uploads(scenario.workload_of(terminal.kind))) {
            return Err(not_built());
        }
    }
    Ok(())
}

#[cfg(not(feature = "quic"))]
fn not_built() -> LabError {
    LabError::Tool(
        "workload `quic`: this yuzuri-lab was built without QUIC; build it with `make lab`, or with `cargo build --release -p yuzuri-lab`"
            .into(),
    )
}
