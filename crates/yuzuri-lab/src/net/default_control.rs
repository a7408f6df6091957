//! The congestion control of flows that choose none.

use super::Namespace;
use crate::LabError;
use std::path::Path;

const DEFAULT: &str = "net.ipv4.tcp_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
/// Another run may put the list back between our writing it and our use of it.
const TRIES: usize = 10;

/// Sets it in namespaces.
///
/// The kernel lets only its first namespace have a default that is not in the host's list of controls for everybody, and only looks there when the
/// default is set. On a host whose own default is not CUBIC, CUBIC is not in it: it is put there for the moment, and the list is as it was
/// again before this returns.
///
/// # Errors
/// Where there is no such control, or the list cannot be written.
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
        let _list = Widened::by(control)?;
        result = try_all();
    }
    result
}

/// The list with one more control in it, until it is dropped.
struct Widened {
    before: String,
}

impl Widened {
    fn by(control: &str) -> Result<Widened, LabError> {
        let before = std::fs::read_to_string(ALLOWED).map_err(LabError::file(Path::new(ALLOWED)))?;
        let widened = Widened { before };
        std::fs::write(ALLOWED, format!("{} {control}", widened.before.trim())).map_err(|e| {
            LabError::Run(format!(
                "letting the lab's hosts have {control} as their default, which this host's list ({ALLOWED}) does not allow: {e}; \
                 add it there, or give the terminals `share = false` and a control"
            ))
        })?;
        Ok(widened)
    }
}

impl Drop for Widened {
    fn drop(&mut self) {
        // What was there before is taken again.
        let _ = std::fs::write(ALLOWED, self.before.trim());
    }
}
