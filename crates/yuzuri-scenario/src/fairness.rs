//! Indices of fairness.

/// Jain's index (DEC-TR-301, 1984), (Σx)² / (n Σx²): 1 if all shares are equal, 1/n if one has everything; `None`
/// where nobody got anything.
pub fn jain(shares: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for x in shares {
        (n, sum, squares) = (n + 1.0, sum + x, squares + x * x);
    }
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

/// Jain's index of what each got over what it would get alone; terminals with nothing alone do not count.
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
