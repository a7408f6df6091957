//! Cleans up: children end with this process, and the next run removes namespaces left by killed
//! runs.

#![expect(unsafe_code, reason = "what a child does before exec")]

use anyhow::Context;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A flag set by the first SIGINT, SIGTERM or SIGHUP; a second signal ends the process immediately.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Installs the signal handlers.
    pub fn on_signals() -> anyhow::Result<Stop> {
        Ok(Stop(yuzuri_exit::stop_flag().context("installing the signal handlers")?))
    }

    /// Returns an error after a signal, so that `?` unwinds through all clean-up.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!yuzuri_exit::stopped(&self.0), "interrupted");
        Ok(())
    }

    /// Sleeps in steps short enough to react to Ctrl-C.
    pub fn sleep(&self, time: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + time;
        loop {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

/// A child process that ends when this value is dropped or this process is killed.
pub struct KillOnDrop(pub Child);

impl KillOnDrop {
    /// Starts the child. The child dies with the calling thread, so that thread must live as long
    /// as the child should.
    pub fn spawn(command: &mut Command) -> anyhow::Result<KillOnDrop> {
        // SAFETY: between fork and exec the closure only makes system calls.
        unsafe {
            command.pre_exec(|| {
                // `interrupt` sends SIGINT, which a shell ignores for background processes, and
                // their children inherit that.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("starting {program}"))?;
        Ok(KillOnDrop(child))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends SIGINT and waits at most `time`; then kills the child.
    pub fn interrupt(&mut self, time: Duration) -> anyhow::Result<()> {
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        if self.0.try_wait()?.is_none() {
            nix::sys::signal::kill(pid, nix::sys::signal::SIGINT).context("sending SIGINT to a child")?;
        }
        let until = Instant::now() + time;
        while self.0.try_wait()?.is_none() {
            if Instant::now() > until {
                self.0.kill().context("killing a child that did not exit")?;
                self.0.wait()?;
                anyhow::bail!("process {pid} did not exit within {time:?} of SIGINT and was killed");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Removes the namespaces of `yuzuri_testnet` whose process no longer exists.
pub fn remove_orphaned_namespaces() {
    for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner_pid(&name).is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
            eprintln!("removing namespace {name} of a run that was killed");
            let _ = Command::new("ip").args(["netns", "del", &name]).status();
        }
    }
}

/// The process id in a namespace name of the form `yz<pid>-<number><a|b>`.
fn owner_pid(name: &str) -> Option<u32> {
    let (pid, rest) = name.strip_prefix("yz")?.split_once('-')?;
    rest.strip_suffix(['a', 'b'])?.parse::<u32>().ok()?;
    pid.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_testnet_namespaces_have_an_owner_pid() {
        assert_eq!(owner_pid("yz1234-0a"), Some(1234));
        assert_eq!(owner_pid("yz1234-12b"), Some(1234));
        for other in ["yz1234", "yz-0a", "yuzuri", "yz12-a", "yz12-3c", "myyz12-3a"] {
            assert_eq!(owner_pid(other), None, "{other}");
        }
    }

    #[test]
    fn a_dropped_child_is_killed() {
        let child = KillOnDrop::spawn(Command::new("sleep").arg("600")).unwrap();
        let path = format!("/proc/{}", child.pid());
        assert!(std::path::Path::new(&path).exists());
        drop(child);
        assert!(!std::path::Path::new(&path).exists());
    }

    #[test]
    fn a_child_that_exits_on_sigint_is_not_killed() {
        let mut child = KillOnDrop::spawn(Command::new("sleep").arg("600")).unwrap();
        child.interrupt(Duration::from_secs(5)).unwrap();
        assert!(child.0.try_wait().unwrap().is_some());
    }
}
