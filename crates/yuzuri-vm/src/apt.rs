//! Fetches Debian packages with apt, whatever release the host runs. Apt uses a separate state
//! directory in the cache and the archive that the host's apt is configured for.

use crate::cache::Cache;
use crate::cross::CROSS_ARCHITECTURES;
use crate::error::{AtPath, output};
use crate::lock::{Lock, Package, cross_set, kernel_set, sha256, userland_set, wireless_set};
use crate::{Arch, Kernel, VmError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Packages of the guest's user space, per architecture. Libraries are listed here explicitly,
/// because apt's dependencies would pull in a complete Debian. A missing library is an error when
/// the image is built.
const USERLAND: &[&str] = &[
    "busybox-static",
    "dash",
    "ethtool",
    "iperf3",
    "iproute2",
    "iputils-ping",
    "nftables",
    "tcpdump",
    "libbpf1",
    "libbsd0",
    "libc6",
    "libcap2",
    "libcom-err2",
    "libdbus-1-3",
    "libedit2",
    "libelf1",
    "libgcc-s1",
    "libgcrypt20",
    "libgmp10",
    "libgpg-error0",
    "libgssapi-krb5-2",
    "libidn2-0",
    "libiperf0",
    "libjansson4",
    "libk5crypto3",
    "libkeyutils1",
    "libkrb5-3",
    "libkrb5support0",
    "liblz4-1",
    "liblzma5",
    "libmd0",
    "libmnl0",
    "libnftables1",
    "libnftnl11",
    "libpcap0.8",
    "libpcre2-8-0",
    "libsctp1",
    "libselinux1",
    "libssl3",
    "libsystemd0",
    "libtinfo6",
    "libtirpc3",
    "libunistring2",
    "libxtables12",
    "libzstd1",
    "zlib1g",
];

/// Additional packages of a guest with [`crate::Equipment::Wireless`].
const WIRELESS: &[&str] = &["hostapd", "iw", "libnl-3-200", "libnl-genl-3-200", "libnl-route-3-200"];

/// Libraries that the monitor links, for cross-building it.
const CROSS: &[&str] = &["libelf-dev", "libelf1", "zlib1g", "zlib1g-dev"];

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const ADVICE: &str = "is a package mirror reachable, and are /etc/apt's sources right?";

/// Apt with a separate state directory.
struct Apt {
    root: PathBuf,
    /// Whether the sources include an archive of security updates.
    security: bool,
    /// Whether armhf's lists are read, too. An archive that lacks some of them is no error.
    has_armhf: bool,
}

impl Apt {
    /// Creates the state directory. Package lists from earlier runs are kept; if a pinned package
    /// is not in them, they are fetched again.
    fn new(cache: &Cache, has_armhf: bool) -> Result<Apt, VmError> {
        let (sources, security) = sources(has_armhf)?;
        let apt = Apt { root: cache.path(if has_armhf { "apt-armhf" } else { "apt" }), security, has_armhf };
        for folder in ["lists/partial", "archives/partial"] {
            let path = apt.root.join(folder);
            std::fs::create_dir_all(&path).at("making", &path)?;
        }
        if !Path::new(KEYRING).exists() {
            return Err(VmError::Tool {
                program: "apt-get".into(),
                why: format!("Debian's keys are not at {KEYRING}"),
                advice: "install the package debian-archive-keyring (`scripts/setup.sh vm`)".into(),
            });
        }
        for (file, text) in [("sources.list", sources), ("status", String::new())] {
            let path = apt.root.join(file);
            // Apt reads all lists again when these files change.
            if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
                std::fs::write(&path, text).at("writing", &path)?;
            }
        }
        Ok(apt)
    }

    /// Fetches the archive's package lists.
    fn update(&self, progress: &mut dyn FnMut(&str)) -> Result<(), VmError> {
        let start = Instant::now();
        progress("reading the package archive's lists (about 24 MB)");
        let mut command = self.command("apt-get");
        if !self.has_armhf {
            command.arg("--error-on=any");
        }
        output(command.args(["-qq", "update"]), ADVICE)?;
        progress(&format!("lists read in {:.1} s", start.elapsed().as_secs_f64()));
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let at = |file: &str| self.root.join(file).display().to_string();
        let settings = [
            ("Dir::Etc::sourcelist", at("sources.list")),
            ("Dir::Etc::sourceparts", "/dev/null".into()),
            ("Dir::Etc::preferences", "/dev/null".into()),
            ("Dir::Etc::preferencesparts", "/dev/null".into()),
            ("Dir::State", at("")),
            ("Dir::State::lists", at("lists")),
            ("Dir::State::status", at("status")),
            ("Dir::Cache", at("")),
            ("Dir::Cache::archives", at("archives")),
            // Some hosts disable this cache; without it every query parses all lists.
            ("Dir::Cache::pkgcache", "pkgcache.bin".into()),
            ("APT::Sandbox::User", "root".into()),
            ("APT::Architecture", "amd64".into()),
            ("APT::Architectures::", "amd64".into()),
            ("APT::Architectures::", "arm64".into()),
            // Skips package descriptions and icons.
            ("Acquire::Languages", "none".into()),
            ("Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", "false".into()),
        ];
        for (key, value) in settings {
            command.arg("-o").arg(format!("{key}={value}"));
        }
        if self.has_armhf {
            command.args(["-o", "APT::Architectures::=armhf"]);
        }
        command.env("LC_ALL", "C");
        command
    }

    /// Queries the archive for packages (`name:architecture`). Returns all versions, the preferred
    /// version of each package first.
    fn offered(&self, names: &[String]) -> Result<Vec<Stanza>, VmError> {
        let advice = "this archive may not carry that architecture or Debian 12's backports";
        let text = output(self.command("apt-cache").arg("show").args(names), advice)?;
        Ok(text.split("\n\n").filter(|s| !s.trim().is_empty()).map(|s| Stanza(s.to_owned())).collect())
    }

    /// The current packages of the archive for everything that [`Lock`] pins.
    fn latest(&self) -> Result<Lock, VmError> {
        let archs = [Arch::Amd64, Arch::Arm64].map(Arch::debian);
        let metas = self.offered(&archs.map(|arch| format!("linux-image-{arch}:{arch}")))?;
        let mut wanted = Vec::new();
        for kernel in Kernel::ALL {
            let prefix = format!("linux-image-{}.", kernel.series());
            // "linux-image-6.1.0-56-amd64 (= 6.1.192-2)": name and version of the kernel package.
            let found = metas.iter().filter(|s| s.is_for(kernel.arch().debian())).find_map(|stanza| {
                let (name, version) = stanza.field("Depends")?.strip_suffix(')')?.split_once(" (= ")?;
                name.starts_with(&prefix).then(|| (name.to_owned(), Some(version.to_owned())))
            });
            let (name, version) = found
                .ok_or_else(|| VmError::Unfit(format!("the package archive offers no kernel {kernel}")))?;
            wanted.push((kernel_set(kernel), name, version, kernel.arch().debian()));
        }
        let guests = archs
            .iter()
            .flat_map(|arch| [(userland_set(arch), *arch, USERLAND), (wireless_set(arch), *arch, WIRELESS)]);
        let cross = CROSS_ARCHITECTURES.iter().map(|arch| (cross_set(arch), *arch, CROSS));
        for (set, arch, names) in guests.chain(cross) {
            wanted.extend(names.iter().map(|name| (set.clone(), (*name).to_owned(), None, arch)));
        }
        let names: Vec<String> =
            wanted.iter().map(|(_, package, _, arch)| format!("{package}:{arch}")).collect();
        let offered = self.offered(&names)?;
        let packages = wanted.into_iter().map(|(set, name, version, arch)| {
            let fits = |s: &&Stanza| {
                s.field("Package") == Some(name.as_str())
                    && s.is_for(arch)
                    // Only Debian 12's own packages, without backports.
                    && match &version {
                        Some(version) => s.field("Version") == Some(version.as_str()),
                        None => s.field("Version").is_some_and(|v| !v.contains("~bpo")),
                    }
            };
            let found = offered.iter().find(fits);
            found
                .ok_or_else(|| VmError::Unfit(format!("the package archive offers no {name}")))?
                .package(set, &name)
        });
        Ok(Lock::new(packages.collect::<Result<_, _>>()?))
    }

    /// Downloads package files to a folder.
    fn download(&self, packages: &[&Package], folder: &Path) -> Result<(), VmError> {
        let names = packages.iter().map(|p| format!("{}:{}={}", p.name, arch_word(p), p.version));
        let names: Vec<String> = names.collect();
        let mut command = self.command("apt-get");
        command.current_dir(folder).args(["-qq", "download"]).args(&names);
        let failed = match output(&mut command, ADVICE) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        for (package, name) in packages.iter().zip(names) {
            let offered =
                self.offered(&[format!("{}:{}", package.name, arch_word(package))]).unwrap_or_default();
            let versions: Vec<&str> = offered.iter().filter_map(|s| s.field("Version")).collect();
            if !versions.contains(&package.version.as_str()) {
                let offered =
                    if versions.is_empty() { "no version of it".into() } else { versions.join(", ") };
                return Err(VmError::Gone { wanted: name, offered, security: self.security });
            }
        }
        Err(failed)
    }
}

/// Packages for all architectures are requested as amd64.
fn arch_word(package: &Package) -> &str {
    if package.architecture == "all" { "amd64" } else { &package.architecture }
}

/// A package record of the archive.
struct Stanza(String);

impl Stanza {
    fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn is_for(&self, architecture: &str) -> bool {
        self.field("Architecture").is_some_and(|a| a == architecture || a == "all")
    }

    fn package(&self, set: String, name: &str) -> Result<Package, VmError> {
        let field = |field: &str| {
            let value = self.field(field).map(str::to_owned);
            value.ok_or_else(|| VmError::Unfit(format!("the archive's entry of {name} has no {field}")))
        };
        Ok(Package {
            set,
            name: name.to_owned(),
            version: field("Version")?,
            architecture: field("Architecture")?,
            bytes: field("Size")?.parse().map_err(|e| VmError::Unfit(format!("size of {name}: {e}")))?,
            sha256: field("SHA256")?,
        })
    }
}

/// Debian's archives from the host's apt configuration, rewritten for the required release, and
/// whether an archive of security updates is among them.
fn sources(has_armhf: bool) -> Result<(String, bool), VmError> {
    let set = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let (mut main, mut security) = (set("YUZURI_DEBIAN_ARCHIVE"), set("YUZURI_DEBIAN_SECURITY_ARCHIVE"));
    if main.is_none() {
        let format = "$(REPO_URI)\t$(ORIGIN)\t$(RELEASE)";
        let mut command = Command::new("apt-get");
        let text =
            output(command.args(["indextargets", "--format", format, "Created-By: Packages"]), ADVICE)?;
        for line in text.lines() {
            let [uri, "Debian", release] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
            let archive = if release.ends_with("-security") { &mut security } else { &mut main };
            archive.get_or_insert_with(|| uri.to_owned());
        }
    }
    let main = main.ok_or_else(|| VmError::Tool {
        program: "apt-get".into(),
        why: "this machine's apt has no Debian archive (or `apt-get update` was never run)".into(),
        advice: "set YUZURI_DEBIAN_ARCHIVE (and YUZURI_DEBIAN_SECURITY_ARCHIVE) to the address of a mirror"
            .into(),
    })?;
    let archs = if has_armhf { "amd64,arm64,armhf" } else { "amd64,arm64" };
    let line =
        |uri: &str, suite: &str| format!("deb [arch={archs} signed-by={KEYRING}] {uri} {suite} main\n");
    let suites = ["bookworm", "bookworm-updates", "bookworm-backports"].map(|suite| line(&main, suite));
    let security = security.map(|uri| line(&uri, "bookworm-security"));
    let known = security.is_some();
    Ok((suites.into_iter().chain(security).collect(), known))
}

/// The current packages of the archive for everything that the lock file pins.
///
/// # Errors
/// Returns an error if apt fails or the archive lacks a package.
pub fn latest(cache: &Cache, progress: &mut dyn FnMut(&str)) -> Result<Lock, VmError> {
    let _one = cache.lock("packages", progress)?;
    let apt = Apt::new(cache, true)?;
    apt.update(progress)?;
    apt.latest()
}

/// Ensures that the package files are in the cache.
pub(crate) fn fetch(
    cache: &Cache,
    packages: &[Package],
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<PathBuf>, VmError> {
    let _one = cache.lock("packages", progress)?;
    let folder = cache.path("packages");
    // Files are verified when they are fetched and moved into place atomically, so comparing the
    // size is sufficient here.
    let present =
        |p: &&Package| std::fs::metadata(folder.join(p.file())).is_ok_and(|file| file.len() == p.bytes);
    let missing: Vec<&Package> = packages.iter().filter(|p| !present(p)).collect();
    if !missing.is_empty() {
        let apt = Apt::new(cache, missing.iter().any(|p| p.architecture == "armhf"))?;
        let bytes: u64 = missing.iter().map(|p| p.bytes).sum();
        let mb = bytes as f64 / 1e6;
        let largest = missing.iter().max_by_key(|p| p.bytes).map(|p| format!("{} {}", p.name, p.version));
        let largest = largest.unwrap_or_default();
        progress(&format!("fetching {} packages, {mb:.1} MB, the largest is {largest}", missing.len()));
        let start = Instant::now();
        let fresh = tempfile::Builder::new().prefix("partial-").tempdir_in(&folder).at("making", &folder)?;
        if apt.download(&missing, fresh.path()).is_err() {
            apt.update(progress)?;
            apt.download(&missing, fresh.path())?;
        }
        for package in missing {
            let path = fresh.path().join(package.file());
            let content = std::fs::read(&path).at("reading", &path)?;
            let found = sha256(&[&content]);
            if found != package.sha256 {
                return Err(VmError::Checksum {
                    file: package.file(),
                    found,
                    wanted: package.sha256.clone(),
                });
            }
            let place = folder.join(package.file());
            std::fs::rename(&path, &place).at("moving into place", &place)?;
        }
        progress(&format!("fetched {mb:.1} MB in {:.1} s", start.elapsed().as_secs_f64()));
    }
    Ok(packages.iter().map(|p| folder.join(p.file())).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_package_is_read_from_its_stanza() {
        let stanza = Stanza("Package: x\nVersion: 1:2-3\nArchitecture: all\nSize: 12\nSHA256: ab\n".into());
        let package = stanza.package("set".into(), "x").unwrap();
        assert_eq!((package.version.as_str(), package.bytes, arch_word(&package)), ("1:2-3", 12, "amd64"));
        assert_eq!(package.file(), "x_1%3a2-3_all.deb");
        let error = Stanza("Version: 1\n".into()).package("set".into(), "x").unwrap_err().to_string();
        assert!(error.contains("Architecture"), "{error}");
    }
}
