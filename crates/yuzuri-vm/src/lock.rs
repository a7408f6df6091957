//! The packages of a guest: name, version and checksum of each.

use crate::{Equipment, Kernel, VmError};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The repository's lock file.
const PINNED: &str = include_str!("../packages.lock");

/// A package file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Package {
    /// Its set: `kernel-6.1-amd64`, `userland-amd64`, `wireless-amd64` or `cross-amd64`, for
    /// example.
    pub set: String,
    /// Package name.
    pub name: String,
    /// Package version.
    pub version: String,
    /// Debian's name of the architecture, or `all`.
    pub architecture: String,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
}

impl Package {
    /// Name of the file in the cache.
    pub(crate) fn file(&self) -> String {
        format!("{}_{}_{}.deb", self.name, self.version.replace(':', "%3a"), self.architecture)
    }
}

/// A list of packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    packages: Vec<Package>,
}

impl Lock {
    /// The list pinned by the repository.
    ///
    /// # Errors
    /// Returns an error if the file is malformed.
    pub fn pinned() -> Result<Lock, VmError> {
        Lock::parse(PINNED)
    }

    pub(crate) fn new(packages: Vec<Package>) -> Lock {
        Lock { packages }
    }

    pub(crate) fn parse(text: &str) -> Result<Lock, VmError> {
        let lines = text.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
        let packages = lines.map(|(at, line)| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let package = match words.as_slice() {
                [set, name, version, architecture, bytes, sha256] => {
                    bytes.parse().ok().map(|bytes| Package {
                        set: (*set).into(),
                        name: (*name).into(),
                        version: (*version).into(),
                        architecture: (*architecture).into(),
                        bytes,
                        sha256: (*sha256).into(),
                    })
                }
                _ => None,
            };
            package.ok_or_else(|| {
                VmError::Unfit(format!(
                    "packages.lock, line {}: '{line}' is not: set name version architecture bytes sha256",
                    at + 1
                ))
            })
        });
        Ok(Lock { packages: packages.collect::<Result<_, _>>()? })
    }

    /// Formats the list as a lock file.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "# Packages that guests are made of. Written by `yuzuri-vm lock`.\n\
             # set name version architecture bytes sha256\n",
        );
        for p in &self.packages {
            let _ = writeln!(
                text,
                "{} {} {} {} {} {}",
                p.set, p.name, p.version, p.architecture, p.bytes, p.sha256
            );
        }
        text
    }

    /// Packages of a kernel's image, the kernel's package first.
    ///
    /// # Errors
    /// Returns an error if the list does not have exactly one package for this kernel.
    pub(crate) fn of(&self, kernel: Kernel, equipment: Equipment) -> Result<Vec<Package>, VmError> {
        let mut packages = self.set(&kernel_set(kernel));
        if packages.len() != 1 {
            return Err(VmError::Unfit(format!(
                "packages.lock pins {} packages for kernel {kernel}, one is needed: `yuzuri-vm lock` \
                 rewrites it",
                packages.len()
            )));
        }
        packages.extend(self.set(&userland_set(kernel.arch().debian())));
        if equipment == Equipment::Wireless {
            packages.extend(self.set(&wireless_set(kernel.arch().debian())));
        }
        Ok(packages)
    }

    /// Packages needed for cross-building.
    pub(crate) fn cross(&self, architecture: &str) -> Vec<Package> {
        self.set(&cross_set(architecture))
    }

    fn set(&self, set: &str) -> Vec<Package> {
        self.packages.iter().filter(|p| p.set == set).cloned().collect()
    }
}

pub(crate) fn cross_set(architecture: &str) -> String {
    format!("cross-{architecture}")
}

pub(crate) fn kernel_set(kernel: Kernel) -> String {
    format!("kernel-{kernel}")
}

pub(crate) fn userland_set(architecture: &str) -> String {
    format!("userland-{architecture}")
}

pub(crate) fn wireless_set(architecture: &str) -> String {
    format!("wireless-{architecture}")
}

/// SHA-256 of the concatenated parts, in hexadecimal.
pub(crate) fn sha256(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_repositorys_lock_has_all_kernels_and_its_form() {
        let lock = Lock::pinned().unwrap();
        for kernel in Kernel::ALL {
            let packages = lock.of(kernel, Equipment::Plain).unwrap();
            assert!(packages[0].name.starts_with("linux-image-"), "{packages:?}");
            assert!(packages.iter().any(|p| p.name == "iproute2"), "{packages:?}");
            assert!(packages.iter().all(|p| p.name != "hostapd"), "{packages:?}");
            let more = lock.of(kernel, Equipment::Wireless).unwrap();
            assert!(more.starts_with(&packages) && more.iter().any(|p| p.name == "hostapd"), "{more:?}");
            assert!(packages.iter().all(|p| p.sha256.len() == 64 && p.bytes > 0), "{packages:?}");
        }
        assert_eq!(lock.text(), PINNED);
        assert_eq!(Lock::parse(&lock.text()).unwrap(), lock);
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = Lock::parse("# fine\na b c\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("a b c"), "{error}");
        let error =
            Lock::parse("").unwrap().of(Kernel::Linux6_1Amd64, Equipment::Plain).unwrap_err().to_string();
        assert!(error.contains("6.1-amd64"), "{error}");
    }

    #[test]
    fn sha256_is_the_standards() {
        // FIPS 180-4, example "abc".
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&[b"a", b"bc"]), abc);
    }
}
