//! Names given by a user.

/// An unknown name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} '{given}': choose one of {choices}")]
pub struct UnknownName {
    what: &'static str,
    given: String,
    choices: String,
}

impl UnknownName {
    pub(crate) fn new(what: &'static str, given: &str, choices: &[&str]) -> UnknownName {
        UnknownName { what, given: given.to_owned(), choices: choices.join(", ") }
    }
}
