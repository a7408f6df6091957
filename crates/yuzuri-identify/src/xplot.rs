//! Time-sequence graphs as files of xplot (<http://www.xplot.org>), in the colours of tcptrace.

use crate::error::IdentifyError;
use crate::report::{FileReport, FlowReport};
use crate::sequence::{MarkKind, Sequence};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A folder of graphs, one for each direction of a flow.
pub struct Folder {
    path: PathBuf,
    graphs: u64,
}

impl Folder {
    /// Creates the folder, if necessary.
    pub fn new(path: &Path) -> Result<Folder, IdentifyError> {
        std::fs::create_dir_all(path).map_err(IdentifyError::write(path))?;
        Ok(Folder { path: path.to_owned(), graphs: 0 })
    }

    /// Writes the graphs of a file's flows.
    pub fn add(&mut self, report: &FileReport) -> Result<(), IdentifyError> {
        for flow in &report.flows {
            if let Some(sequence) = &flow.sequence {
                self.graphs += 1;
                let path = self.path.join(name(self.graphs, flow));
                let file = File::create(&path).map_err(IdentifyError::write(&path))?;
                let mut out = BufWriter::new(file);
                write(&mut out, flow, sequence)
                    .and_then(|()| out.flush())
                    .map_err(IdentifyError::write(&path))?;
            }
        }
        Ok(())
    }

    /// The number of graphs written.
    pub fn graphs(&self) -> u64 {
        self.graphs
    }
}

/// A file's name: its number, the sender and the receiver.
fn name(number: u64, flow: &FlowReport) -> String {
    let plain = |text: String| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
    format!("{number}_{}_{}.xpl", plain(flow.from()), plain(flow.to()))
}

/// A time as xplot's `timeval`.
fn time(ns: i64) -> String {
    format!("{}.{:06}", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000) / 1000)
}

fn write(out: &mut impl Write, flow: &FlowReport, sequence: &Sequence) -> std::io::Result<()> {
    writeln!(out, "timeval unsigned")?;
    let cut = if sequence.is_cut { ", its beginning" } else { "" };
    writeln!(out, "title\n{}_==>_{} (time sequence graph{cut})", flow.from(), flow.to())?;
    writeln!(out, "xlabel\ntime\nylabel\nbytes since the first one")?;
    let mut last: Option<(i64, u64, Option<u64>)> = None;
    for mark in &sequence.marks {
        let at = time(mark.time_ns);
        match mark.what {
            MarkKind::Sent(from, to) => {
                writeln!(out, "white\nuarrow {at} {to}\ndarrow {at} {from}\nline {at} {from} {at} {to}")?;
            }
            MarkKind::Again(from, to) => {
                writeln!(out, "red\nline {at} {from} {at} {to}\natext {at} {to}\nR")?;
            }
            MarkKind::Selective(from, to) => {
                writeln!(out, "purple\nline {at} {from} {at} {to}\nltext {at} {to}\nS")?;
            }
            MarkKind::Acknowledged(ack, end) => {
                // The acknowledged position stays until it advances.
                if let Some((since, before, window)) = last {
                    let since = time(since);
                    writeln!(
                        out,
                        "green\nline {since} {before} {at} {before}\nline {at} {before} {at} {ack}"
                    )?;
                    if let (Some(before), Some(now)) = (window, end) {
                        writeln!(
                            out,
                            "yellow\nline {since} {before} {at} {before}\nline {at} {before} {at} {now}"
                        )?;
                    }
                }
                last = Some((mark.time_ns, ack, end));
            }
        }
    }
    writeln!(out, "go")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sequence::Mark;
    use yuzuri_infer::identify;
    use yuzuri_infer::window_trace::WindowTrace;

    #[test]
    fn a_graph_draws_each_mark_at_its_position() {
        let mark = |time_ns, what| Mark { time_ns, what };
        let sequence = Sequence {
            marks: vec![
                mark(1_000_000_000, MarkKind::Acknowledged(0, Some(5000))),
                mark(1_000_001_999, MarkKind::Sent(0, 1000)),
                mark(1_250_000_000, MarkKind::Selective(2000, 3000)),
                mark(1_500_000_000, MarkKind::Again(0, 1000)),
                mark(2_000_000_000, MarkKind::Acknowledged(1000, Some(6000))),
            ],
            ..Sequence::default()
        };
        let to = "[2001:db8::1]:80".parse().ok();
        let verdict = identify(WindowTrace::default(), None, "10.0.0.1:5001".parse().ok(), to);
        let flow = FlowReport::new(verdict, None);
        assert_eq!(name(3, &flow), "3_10.0.0.1-5001_-2001-db8--1--80.xpl");
        let mut out = Vec::new();
        write(&mut out, &flow, &sequence).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "timeval unsigned\ntitle\n10.0.0.1:5001_==>_[2001:db8::1]:80 (time sequence graph)\n\
            xlabel\ntime\nylabel\nbytes since the first one\n\
            white\nuarrow 1.000001 1000\ndarrow 1.000001 0\nline 1.000001 0 1.000001 1000\n\
            purple\nline 1.250000 2000 1.250000 3000\nltext 1.250000 3000\nS\n\
            red\nline 1.500000 0 1.500000 1000\natext 1.500000 1000\nR\n\
            green\nline 1.000000 0 2.000000 0\nline 2.000000 0 2.000000 1000\n\
            yellow\nline 1.000000 5000 2.000000 5000\nline 2.000000 5000 2.000000 6000\ngo\n";
        assert_eq!(text, expected);
    }
}
