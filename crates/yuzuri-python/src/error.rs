//! Converts Rust errors to Python exceptions with the same message.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use yuzuri_identify::error::IdentifyError;
use yuzuri_identify::input;

pyo3::import_exception!(yuzuri, NotACapture);

/// The error for a file that cannot be opened or whose first bytes cannot be read, with message
/// `words`. Python selects the subclass of OSError by errno, which the message does not contain, so
/// this function tries again to get it.
pub fn opening(path: &Path, words: &str) -> PyErr {
    let again = File::open(path).and_then(|mut file| file.read(&mut [0]));
    os_error(again.err(), words)
}

/// The error for a folder that cannot be read.
pub fn folder(path: &Path) -> PyErr {
    match std::fs::read_dir(path) {
        Err(source) => {
            let errno = source.raw_os_error();
            let words = IdentifyError::Folder { name: input::name(path), source }.to_string();
            numbered(errno, &words)
        }
        // The second attempt succeeded.
        Ok(_) => numbered(
            None,
            &format!("reading the folder {}: it changed meanwhile; try again", input::name(path)),
        ),
    }
}

fn os_error(error: Option<io::Error>, words: &str) -> PyErr {
    numbered(error.and_then(|error| error.raw_os_error()), words)
}

fn numbered(errno: Option<i32>, words: &str) -> PyErr {
    match errno {
        Some(errno) => PyOSError::new_err((errno, words.to_owned())),
        None => PyOSError::new_err(words.to_owned()),
    }
}

/// The error for a file that is not of a supported kind.
pub fn not_ours(error: &IdentifyError) -> PyErr {
    NotACapture::new_err(error.to_string())
}
