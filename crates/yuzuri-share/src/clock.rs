//! The group's clock. It continues during suspend, so that a suspend is detected. No kernel time
//! stamp is compared with it: the kernel is given a bound's duration, and `yuzuri-kernel` uses its
//! own clock.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;
use yuzuri_policy::Moment;

/// Reads `CLOCK_BOOTTIME`.
pub(crate) fn now() -> Moment {
    // Linux has had this clock since 2.6.39, so that a failure would mean a broken libc.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Moment::default(), |t| Moment::at(Duration::from(t)))
}

/// Wall-clock time since the Unix epoch. It serves only as a session's epoch, because it may be
/// wrong.
pub(crate) fn unix_time() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Returns random bytes from the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], crate::ShareError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| crate::ShareError::System {
        doing: "asking the system for random numbers".into(),
        why: e.to_string(),
    })?;
    Ok(bytes)
}

/// Returns a number from the system's random number generator, for unpredictable challenges. The
/// kernel's generator does not fail once it has been seeded, and [`random`] has succeeded before
/// this is called. A kernel that violates this is unfit for secrets.
pub(crate) fn draw() -> u64 {
    rand_core::Rng::next_u64(&mut rand_core::UnwrapErr(getrandom::SysRng))
}
