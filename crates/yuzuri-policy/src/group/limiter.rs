//! Nobody gets more of our time than a member needs.

use crate::Moment;
use std::collections::BTreeMap;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(1);
/// Sources that are kept apart. Forged ones can push a real flood out of the table; they never lock anybody out of it.
const MAX_SOURCES: usize = 1024;

/// Counts messages of each source in each second.
#[derive(Debug)]
pub(super) struct Limiter<S> {
    sources: BTreeMap<S, (Moment, u32)>,
}

impl<S> Default for Limiter<S> {
    fn default() -> Limiter<S> {
        Limiter { sources: BTreeMap::new() }
    }
}

impl<S: Ord> Limiter<S> {
    /// Whether one more message of this source is read.
    pub fn admits(&mut self, now: Moment, source: S, max: u32) -> bool {
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&source) {
            self.sources.retain(|_, (since, _)| now.since(*since) < WINDOW);
            if self.sources.len() >= MAX_SOURCES {
                self.sources.clear();
            }
        }
        let (since, count) = self.sources.entry(source).or_insert((now, 0));
        if now.since(*since) >= WINDOW {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= max
    }
}
