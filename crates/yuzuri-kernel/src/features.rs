//! What this kernel offers.

use crate::MonitorError;
use libbpf_rs::btf::{Btf, types};
use parking_lot::Mutex;
use std::fs::File;
use std::io::Read;
use yuzuri_trace::{Hook, HookState};

/// The typed TCP tracepoints of the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tracepoints {
    pub(crate) tcp_probe: bool,
    pub(crate) tcp_cong_state_set: bool,
}

impl Tracepoints {
    /// `None` if the kernel has no BTF.
    pub(crate) fn read() -> Option<Tracepoints> {
        let btf = with_log("reading the kernel's BTF", Btf::from_vmlinux).ok()?;
        // A typed tracepoint appears in BTF as a typedef of its program's signature.
        let has = |name: &str| btf.type_by_name::<types::Typedef<'_>>(&format!("btf_trace_{name}")).is_some();
        Some(Tracepoints { tcp_probe: has("tcp_probe"), tcp_cong_state_set: has("tcp_cong_state_set") })
    }
}

/// The stacks from which places and reasons are determined.
pub(crate) fn stacks_hook() -> Hook {
    let readable = std::fs::read_to_string("/proc/sys/kernel/kptr_restrict").is_ok_and(|v| v.trim() != "2");
    let state = if readable {
        HookState::Used
    } else {
        HookState::Missing {
            why: "kernel.kptr_restrict is 2: no symbols".into(),
            instead: "places are tracepoints; ECN and local congestion are distinguished by the ACK's ECE"
                .into(),
        }
    };
    Hook {
        name: "stacks".into(),
        provides: "the kernel function of state changes and retransmissions".into(),
        state,
    }
}

/// The first line of a kernel file, at most 4096 bytes, in a single read: the kernel generates such
/// a text for each read, and a list that changes between two reads would be inconsistent.
pub(crate) fn first_line(path: &str) -> std::io::Result<String> {
    let mut bytes = [0; 4096];
    let read = File::open(path).and_then(|mut file| file.read(&mut bytes));
    let read = read.map_err(|e| std::io::Error::new(e.kind(), format!("{path}: {e}")))?;
    let text = String::from_utf8_lossy(&bytes[..read]);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Messages of libbpf, kept for the error that follows them.
static LIBBPF_LOG: Mutex<String> = Mutex::new(String::new());

fn store_log(_level: libbpf_rs::PrintLevel, message: String) {
    let mut log = LIBBPF_LOG.lock();
    if log.len() < 64 * 1024 {
        log.push_str(&message);
    }
}

/// Runs a step of libbpf and collects its messages; on failure the error contains the most
/// informative line.
///
/// # Errors
/// libbpf's error, which distinguishes missing privilege.
pub fn with_log<T>(what: &str, step: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, MonitorError> {
    // One at a time per process: the log is global, as is libbpf's printer.
    static LOCK: Mutex<()> = Mutex::new(());
    let _guard = LOCK.lock();
    LIBBPF_LOG.lock().clear();
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, store_log)));
    step().map_err(|error| {
        let log = LIBBPF_LOG.lock().clone();
        // The verifier refuses a program with the same error as a lack of privilege, but its log
        // gives the reason.
        let by_verifier = log.lines().any(|line| line.starts_with("processed "));
        if error.kind() == libbpf_rs::ErrorKind::PermissionDenied && !by_verifier {
            return MonitorError::NotPermitted(format!("{what}: {error}"));
        }
        // libbpf ends with the failed step; the verifier's last message precedes its summary.
        let is_informative = |l: &&str| {
            !l.trim().is_empty()
                && !l.starts_with("libbpf:")
                && !l.starts_with("--")
                && !l.starts_with("processed")
        };
        let line = log.lines().rev().find(is_informative).or(log.lines().next());
        MonitorError::Load(format!("{what}: {error} ({})", line.unwrap_or("no message").trim()))
    })
}
