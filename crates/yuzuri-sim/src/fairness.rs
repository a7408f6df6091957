//! Indices of fairness.

/// Jain's index (DEC-TR-301, 1984): 1 if all shares are equal, 1/n if one has everything; 1 for no shares and for shares of nothing.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 }
}

/// Jain's index of what each got over what it would get alone; terminals with nothing alone do not count.
pub fn jain_of_alone(shares: &[f64], alone: &[f64]) -> f64 {
    let relative: Vec<f64> = shares
        .iter()
        .zip(alone)
        .filter(|(_, alone)| **alone > 0.0)
        .map(|(share, alone)| share / alone)
        .collect();
    jain(&relative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        assert!((jain(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[5.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((jain(&[]) - 1.0).abs() < 1e-12);
        assert!((jain_of_alone(&[40.0, 10.0], &[400.0, 100.0]) - 1.0).abs() < 1e-12);
    }
}
