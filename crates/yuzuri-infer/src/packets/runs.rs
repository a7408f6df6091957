//! What draws the runs that a sender sends: acknowledgements, or a clock (pacing, its device, a
//! full path, a program's rhythm).

use super::look::{Look, WAKES_NS};
use crate::window_trace::Round;

/// Fewer runs do not tell whether they are evenly spaced; and they are where the variance of their
/// distances is less than this part of their mean squared. What a window lets through comes in a
/// block, at the rate of the path, and then there is nothing until the first acknowledgement.
pub(super) const MIN_RUNS: f64 = 12.0;
const EVEN: f64 = 0.3;
/// Of the times from run to run, how far they are from the times between the acknowledgements that
/// the sender had seen, as a part of how far they are from their mean (variances). What
/// acknowledgements draw keeps their distances, whatever these are: each deviation comes again with
/// each round trip, so that the part falls below 1 at once, and further with each. What a clock
/// draws keeps its mean, and the acknowledgements of a round trip before have their own deviations
/// beside its own: 2 and more. Between these two nobody knows.
const DRAWN_BY_ACKS: f64 = 0.5;
const DRAWN_BY_CLOCK: f64 = 1.5;
/// Where segments of one run come closer than all segments do on average, by this factor, the path
/// carries more than is sent. What a full path carries comes as close as it can.
const PATH_CARRIES_MORE: f64 = 0.8;
/// The part of the runs between which no acknowledgement came, from which on none drew them: one is
/// made twice now and then.
const UNDRAWN: f64 = 0.1;
/// Runs that no acknowledgement drew: the part from which on a clock of the sender's own draws
/// them, and from which on it draws most.
const BY_CLOCK: f64 = 0.02;
const MOSTLY: f64 = 0.5;
/// How fast the means over rounds forget; those of what a busy host blurs for several rounds forget
/// slower.
const FORGETS: f64 = 0.25;
const FORGETS_SLOWLY: f64 = 0.05;
/// As many runs are remembered of a small flight as of a large one.
const REMEMBERED: f64 = 48.0;
/// A writer that is woken up takes so long to write, as runs are looked at, milliseconds.
const WAKES_MS: f64 = WAKES_NS as f64 / 1e6;

/// What rounds told of their runs, over the last ones.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    rounds: u32,
    runs: u32,
    /// Means over rounds of the number of runs, and of the sum of what each told.
    count: f64,
    sum: f64,
}

impl Told {
    fn add(&mut self, (count, sum): (u32, f64)) {
        if count > 0 {
            self.rounds += 1;
            self.runs = self.runs.saturating_add(count);
            let forgets = FORGETS_SLOWLY.max(1.0 / f64::from(self.rounds));
            self.count += (f64::from(count) - self.count) * forgets;
            self.sum += (sum - self.sum) * forgets;
        }
    }

    fn mean(self) -> Option<f64> {
        (f64::from(self.runs) >= MIN_RUNS).then(|| self.sum / self.count)
    }
}

/// Means over the last rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Runs {
    rounds: u32,
    /// How fast they forget.
    pub(super) forgets: f64,
    /// Runs of a round.
    pub(super) count: f64,
    /// Of these, those that did not follow an acknowledgement at once.
    not_at_once: f64,
    /// Those between which no acknowledgement came, and all.
    undrawn: (f64, f64),
    /// From run to run, milliseconds: the sum, and the sum of the squares.
    gaps: (f64, f64),
    /// Within runs, milliseconds, and their segments beyond the first; from run to run,
    /// milliseconds, and all segments.
    spacing: [f64; 4],
    /// Runs that followed an acknowledgement as a writer does that it woke, and all;
    /// acknowledgements, and the length of a round, milliseconds.
    woken: (f64, f64),
    acks: (f64, f64),
    /// As [`super::look::Clocked`].
    by_last: Told,
    by_first: Told,
}

impl Runs {
    pub(super) fn add(&mut self, round: &Round, look: &Look) {
        self.rounds += 1;
        self.forgets = (f64::from(look.runs) / REMEMBERED).clamp(FORGETS_SLOWLY, FORGETS);
        // From the first round on it is a mean.
        let slowly = FORGETS_SLOWLY.max(1.0 / f64::from(self.rounds));
        let by = |forgets: f64| move |mean: &mut f64, value: f64| *mean += (value - *mean) * forgets;
        let (mean, slow) = (by(self.forgets), by(slowly));
        slow(&mut self.woken.0, look.woken.into());
        slow(&mut self.woken.1, look.runs.into());
        slow(&mut self.acks.0, round.acks.into());
        slow(&mut self.acks.1, round.seconds() * 1e3);
        mean(&mut self.count, look.runs.into());
        mean(&mut self.not_at_once, f64::from(look.runs - look.drawn));
        slow(&mut self.undrawn.0, look.undrawn.into());
        slow(&mut self.undrawn.1, look.runs.into());
        let further = f64::from(look.segments.saturating_sub(look.runs));
        let spacing = [look.spread_ms, further, look.gaps_ms, look.segments.into()];
        self.spacing.iter_mut().zip(spacing).for_each(|(mean, value)| slow(mean, value));
        mean(&mut self.gaps.0, look.gaps_ms);
        mean(&mut self.gaps.1, look.gaps_ms2);
        self.by_last.add(look.clocked.by_last);
        self.by_first.add(look.clocked.by_first);
    }

    /// Whether they are evenly spaced.
    pub(super) fn even(&self) -> bool {
        let (sum, squares) = self.gaps;
        let mean = sum / self.count.max(1e-9);
        let variance = squares / self.count.max(1e-9) - mean * mean;
        self.count >= MIN_RUNS * self.forgets && variance < EVEN * mean * mean
    }

    /// Whether a clock draws them, or acknowledgements (`false`); `None`: nobody knows.
    pub(super) fn clocked(&self) -> Option<bool> {
        let told = [self.by_last, self.by_first].into_iter().filter_map(Told::mean);
        match told.min_by(f64::total_cmp)?.exp() {
            part if part <= DRAWN_BY_ACKS => Some(false),
            part if part >= DRAWN_BY_CLOCK => Some(true),
            _ => None,
        }
    }

    /// Whether they leave at a rate of the sender's own, by pacing or as its device does. A path
    /// that is full is a clock, too: away from the sender it must carry more than is sent, or runs
    /// must leave without any acknowledgement.
    pub(super) fn has_own_rate(&self, near: bool) -> bool {
        let [within_ms, further, gaps_ms, segments] = self.spacing;
        let per_segment_ms = gaps_ms / segments.max(1e-9);
        let carries_more = further > 0.0 && within_ms < PATH_CARRIES_MORE * further * per_segment_ms;
        let own = near || carries_more || self.undrawn.0 > UNDRAWN * self.undrawn.1;
        own && self.clocked() == Some(true)
    }

    /// Near the sender: whether some do not follow an acknowledgement at once, and whether most do
    /// not.
    pub(super) fn some_by_clock(&self) -> bool {
        self.not_at_once > BY_CLOCK * self.count
    }

    /// See [`Runs::some_by_clock`].
    pub(super) fn most_by_clock(&self) -> bool {
        self.not_at_once > MOSTLY * self.count
    }

    /// The part that followed an acknowledgement as a writer does that it woke.
    pub(super) fn woken(&self) -> f64 {
        self.woken.0 / self.woken.1.max(1e-9)
    }

    /// How large a part of the time lies so close behind an acknowledgement that a writer may be
    /// taken to be woken by it.
    pub(super) fn by_chance(&self) -> f64 {
        let (acks, ms) = self.acks;
        acks * WAKES_MS / ms.max(1e-9)
    }
}
