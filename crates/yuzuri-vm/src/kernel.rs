//! The supported kernels and processor architectures.
use std::fmt;
use std::str::FromStr;

/// A processor architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// x86_64.
    Amd64,
    /// aarch64.
    Arm64,
}

impl Arch {
    /// Debian's name of the architecture.
    pub fn debian(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    /// Debian's multiarch triplet, the name of the library folder below `/usr/lib`.
    pub(crate) fn triplet(self) -> &'static str {
        match self {
            Arch::Amd64 => "x86_64-linux-gnu",
            Arch::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// Path of the dynamic loader, as in the ELF header of executables.
    pub(crate) fn loader(self) -> &'static str {
        match self {
            Arch::Amd64 => "/lib64/ld-linux-x86-64.so.2",
            Arch::Arm64 => "/lib/ld-linux-aarch64.so.1",
        }
    }

    /// Whether the host has this architecture.
    pub fn is_native(self) -> bool {
        std::env::consts::ARCH
            == match self {
                Arch::Amd64 => "x86_64",
                Arch::Arm64 => "aarch64",
            }
    }
}

/// An unknown name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} '{given}': {choices}")]
pub struct UnknownName {
    what: &'static str,
    given: String,
    choices: String,
}

impl UnknownName {
    fn new<const N: usize>(what: &'static str, given: &str, choices: [String; N]) -> UnknownName {
        UnknownName { what, given: given.to_owned(), choices: choices.join(", ") }
    }
}

impl FromStr for Arch {
    type Err = UnknownName;

    /// Parses Debian's name of an architecture.
    fn from_str(text: &str) -> Result<Arch, UnknownName> {
        let all = [Arch::Amd64, Arch::Arm64];
        let named = all.into_iter().find(|a| a.debian() == text);
        named.ok_or_else(|| UnknownName::new("architecture", text, all.map(|arch| arch.debian().to_owned())))
    }
}

/// A stock Debian kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kernel {
    /// Linux 6.1 of Debian 12, x86_64.
    Linux6_1Amd64,
    /// Linux 6.12 of Debian 13, from Debian 12's backports, x86_64.
    Linux6_12Amd64,
    /// Linux 6.1 of Debian 12, arm64.
    Linux6_1Arm64,
    /// Linux 6.12 of Debian 13, from Debian 12's backports, arm64.
    Linux6_12Arm64,
}

impl Kernel {
    /// All supported kernels.
    pub const ALL: [Kernel; 4] =
        [Kernel::Linux6_1Amd64, Kernel::Linux6_12Amd64, Kernel::Linux6_1Arm64, Kernel::Linux6_12Arm64];

    /// Architecture of the kernel.
    pub fn arch(self) -> Arch {
        match self {
            Kernel::Linux6_1Amd64 | Kernel::Linux6_12Amd64 => Arch::Amd64,
            Kernel::Linux6_1Arm64 | Kernel::Linux6_12Arm64 => Arch::Arm64,
        }
    }

    /// Release series of the kernel (`6.1`).
    pub fn series(self) -> &'static str {
        match self {
            Kernel::Linux6_1Amd64 | Kernel::Linux6_1Arm64 => "6.1",
            Kernel::Linux6_12Amd64 | Kernel::Linux6_12Arm64 => "6.12",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.series(), self.arch().debian())
    }
}

impl FromStr for Kernel {
    type Err = UnknownName;

    /// Parses a name such as `6.1-arm64`. The default architecture is amd64.
    fn from_str(text: &str) -> Result<Kernel, UnknownName> {
        let named = |k: &&Kernel| k.to_string() == text || (k.arch() == Arch::Amd64 && k.series() == text);
        let unknown = || UnknownName::new("kernel", text, Kernel::ALL.map(|kernel| kernel.to_string()));
        Kernel::ALL.iter().find(named).copied().ok_or_else(unknown)
    }
}
