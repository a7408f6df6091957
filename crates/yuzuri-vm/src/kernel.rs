use std::fmt;
use std::str::FromStr;

/// A processor architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// x86_64
    Amd64,
    /// aarch64
    Arm64,
}

impl Arch {
    /// Debian's name of it.
    pub fn debian(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    /// Folder of its libraries below `/usr/lib`.
    pub(crate) fn triplet(self) -> &'static str {
        match self {
            Arch::Amd64 => "x86_64-linux-gnu",
            Arch::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// The program loader, as executables name it.
    pub(crate) fn loader(self) -> &'static str {
        match self {
            Arch::Amd64 => "/lib64/ld-linux-x86-64.so.2",
            Arch::Arm64 => "/lib/ld-linux-aarch64.so.1",
        }
    }

    /// Whether programs of this machine are of this architecture.
    pub fn is_native(self) -> bool {
        std::env::consts::ARCH
            == match self {
                Arch::Amd64 => "x86_64",
                Arch::Arm64 => "aarch64",
            }
    }
}

impl FromStr for Arch {
    type Err = String;

    /// Reads Debian's name of it.
    fn from_str(text: &str) -> Result<Arch, String> {
        let named = [Arch::Amd64, Arch::Arm64].into_iter().find(|a| a.debian() == text);
        named.ok_or_else(|| format!("there is no architecture '{text}': amd64, arm64"))
    }
}

/// A stock Debian kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kernel {
    /// Linux 6.1 of Debian 12, x86_64.
    Linux6_1Amd64,
    /// Linux 6.12 of Debian 13, as offered to Debian 12 (backports), x86_64.
    Linux6_12Amd64,
    /// Linux 6.1 of Debian 12, arm64.
    Linux6_1Arm64,
    /// Linux 6.12, arm64.
    Linux6_12Arm64,
}

impl Kernel {
    /// All.
    pub const ALL: [Kernel; 4] =
        [Kernel::Linux6_1Amd64, Kernel::Linux6_12Amd64, Kernel::Linux6_1Arm64, Kernel::Linux6_12Arm64];

    /// Its architecture.
    pub fn arch(self) -> Arch {
        match self {
            Kernel::Linux6_1Amd64 | Kernel::Linux6_12Amd64 => Arch::Amd64,
            Kernel::Linux6_1Arm64 | Kernel::Linux6_12Arm64 => Arch::Arm64,
        }
    }

    /// Its series (`6.1`).
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
    type Err = String;

    /// Reads `6.1-arm64`; without the architecture it is amd64.
    fn from_str(text: &str) -> Result<Kernel, String> {
        let named = |k: &&Kernel| k.to_string() == text || (k.arch() == Arch::Amd64 && k.series() == text);
        Kernel::ALL.iter().find(named).copied().ok_or_else(|| {
            format!("there is no kernel '{text}': {}", Kernel::ALL.map(|k| k.to_string()).join(", "))
        })
    }
}
