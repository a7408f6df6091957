//! Errors of Rust as Python's exceptions, with the same words.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use yuzuri_identify::error::IdentifyError;
use yuzuri_identify::input;

pyo3::import_exception!(yuzuri, NotACapture);

/// A file could not be opened or its beginning not be read, in `words`. Python makes the subclass of OSError that belongs to the number of
/// the error, which the words alone do not tell: it is asked for again.
pub fn opening(path: &Path, words: &str) -> PyErr {
    let again = File::open(path).and_then(|mut file| file.read(&mut [0]));
    os_error(again.err(), words)
}

/// A folder could not be read.
pub fn folder(path: &Path) -> PyErr {
    match std::fs::read_dir(path) {
        Err(source) => {
            let errno = source.raw_os_error();
            let words = IdentifyError::Folder { name: input::name(path), source }.to_string();
            numbered(errno, &words)
        }
        // What failed a moment ago goes now.
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

/// Of what a file is not.
pub fn not_ours(error: &IdentifyError) -> PyErr {
    NotACapture::new_err(error.to_string())
}
