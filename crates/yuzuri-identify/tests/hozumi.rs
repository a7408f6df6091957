//! The 72 cycles that Hozumi 2017 measured: the printed readings give the printed constants.

#![allow(clippy::unwrap_used)]

use yuzuri_infer::cubic::Cycle;

/// Half of the last digit of a printed value, as a part of it, and the readings' own rounding.
const WITHIN: f64 = 0.01;

#[test]
fn every_documented_constant_is_measured() {
    let mut cycles = 0;
    for (name, table) in [
        ("Linux", include_str!("data/hozumi2017_cubic_linux.csv")),
        ("iOS", include_str!("data/hozumi2017_cubic_ios.csv")),
    ] {
        for line in table.lines().skip(1) {
            let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
            let [rtt_ms, number, t_s, w_cubic, k_s, w_max, w_min, c, b, inverse] = cells[..] else {
                panic!("{name}: {line}");
            };
            let cycle = Cycle { t_s, w_cubic, k_s, w_max, w_min };
            for (what, computed, printed) in
                [("C", cycle.c(), c), ("b", cycle.b(), b), ("1/C", 1.0 / cycle.c(), inverse)]
            {
                let off = (computed / printed - 1.0).abs();
                assert!(
                    off < WITHIN,
                    "{name}, {rtt_ms} ms, cycle {number}: {what} {computed:.4}, printed {printed}"
                );
            }
            cycles += 1;
        }
    }
    assert_eq!(cycles, 72);
}
