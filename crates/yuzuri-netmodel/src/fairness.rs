//! Fairness indices.

/// Jain's fairness index (DEC-TR-301, 1984), (Σx)² / (n Σx²): 1 if all shares are equal, 1/n if one
/// has everything; `None` if all shares are 0.
pub fn jain(shares: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for x in shares {
        (n, sum, squares) = (n + 1.0, sum + x, squares + x * x);
    }
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

/// Jain's index of each share relative to the terminal's rate alone; terminals with a rate of 0
/// alone are not counted.
pub fn jain_of_alone(shares: &[f64], alone: &[f64]) -> Option<f64> {
    let pairs = shares.iter().zip(alone).filter(|(_, alone)| **alone > 0.0);
    jain(pairs.map(|(share, alone)| share / alone))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn jain_of_equal_shares_is_one() {
        assert_eq!(jain([3.0; 5]), Some(1.0));
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain([0.0, 0.0]), None);
        assert_eq!(jain([]), None);
        assert_eq!(jain_of_alone(&[40.0, 10.0, 7.0], &[400.0, 100.0, 0.0]), Some(1.0));
    }

    proptest! {
        #[test]
        fn jain_lies_between_one_nth_and_one(shares in prop::collection::vec(0.001f64..1e3, 1..20)) {
            let index = jain(shares.iter().copied()).unwrap();
            prop_assert!(index <= 1.0 + 1e-9 && index >= 1.0 / shares.len() as f64 - 1e-9);
        }
    }
}
