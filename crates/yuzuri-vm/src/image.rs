//! Builds what QEMU boots: a kernel and an initial RAM file system with a minimal Debian. Images
//! are cached under a name derived from everything that goes into them.

use crate::archive::Archive;
use crate::cache::Cache;
use crate::error::{AtPath, output};
use crate::lock::{Lock, Package, sha256};
use crate::vmlinux::{of_boot_image, unxz};
use crate::{Arch, Kernel, VmError, apt, libraries, modules, qemu};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const INIT: &str = include_str!("../guest/init.sh");

/// Programs of the guest; busybox provides all others. The shell is dash, because busybox's shell
/// prefers its built-in `ip` to iproute2's.
const PROGRAMS: &[&str] = &[
    "bin/busybox",
    "bin/dash",
    "bin/ip",
    "bin/ping",
    "bin/ss",
    "sbin/bridge",
    "sbin/ethtool",
    "sbin/tc",
    "usr/bin/iperf3",
    "usr/bin/nstat",
    "usr/bin/tcpdump",
    "usr/sbin/nft",
];

/// Additional programs of a guest with [`Equipment::Wireless`].
const WIRELESS: &[&str] = &["usr/sbin/hostapd", "sbin/iw"];

fn programs(equipment: Equipment) -> impl Iterator<Item = &'static str> {
    let more = if equipment == Equipment::Wireless { WIRELESS } else { &[] };
    PROGRAMS.iter().chain(more).copied()
}

/// Version of the image format; increment it when the builder's output changes.
const FORMAT: u32 = 2;

/// Equipment of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Equipment {
    /// Everything that experiments and tests need.
    #[default]
    Plain,
    /// Also simulated radios (`mac80211_hwsim`) with `iw` and `hostapd`: an access point and its
    /// stations, as nl80211 presents them.
    Wireless,
}

/// Source of the packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// The versions in the repository's `packages.lock`.
    #[default]
    Pinned,
    /// The versions that the archive offers today. Results name the versions and state that they
    /// are not pinned.
    Latest,
}

/// A built image.
#[derive(Debug, Clone)]
pub struct Image {
    /// The kernel.
    pub kernel: Kernel,
    /// The components.
    pub made: Built,
    folder: PathBuf,
}

/// Components of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// Kernel release (`6.1.0-56-amd64`).
    pub release: String,
    /// Name and version of the kernel package.
    pub kernel_package: String,
    /// Whether all packages are the pinned ones.
    pub pinned: bool,
    /// SHA-256 of the package list, the module list, the guest's init and the format version.
    pub identity: String,
    /// Version of the C library, such as (2, 36).
    pub glibc: (u32, u32),
}

impl Image {
    pub(crate) fn kernel_file(&self) -> PathBuf {
        self.folder.join("kernel")
    }

    pub(crate) fn ram_file_system(&self) -> PathBuf {
        self.folder.join("initramfs")
    }

    /// Whether the image contains a library with this path.
    pub(crate) fn has(&self, path: &str) -> Result<bool, VmError> {
        let list = self.folder.join("libraries");
        let text = std::fs::read_to_string(&list).at("reading", &list)?;
        Ok(text.lines().any(|line| line == path))
    }

    /// Looks up the image for the pinned packages. Returns `None` if it has not been built.
    ///
    /// # Errors
    /// Returns an error if the pinned package list cannot be used.
    pub fn built(cache: &Cache, kernel: Kernel, equipment: Equipment) -> Result<Option<Image>, VmError> {
        let lock = Lock::pinned()?;
        Ok(find(cache, kernel, equipment, &lock.of(kernel, equipment)?))
    }

    /// Why a guest with this kernel cannot be run immediately; `None` if it can.
    pub fn missing(kernel: Kernel, equipment: Equipment) -> Option<String> {
        let image = qemu::version(kernel.arch()).and_then(|_| Cache::open());
        match image.and_then(|cache| Image::built(&cache, kernel, equipment)) {
            Ok(Some(_)) => None,
            Ok(None) => Some(match equipment {
                Equipment::Plain => format!("the image of kernel {kernel} is not built: `make vm` builds it"),
                Equipment::Wireless => format!(
                    "the image of kernel {kernel} with radios is not built: `yuzuri-vm build --wireless {kernel}` builds it"
                ),
            }),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Builds the image if necessary: fetches and unpacks the packages and selects the files.
    /// `progress` receives the steps, the number of MB fetched and the durations.
    ///
    /// # Errors
    /// Returns an error if apt, a tool or a file operation fails, and [`VmError::Gone`] if the
    /// archive no longer has a pinned version.
    pub fn build(
        cache: &Cache,
        kernel: Kernel,
        equipment: Equipment,
        source: Source,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Image, VmError> {
        let pinned = Lock::pinned()?.of(kernel, equipment)?;
        let packages = match source {
            Source::Pinned => pinned.clone(),
            Source::Latest => apt::latest(cache, progress)?.of(kernel, equipment)?,
        };
        if let Some(image) = find(cache, kernel, equipment, &packages) {
            return Ok(image);
        }
        let identity = identity(&packages, equipment);
        let _one = cache.lock(&format!("images/{}", folder_name(kernel, &identity)), progress)?;
        if let Some(image) = find(cache, kernel, equipment, &packages) {
            return Ok(image);
        }
        let files = apt::fetch(cache, &packages, progress)?;
        let start = Instant::now();
        progress(&format!("building the image of kernel {kernel}"));
        let images = cache.path("images");
        let fresh = tempfile::Builder::new().prefix("partial-").tempdir_in(&images).at("making", &images)?;
        let (release, glibc) = assemble(kernel, equipment, &files, fresh.path())?;
        let kernel_package = format!("{} {}", packages[0].name, packages[0].version);
        let made = Built { release, kernel_package, pinned: packages == pinned, identity, glibc };
        let path = fresh.path().join("image.json");
        let text = serde_json::to_vec_pretty(&made).map_err(|e| VmError::Unfit(e.to_string()))?;
        std::fs::write(&path, text).at("writing", &path)?;
        let folder = images.join(folder_name(kernel, &made.identity));
        // Remains of an interrupted removal.
        let _ = std::fs::remove_dir_all(&folder);
        let fresh = fresh.keep();
        std::fs::rename(&fresh, &folder).at("moving into place", &folder)?;
        let bytes = std::fs::metadata(folder.join("initramfs")).map_or(0, |m| m.len());
        progress(&format!(
            "built {} ({}, {:.1} MB) in {:.1} s",
            folder.display(),
            made.kernel_package,
            bytes as f64 / 1e6,
            start.elapsed().as_secs_f64()
        ));
        Ok(Image { kernel, made, folder })
    }
}

fn identity(packages: &[Package], equipment: Equipment) -> String {
    let list = Lock::new(packages.to_vec()).text();
    let programs = programs(equipment).collect::<Vec<_>>().join(" ");
    let format = FORMAT.to_string();
    sha256(&[&list, INIT, &modules::list(equipment), &programs, &format].map(str::as_bytes))
}

fn folder_name(kernel: Kernel, identity: &str) -> String {
    format!("{kernel}-{}", &identity[..16])
}

fn find(cache: &Cache, kernel: Kernel, equipment: Equipment, packages: &[Package]) -> Option<Image> {
    let folder = cache.path("images").join(folder_name(kernel, &identity(packages, equipment)));
    let text = std::fs::read(folder.join("image.json")).ok()?;
    let made = serde_json::from_slice(&text).ok()?;
    Some(Image { kernel, made, folder })
}

/// Unpacks the packages and writes `kernel` and `initramfs`. Returns the kernel release and the
/// version of the C library.
fn assemble(
    kernel: Kernel,
    equipment: Equipment,
    packages: &[PathBuf],
    to: &Path,
) -> Result<(String, (u32, u32)), VmError> {
    let root = tempfile::Builder::new().prefix("unpacked-").tempdir_in(to).at("making", to)?;
    let root = root.path();
    for package in packages {
        let advice = "is the disk full? Otherwise remove the file: it will be fetched again";
        output(Command::new("dpkg-deb").arg("-x").arg(package).arg(root), advice)?;
    }
    let release = only_entry(&root.join("lib/modules"))?;
    let boot = root.join("boot").join(format!("vmlinuz-{release}"));
    let boot_image = std::fs::read(&boot).at("reading", &boot)?;
    let bootable = match kernel.arch() {
        Arch::Amd64 => of_boot_image(&boot_image)?,
        Arch::Arm64 => boot_image,
    };
    let path = to.join("kernel");
    std::fs::write(&path, bootable).at("writing", &path)?;

    let mut archive = Archive::default();
    skeleton(&mut archive);
    add_modules(&mut archive, root, &release, equipment)?;
    add_programs(&mut archive, root, kernel.arch(), equipment)?;
    let path = to.join("libraries");
    std::fs::write(&path, archive.paths_below("usr/lib/").join("\n")).at("writing", &path)?;
    let path = to.join("initramfs");
    let file = std::fs::File::create(&path).at("making", &path)?;
    let mut writer = std::io::BufWriter::new(file);
    archive.write(&mut writer).and_then(|()| writer.flush()).at("writing", &path)?;
    let libc = root.join("lib").join(kernel.arch().triplet()).join("libc.so.6");
    Ok((release, libraries::glibc_version(&libc)?))
}

fn only_entry(folder: &Path) -> Result<String, VmError> {
    let entries = std::fs::read_dir(folder).at("reading", folder)?;
    let mut names = entries.filter_map(Result::ok).map(|e| e.file_name().to_string_lossy().into_owned());
    let name = names.next();
    name.ok_or_else(|| VmError::Unfit(format!("{} is empty: the package has no kernel", folder.display())))
}

fn skeleton(archive: &mut Archive) {
    for folder in ["dev", "proc", "sys", "tmp", "run", "results", "mnt", "root", "var", "etc", "yuzuri"] {
        archive.folder(folder);
    }
    // Merged /usr, as in Debian since 12.
    for (link, target) in [
        ("bin", "usr/bin"),
        ("sbin", "usr/sbin"),
        ("lib", "usr/lib"),
        ("lib64", "usr/lib64"),
        ("var/run", "../run"),
    ] {
        archive.symlink(link, target);
    }
    archive.symlink("usr/bin/sh", "dash");
    archive.file("init", INIT.as_bytes().to_vec(), true);
    let text = |archive: &mut Archive, path: &str, text: &str| archive.file(path, text.into(), false);
    text(archive, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n");
    text(archive, "etc/group", "root:x:0:\nnogroup:x:65534:\n");
    text(archive, "etc/hosts", "127.0.0.1 localhost\n::1 localhost\n");
    text(archive, "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n");
}

fn add_modules(
    archive: &mut Archive,
    root: &Path,
    release: &str,
    equipment: Equipment,
) -> Result<(), VmError> {
    let depmod = |base: &Path| {
        let advice = "`scripts/setup.sh vm` installs the package kmod";
        output(Command::new("depmod").arg("-b").arg(base).arg(release), advice)
    };
    depmod(root)?;
    let all = root.join("lib/modules").join(release);
    let list = all.join("modules.dep");
    let list = std::fs::read_to_string(&list).at("reading", &list)?;
    // A tree of the selected modules, unpacked, for depmod.
    let chosen = root.join("chosen");
    let tree = chosen.join("lib/modules").join(release);
    let paths: Vec<String> = modules::wanted(&list, equipment).into_iter().collect();
    let plain = |path: &str| path.trim_end_matches(".xz").to_owned();
    for path in &paths {
        let from = all.join(path);
        let content = std::fs::read(&from).at("reading", &from)?;
        let content = if path.ends_with(".xz") { unxz(&content).at("unpacking", &from)? } else { content };
        let content = modules::without_signature(content);
        let to = tree.join(plain(path));
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder).at("making", folder)?;
        }
        std::fs::write(&to, content).at("writing", &to)?;
    }
    for file in ["modules.builtin", "modules.builtin.modinfo", "modules.order"] {
        std::fs::copy(all.join(file), tree.join(file)).at("copying", &all.join(file))?;
    }
    depmod(&chosen)?;
    let lists = ["modules.builtin", "modules.dep", "modules.alias", "modules.symbols", "modules.softdep"];
    for path in paths.iter().map(|p| plain(p)).chain(lists.map(str::to_owned)) {
        let content = std::fs::read(tree.join(&path)).at("reading", &tree.join(&path))?;
        archive.file(&format!("usr/lib/modules/{release}/{path}"), content, false);
    }
    Ok(())
}

/// Adds the programs, their shared libraries and the links to busybox.
fn add_programs(archive: &mut Archive, root: &Path, arch: Arch, equipment: Equipment) -> Result<(), VmError> {
    let mut libraries = BTreeMap::new();
    let folders = ["lib", "usr/lib"].map(|lib| root.join(lib).join(arch.triplet()));
    let mut todo: Vec<String> = Vec::new();
    for program in programs(equipment) {
        let path = root.join(program);
        let content = std::fs::read(&path).at("reading", &path)?;
        todo.extend(needed(program, &content)?);
        let folder = if program.contains("sbin/") { "usr/sbin" } else { "usr/bin" };
        let name = program.rsplit('/').next().unwrap_or(program);
        archive.file(&format!("{folder}/{name}"), content, true);
    }
    // For programs copied into the guest, and for those that load a library at run time.
    todo.extend(["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"].map(str::to_owned));
    todo.extend(["libgcc_s.so.1", "libelf.so.1", "libz.so.1", "libresolv.so.2"].map(str::to_owned));
    while let Some(library) = todo.pop() {
        if libraries.contains_key(&library) {
            continue;
        }
        let path = folders.iter().map(|f| f.join(&library)).find(|p| p.exists()).ok_or_else(|| {
            VmError::Unfit(format!("{library} is in none of the image's packages: packages.lock lacks one"))
        })?;
        let content = std::fs::read(&path).at("reading", &path)?;
        todo.extend(needed(&library, &content)?);
        libraries.insert(library, content);
    }
    for (name, content) in libraries {
        archive.file(&format!("usr/lib/{}/{name}", arch.triplet()), content, true);
    }
    let loader = arch.loader().rsplit('/').next().unwrap_or_default();
    let place = format!("usr{}", arch.loader());
    archive.symlink(&place, &format!("/usr/lib/{}/{loader}", arch.triplet()));
    archive.folder("usr/lib64");
    for applet in BUSYBOX {
        let path = format!("usr/bin/{applet}");
        if !archive.has(&path) {
            archive.symlink(&path, "busybox");
        }
    }
    // Path at which the kernel looks for modprobe.
    archive.symlink("usr/sbin/modprobe", "../bin/busybox");
    Ok(())
}

fn needed(name: &str, content: &[u8]) -> Result<Vec<String>, VmError> {
    let needs = libraries::needs(content).map_err(|e| VmError::Unfit(format!("{name}: {e}")))?;
    Ok(needs.map(|n| n.libraries).unwrap_or_default())
}

/// Names under which busybox is linked.
const BUSYBOX: &[&str] = &[
    "awk",
    "basename",
    "cat",
    "chgrp",
    "chmod",
    "chown",
    "cmp",
    "cp",
    "cut",
    "date",
    "dd",
    "df",
    "dirname",
    "dmesg",
    "du",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "free",
    "getopt",
    "grep",
    "gzip",
    "head",
    "hexdump",
    "hostname",
    "id",
    "insmod",
    "kill",
    "killall",
    "ln",
    "ls",
    "lsmod",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mknod",
    "mktemp",
    "mount",
    "mv",
    "nc",
    "nice",
    "nohup",
    "nproc",
    "od",
    "pidof",
    "poweroff",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "rmmod",
    "sed",
    "seq",
    "setsid",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "strings",
    "stty",
    "sync",
    "sysctl",
    "tail",
    "tar",
    "taskset",
    "tee",
    "test",
    "time",
    "timeout",
    "top",
    "touch",
    "tr",
    "true",
    "tty",
    "umount",
    "uname",
    "uniq",
    "uptime",
    "usleep",
    "wc",
    "which",
    "xargs",
    "yes",
];
