//! The hosts of an experiment: network namespaces, and the TAP devices that connect them to the
//! driver.

mod default_control;
mod lock;
mod namespace;
mod tap;
mod topology;

pub use lock::{Cleaned, Run, clean};
pub use namespace::{Namespace, NamespaceHandle};
pub use tap::Tap;
pub use topology::{
    Addresses, CELL, Host, HostSettings, MAX_TERMINALS, Taps, Topology, station_of, terminal_mac,
    terminal_number,
};
