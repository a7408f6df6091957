//! The sharing daemon: sockets, timers and network interfaces around the group protocol and the
//! policy of `yuzuri-policy`, and the congestion control of `yuzuri-kernel`.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use yuzuri_share::{KeySource, ControlLoop, ShareConfig};
//! let config = ShareConfig { key: KeySource::Passphrase("a long one".into()), ..ShareConfig::default() };
//! let mut share = ControlLoop::start(config)?;
//! let status = share.status_cell();
//! std::thread::spawn(move || {
//!     std::thread::sleep(std::time::Duration::from_secs(5));
//!     println!("{}", yuzuri_share::table(&status.read()));
//! });
//! share.run(&AtomicBool::new(false))?;
//! # Ok::<(), yuzuri_share::ShareError>(())
//! ```
//!
//! A [`ControlLoop`] belongs to the network namespace of the thread that starts it and must run on
//! a thread in that namespace. A process may have several, each with its own congestion control
//! name. See also `docs/share.md`, `docs/group.md` and `docs/control.md`.

mod answers;
mod ap;
mod authority;
mod batch;
mod benefit;
mod clock;
mod config;
mod control_loop;
mod control_socket;
mod daemon_files;
mod discover;
mod enforcer;
mod error;
mod event;
mod file;
mod flood;
mod flows;
mod folder;
#[cfg(any(fuzzing, debug_assertions))]
mod fuzz;
mod keys;
mod link;
mod migrated;
mod netlink;
mod netns;
mod own;
mod privilege;
mod relay;
mod show;
mod sockets;
mod status;
mod status_cell;
mod wireless;

#[cfg(any(fuzzing, debug_assertions))]
#[doc(hidden)]
pub use ap::fuzz_hostapd;
pub use ap::{
    AirStatus, ApConfig, ApFile, ApGroup, ApGroupStatus, ApLoop, ApStatus, BottleneckStatus, Candidate,
    Channel, ClientSteering, Controller, DeviceStatus, Devices, Figures, MembersFile, MembershipState,
    ParseRadioError, ParseStationError, Plan, Request, Rules, SegmentCounts, StationId, StationLocation,
    StationRule, StationStatus, SteeringStatus, UploadStatus, ap_metrics, examine_gate, gate_options,
    read_ap_file, read_ap_status,
};
pub use authority::{AuthorityFile, AuthorityMember};
pub use benefit::{Benefit, Measured};
pub use config::{InterfaceConfig, KeySource, RadioConfig, ShareConfig, WithoutKernel};
pub use control_loop::{ControlLoop, MAX_ROWS};
pub use control_socket::{Answer, ControlSocket, ControlSocketOptions, Question, ask};
pub use daemon_files::{
    DaemonFiles, InstanceLock, default_control_name, new_key_file, new_node, store_node, store_notice,
    stored_node, stored_notice,
};
pub use discover::GroupFrom;
pub use error::ShareError;
pub use event::{Event, LoopCommand};
pub use file::{ConfigFile, read_config};
pub use flows::destination;
#[cfg(any(fuzzing, debug_assertions))]
#[doc(hidden)]
pub use fuzz::fuzz_kernel_answers;
pub use own::OwnSockets;
pub use privilege::{drop_privileges, give_back_memory};
pub use relay::Relay;
pub use show::{metrics, table};
pub use sockets::{DEFAULT_PORT, MULTICAST_GROUP};
pub use status::{
    FlowCounts, FlowStatus, InterfaceStatus, MemberStatus, MembershipStatus, MessageCounts, PolicyStatus,
    ReloadStatus, Status, SummaryStatus,
};
pub use status_cell::{StatusCell, TextCell};
