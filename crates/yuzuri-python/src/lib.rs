//! What the Python package `yuzuri` takes from Rust: files to verdicts, and their tables by Arrow's C interface. What people call is written
//! in Python, in `python/src/yuzuri`.

mod columns;
mod error;
mod flow;
mod work;

use pyo3::prelude::*;

/// The compiled part of `yuzuri`; its own names may change with any version.
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
