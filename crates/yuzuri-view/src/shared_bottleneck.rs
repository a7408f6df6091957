//! Which flows share a bottleneck: those whose queuing delays rise and fall together more than by
//! chance.
//!
//! Each flow's round-trip times are placed on a time grid common to all flows. Queuing delay
//! changes from cell to cell, and these changes are the same for all flows in one queue. Two flows
//! are compared by the correlation of these changes. The same two flows, one of them shifted in
//! time, show what chance does: they have the same periods and the same noise, but nothing in
//! common at the same moment.

use std::borrow::Borrow;
use std::collections::VecDeque;
use yuzuri_stats::upper_median_by;

/// A cell of the grid, microseconds. Queues rise and fall over several round trips.
const CELL_US: u64 = 100_000;
/// Cells kept, unless fewer are requested: ten minutes.
const MAX_CELLS: usize = 6_000;
/// The fewest common changes with which two flows are compared: four seconds.
const MIN_CHANGES: usize = 40;
/// The largest offset between two flows' changes, cells: the delay between sender and queue is not
/// known.
const LAGS: i64 = 1;
/// The smallest shift with which chance is estimated, cells: a change extends over several.
const MIN_MOVE: usize = 8;
/// The least queuing delay that counts as waiting, microseconds: delays of hosts and links vary by
/// as much.
const MIN_QUEUE_US: f64 = 2_000.0;
/// The probability, over all pairs, below which a correlation is not chance.
const BY_CHANCE: f64 = 1e-3;
/// The least correlation of flows in one queue: most of their changes must agree.
const MIN_CORRELATION: f64 = 0.5;
/// Changes are clipped at this multiple of the median change: a stalling host delays all its flows
/// at the same time.
const CLIPPED: f64 = 3.0;
/// Maximum number of flows compared with each other.
pub const MAX_FLOWS: usize = 64;

/// The round-trip times of a flow on the grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delays {
    max_cells: usize,
    first_cell: u64,
    /// The least of each cell, 0 where there is none. A standing queue delays every segment (as
    /// CoDel assumes), while a stalling host delays single segments of all its flows.
    cells: VecDeque<u32>,
}

/// Flows that share a bottleneck.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedBottleneck {
    /// Their positions in the list of flows compared; sorted.
    pub flows: Vec<usize>,
    /// The least correlation among the pairs that connect them.
    pub correlation: f64,
    /// The number of standard deviations by which the weakest of these stands out from chance.
    pub deviations: f64,
}

impl SharedBottleneck {
    /// The finding in a sentence.
    pub fn sentence(&self) -> String {
        format!(
            "These {} flows share a bottleneck: their queues rise and fall together (correlation {:.2}), \
             more than by chance.",
            self.flows.len(),
            self.correlation
        )
    }
}

impl Default for Delays {
    fn default() -> Delays {
        Delays { max_cells: MAX_CELLS, first_cell: 0, cells: VecDeque::new() }
    }
}

impl Delays {
    /// Keeps only the times of the last `time_us`, at most ten minutes.
    pub fn of_the_last(time_us: u64) -> Delays {
        let max_cells =
            usize::try_from(time_us / CELL_US).map_or(MAX_CELLS, |cells| cells.clamp(1, MAX_CELLS));
        Delays { max_cells, ..Delays::default() }
    }

    /// A copy of those from `from_us` on; `None` if there are none.
    pub fn since(&self, from_us: u64) -> Option<Delays> {
        let before = (from_us / CELL_US).saturating_sub(self.first_cell);
        let cells = self.cells.range(usize::try_from(before).ok().filter(|n| *n < self.cells.len())?..);
        Some(Delays {
            max_cells: self.max_cells,
            first_cell: self.first_cell + before,
            cells: cells.copied().collect(),
        })
    }

    /// Adds a round-trip time measured at `now_us`.
    pub fn add(&mut self, now_us: u64, rtt_us: u32) {
        self.place(Delays::cell(now_us, rtt_us), rtt_us);
    }

    /// The cell of a round-trip time: the segment entered the queue soon after it was sent.
    pub(crate) fn cell(now_us: u64, rtt_us: u32) -> u64 {
        now_us.saturating_sub(rtt_us.into()) / CELL_US
    }

    /// Whether they are too few to be compared with others, whatever these are: the first cell has
    /// no change.
    pub(crate) fn are_too_few(&self) -> bool {
        self.cells.len() <= MIN_CHANGES
    }

    /// Adds a round-trip time of a cell.
    pub(crate) fn place(&mut self, cell: u64, rtt_us: u32) {
        if self.cells.is_empty() {
            self.first_cell = cell;
        }
        let Some(place) = cell.checked_sub(self.first_cell) else { return };
        if place >= (self.cells.len() + self.max_cells) as u64 {
            // The clock jumped, or the flow was silent: nothing before it can be compared with
            // others.
            self.cells.clear();
            self.first_cell = cell;
        }
        while self.first_cell + (self.cells.len() as u64) <= cell {
            self.cells.push_back(0);
            if self.cells.len() > self.max_cells {
                self.cells.pop_front();
                self.first_cell += 1;
            }
        }
        if let Some(least) = self.cells.get_mut((cell - self.first_cell) as usize) {
            *least = if *least == 0 { rtt_us } else { rtt_us.min(*least) };
        }
    }

    /// The RTT of a cell. An empty cell takes the mean of its neighbours, since packets yield one
    /// measurement per round trip.
    fn rtt_us(&self, cell: u64) -> Option<f64> {
        let measured = self.measured_us(cell);
        measured
            .or_else(|| Some((self.measured_us(cell.checked_sub(1)?)? + self.measured_us(cell + 1)?) / 2.0))
    }

    fn measured_us(&self, cell: u64) -> Option<f64> {
        let place = usize::try_from(cell.checked_sub(self.first_cell)?).ok()?;
        self.cells.get(place).filter(|least| **least > 0).map(|least| f64::from(*least))
    }

    fn last_cell(&self) -> u64 {
        self.first_cell + self.cells.len() as u64
    }

    /// Whether the flow waits in a queue most of the time.
    fn waits(&self) -> bool {
        let mut rtts: Vec<f64> =
            (self.first_cell..self.last_cell()).filter_map(|cell| self.rtt_us(cell)).collect();
        let least = rtts.iter().copied().min_by(f64::total_cmp);
        let median = upper_median_by(&mut rtts, f64::total_cmp);
        median.zip(least).is_some_and(|(median, least)| median - least >= MIN_QUEUE_US)
    }

    /// The change in each cell from the previous one, where both are known.
    fn changes(&self, from: u64, to: u64) -> Vec<Option<f64>> {
        let mut changes: Vec<Option<f64>> =
            (from..to).map(|cell| Some(self.rtt_us(cell)? - self.rtt_us(cell.checked_sub(1)?)?)).collect();
        let mut sizes: Vec<f64> = changes.iter().flatten().map(|change| change.abs()).collect();
        let most = upper_median_by(&mut sizes, f64::total_cmp).map_or(0.0, |median| median * CLIPPED);
        changes.iter_mut().flatten().for_each(|change| *change = change.clamp(-most, most));
        changes
    }
}

/// The correlation of two flows' changes, one of them rotated by `moved` cells; and the number of
/// cells compared.
fn correlation(a: &[Option<f64>], b: &[Option<f64>], moved: i64) -> (f64, usize) {
    let cells = a.len() as i64;
    let both = (0..cells)
        .filter_map(|cell| Some((a[cell as usize]?, b[(cell + moved).rem_euclid(cells) as usize]?)));
    let (mut n, mut sums) = (0usize, [0.0; 5]);
    for (x, y) in both {
        n += 1;
        for (sum, add) in sums.iter_mut().zip([x, y, x * x, y * y, x * y]) {
            *sum += add;
        }
    }
    let [x, y, xx, yy, xy] = sums.map(|sum| sum / n.max(1) as f64);
    let varies = (xx - x * x) * (yy - y * y);
    // Rounding makes that of equal changes more than 1.
    (if varies > 0.0 { ((xy - x * y) / varies.sqrt()).clamp(-1.0, 1.0) } else { 0.0 }, n)
}

/// The correlation of two flows, and the number of standard deviations by which it stands out from
/// chance. `None`: they cannot be compared, or chance explains it.
fn pair(a: &Delays, b: &Delays) -> Option<(f64, f64)> {
    let (from, to) = (a.first_cell.max(b.first_cell), a.last_cell().min(b.last_cell()));
    let cells = usize::try_from(to.checked_sub(from)?).ok()?;
    if cells < MIN_CHANGES {
        return None;
    }
    let (a, b) = (a.changes(from, to), b.changes(from, to));
    let best = |moved: i64| {
        let near = (-LAGS..=LAGS).map(|lag| correlation(&a, &b, moved + lag));
        near.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (together, count) = best(0)?;
    if count < MIN_CHANGES || together < MIN_CORRELATION {
        return None;
    }
    // Fisher's transformation makes chance nearly normal.
    let chance: Vec<f64> = (MIN_MOVE..cells.saturating_sub(MIN_MOVE))
        .filter_map(|moved| best(moved as i64))
        .map(|(correlation, _)| correlation.atanh())
        .collect();
    let n = chance.len() as f64;
    let mean = chance.iter().sum::<f64>() / n;
    let deviation = (chance.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let stands_out = chance.iter().all(|z| *z < together.atanh());
    (n >= 8.0 && deviation > 0.0 && stands_out)
        .then(|| (together, (together.min(1.0 - 1e-9).atanh() - mean) / deviation))
}

/// Which of these flows share a bottleneck, as far as it can be known. Only the first [`MAX_FLOWS`]
/// are compared.
pub fn share_a_bottleneck(flows: &[&Delays]) -> Vec<SharedBottleneck> {
    let waiting: Vec<usize> = (0..flows.len()).filter(|flow| flows[*flow].waits()).take(MAX_FLOWS).collect();
    let pairs = waiting.len() * waiting.len().saturating_sub(1) / 2;
    // The tail of a normal distribution is less than exp(-z²/2).
    let least = (2.0 * (pairs.max(1) as f64 / BY_CHANCE).ln()).sqrt();
    let mut groups: Vec<SharedBottleneck> = Vec::new();
    for (place, &a) in waiting.iter().enumerate() {
        for &b in &waiting[place + 1..] {
            // Others connect them already. Comparing two flows over ten minutes takes a tenth of a
            // second, and in one queue of 64 flows nearly all pairs are connected.
            if groups.iter().any(|group| group.flows.contains(&a) && group.flows.contains(&b)) {
                continue;
            }
            let Some((correlation, deviations)) = pair(flows[a], flows[b]).filter(|(_, by)| *by >= least)
            else {
                continue;
            };
            let mut tied = SharedBottleneck { flows: vec![a, b], correlation, deviations };
            groups.retain(|group| {
                let apart = !group.flows.contains(&a) && !group.flows.contains(&b);
                if !apart {
                    tied.flows.extend(&group.flows);
                    tied.correlation = tied.correlation.min(group.correlation);
                    tied.deviations = tied.deviations.min(group.deviations);
                }
                apart
            });
            tied.flows.sort_unstable();
            tied.flows.dedup();
            groups.push(tied);
        }
    }
    groups.sort_by_key(|group| group.flows[0]);
    groups
}

/// As [`share_a_bottleneck`], with the flows as the caller names them.
pub fn named_bottlenecks<T: Copy>(flows: &[(T, impl Borrow<Delays>)]) -> Vec<(Vec<T>, SharedBottleneck)> {
    let delays: Vec<&Delays> = flows.iter().map(|(_, delays)| delays.borrow()).collect();
    let of = |found: SharedBottleneck| (found.flows.iter().map(|flow| flows[*flow].0).collect(), found);
    share_a_bottleneck(&delays).into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Chance(u64);

    impl Chance {
        fn part(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as f64 / f64::from(1u32 << 31)
        }
    }

    /// A queue that rises until it overflows, at a pace that varies, microseconds in each 20 ms.
    fn queue(chance: &mut Chance, steps: usize) -> Vec<f64> {
        let (mut now, mut most, mut pace) = (0.0, 60_000.0, 400.0);
        (0..steps)
            .map(|step| {
                if step % 20 == 0 {
                    pace = 100.0 + 900.0 * chance.part();
                }
                now += pace + 1000.0 * (chance.part() - 0.5);
                if now > most {
                    (now, most) = (most * 0.3, 50_000.0 + 20_000.0 * chance.part());
                }
                now.max(0.0)
            })
            .collect()
    }

    fn flow(chance: &mut Chance, queue: &[f64], base_us: f64) -> Delays {
        let mut delays = Delays::default();
        for (step, queue_us) in queue.iter().enumerate() {
            let rtt_us = base_us + queue_us + 2_000.0 * chance.part();
            // The flow's own path to the queue takes half of its base RTT.
            delays.add(1_000_000 + step as u64 * 20_000 + rtt_us as u64, rtt_us as u32);
        }
        delays
    }

    #[test]
    fn flows_of_one_queue_are_found_and_that_of_another_is_not() {
        let mut chance = Chance(1);
        let (one, other) = (queue(&mut chance, 500), queue(&mut chance, 500));
        let flows =
            [flow(&mut chance, &one, 20e3), flow(&mut chance, &other, 20e3), flow(&mut chance, &one, 70e3)];
        let found = share_a_bottleneck(&flows.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].flows, [0, 2]);
        assert!(found[0].correlation > 0.7 && found[0].deviations > 4.0, "{found:?}");
    }

    #[test]
    fn a_host_that_stalls_is_no_queue_in_common() {
        // Both flows' acknowledgements are late at the same 12 moments; their queues differ.
        let mut chance = Chance(3);
        let stalls: Vec<usize> = (0..12).map(|_| (chance.part() * 500.0) as usize).collect();
        let mut made = || {
            let mut queue = queue(&mut chance, 500);
            stalls.iter().for_each(|at| queue[*at] += 80_000.0);
            flow(&mut chance, &queue, 20e3)
        };
        let flows = [made(), made()];
        assert_eq!(share_a_bottleneck(&flows.iter().collect::<Vec<_>>()), []);
    }

    #[test]
    fn what_is_too_old_is_not_compared() {
        let mut chance = Chance(1);
        let one = queue(&mut chance, 500);
        let mut flow = |base_us| flow(&mut chance, &one, base_us);
        let flows = [flow(20e3), flow(70e3)];
        let found = |from_us| {
            let recent: Vec<Delays> = flows.iter().filter_map(|flow| flow.since(from_us)).collect();
            share_a_bottleneck(&recent.iter().collect::<Vec<_>>()).len()
        };
        // The ten seconds begin at the first second.
        assert_eq!((found(0), found(5_000_000), found(9_000_000), found(12_000_000)), (1, 1, 0, 0));
        let mut short = Delays::of_the_last(1_000_000);
        (0..100).for_each(|n| short.add(n * CELL_US, 1000));
        // A segment entered the queue a round-trip time before its acknowledgement.
        assert_eq!((short.cells.len(), short.last_cell()), (10, 99));
    }

    #[test]
    fn flows_that_others_connect_need_no_comparison() {
        let mut chance = Chance(4);
        let one = queue(&mut chance, 500);
        let flows: Vec<Delays> = (0..8).map(|n| flow(&mut chance, &one, 20e3 + f64::from(n) * 5e3)).collect();
        let found = share_a_bottleneck(&flows.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].flows, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn short_flows_and_those_without_a_queue_or_common_time_are_not_reported() {
        let mut chance = Chance(2);
        let short = queue(&mut chance, 100);
        let empty = vec![0.0; 500];
        for queue in [short, empty] {
            let flows = [flow(&mut chance, &queue, 20e3), flow(&mut chance, &queue, 20e3)];
            assert_eq!(share_a_bottleneck(&flows.iter().collect::<Vec<_>>()), []);
        }
        let mut later = Delays::default();
        (0..500u64).for_each(|step| later.add((1 << 40) + step * 20_000, 20_000 + (step % 50) as u32 * 1000));
        let one = queue(&mut chance, 500);
        let now = flow(&mut chance, &one, 20e3);
        assert_eq!(share_a_bottleneck(&[&now, &later]), []);
    }

    /// Pairs of different queues are hardly ever reported, whatever their periods: at most 1e-3 of
    /// the pairs by the rule.
    #[test]
    fn chance_is_reported_as_rarely_as_it_should_be() {
        let mut pairs_found = 0;
        for seed in 0..400 {
            let mut chance = Chance(seed * 7 + 1);
            let (one, other) = (queue(&mut chance, 500), queue(&mut chance, 500));
            let flows = [flow(&mut chance, &one, 20e3), flow(&mut chance, &other, 30e3)];
            pairs_found += share_a_bottleneck(&flows.iter().collect::<Vec<_>>()).len();
        }
        println!("{pairs_found} of 400 pairs");
        assert!(pairs_found <= 3, "{pairs_found}");
    }

    proptest! {
        #[test]
        fn any_times_are_accepted(times in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..200)) {
            let (mut a, mut b) = (Delays::default(), Delays::default());
            for (n, (now_us, rtt_us)) in times.iter().enumerate() {
                if n % 2 == 0 { a.add(*now_us, *rtt_us) } else { b.add(now_us % 100_000_000, rtt_us % 1_000_000) }
            }
            let _ = share_a_bottleneck(&[&a, &b]);
            prop_assert!(a.cells.len() <= MAX_CELLS);
        }
    }
}
