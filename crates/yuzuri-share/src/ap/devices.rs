//! The devices of the access point's daemon.

use crate::ShareError;
use std::ops::Deref;

/// The devices towards the stations: the bridge, or each radio's. There is at least one.
#[derive(Debug, Clone)]
pub struct Devices(Vec<String>);

impl Devices {
    /// # Errors
    /// If there is none.
    pub fn new(names: Vec<String>) -> Result<Devices, ShareError> {
        if names.is_empty() { Err(ShareError::NoDevice) } else { Ok(Devices(names)) }
    }
}

impl Deref for Devices {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}
