//! The queues over time.

use std::io::{self, Write};

/// Lengths of all queues, sampled at equal distances.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueTrace {
    /// What each column is: `terminal 0`, ..., `ap`, `wire up`, `wire down`.
    pub columns: Vec<String>,
    /// Distance of two samples, nanoseconds.
    pub interval_ns: u64,
    /// Packets in each queue, row after row.
    pub packets: Vec<u32>,
}

impl QueueTrace {
    /// Time since the driver's start in seconds, and the lengths.
    pub fn rows(&self) -> impl Iterator<Item = (f64, &[u32])> {
        let interval_s = self.interval_ns as f64 / 1e9;
        self.packets
            .chunks(self.columns.len().max(1))
            .enumerate()
            .map(move |(n, row)| (n as f64 * interval_s, row))
    }

    /// Writes the rows from `since_s` on as CSV, times counted from there, seconds.
    ///
    /// # Errors
    /// Those of the writer.
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
