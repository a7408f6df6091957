//! What this kernel offers.

use libbpf_rs::btf::{Btf, types};
use yuzuri_trace::{Hook, HookState};

/// Which typed tracepoints of TCP the kernel has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tracepoints {
    pub(crate) tcp_probe: bool,
    pub(crate) tcp_cong_state_set: bool,
}

impl Tracepoints {
    /// `None` where the kernel has no BTF.
    pub(crate) fn read() -> Option<Tracepoints> {
        let btf = Btf::from_vmlinux().ok()?;
        // A typed tracepoint appears in BTF as a typedef of its program's signature.
        let has = |name: &str| btf.type_by_name::<types::Typedef<'_>>(&format!("btf_trace_{name}")).is_some();
        Some(Tracepoints { tcp_probe: has("tcp_probe"), tcp_cong_state_set: has("tcp_cong_state_set") })
    }
}

/// The stacks from which places and reasons are told.
pub(crate) fn stacks_hook() -> Hook {
    let readable = std::fs::read_to_string("/proc/sys/kernel/kptr_restrict").is_ok_and(|v| v.trim() != "2");
    let state = if readable {
        HookState::Used
    } else {
        HookState::Missing {
            why: "kernel.kptr_restrict is 2: no symbols".into(),
            instead: "places are tracepoints; ECN and local congestion are told apart by the ACK's ECE"
                .into(),
        }
    };
    Hook {
        name: "stacks".into(),
        tells: "the kernel function of state changes and retransmissions".into(),
        state,
    }
}
