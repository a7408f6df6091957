//! Where in the kernel something happened.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::OnceLock;

/// A kernel function or tracepoint, by name: small to copy, cheap to compare.
///
/// Names are kept for the life of the process, at most [`Place::MAX`] of them; later ones become
/// [`Place::UNKNOWN`], so that no input can make the table grow without bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Place(u16);

struct Table {
    names: Vec<&'static str>,
    ids: HashMap<&'static str, u16>,
}

fn table() -> &'static RwLock<Table> {
    static TABLE: OnceLock<RwLock<Table>> = OnceLock::new();
    TABLE.get_or_init(|| RwLock::new(Table { names: vec![""], ids: HashMap::from([("", 0)]) }))
}

impl Place {
    /// The place is unknown.
    pub const UNKNOWN: Place = Place(0);
    /// Maximum number of names kept.
    pub const MAX: usize = 4096;
    /// The longest name kept, in bytes (the kernel's own limit is 512, its TCP functions stay below
    /// 64).
    pub const MAX_LENGTH: usize = 128;

    /// The place of that name.
    pub fn named(name: &str) -> Place {
        let lock = table();
        if let Some(&id) = lock.read().ids.get(name) {
            return Place(id);
        }
        let mut table = lock.write();
        if let Some(&id) = table.ids.get(name) {
            return Place(id);
        }
        if table.names.len() >= Self::MAX || name.len() > Self::MAX_LENGTH {
            return Place::UNKNOWN;
        }
        let id = table.names.len() as u16;
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        table.names.push(name);
        table.ids.insert(name, id);
        Place(id)
    }

    /// The name: a kernel function such as `tcp_enter_loss`, a tracepoint such as `tcp:tcp_probe`,
    /// or `sock_diag` for polled records; empty if unknown.
    pub fn name(self) -> &'static str {
        table().read().names.get(self.0 as usize).copied().unwrap_or("")
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_round_trips() {
        let place = Place::named("tcp_enter_loss");
        assert_eq!(place.name(), "tcp_enter_loss");
        assert_eq!(place, Place::named("tcp_enter_loss"));
        assert_ne!(place, Place::named("tcp_enter_cwr"));
    }

    #[test]
    fn an_overlong_name_is_unknown() {
        assert_eq!(Place::named(&"x".repeat(Place::MAX_LENGTH + 1)), Place::UNKNOWN);
    }
}
