//! The page: everything in one file, readable without a network and without scripts. With scripts,
//! charts over time can be zoomed.

mod cycles;
mod kato;
mod limits;
mod page;
mod rates;
mod sequence;
mod svg;
mod windows;
mod zoom;

pub use page::HtmlReport;
pub(crate) use yuzuri_plot::DrawError;
