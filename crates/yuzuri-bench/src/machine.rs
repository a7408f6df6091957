//! Describes the machine; figures are meaningless without it.

use serde::Serialize;

/// The header of a report.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    pub cpu: String,
    pub cpus: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// One-minute load average when the benchmark began, to show competing load.
    pub load_average: f64,
    pub yuzuri: &'static str,
    pub unix_seconds: u64,
}

impl Machine {
    /// Reads the machine's description.
    pub fn read() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| -> String {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, v)| v.trim().to_owned()).unwrap_or_default()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Machine {
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get()),
            memory_bytes: memory.trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024,
            kernel: [read("/proc/sys/kernel/osrelease"), read("/proc/sys/kernel/version")]
                .map(|s| s.trim().to_owned())
                .join(" "),
            load_average: read("/proc/loadavg").split(' ').next().and_then(|s| s.parse().ok()).unwrap_or(0.0),
            yuzuri: env!("CARGO_PKG_VERSION"),
            unix_seconds: now.map_or(0, |d| d.as_secs()),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "yuzuri {} on {} CPUs: {}", self.yuzuri, self.cpus, self.cpu)?;
        writeln!(f, "Linux {}, {:.1} GiB", self.kernel, self.memory_bytes as f64 / f64::from(1 << 30))?;
        write!(f, "load average at the start: {:.2}", self.load_average)?;
        if self.load_average > 0.5 {
            write!(
                f,
                " (other processes use this machine, which affects times and rates more than ratios and medians)"
            )?;
        }
        Ok(())
    }
}
