//! Resource use of a process. CPU times have nanosecond resolution: they come from the kernel's
//! runtime accounting, not from tick sampling.

use anyhow::Context;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

/// Total CPU time of a process, all threads, user and kernel, nanoseconds. Interrupts and softirqs
/// are charged to the thread that they interrupt, or to the ksoftirqd threads that `Softirqs`
/// reads.
pub fn process_ns(pid: u32) -> anyhow::Result<u64> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid as i32))
        .with_context(|| format!("finding the CPU clock of process {pid}"))?;
    now_ns(clock)
}

/// Total CPU time of this process, nanoseconds.
pub fn this_process_ns() -> anyhow::Result<u64> {
    now_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Total CPU time of this thread, nanoseconds.
pub fn thread_ns() -> anyhow::Result<u64> {
    now_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn now_ns(clock: ClockId) -> anyhow::Result<u64> {
    let time = clock.now().with_context(|| format!("reading CPU clock {clock}"))?;
    Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// A field of /proc/PID/status, kilobytes.
pub fn status_kb(pid: u32, name: &str) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("reading the memory of process {pid}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.with_context(|| format!("/proc/{pid}/status has no {name}"))?;
    Ok(value.trim().trim_end_matches(" kB").parse()?)
}

/// The ksoftirqd threads, which run softirqs under load.
pub struct Softirqs(Vec<u32>);

impl Softirqs {
    /// Finds the threads.
    pub fn find() -> Softirqs {
        let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        Softirqs(
            pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
                .filter(|pid| {
                    std::fs::read_to_string(format!("/proc/{pid}/comm"))
                        .is_ok_and(|name| name.starts_with("ksoftirqd/"))
                })
                .collect(),
        )
    }

    /// Their total CPU time, nanoseconds.
    pub fn ns(&self) -> u64 {
        self.0.iter().filter_map(|pid| process_ns(*pid).ok()).sum()
    }
}

/// Pins the calling thread to one CPU (modulo the number of CPUs).
pub fn pin(cpu: usize) -> anyhow::Result<()> {
    let count = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu % count).with_context(|| format!("selecting CPU {cpu}"))?;
    nix::sched::sched_setaffinity(Pid::from_raw(0), &set).with_context(|| format!("pinning to CPU {cpu}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn cpu_clocks_count_work_but_not_sleep() {
        let (own, thread, process) =
            (this_process_ns().unwrap(), thread_ns().unwrap(), process_ns(std::process::id()).unwrap());
        let until = thread + 20_000_000;
        while thread_ns().unwrap() < until {}
        assert!(this_process_ns().unwrap() - own >= 19_000_000);
        assert!(process_ns(std::process::id()).unwrap() - process >= 19_000_000);
        let before = thread_ns().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(thread_ns().unwrap() - before < 10_000_000);
    }
}
