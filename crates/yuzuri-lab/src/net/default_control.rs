//! The default congestion control of flows that do not choose one.

use super::Namespace;
use crate::LabError;
use std::path::Path;

const DEFAULT: &str = "net.ipv4.tcp_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
/// Attempts: another run may restore the list between the write and its use.
const TRIES: usize = 10;

/// Sets the default in namespaces.
///
/// Outside its initial network namespace the kernel accepts only a default in the host's list of
/// allowed congestion controls, and it checks only when the default is set. If the host's own
/// default is not CUBIC, CUBIC is missing from that list: it is added temporarily, and the list is
/// restored before this function returns.
///
/// # Errors
/// If the congestion control does not exist, or if the list cannot be written.
pub(super) fn set<'a>(
    namespaces: impl Iterator<Item = &'a Namespace> + Clone,
    control: &str,
) -> Result<(), LabError> {
    let try_all = || namespaces.clone().try_for_each(|namespace| namespace.set([(DEFAULT, control)]));
    let allowed = std::fs::read_to_string(ALLOWED).map_err(LabError::file(Path::new(ALLOWED)))?;
    if allowed.split_whitespace().any(|name| name == control) {
        return try_all();
    }
    let mut result = try_all();
    for _ in 0..TRIES {
        if result.is_ok() {
            break;
        }
        let _list = AllowedControls::by(control)?;
        result = try_all();
    }
    result
}

/// The list with one more congestion control, until dropped.
struct AllowedControls {
    before: String,
}

impl AllowedControls {
    fn by(control: &str) -> Result<AllowedControls, LabError> {
        let before = std::fs::read_to_string(ALLOWED).map_err(LabError::file(Path::new(ALLOWED)))?;
        let allowed = AllowedControls { before };
        std::fs::write(ALLOWED, format!("{} {control}", allowed.before.trim())).map_err(|e| {
            LabError::Run(format!(
                "making {control} the default of the lab's hosts: {e}; this host's list ({ALLOWED}) does not allow it: add it there, or give the terminals `share = false` and a control"
            ))
        })?;
        Ok(allowed)
    }
}

impl Drop for AllowedControls {
    fn drop(&mut self) {
        // The former contents are always accepted.
        let _ = std::fs::write(ALLOWED, self.before.trim());
    }
}
