//! From a folder of finished runs to one self-contained HTML page and tables that machines read.

mod data;
mod html;
mod plots;
mod series;
mod table;

pub use data::{Estimate, Group, Summary};
pub use table::{Beside, Middle};

use crate::{LabError, batch};
use std::path::{Path, PathBuf};

/// Name of the page.
pub const PAGE: &str = "report.html";
/// Name of the table of all points.
pub const TABLE: &str = "summary.csv";
/// Name of the same with everything in it.
pub const RESULTS: &str = "results.json";

/// Reads a folder of results.
///
/// # Errors
/// Where there are no finished runs, or something cannot be read.
pub fn read(out: &Path) -> Result<Summary, LabError> {
    let runs = batch::finished(out)?;
    if runs.is_empty() {
        let why = "there are no finished runs in it".to_owned();
        return Err(LabError::Results { path: out.to_owned(), why });
    }
    if let Some(why) = batch::mixture(&runs) {
        return Err(LabError::Results { path: out.to_owned(), why });
    }
    Ok(Summary::of(runs))
}

/// Writes the page and the tables of a folder of results; gives the page's path.
///
/// # Errors
/// Where there are no finished runs, or something cannot be read or written.
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
