//! What is wrong with a configuration.

use std::fmt::Display;

/// A setting that cannot be: the field, the value it has, the values it may have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}: {allowed}")]
pub struct ConfigError {
    /// The field's path, such as `stations[2].phy.mcs`.
    pub field: String,
    /// The value it has.
    pub value: String,
    /// What is allowed there.
    pub allowed: String,
}

impl ConfigError {
    pub(crate) fn new(
        field: impl Into<String>,
        value: impl Display,
        allowed: impl Into<String>,
    ) -> ConfigError {
        ConfigError { field: field.into(), value: value.to_string(), allowed: allowed.into() }
    }

    /// The same error, seen from the owner of the field.
    pub(crate) fn within(mut self, owner: impl Display) -> ConfigError {
        self.field = format!("{owner}.{}", self.field);
        self
    }
}

/// Refuses a value outside `least..=most`.
pub(crate) fn check_range<T: PartialOrd + Display>(
    field: &str,
    value: T,
    least: T,
    most: T,
) -> Result<(), ConfigError> {
    // Written so that NaN is refused, too.
    if value >= least && value <= most {
        Ok(())
    } else {
        Err(ConfigError::new(field, value, format!("allowed are {least} to {most}")))
    }
}
