//! Rate limits per source: no source gets more processing time than a member needs.

use crate::Moment;
use std::collections::BTreeMap;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(1);
/// Maximum number of sources tracked. Forged sources can displace a real flood from the table, but
/// they never lock out a member.
const MAX_SOURCES: usize = 1024;

/// Counts the messages of each source per second.
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
    /// Whether to process one more message of this source.
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
