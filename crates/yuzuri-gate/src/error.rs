//! The errors of the gate.

use yuzuri_kernel::MonitorError;

/// Why an operation of the gate failed.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The kernel does not permit BPF for this process.
    #[error(
        "loading the gate: not permitted ({0}); run as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
    )]
    NotPermitted(String),
    /// The kernel refuses a program or a map.
    #[error(
        "loading the gate: {0}; it needs Linux 5.12 or later with CONFIG_NET_CLS_BPF and CONFIG_NET_SCH_INGRESS"
    )]
    Load(String),
    /// The device does not exist in this network namespace.
    #[error("there is no device {0}; `ip link` lists the devices")]
    NoDevice(String),
    /// The gate reads Ethernet frames.
    #[error(
        "device {device}: it carries no Ethernet frames (ARPHRD {hardware}); choose the bridge or the device towards the \
         stations"
    )]
    NotEthernet {
        /// Its name.
        device: String,
        /// The kernel's code for its kind, `ARPHRD_` of `linux/if_arp.h`.
        hardware: u16,
    },
    /// The programs could not be attached to a device.
    #[error("attaching the gate to {device}: {why}")]
    Attach {
        /// Its name.
        device: String,
        /// The kernel's message.
        why: String,
    },
    /// A table in the kernel could not be read or written.
    #[error("{what}: {why}")]
    Table {
        /// The failed operation.
        what: &'static str,
        /// The kernel's error.
        why: libbpf_rs::Error,
    },
}

impl GateError {
    pub(crate) fn table(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> GateError {
        move |why| GateError::Table { what, why }
    }
}

impl From<MonitorError> for GateError {
    fn from(error: MonitorError) -> GateError {
        match error {
            // The monitor's advice is for the monitor.
            MonitorError::NotPermitted(why) => GateError::NotPermitted(why),
            MonitorError::Load(why) => GateError::Load(why),
            other => GateError::Load(other.to_string()),
        }
    }
}
