//! Describes the system: a distribution or Android, its kernel, and its protections.

use crate::features::first_line;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

/// Android's program for its properties.
const GETPROP: &str = "/system/bin/getprop";

/// The running kernel's version; (0, 0) if it is unknown.
pub fn kernel_version() -> (u32, u32) {
    version(&first_line("/proc/sys/kernel/osrelease").unwrap_or_default())
}

fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Android's common kernel (Generic Kernel Image), from its release name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gki {
    /// Android's version whose kernel branch it is; the device may run a later Android.
    pub(crate) android: u32,
    /// The generation of its interface for modules.
    pub(crate) generation: u32,
}

impl Gki {
    /// Reads "6.1.75-android14-11-g0123456789ab": version, branch, generation (source.android.com,
    /// "GKI versioning").
    pub(crate) fn of(release: &str) -> Option<Gki> {
        let mut parts = release.split('-').skip(1);
        let android = parts.next()?.strip_prefix("android")?.parse().ok()?;
        Some(Gki { android, generation: parts.next()?.parse().ok()? })
    }
}

/// The system as text: "Debian GNU/Linux 12 (bookworm)", "Android 14 (API 34), GKI android14,
/// generation 11".
pub(crate) fn system() -> String {
    if is_android() {
        let release = first_line("/proc/sys/kernel/osrelease").unwrap_or_default();
        return android(&property("ro.build.version.release"), &property("ro.build.version.sdk"), &release);
    }
    ["/etc/os-release", "/usr/lib/os-release"]
        .into_iter()
        .find_map(|path| distribution(&std::fs::read_to_string(path).ok()?))
        .unwrap_or_else(|| "Linux, unknown distribution".into())
}

/// Whether this is Android.
pub(crate) fn is_android() -> bool {
    Path::new(GETPROP).exists()
}

fn android(version: &str, api: &str, release: &str) -> String {
    let known = |text: &str| if text.is_empty() { "of unknown version".to_owned() } else { text.to_owned() };
    let kernel = match Gki::of(release) {
        Some(gki) => format!("GKI android{}, generation {}", gki.android, gki.generation),
        None => "a vendor kernel (not GKI)".into(),
    };
    format!("Android {} (API {}), {kernel}", known(version), known(api))
}

/// One of Android's properties; empty if it does not exist.
fn property(name: &str) -> String {
    let output = Command::new(GETPROP).arg(name).output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
}

fn distribution(os_release: &str) -> Option<String> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches(['"', '\'']).to_owned())
}

/// SELinux: whether it enforces, and our context; `None` if it is not in use.
pub(crate) fn selinux() -> Option<String> {
    let enforces = first_line("/sys/fs/selinux/enforce").ok()?;
    let context = first_line("/proc/self/attr/current").unwrap_or_default();
    let mode = if enforces.trim() == "0" { "permissive" } else { "enforcing" };
    Some(format!("{mode}, we run as {}", context.trim_end_matches('\0')))
}

/// The kernel's lockdown mode: "none", "integrity" or "confidentiality"; `None` in kernels without
/// it.
pub(crate) fn lockdown() -> Option<String> {
    chosen(&first_line("/sys/kernel/security/lockdown").ok()?)
}

/// The selected word, in brackets: `none [integrity] confidentiality`.
fn chosen(line: &str) -> Option<String> {
    Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Whether the kernel verifies the targets of its indirect calls (kCFI, `CONFIG_CFI_CLANG`), as
/// Android's does.
pub(crate) fn checks_calls() -> bool {
    let Ok(symbols) = File::open("/proc/kallsyms") else { return false };
    let named = |line: String| line.split_whitespace().nth(2) == Some("report_cfi_failure");
    BufReader::new(symbols).lines().map_while(Result::ok).any(named)
}

/// Whether the kernel may call a `struct_ops` program. A kernel that verifies indirect calls
/// without support for BPF panics at the first call. `checks_calls` is evaluated only if that
/// matters, since it reads all of the kernel's symbols. Supported on x86_64 since 6.9
/// (`arch/x86/net/bpf_jit_comp.c`, `emit_cfi`), on arm64 since 6.18.
pub(crate) fn calls_programs(version: (u32, u32), checks_calls: impl FnOnce() -> bool) -> bool {
    let knows = if cfg!(target_arch = "x86_64") { (6, 9) } else { (6, 18) };
    version >= knows || !checks_calls()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn androids_kernels_by_their_names() {
        let gki = |release| Gki::of(release).map(|g| (g.android, g.generation));
        assert_eq!(gki("6.1.75-android14-11-g0123456789ab-ab11571843"), Some((14, 11)));
        assert_eq!(gki("5.10.107-android13-4-00020-gdeadbeef"), Some((13, 4)));
        assert_eq!(gki("6.12.18-android16-0"), Some((16, 0)));
        for other in ["4.14.190-perf+", "6.1.0-25-arm64", "6.18.44", "5.4.86-android11-2x", ""] {
            assert_eq!(gki(other), None, "{other}");
        }
        assert_eq!(
            android("14", "34", "6.1.75-android14-11-gab"),
            "Android 14 (API 34), GKI android14, generation 11"
        );
        assert_eq!(
            android("", "", "4.14.190-perf+"),
            "Android of unknown version (API of unknown version), a vendor kernel (not GKI)"
        );
    }

    #[test]
    fn a_kernel_that_checks_its_calls_must_know_programs() {
        assert!(calls_programs((5, 10), || false));
        assert!(!calls_programs((6, 1), || true));
        assert!(calls_programs((6, 18), || true));
    }

    #[test]
    fn small_texts() {
        assert_eq!(version("6.12.95+deb12-amd64"), (6, 12));
        assert_eq!(version("rubbish"), (0, 0));
        assert_eq!(chosen("none [integrity] confidentiality").as_deref(), Some("integrity"));
        assert_eq!(chosen("none"), None);
        assert_eq!(distribution("ID=debian\nPRETTY_NAME=\"Debian 12\"\n").as_deref(), Some("Debian 12"));
        assert_eq!(distribution("ID=x\n"), None);
    }
}
