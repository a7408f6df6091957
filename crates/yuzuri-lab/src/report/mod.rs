//! Reports: turns a folder of finished runs into one self-contained HTML page and machine-readable
//! tables.

mod compare;
mod data;
mod html;
mod limits;
mod lines;
mod plots;
mod series;
mod table;

pub use compare::page as compare;
pub use data::{Estimate, Group, Summary};
pub use table::{Average, ParseComparisonError, PointComparison};
pub(crate) use yuzuri_plot::DrawError;

use crate::{LabError, batch};
use std::path::{Path, PathBuf};

/// File name of the HTML page.
pub const PAGE: &str = "report.html";
/// File name of the table of all points.
pub const TABLE: &str = "summary.csv";
/// File name of the complete results.
pub const RESULTS: &str = "results.json";

/// Reads a results folder.
///
/// # Errors
/// If there are no finished runs, or if a file cannot be read.
pub fn read(out: &Path) -> Result<Summary, LabError> {
    let runs = batch::finished(out)?;
    if runs.is_empty() {
        let why = "there are no finished runs in it".to_owned();
        return Err(LabError::Results { path: out.to_owned(), why });
    }
    if let Some(why) = batch::mixed_executors(&runs) {
        return Err(LabError::Results { path: out.to_owned(), why });
    }
    Ok(Summary::of(runs))
}

/// Writes the page and the tables of a results folder; returns the page's path.
///
/// # Errors
/// If there are no finished runs, or if a file cannot be read or written.
pub fn write(out: &Path) -> Result<PathBuf, LabError> {
    let summary = read(out)?;
    let put = |name: &str, text: String| {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(LabError::file(&path)).map(|()| path)
    };
    put(TABLE, summary.csv())?;
    let json = serde_json::to_string_pretty(&summary).map_err(|e| LabError::Run(e.to_string()))?;
    put(RESULTS, json)?;
    put(PAGE, html::page(&summary)?)
}
