//! The clock of the group: it goes on while the machine is suspended, so that a suspension is seen. No time
//! stamp of the kernel's programs is compared with it: the kernel is told how long a bound lasts, and
//! `yuzuri-kernel` knows its clock.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;
use yuzuri_policy::Moment;

/// `CLOCK_BOOTTIME`.
pub(crate) fn now() -> Moment {
    // It exists on every Linux since 2.6.39; a failure would mean that the libc is broken.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Moment::default(), |t| Moment::at(Duration::from(t)))
}

/// Seconds of the wall clock, for the epoch of a session only: it may be wrong.
pub(crate) fn unix_time() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], crate::ShareError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| crate::ShareError::System {
        doing: "asking the system for random numbers".into(),
        why: e.to_string(),
    })?;
    Ok(bytes)
}

/// A number of the system's generator, for challenges: nobody can foresee it. The kernel's generator does not fail once it has given
/// numbers, as it has by the time that this is called ([`random`]); a kernel where it does is none to share secrets on.
pub(crate) fn draw() -> u64 {
    rand_core::Rng::next_u64(&mut rand_core::UnwrapErr(getrandom::SysRng))
}
