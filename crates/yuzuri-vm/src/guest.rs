//! A run of a program in a guest.

use crate::archive::Archive;
use crate::cache::{Cache, RunFolder};
use crate::console::{Console, Frame, PANIC};
use crate::error::AtPath;
use crate::image::{Built, Equipment, Image, Source};
use crate::processor::Processor;
use crate::qemu::{self, Running, Settings};
use crate::{Arch, Kernel, Mips, Time, VmError, libraries};
use serde::Serialize;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// A step before the guest starts, such as fetching, building or waiting.
    Doing(&'a str),
    /// The guest has booted; the program is about to start.
    Booted {
        /// Host CPU time that booting took, seconds.
        cpu_s: f64,
    },
    /// Sent about once per second of the guest's clock.
    Clock {
        /// Time of the guest's clock since the program started, seconds.
        guest_s: f64,
    },
    /// Cost of the run so far; sent with `Clock`.
    Cost {
        /// Host CPU time, seconds.
        cpu_s: f64,
    },
    /// Output of the program or of the guest's kernel.
    Output(&'a str),
}

/// Result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Exit code of the program; 128 + N if signal N ended it.
    pub code: i32,
    /// Output of the program, with the kernel's messages in between.
    #[serde(skip)]
    pub output: String,
    /// Duration of the program by the guest's clock, seconds.
    pub guest_s: f64,
    /// Time of the guest's clock when the program started, seconds.
    pub boot_guest_s: f64,
    /// Host CPU time of the whole run, seconds.
    pub cpu_s: f64,
    /// Host CPU time until the program started, seconds.
    pub boot_cpu_s: f64,
    /// Wall-clock time of the whole run, seconds.
    pub wall_s: f64,
}

/// Everything needed to reproduce a result; written next to the results as `vm.json`.
#[derive(Serialize)]
struct Provenance<'a> {
    kernel: String,
    image: &'a Built,
    qemu: String,
    time: Time,
    as_shipped: bool,
    memory_mb: u32,
    program: &'a [String],
    environment: &'a [(String, String)],
    outcome: &'a Outcome,
}

/// Configuration of a run.
#[derive(Debug, Clone)]
pub struct Guest {
    kernel: Kernel,
    equipment: Equipment,
    source: Source,
    files: Vec<(PathBuf, String)>,
    program: Vec<String>,
    environment: Vec<(String, String)>,
    memory_mb: u32,
    time: Time,
    as_shipped: bool,
    results: Option<PathBuf>,
    timeout: Duration,
}

impl Guest {
    /// Creates a configuration with this kernel, pinned packages, 1024 MB of memory, virtual time
    /// with seed 1 and a limit of one hour of wall-clock time.
    pub fn new(kernel: Kernel) -> Guest {
        Guest {
            kernel,
            equipment: Equipment::Plain,
            source: Source::Pinned,
            files: Vec::new(),
            program: Vec::new(),
            environment: Vec::new(),
            memory_mb: 1024,
            time: Time::Virtual { processor: Mips::default(), seed: 1 },
            as_shipped: false,
            results: None,
            timeout: Duration::from_secs(3600),
        }
    }

    /// Sets the equipment.
    pub fn equipment(mut self, equipment: Equipment) -> Guest {
        self.equipment = equipment;
        self
    }

    /// Sets the source of the packages.
    pub fn source(mut self, source: Source) -> Guest {
        self.source = source;
        self
    }

    /// Copies a file or folder of the host into the guest. For a program, the shared libraries that
    /// it needs are copied as well.
    pub fn file(mut self, host: impl Into<PathBuf>, guest: impl Into<String>) -> Guest {
        self.files.push((host.into(), guest.into()));
        self
    }

    /// Sets the program and its arguments: a path in the guest or a name in its PATH. It runs as
    /// root in `/root` with empty standard input. Files that it writes to `/results` are copied to
    /// the host after it ends.
    pub fn program<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Guest {
        self.program = words.into_iter().map(Into::into).collect();
        self
    }

    /// Sets a variable of the program's environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Guest {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the memory size in MB (2^20 bytes). It also holds the guest's files.
    pub fn memory_mb(mut self, mb: u32) -> Guest {
        self.memory_mb = mb;
        self
    }

    /// Sets the guest's clock.
    pub fn time(mut self, time: Time) -> Guest {
        self.time = time;
        self
    }

    /// Sets whether the kernel performs all of Debian's run-time checks and uses the copy
    /// instructions of current processors. By default both are off, which makes runs a third faster
    /// and changes only what operations cost. Turn this on to measure such costs.
    pub fn as_shipped(mut self, as_shipped: bool) -> Guest {
        self.as_shipped = as_shipped;
        self
    }

    /// Sets the host folder for the results, which is created if it does not exist. Without it,
    /// results are discarded.
    pub fn results(mut self, folder: impl Into<PathBuf>) -> Guest {
        self.results = Some(folder.into());
        self
    }

    /// Sets the limit of wall-clock time.
    pub fn timeout(mut self, timeout: Duration) -> Guest {
        self.timeout = timeout;
        self
    }

    /// Builds the image if necessary, boots it, runs the program and copies the results to the
    /// host. Ends the guest when `stop` becomes true. No process and no temporary file is left
    /// behind, however the run ends. QEMU is also killed when the calling thread ends, so call this
    /// on a thread that waits for the result.
    ///
    /// # Errors
    /// Returns an error if the image cannot be built, QEMU is missing, the guest's kernel panics,
    /// memory, disk or time runs out, or the run is stopped. A nonzero exit code of the program is
    /// not an error.
    pub fn run(&self, progress: &mut dyn FnMut(Progress<'_>), stop: &AtomicBool) -> Result<Outcome, VmError> {
        if self.kernel.arch() == Arch::Arm64 && self.time.clock_parameters().is_some() {
            let why = format!(
                "kernel {}: a processor of more than 1000 MIPS is possible on amd64 only",
                self.kernel
            );
            return Err(VmError::Unfit(why));
        }
        let qemu = qemu::version(self.kernel.arch())?;
        let cache = Cache::open()?;
        let image = Image::build(&cache, self.kernel, self.equipment, self.source, &mut |text| {
            progress(Progress::Doing(text));
        })?;
        if stop.load(Ordering::Relaxed) {
            return Err(VmError::Stopped);
        }
        let folder = cache.run_folder()?;
        self.write_ram_file_system(&image, &folder)?;
        if let Some(results) = &self.results {
            std::fs::create_dir_all(results).at("making", results)?;
        }
        let outcome = self.boot(&cache, &image, &folder, progress, stop)?;
        if let Some(results) = &self.results {
            let provenance = Provenance {
                kernel: self.kernel.to_string(),
                image: &image.made,
                qemu,
                time: self.time,
                as_shipped: self.as_shipped,
                memory_mb: self.memory_mb,
                program: &self.program,
                environment: &self.environment,
                outcome: &outcome,
            };
            let path = results.join("vm.json");
            let text = serde_json::to_vec_pretty(&provenance).map_err(|e| VmError::Unfit(e.to_string()))?;
            std::fs::write(&path, text).at("writing", &path)?;
        }
        Ok(outcome)
    }

    /// Writes the image's archive, followed by the files of this run.
    fn write_ram_file_system(&self, image: &Image, folder: &RunFolder) -> Result<(), VmError> {
        let mut archive = Archive::default();
        for (host, guest) in &self.files {
            self.add(&mut archive, image, host, guest)?;
        }
        let exports =
            self.environment.iter().map(|(name, value)| format!("export {name}={}\n", quoted(value)));
        let words: Vec<String> = self.program.iter().map(|word| quoted(word)).collect();
        let script = format!("{}exec {}\n", exports.collect::<String>(), words.join(" "));
        archive.file("yuzuri/run", script.into_bytes(), true);
        let path = folder.path("initramfs");
        std::fs::copy(image.ram_file_system(), &path).at("writing (is the disk full?)", &path)?;
        let file = std::fs::File::options().append(true).open(&path).at("opening", &path)?;
        let mut writer = std::io::BufWriter::new(file);
        let written = archive.write(&mut writer).and_then(|()| writer.flush());
        written.and_then(|()| fill_page(writer.get_ref())).at("writing (is the disk full?)", &path)
    }

    fn add(&self, archive: &mut Archive, image: &Image, host: &Path, guest: &str) -> Result<(), VmError> {
        let about = std::fs::metadata(host).at("reading", host)?;
        if about.is_dir() {
            archive.folder(guest.trim_matches('/'));
            for entry in std::fs::read_dir(host).at("reading", host)? {
                let entry = entry.at("reading", host)?;
                let name = entry.file_name().to_string_lossy().into_owned();
                self.add(archive, image, &entry.path(), &format!("{}/{name}", guest.trim_end_matches('/')))?;
            }
            return Ok(());
        }
        let content = std::fs::read(host).at("reading", host)?;
        let arch = self.kernel.arch();
        let needs = libraries::needs(&content);
        let needs = needs.map_err(|e| VmError::Unfit(format!("{}: {e}", host.display())))?;
        if let Some(needs) = needs {
            if needs.arch != Some(arch) {
                let (host, kernel) = (host.display(), self.kernel);
                return Err(VmError::Unfit(format!(
                    "{host} is not a program for kernel {kernel}: build it for that architecture"
                )));
            }
            // A program of another architecture can only use the image's libraries.
            if needs.has_loader && arch.is_native() {
                add_libraries(archive, image, host)?;
            }
        }
        archive.file(guest, content, about.permissions().mode() & 0o111 != 0);
        Ok(())
    }

    fn boot(
        &self,
        cache: &Cache,
        image: &Image,
        folder: &RunFolder,
        progress: &mut dyn FnMut(Progress<'_>),
        stop: &AtomicBool,
    ) -> Result<Outcome, VmError> {
        let (console_path, errors_path) = (folder.path("console"), folder.path("errors"));
        std::fs::write(&console_path, "").at("making", &console_path)?;
        let mut console_file = std::fs::File::open(&console_path).at("opening", &console_path)?;
        let processor = match self.time {
            Time::Virtual { .. } => Processor::claim(cache)?,
            Time::Real => None,
        };
        let start = Instant::now();
        let mut running = Running::start(&Settings {
            image,
            ram_file_system: &folder.path("initramfs"),
            console: &console_path,
            errors: &errors_path,
            results: self.results.as_deref(),
            memory_mb: self.memory_mb,
            time: self.time,
            as_shipped: self.as_shipped,
            processor: processor.as_ref(),
        })?;
        let mut seen = Seen::default();
        loop {
            // Check for the end first, so that output written before the end is always read.
            let ended = running.ended();
            let mut bytes = Vec::new();
            console_file.read_to_end(&mut bytes).at("reading", &console_path)?;
            seen.take(&bytes, &running, progress);
            if let Some((status, cpu_s)) = ended {
                let errors = std::fs::read_to_string(&errors_path).unwrap_or_default();
                return seen.outcome(&format!("{status}: {}", errors.trim()), cpu_s, start.elapsed());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(VmError::Stopped);
            }
            if start.elapsed() > self.timeout {
                let s = self.timeout.as_secs();
                return Err(seen
                    .error(format!("the run had not finished after {s} s and was ended: allow more time")));
            }
            // The interval only determines how soon the end is noticed.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What has been observed of a running guest.
#[derive(Default)]
struct Seen {
    console: Console,
    /// When the program started, when it ended, and the latest known time, seconds of the guest's
    /// clock.
    booted_s: Option<f64>,
    ended: Option<(f64, i32)>,
    clock_s: f64,
    boot_cpu_s: f64,
    copied: bool,
    failed: Option<String>,
}

impl Seen {
    fn take(&mut self, bytes: &[u8], running: &Running, progress: &mut dyn FnMut(Progress<'_>)) {
        let before = self.console.program.len();
        for frame in self.console.feed(bytes) {
            match frame {
                Frame::Booted(time_s) => {
                    (self.booted_s, self.clock_s) = (Some(time_s), time_s);
                    self.boot_cpu_s = running.cpu_s();
                    progress(Progress::Booted { cpu_s: self.boot_cpu_s });
                }
                Frame::Time(time_s) => {
                    self.clock_s = time_s;
                    progress(Progress::Clock { guest_s: time_s - self.booted_s.unwrap_or(0.0) });
                    progress(Progress::Cost { cpu_s: running.cpu_s() });
                }
                Frame::Ended(time_s, code) => (self.ended, self.clock_s) = (Some((time_s, code)), time_s),
                Frame::Copied => self.copied = true,
                Frame::Failed(why) => self.failed = Some(why),
            }
        }
        if self.console.program.len() > before {
            progress(Progress::Output(&self.console.program[before..]));
        }
    }

    fn error(&self, why: String) -> VmError {
        VmError::Guest { why, guest_s: self.clock_s, tail: self.console.tail() }
    }

    /// Called after QEMU has ended: determines whether the program ran to completion.
    fn outcome(self, qemu: &str, cpu_s: f64, wall: Duration) -> Result<Outcome, VmError> {
        if let Some(line) =
            self.console.line_with("Out of memory").or(self.console.line_with("deadlocked on memory"))
        {
            let why = format!("the guest ran out of memory ({line}): give it more (memory_mb, --memory)");
            return Err(self.error(why));
        }
        if let Some(line) = self.console.line_with(PANIC) {
            return Err(self.error(format!("the guest's kernel panicked ({line})")));
        }
        if let Some(why) = &self.failed {
            return Err(
                self.error(format!("{why}: check that the folder for the results has space and is writable"))
            );
        }
        match (self.booted_s, self.ended) {
            (Some(booted_s), Some((ended_s, code))) if self.copied => Ok(Outcome {
                code,
                output: self.console.program,
                guest_s: ended_s - booted_s,
                boot_guest_s: booted_s,
                cpu_s,
                boot_cpu_s: self.boot_cpu_s,
                wall_s: wall.as_secs_f64(),
            }),
            _ => Err(self.error(format!("QEMU ended before the guest did ({qemu})"))),
        }
    }
}

/// Adds the shared libraries of a host program. A program runs with a C library newer than the one
/// it was built for, but not with an older one. The newer C library, the host's or the image's,
/// therefore serves all programs.
fn add_libraries(archive: &mut Archive, image: &Image, program: &Path) -> Result<(), VmError> {
    let found = libraries::of_host_program(program)?;
    let libc = found.iter().find(|p| p.ends_with("libc.so.6"));
    let newer = libc.is_some_and(|p| libraries::glibc_version(p).is_ok_and(|v| v > image.made.glibc));
    for path in found {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let place = format!("usr/lib/{}/{name}", image.kernel.arch().triplet());
        if newer || !image.has(&place)? {
            archive.file(&place, std::fs::read(&path).at("reading", &path)?, true);
        }
    }
    Ok(())
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Pads the file with zeros, which the kernel ignores, to a page boundary. QEMU loads the file into
/// the guest's last whole pages, and the firmware (observed with QEMU 10) places its ACPI tables at
/// the end of the last page. Only a file that ends on a page boundary leaves that page free.
fn fill_page(file: &std::fs::File) -> std::io::Result<()> {
    const PAGE_BYTES: u64 = 4096;
    file.set_len(file.metadata()?.len().next_multiple_of(PAGE_BYTES))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_lies_in_memory_ends_with_a_page() {
        use std::io::{Read, Seek};
        for (bytes, filled) in [(0usize, 0usize), (1, 4096), (4095, 4096), (4096, 4096), (4097, 8192)] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![7; bytes]).unwrap();
            fill_page(&file).unwrap();
            let mut content = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut content).unwrap();
            assert_eq!(content.len(), filled);
            assert!(content[..bytes].iter().all(|b| *b == 7) && content[bytes..].iter().all(|b| *b == 0));
        }
    }

    #[test]
    fn quoted_words_round_trip_through_a_shell() {
        let words = ["plain", "two words", "it's", "$HOME `x` \\ \"", "", "new\nline", "*"];
        let line = words.map(quoted).join(" ");
        let output = std::process::Command::new("sh").args(["-c", &format!("printf '%s|' {line}")]).output();
        assert_eq!(
            String::from_utf8(output.unwrap().stdout).unwrap(),
            words.map(|w| format!("{w}|")).concat()
        );
    }

    fn why(console: &str) -> String {
        let mut seen = Seen::default();
        for frame in seen.console.feed(console.as_bytes()) {
            match frame {
                Frame::Booted(t) => seen.booted_s = Some(t),
                Frame::Ended(t, code) => seen.ended = Some((t, code)),
                Frame::Failed(why) => seen.failed = Some(why),
                _ => {}
            }
        }
        seen.outcome("exit status: 0: ", 1.0, Duration::ZERO).unwrap_err().to_string()
    }

    #[test]
    fn errors_say_what_happened() {
        assert!(why("[ 1.0] Kernel panic - not syncing: x\n").contains("panicked ([ 1.0] Kernel panic"));
        assert!(
            why("Out of memory: Killed process 7 (x)\n\u{1e}booted 1\u{1f}\u{1e}ended 2 137\u{1f}")
                .contains("--memory")
        );
        assert!(
            why("\u{1e}booted 1\u{1f}\u{1e}ended 2 0\u{1f}\u{1e}failed copying: No space left\u{1f}")
                .contains("No space left")
        );
        let cut = why("hello\n\u{1e}booted 1\u{1f}");
        assert!(cut.contains("ended before the guest did") && cut.ends_with("hello"), "{cut}");
    }
}
