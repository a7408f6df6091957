//! When recent acknowledgements passed.

/// Times remembered: until the next burst.
const MAX_TIMES: usize = 64;

/// The times of the latest acknowledgements, nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    /// Once all are in use, each time replaces the oldest one.
    times: Vec<i64>,
    /// The index of the oldest once all are in use, 0 before.
    oldest: usize,
}

impl Recent {
    pub(super) fn push(&mut self, at_ns: i64) {
        if self.is_full() {
            self.times[self.oldest] = at_ns;
            self.oldest = (self.oldest + 1) % MAX_TIMES;
        } else {
            if self.times.is_empty() {
                self.times.reserve_exact(MAX_TIMES);
            }
            self.times.push(at_ns);
        }
    }

    /// Whether earlier ones were forgotten, or will be by the next one.
    pub(super) fn is_full(&self) -> bool {
        self.times.len() == MAX_TIMES
    }

    pub(super) fn oldest(&self) -> Option<i64> {
        self.times.get(self.oldest).copied()
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = i64> {
        let (newer, older) = self.times.split_at(self.oldest);
        newer.iter().rev().chain(older.iter().rev()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_times_are_kept_in_order() {
        let mut recent = Recent::default();
        assert_eq!(recent.oldest(), None);
        for count in 1..=3 * MAX_TIMES as i64 {
            recent.push(count);
            let oldest = (count - MAX_TIMES as i64 + 1).max(1);
            assert_eq!(recent.oldest(), Some(oldest), "{count}");
            assert!(recent.newest_first().eq((oldest..=count).rev()), "{count}");
            assert_eq!(recent.is_full(), count >= MAX_TIMES as i64);
        }
    }
}
