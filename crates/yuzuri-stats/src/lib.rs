//! Medians and quantiles of values, each definition once, and counts as text.
//!
//! There are several definitions, because figures serve different purposes:
//!
//! - [`median`] and [`quantile`] interpolate. They are for figures that people compare: the median
//!   of an even number of values is the mean of the two in the middle.
//! - [`upper_median_by`], [`lower_quantile`] and [`nearest_rank`] return one of the values. They
//!   are for values that have no mean (a link rate with its standard), for thresholds, and where
//!   sorting everything would take too long.
//!
//! Two definitions are elsewhere, because their values are not in a slice: `nearest_rank` of
//! histograms (`yuzuri-sim`, `yuzuri-transfer`) and of values with weights (`yuzuri-lab`).

use std::cmp::Ordering;
use std::fmt::Display;

/// A count and what is counted, in the singular or the plural: `1 flow`, `0 flows`, `12.3k flows`.
pub fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// The median: the value in the middle, or the mean of the two in the middle. `None` if there are
/// no values. Sorts the values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    median_of_sorted(values)
}

/// [`median`] of values that are sorted.
pub fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some((sorted[last / 2] + sorted[sorted.len() / 2]) / 2.0)
}

/// The value in the middle, or of an even number of values the upper of the two in the middle, in
/// linear time. `None` if there are no values. Changes the order of the values.
pub fn upper_median_by<T: Copy>(values: &mut [T], compare: impl FnMut(&T, &T) -> Ordering) -> Option<T> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, compare).1)
}

/// [`upper_median_by`] of values that have an order.
pub fn upper_median<T: Copy + Ord>(values: &mut [T]) -> Option<T> {
    upper_median_by(values, T::cmp)
}

/// The quantile, interpolated linearly between the two values next to it (type 7 of Hyndman and
/// Fan, 1996; the default of R and NumPy). NaN if there are no values.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = last as f64 * part;
    let low = place as usize;
    let high = (low + 1).min(last);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

/// The greatest value at or below the position of [`quantile`], without interpolation. `None` if
/// there are no values.
pub fn lower_quantile<T: Copy>(sorted: &[T], part: f64) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * part) as usize).copied()
}

/// The nearest rank: the smallest value that at least this part of all values does not exceed.
/// `None` if there are no values.
pub fn nearest_rank<T: Copy>(sorted: &[T], part: f64) -> Option<T> {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_even_number_of_values_has_two_in_the_middle() {
        let mut values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&mut values), Some(2.5));
        assert_eq!(upper_median_by(&mut values, f64::total_cmp), Some(3.0));
        assert_eq!(quantile(&values, 0.5), 2.5);
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(lower_quantile(&sorted, 0.5), Some(2.0));
        assert_eq!(nearest_rank(&sorted, 0.5), Some(2.0));
    }

    #[test]
    fn no_values_have_no_median() {
        assert_eq!(median(&mut []), None);
        assert_eq!(upper_median::<u32>(&mut []), None);
        assert!(quantile(&[], 0.5).is_nan());
        assert_eq!(lower_quantile::<u32>(&[], 0.5), None);
        assert_eq!(nearest_rank::<u32>(&[], 0.5), None);
    }

    proptest! {
        #[test]
        fn an_odd_number_of_values_has_one_median(mut values in prop::collection::vec(-1e6..1e6f64, 0..20)) {
            values.push(0.5);
            if values.len() % 2 == 0 {
                values.push(7.0);
            }
            let middle = median(&mut values).unwrap();
            prop_assert_eq!(quantile(&values, 0.5), middle);
            prop_assert_eq!(lower_quantile(&values, 0.5), Some(middle));
            prop_assert_eq!(nearest_rank(&values, 0.5), Some(middle));
            prop_assert_eq!(upper_median_by(&mut values, f64::total_cmp), Some(middle));
        }

        #[test]
        fn a_quantile_lies_between_the_extremes(values in prop::collection::vec(-1e6..1e6f64, 1..20), part in 0.0..=1.0f64) {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let range = sorted[0]..=sorted[sorted.len() - 1];
            prop_assert!(range.contains(&quantile(&values, part)));
            prop_assert!(range.contains(&lower_quantile(&sorted, part).unwrap()));
            prop_assert!(range.contains(&nearest_rank(&sorted, part).unwrap()));
        }
    }
}
