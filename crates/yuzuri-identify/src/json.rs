//! All results as one JSON document, written file by file.

use crate::batch::Totals;
use crate::error::IdentifyError;
use crate::report::{FileReport, FlowReport};
use std::io::Write;
use std::path::Path;

/// The version of the document's format; it changes with every incompatible change.
pub const FORMAT: u32 = 1;

/// Writes the document: `{"format":1,"yuzuri":...,"files":[...],"totals":{...}}`.
pub struct Document<W: Write> {
    out: W,
    files: u64,
    rounds: bool,
}

impl<W: Write> Document<W> {
    /// Begins the document. Rounds are omitted unless `rounds` is set.
    pub fn new(mut out: W, rounds: bool) -> Result<Document<W>, IdentifyError> {
        let version = env!("CARGO_PKG_VERSION");
        write!(out, "{{\"format\":{FORMAT},\"yuzuri\":\"{version}\",\"files\":[").map_err(failed)?;
        Ok(Document { out, files: 0, rounds })
    }

    /// Adds a file.
    pub fn add(&mut self, report: &mut FileReport) -> Result<(), IdentifyError> {
        let comma = if self.files == 0 { "\n" } else { ",\n" };
        self.files += 1;
        self.out.write_all(comma.as_bytes()).map_err(failed)?;
        // Flows are written one by one. All other fields come first; they end with an empty list of
        // flows.
        let flows = std::mem::take(&mut report.flows);
        let head = serde_json::to_string(report).map_err(|error| failed(error.into()));
        report.flows = flows;
        let head = head?;
        let head = head.strip_suffix("]}").unwrap_or(&head);
        self.out.write_all(head.as_bytes()).map_err(failed)?;
        let mut comma = "";
        for report in &mut report.flows {
            self.out.write_all(comma.as_bytes()).map_err(failed)?;
            flow(&mut self.out, report, self.rounds).map_err(failed)?;
            comma = ",";
        }
        if let Some(spilled) = &report.spilled {
            spilled.each(|flow| {
                let written = self.out.write_all(comma.as_bytes()).and_then(|()| self.out.write_all(flow));
                comma = ",";
                written.map_err(failed)
            })?;
        }
        self.out.write_all(b"]}").map_err(failed)
    }

    /// Completes the document.
    pub fn finish(mut self, totals: &Totals) -> Result<W, IdentifyError> {
        self.out.write_all(b"\n],\"totals\":").map_err(failed)?;
        serde_json::to_writer(&mut self.out, totals).map_err(|error| failed(error.into()))?;
        self.out.write_all(b"}\n").and_then(|()| self.out.flush()).map_err(failed)?;
        Ok(self.out)
    }
}

/// Writes a flow as in the document.
pub(crate) fn flow(out: &mut impl Write, flow: &mut FlowReport, rounds: bool) -> std::io::Result<()> {
    // Restore the omitted part, which is used elsewhere.
    let left_out = (!rounds).then(|| {
        let verdict = &mut flow.verdict;
        (std::mem::take(&mut verdict.window_trace.rounds), std::mem::take(&mut verdict.predicted))
    });
    let written = serde_json::to_writer(out, flow);
    if let Some((rounds, predicted)) = left_out {
        (flow.verdict.window_trace.rounds, flow.verdict.predicted) = (rounds, predicted);
    }
    Ok(written?)
}

/// A flow's verdict as a line of JSON, for readers that follow the analysis: the flow as in the
/// document, without its rounds, with `"kind":"verdict"` and whether it is final.
pub fn line(mut flow: FlowReport, last: bool) -> Result<String, IdentifyError> {
    #[derive(serde::Serialize)]
    struct Line {
        kind: &'static str,
        last: bool,
        #[serde(flatten)]
        flow: FlowReport,
    }
    flow.verdict.window_trace.rounds = Vec::new();
    flow.verdict.predicted = Vec::new();
    let line = serde_json::to_string(&Line { kind: "verdict", last, flow });
    Ok(line.map_err(|error| failed(error.into()))? + "\n")
}

fn failed(error: std::io::Error) -> IdentifyError {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        return IdentifyError::Closed(error);
    }
    IdentifyError::write(Path::new("the JSON"))(error)
}
