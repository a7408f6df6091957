//! Detects the sawtooth of a window.

/// The reductions of a sawtooth.
pub struct Sawtooth {
    /// Mean window before and after a reduction; NaN without any.
    pub peak: f64,
    pub trough: f64,
    /// Mean time between reductions, s; NaN for fewer than three.
    pub period_s: f64,
    pub reductions: usize,
}

/// Finds the reductions in windows with their times, s. A reduction is a fall below the fraction
/// `minima` of the running maximum, compared with the next minimum.
pub fn sawtooth(windows: &[(f64, f64)], minima: f64) -> Sawtooth {
    let (mut peaks, mut troughs, mut times) = (Vec::new(), Vec::new(), Vec::new());
    let (mut top, mut bottom, mut falling) = (windows[0].1, windows[0].1, false);
    for (t_s, cwnd) in windows.iter().copied() {
        if falling {
            if cwnd > bottom {
                troughs.push(bottom);
                falling = false;
                top = cwnd;
            }
            bottom = bottom.min(cwnd);
        } else if cwnd < minima * top {
            peaks.push(top);
            times.push(t_s);
            falling = true;
            bottom = cwnd;
        } else {
            top = top.max(cwnd);
        }
    }
    let mean_of = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Sawtooth {
        peak: mean_of(&peaks),
        trough: mean_of(&troughs),
        // CUBIC's fast convergence alternates short and long periods, so two periods are averaged.
        period_s: mean_of(&times.windows(3).map(|t| (t[2] - t[0]) / 2.0).collect::<Vec<_>>()),
        reductions: times.len(),
    }
}
