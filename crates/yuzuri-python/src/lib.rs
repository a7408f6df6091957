//! The Rust part of the Python package `yuzuri`: analyses files and returns verdicts, with their
//! tables through Arrow's C interface. The public API is in Python, in `python/src/yuzuri`.

mod columns;
mod error;
mod flow;
mod work;

use pyo3::prelude::*;

/// The compiled part of `yuzuri`. Its names are private and may change in any version.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::columns::Columns;
    #[pymodule_export]
    use super::work::{Stop, analyse, empty_folder, plan};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
