//! The states of a sender's congestion control, as the kernel numbers them. Recordings use the same
//! type.

use serde::{Deserialize, Serialize};

/// Congestion state of a sender (`icsk_ca_state`, `enum tcp_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaState {
    /// 0: no sign of loss, reordering or congestion.
    #[default]
    Open = 0,
    /// 1: duplicate ACKs or SACKs arrived; reordering or a first sign of loss.
    Disorder = 1,
    /// 2: the window is being reduced, by ECN or because the device's own queue refused a packet.
    Cwr = 2,
    /// 3: fast retransmit and fast recovery.
    Recovery = 3,
    /// 4: a retransmission timeout (or SACK reneging) happened.
    Loss = 4,
}

impl CaState {
    /// Every state, in the kernel's order.
    pub const ALL: [CaState; 5] =
        [CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery, CaState::Loss];

    /// From the kernel's number.
    pub fn from_kernel(number: u8) -> Option<CaState> {
        CaState::ALL.get(number as usize).copied()
    }

    /// The kernel's name without its prefix.
    pub fn name(self) -> &'static str {
        match self {
            CaState::Open => "open",
            CaState::Disorder => "disorder",
            CaState::Cwr => "cwr",
            CaState::Recovery => "recovery",
            CaState::Loss => "loss",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<CaState> {
        CaState::ALL.into_iter().find(|state| state.name() == name)
    }
}
