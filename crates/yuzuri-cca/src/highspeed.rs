//! HighSpeed TCP (RFC 3649; `tcp_highspeed.c`): above 38 segments, the larger the window, the
//! faster it grows and the less it is reduced.
//!
//! Characteristics: a table indexed by the window determines both. Up to 38 segments the algorithm
//! is Reno, but counts ACKs instead of segments.

use crate::{CongestionControl, Window};

/// RFC 3649, appendix B. Up to the window of the nth row, the window grows by n segments per round
/// trip and a loss removes the given number of 1/256 of it.
const TABLE: [(u32, u32); 72] = [
    (38, 128),
    (118, 112),
    (221, 104),
    (347, 98),
    (495, 93),
    (663, 89),
    (851, 86),
    (1058, 83),
    (1284, 81),
    (1529, 78),
    (1793, 76),
    (2076, 74),
    (2378, 72),
    (2699, 71),
    (3039, 69),
    (3399, 68),
    (3778, 66),
    (4177, 65),
    (4596, 64),
    (5036, 62),
    (5497, 61),
    (5979, 60),
    (6483, 59),
    (7009, 58),
    (7558, 57),
    (8130, 56),
    (8726, 55),
    (9346, 54),
    (9991, 53),
    (10661, 52),
    (11358, 52),
    (12082, 51),
    (12834, 50),
    (13614, 49),
    (14424, 48),
    (15265, 48),
    (16137, 47),
    (17042, 46),
    (17981, 45),
    (18955, 45),
    (19965, 44),
    (21013, 43),
    (22101, 43),
    (23230, 42),
    (24402, 41),
    (25618, 41),
    (26881, 40),
    (28193, 39),
    (29557, 39),
    (30975, 38),
    (32450, 38),
    (33986, 37),
    (35586, 36),
    (37253, 36),
    (38992, 35),
    (40808, 35),
    (42707, 34),
    (44694, 33),
    (46776, 33),
    (48961, 32),
    (51258, 32),
    (53677, 31),
    (56230, 30),
    (58932, 30),
    (61799, 29),
    (64851, 28),
    (68113, 28),
    (71617, 27),
    (75401, 26),
    (79517, 26),
    (84035, 25),
    (89053, 24),
];

/// State of HighSpeed TCP: the current row of the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct HighSpeed {
    row: usize,
}

impl HighSpeed {
    /// Finds the first row whose window is at least `cwnd`.
    fn find_row(&mut self, cwnd: u32) {
        while cwnd > TABLE[self.row].0 && self.row + 1 < TABLE.len() {
            self.row += 1;
        }
        while self.row > 0 && cwnd <= TABLE[self.row - 1].0 {
            self.row -= 1;
        }
    }
}

impl CongestionControl for HighSpeed {
    fn name(&self) -> &'static str {
        "highspeed"
    }

    fn init(&mut self, _window: &mut Window) {
        self.row = 0;
    }

    /// `hstcp_ssthresh`: uses the row of the last growth.
    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        let lost = (u64::from(window.cwnd) * u64::from(TABLE[self.row].1)) >> 8;
        (window.cwnd - lost as u32).max(2)
    }

    /// `hstcp_cong_avoid`: counts each ACK once, regardless of how much it acknowledges.
    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if !window.is_cwnd_limited() {
            return;
        }
        if window.in_slow_start() {
            window.slow_start(acked);
            return;
        }
        self.find_row(window.cwnd);
        window.cwnd_cnt += self.row as u32 + 1;
        if window.cwnd_cnt >= window.cwnd {
            window.cwnd_cnt -= window.cwnd;
            window.cwnd += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3649, section 5: b(w) falls linearly in log(w) from 0.5 at 38 to 0.1 at 83000 segments.
    #[test]
    fn the_table_is_the_rfcs_response_function() {
        for (row, (cwnd, lost)) in TABLE.iter().enumerate() {
            let share = (f64::from(*cwnd).ln() - 38_f64.ln()) / (83_000_f64.ln() - 38_f64.ln());
            let expected = 0.5 - 0.4 * share;
            assert!((f64::from(*lost) / 256.0 - expected).abs() < 0.008, "row {row}: {lost}/256, {expected}");
        }
    }

    #[test]
    fn the_row_follows_a_growing_and_a_shrinking_window() {
        let mut cca = HighSpeed::default();
        for (cwnd, row) in [(38, 0), (39, 1), (119, 2), (118, 1), (90_000, 71), (20, 0)] {
            cca.find_row(cwnd);
            assert_eq!(cca.row, row, "{cwnd}");
        }
    }
}
