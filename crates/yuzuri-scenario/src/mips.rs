//! The speed of the processor in virtual time.

use serde::{Deserialize, Serialize};

/// The speed of the processor in virtual time, million instructions per second of the guest's
/// clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Mips(u32);

/// Why a speed is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MipsError {
    /// The guest's clock does not support it.
    #[error("{0} is not supported: choose 125, 250, 500, 1000, 2000, 4000 or 8000")]
    Impossible(u32),
    /// It is not a number.
    #[error("'{0}' is not an integer")]
    NoNumber(String),
}

impl Mips {
    /// QEMU's default: one instruction per nanosecond.
    pub const ONE_PER_NS: Mips = Mips(1000);
}

impl Default for Mips {
    fn default() -> Mips {
        Mips::ONE_PER_NS
    }
}

impl TryFrom<u32> for Mips {
    type Error = MipsError;

    fn try_from(mips: u32) -> Result<Mips, MipsError> {
        match mips {
            125 | 250 | 500 | 1000 | 2000 | 4000 | 8000 => Ok(Mips(mips)),
            _ => Err(MipsError::Impossible(mips)),
        }
    }
}

impl From<Mips> for u32 {
    fn from(mips: Mips) -> u32 {
        mips.0
    }
}

impl std::str::FromStr for Mips {
    type Err = MipsError;

    fn from_str(text: &str) -> Result<Mips, MipsError> {
        let mips: u32 = text.parse().map_err(|_| MipsError::NoNumber(text.to_owned()))?;
        mips.try_into()
    }
}

impl std::fmt::Display for Mips {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
