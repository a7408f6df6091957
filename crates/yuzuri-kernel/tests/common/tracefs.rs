//! The kernel's own trace of `tcp:tcp_probe`, in the test's own tracing instance.

use std::collections::HashMap;
use std::path::PathBuf;
use yuzuri_testnet::tracefs::Tracefs;

/// A tracing instance; removed when dropped.
pub struct Trace {
    folder: PathBuf,
    /// Dropped last: the folder is in it.
    _tracefs: Tracefs,
}

/// One line of `tcp:tcp_probe`: its fields by name, as printed.
pub type Line = HashMap<String, String>;

impl Trace {
    /// Traces `tcp:tcp_probe` for one port, or returns why it cannot.
    pub fn start(name: &str, port: u16) -> Result<Trace, String> {
        let tracefs = Tracefs::open().map_err(|e| e.to_string())?;
        let folder = tracefs.path().join("instances").join(name);
        std::fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let trace = Trace { folder, _tracefs: tracefs };
        trace.write("trace_clock", "mono")?;
        trace.write("buffer_size_kb", "8192")?;
        trace.write("events/tcp/tcp_probe/filter", &format!("sport == {port} || dport == {port}"))?;
        trace.write("events/tcp/tcp_probe/enable", "1")?;
        trace.write("tracing_on", "1")?;
        Ok(trace)
    }

    fn write(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.folder.join(file);
        std::fs::write(&path, value).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Stops it and returns all lines in order of time.
    pub fn lines(&self) -> Vec<Line> {
        self.write("events/tcp/tcp_probe/enable", "0").unwrap();
        let text = std::fs::read_to_string(self.folder.join("trace")).unwrap();
        let entries = text.lines().find(|l| l.contains("entries-in-buffer")).unwrap();
        let counts: Vec<&str> =
            entries.split_whitespace().filter(|w| w.contains('/')).nth(1).unwrap().split('/').collect();
        assert_eq!(counts[0], counts[1], "the kernel's trace lost lines: {entries}");
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(": tcp_probe: "))
            .map(|(task, fields)| {
                let words = fields.split_whitespace().filter_map(|word| word.split_once('='));
                // The task, CPU and context, for analysing a difference.
                let words = words.chain([("task", task)]);
                words.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
            })
            .collect()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.write("events/tcp/tcp_probe/enable", "0");
        let _ = std::fs::remove_dir(&self.folder);
    }
}
