//! The daemon of an access point: it acts for stations without yuzuri, and enforces their shares by
//! means of the gate ([`yuzuri_gate`]).

mod air;
mod arrivals;
mod bottleneck;
mod bound_trials;
mod bypass;
mod controller;
mod daemon;
mod devices;
mod doctor;
mod drivers;
mod figures;
mod group;
mod group_view;
mod loss_cause;
mod membership;
mod other;
mod release;
mod rules;
mod status;
mod steer;
mod view;
mod window_use;

pub use air::AirStatus;
pub use bottleneck::Channel;
pub use controller::{Controller, Plan, StationLocation};
pub use daemon::{ApConfig, ApLoop, gate_options, read_ap_status};
pub use devices::Devices;
pub use doctor::examine_gate;
pub use figures::Figures;
pub use group::ApGroup;
pub use membership::MembershipState;
pub use rules::{
    ApFile, MembersFile, ParseRadioError, ParseStationError, Rules, StationId, StationRule, read_ap_file,
};
pub use status::{
    ApGroupStatus, ApStatus, BottleneckStatus, DeviceStatus, SegmentCounts, StationStatus, UploadStatus,
    ap_metrics,
};
#[cfg(any(fuzzing, debug_assertions))]
pub use steer::fuzz_hostapd;
pub use steer::{Candidate, ClientSteering, Request, SteeringStatus};
