//! The observers of the traffic: the command itself, and common alternatives.

#![expect(unsafe_code, reason = "wait4, and what a child does before exec")]

use crate::cpu;
use crate::tidy::KillOnDrop;
use anyhow::{Context, bail, ensure};
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A running `yuzuri watch`.
pub struct Agent {
    child: KillOnDrop,
    lines: Receiver<String>,
}

/// The command's final account.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FinalAccount {
    pub seen: u64,
    pub kept: u64,
    pub lost: u64,
    /// The line itself.
    pub line: String,
}

impl Agent {
    /// Starts `yuzuri watch` and waits until it reports that it is watching.
    pub fn start(yuzuri: &Path, args: &[&str]) -> anyhow::Result<Agent> {
        let mut command = Command::new(yuzuri);
        command.arg("watch").args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = KillOnDrop::spawn(&mut command)?;
        let stderr = child.0.stderr.take().context("the command's messages")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let agent = Agent { child, lines };
        let mut messages = Vec::new();
        loop {
            match agent.lines.recv_timeout(Duration::from_secs(10)) {
                Ok(line) if line.starts_with("yuzuri: watching") => return Ok(agent),
                Ok(line) => messages.push(line),
                Err(_) => {
                    bail!(
                        "{} watch {} did not start: {}",
                        yuzuri.display(),
                        args.join(" "),
                        messages.join("; ")
                    )
                }
            }
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Stops the command with SIGINT and returns its final account.
    pub fn finish(mut self) -> anyhow::Result<FinalAccount> {
        self.child.interrupt(Duration::from_secs(20))?;
        let mut messages = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(5)) {
            messages.push(line);
        }
        (messages.iter().rev().find_map(|line| parse_account(line)))
            .with_context(|| format!("the command printed no account: {}", messages.join("; ")))
    }
}

/// Parses `yuzuri: seen 5 = kept 4 + lost 1 (ring-full 1)`.
fn parse_account(line: &str) -> Option<FinalAccount> {
    let rest = line.strip_prefix("yuzuri: seen ")?;
    let (seen, rest) = rest.split_once(" = kept ")?;
    let (kept, rest) = rest.split_once(" + lost ")?;
    let lost: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(FinalAccount {
        seen: seen.parse().ok()?,
        kept: kept.parse().ok()?,
        lost: lost.parse().ok()?,
        line: line.trim_start_matches("yuzuri: ").to_owned(),
    })
}

/// `bpftrace`, printing the fields of tcp:tcp_probe to a file.
pub struct Bpftrace {
    child: KillOnDrop,
    folder: tempfile::TempDir,
}

const SCRIPT: &str = r#"tracepoint:tcp:tcp_probe { printf("%llu %llx %d %d %u %u %u %u %u %u %u %u\n", nsecs,
    args->sock_cookie, args->sport, args->dport, args->data_len, args->snd_nxt, args->snd_una, args->snd_cwnd,
    args->ssthresh, args->snd_wnd, args->srtt, args->rcv_wnd); }"#;

impl Bpftrace {
    /// Starts bpftrace. It attaches some time later; see [`Bpftrace::written`].
    pub fn start(memory: &Path) -> anyhow::Result<Bpftrace> {
        let folder = tempfile::tempdir_in(memory).context("creating a folder")?;
        let messages = std::fs::File::create(folder.path().join("messages"))?;
        let mut command = Command::new("bpftrace");
        command.args(["-B", "full", "-o"]).arg(folder.path().join("out")).args(["-e", SCRIPT]);
        command.stdin(Stdio::null()).stdout(messages.try_clone()?).stderr(messages);
        // SAFETY: it only makes system calls.
        unsafe { command.pre_exec(yuzuri_testnet::tracefs::mount_for_child) };
        let child = KillOnDrop::spawn(&mut command).context("bpftrace (apt-get install bpftrace)")?;
        Ok(Bpftrace { child, folder })
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        std::fs::metadata(self.folder.path().join("out")).map_or(0, |m| m.len())
    }

    /// Returns an error if bpftrace has exited.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        if self.child.0.try_wait()?.is_some() {
            let text = std::fs::read_to_string(self.folder.path().join("messages")).unwrap_or_default();
            bail!("bpftrace exited: {}", text.trim());
        }
        Ok(())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Stops bpftrace. Returns the lines that it printed and the events that it lost.
    pub fn finish(mut self) -> anyhow::Result<(u64, u64)> {
        self.child.interrupt(Duration::from_secs(20))?;
        let (mut lines, mut lost) = (0, 0);
        for name in ["out", "messages"] {
            let file = std::fs::File::open(self.folder.path().join(name))?;
            for line in BufReader::new(file).split(b'\n') {
                let line = line?;
                match std::str::from_utf8(&line).ok().and_then(lost_events) {
                    Some(n) => lost += n,
                    None if line.first().is_some_and(u8::is_ascii_digit) => lines += 1,
                    None => {}
                }
            }
        }
        Ok((lines, lost))
    }
}

fn lost_events(line: &str) -> Option<u64> {
    line.strip_prefix("Lost ")?.strip_suffix(" events")?.parse().ok()
}

/// Runs `ss -tin` `hz` times per second in the calling thread's namespace until `stop`. Adds its
/// CPU time, including its start, to `cpu_ns`.
pub fn poll_ss(hz: u32, stop: &AtomicBool, cpu_ns: &AtomicU64) -> anyhow::Result<()> {
    let every = Duration::from_secs(1) / hz;
    let mut due = Instant::now();
    let mut before = cpu::thread_ns()?;
    let out = tempfile::tempfile_in("/dev/shm").context("creating a file in memory")?;
    while !stop.load(Ordering::Relaxed) {
        let to = out.as_fd().try_clone_to_owned()?;
        let child =
            Command::new("ss").arg("-tin").stdin(Stdio::null()).stdout(to).spawn().context("starting ss")?;
        let used = wait_for_cpu_ns(child.id())?;
        let after = cpu::thread_ns()?;
        cpu_ns.fetch_add(used + after - before, Ordering::Relaxed);
        before = after;
        due += every;
        let now = Instant::now();
        match due.checked_duration_since(now) {
            Some(wait) => std::thread::sleep(wait.min(Duration::from_millis(100))),
            None => due = now,
        }
    }
    Ok(())
}

/// Waits for a child and returns its CPU time, nanoseconds.
fn wait_for_cpu_ns(pid: u32) -> anyhow::Result<u64> {
    let mut status = 0;
    // SAFETY: any bit pattern is valid for rusage; the kernel fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers refer to local variables.
    let waited = unsafe { libc::wait4(pid as i32, &mut status, 0, &mut usage) };
    ensure!(waited == pid as i32, "waiting for ss: {}", std::io::Error::last_os_error());
    ensure!(status == 0, "ss failed with status {status}");
    let us = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    Ok((us(usage.ru_utime) + us(usage.ru_stime)) * 1000)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_final_account_is_parsed() {
        let parsed =
            parse_account("yuzuri: seen 1253 = kept 1250 + lost 3 (nested 3); 7 more merged by density")
                .unwrap();
        assert_eq!((parsed.seen, parsed.kept, parsed.lost), (1253, 1250, 3));
        assert_eq!(parse_account("yuzuri: watching all flows"), None);
        assert_eq!(lost_events("Lost 1205 events"), Some(1205));
        assert_eq!(lost_events("Lost"), None);
    }
}
