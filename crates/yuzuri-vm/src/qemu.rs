//! QEMU: command line, process control and CPU cost.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use crate::error::{AtPath, output};
use crate::image::Image;
use crate::processor::Processor;
use crate::{Arch, Time, VmError};
use nix::sched::sched_setaffinity;
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Settings of a QEMU process.
pub(crate) struct Settings<'a> {
    pub(crate) image: &'a Image,
    pub(crate) ram_file_system: &'a Path,
    pub(crate) console: &'a Path,
    pub(crate) errors: &'a Path,
    pub(crate) results: Option<&'a Path>,
    pub(crate) memory_mb: u32,
    pub(crate) time: Time,
    pub(crate) as_shipped: bool,
    /// Processor to pin QEMU to, if any.
    pub(crate) processor: Option<&'a Processor>,
}

/// Kernel parameters of every guest.
const PARAMETERS: &str = "panic=-1 quiet nokaslr mitigations=off";

/// Additional kernel parameters, unless the guest runs as shipped. They disable checks and
/// accounting that cost time at every system call, context switch, page or copy and do not affect
/// TCP. The last one shortens booting by a second.
const QUICK_PARAMETERS: &str = "init_on_alloc=0 hardened_usercopy=off psi=0 lsm=yama audit=0 cgroup_disable=memory nowatchdog \
                                cryptomgr.notests";

/// The smallest machine type that can still power off and keep a clock. It has no legacy interrupt
/// controller (PIC), which the kernel does not use: QEMU 10 raises an interrupt through it before
/// it is set up, with vector 0, and the kernel takes that for a division error.
const MICROVM: &str = "microvm,acpi=on,rtc=on,pic=off";

fn program(arch: Arch) -> &'static str {
    match arch {
        Arch::Amd64 => "qemu-system-x86_64",
        Arch::Arm64 => "qemu-system-aarch64",
    }
}

/// QEMU's version line.
///
/// # Errors
/// Returns an error if QEMU is not installed.
pub fn version(arch: Arch) -> Result<String, VmError> {
    let text = output(Command::new(program(arch)).arg("--version"), "install it again")?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Escapes a value. Commas separate QEMU's options; a comma within a value is doubled.
fn value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

pub(crate) fn command(settings: &Settings<'_>) -> Command {
    let arch = settings.image.kernel.arch();
    let mut command = Command::new(program(arch));
    let (machine, cpu, console) = match arch {
        Arch::Amd64 if settings.as_shipped => (MICROVM, "max", "ttyS0"),
        // Without features that are fast in silicon but slow in emulation: byte-wise string copies
        // (ERMS, FSRM) and five-level page tables.
        Arch::Amd64 => (MICROVM, "max,-erms,-fsrm,-la57", "ttyS0"),
        Arch::Arm64 => ("virt", "cortex-a72", "ttyAMA0"),
    };
    command.args(["-M", machine, "-cpu", cpu, "-smp", "1", "-m"]).arg(settings.memory_mb.to_string());
    let clock = settings.time.clock_parameters();
    if clock.is_some() {
        command.args(["-M", "pit=off"]);
    }
    match settings.time {
        Time::Virtual { processor, seed } => {
            let shift = crate::time::shift(processor);
            // QEMU emulates in one thread and advances the clock over idle time in another. If the
            // second thread runs when the guest has halted but its last instructions have not been
            // counted yet, the guest's clock gains some microseconds. This is rare but enough to
            // change a random number. Record mode makes the two threads take turns. It records
            // external input for QEMU's replay; here there is none.
            let clock = format!("shift={shift},sleep=off,rr=record,rrfile=/dev/null");
            command.args(["-accel", "tcg,thread=single", "-icount"]).arg(clock);
            command.args(["-rtc", "base=2020-01-01T00:00:00,clock=vm", "-seed"]).arg(seed.to_string());
        }
        Time::Real => {
            command.args(["-accel", "tcg", "-rtc", "base=utc"]);
        }
    }
    command.args(["-no-user-config", "-nodefaults", "-display", "none", "-no-reboot", "-nic", "none"]);
    command.arg("-chardev").arg(format!("file,id=console,path={}", value(settings.console)));
    command.args(["-serial", "chardev:console"]);
    if let Some(results) = settings.results {
        command.arg("-fsdev").arg(format!("local,id=results,path={},security_model=none", value(results)));
        command.args(["-device", "virtio-9p-device,fsdev=results,mount_tag=results"]);
    }
    command.arg("-kernel").arg(settings.image.kernel_file()).arg("-initrd").arg(settings.ram_file_system);
    let quick = if settings.as_shipped { "" } else { QUICK_PARAMETERS };
    let clock = clock.unwrap_or_default();
    command.arg("-append").arg(format!("console={console} {PARAMETERS} {quick} {clock}"));
    command
}

/// A running QEMU process. It is killed on drop and when the thread that started it ends.
pub(crate) struct Running {
    child: Child,
    ended: Option<(ExitStatus, f64)>,
}

impl Running {
    pub(crate) fn start(settings: &Settings<'_>) -> Result<Running, VmError> {
        let mut command = command(settings);
        let errors = File::create(settings.errors).at("making", settings.errors)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        // In a process group of its own QEMU does not receive Ctrl-C; this program ends it.
        command.process_group(0);
        let parent = std::process::id();
        let processor = settings.processor.and_then(Processor::set);
        // SAFETY: these system calls are async-signal-safe, and nothing else happens between fork
        // and exec.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if let Some(set) = &processor {
                    // QEMU also runs without affinity.
                    let _ = sched_setaffinity(Pid::from_raw(0), set);
                }
                // The parent may have died before the prctl call.
                if libc::getppid() as u32 != parent {
                    libc::_exit(1);
                }
                Ok(())
            });
        }
        let arch = settings.image.kernel.arch();
        let child = command.spawn().map_err(|e| VmError::Tool {
            program: program(arch).into(),
            why: e.to_string(),
            advice: "`scripts/setup.sh vm` installs QEMU, as root".into(),
        })?;
        Ok(Running { child, ended: None })
    }

    /// Exit status and CPU time in seconds once QEMU has ended.
    pub(crate) fn ended(&mut self) -> Option<(ExitStatus, f64)> {
        if self.ended.is_none() {
            self.ended = wait(self.child.id(), libc::WNOHANG);
        }
        self.ended
    }

    /// CPU time used so far, seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        if let Some((_, cpu_s)) = self.ended {
            return cpu_s;
        }
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // proc(5): utime and stime are fields 14 and 15. The second field is a name in parentheses.
        let fields = text.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        let ticks: f64 =
            fields.split_whitespace().skip(11).take(2).filter_map(|f| f.parse::<f64>().ok()).sum();
        // SAFETY: sysconf only reads.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        ticks / per_second as f64
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended().is_none() {
            let _ = self.child.kill();
            wait(self.child.id(), 0);
        }
    }
}

/// Like `Child::wait`, but also returns the CPU time in seconds.
fn wait(pid: u32, flags: libc::c_int) -> Option<(ExitStatus, f64)> {
    use std::os::unix::process::ExitStatusExt;
    let mut status = 0;
    // SAFETY: rusage is plain integers; all zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid during the call. The process is our child, and nothing else
    // waits for it.
    let pid = unsafe { libc::wait4(pid as libc::pid_t, &mut status, flags, &mut usage) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (pid > 0).then(|| (ExitStatus::from_raw(status), seconds(usage.ru_utime) + seconds(usage.ru_stime)))
}
