//! Divides an amount among takers with different demands (max-min fairness).

/// A taker of a part of the amount: in proportion to its weight, and at most its demand.
#[derive(Debug, Clone, Copy)]
pub(super) struct WeightedDemand {
    pub(super) weight: f64,
    pub(super) most: f64,
}

/// The level up to which each taker may fill its weight if all share `amount`, and takers with a
/// smaller demand leave the rest to the others. 0 if no taker has a weight.
pub(super) fn water_level(amount: f64, mut demands: Vec<WeightedDemand>) -> f64 {
    demands.retain(|t| t.weight > 0.0);
    demands.sort_by(|a, b| (a.most / a.weight).total_cmp(&(b.most / b.weight)));
    let (mut left, mut weight) = (amount, demands.iter().map(|t| t.weight).sum::<f64>());
    for (number, demand) in demands.iter().enumerate() {
        let level = left / weight;
        let last = number + 1 == demands.len();
        if last || demand.most >= level * demand.weight {
            return level;
        }
        left -= demand.most;
        weight -= demand.weight;
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: f64 = f64::INFINITY;

    fn level(amount: f64, demands: &[(f64, f64)]) -> f64 {
        water_level(amount, demands.iter().map(|&(weight, most)| WeightedDemand { weight, most }).collect())
    }

    #[test]
    fn a_taker_that_wants_less_leaves_the_rest() {
        assert_eq!(level(90.0, &[(1.0, ALL), (1.0, ALL), (1.0, ALL)]), 30.0);
        assert_eq!(level(90.0, &[(1.0, 10.0), (1.0, ALL), (1.0, ALL)]), 40.0);
        assert_eq!(level(90.0, &[(1.0, 10.0), (1.0, 35.0), (1.0, ALL)]), 45.0);
        assert_eq!(level(90.0, &[(2.0, ALL), (1.0, ALL)]), 30.0);
        // A single taker that wants little may take everything.
        assert_eq!(level(90.0, &[(1.0, 10.0)]), 90.0);
        assert_eq!(level(90.0, &[]), 0.0);
    }

    proptest! {
        /// Nothing is allocated twice, and no demand remains while something is left.
        #[test]
        fn the_level_allocates_everything_that_is_wanted(
            amount in 0.0..1e9_f64,
            demands in proptest::collection::vec((0.01..100.0_f64, prop_oneof![Just(ALL), 0.0..1e9_f64]), 1..40),
        ) {
            let level = level(amount, &demands);
            let taken: f64 = demands.iter().map(|(weight, most)| most.min(level * weight)).sum();
            prop_assert!(taken <= amount * (1.0 + 1e-9));
            if demands.iter().any(|(_, most)| most.is_infinite()) {
                prop_assert!(taken >= amount * (1.0 - 1e-9));
            }
        }
    }
}
