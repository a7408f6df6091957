//! The page: everything in one file, readable without a network and without scripts.

mod cycles;
mod kato;
mod page;
mod svg;
mod windows;

pub use page::HtmlReport;
pub(crate) use svg::DrawError;
