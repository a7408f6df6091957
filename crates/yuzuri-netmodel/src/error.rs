//! Errors of configurations.

use std::fmt::Display;

/// An invalid setting: the field, its value and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}: {allowed}")]
pub struct ConfigError {
    /// Path of the field, such as `stations[2].phy.mcs`.
    pub field: String,
    /// The rejected value.
    pub value: String,
    /// Description of the allowed values.
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

    /// Prefixes the field with the path of its owner.
    pub(crate) fn within(mut self, owner: impl Display) -> ConfigError {
        self.field = format!("{owner}.{}", self.field);
        self
    }
}

/// Returns an error if the value is outside `min..=max`.
pub(crate) fn check_range<T: PartialOrd + Display>(
    field: &str,
    value: T,
    min: T,
    max: T,
) -> Result<(), ConfigError> {
    // The comparison also rejects NaN.
    if value >= min && value <= max {
        Ok(())
    } else {
        Err(ConfigError::new(field, value, format!("allowed are {min} to {max}")))
    }
}
