//! The queue lengths over time.

use std::io::{self, Write};

/// The lengths of all queues, sampled at a fixed interval.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueTrace {
    /// The columns: `terminal 0`, ..., `ap`, `wire up`, `wire down`.
    pub columns: Vec<String>,
    /// Sampling interval, nanoseconds.
    pub interval_ns: u64,
    /// Packets in each queue, row by row.
    pub packets: Vec<u32>,
}

impl QueueTrace {
    /// The rows: time since the driver's start in seconds, and the lengths.
    pub fn rows(&self) -> impl Iterator<Item = (f64, &[u32])> {
        let interval_s = self.interval_ns as f64 / 1e9;
        self.packets
            .chunks(self.columns.len().max(1))
            .enumerate()
            .map(move |(n, row)| (n as f64 * interval_s, row))
    }

    /// Writes the rows from `since_s` (seconds) on as CSV, with times relative to `since_s`.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write_csv(&self, since_s: f64, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "t_s,{}", self.columns.join(","))?;
        for (t, row) in self.rows().filter(|(t, _)| *t >= since_s) {
            write!(out, "{:.3}", t - since_s)?;
            for packets in row {
                write!(out, ",{packets}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}
