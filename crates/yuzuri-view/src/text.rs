//! Quantities as text. Every user interface writes them the same way.

pub use yuzuri_stats::counted;

/// Bits per second: `950 kbit/s`, `12.3 Mbit/s`, `1.20 Gbit/s`.
pub fn rate(bps: f64) -> String {
    scaled(bps, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// Bytes, decimal: `512 B`, `1.00 MB`.
pub fn bytes(n: f64) -> String {
    scaled(n, 1000.0, &["B", "kB", "MB", "GB", "TB"])
}

/// Microseconds as milliseconds: `0.12 ms`, `12.3 ms`, `1.20 s`.
pub fn time_us(us: f64) -> String {
    if us >= 1e6 { format!("{} s", three(us / 1e6)) } else { format!("{} ms", three(us / 1e3)) }
}

/// Counts: `999`, `12.3k`, `1.20M`.
pub fn count(n: u64) -> String {
    if n < 10_000 { n.to_string() } else { scaled(n as f64, 1000.0, &["", "k", "M", "G"]).replace(' ', "") }
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // 999.5 would round to 1000 in three digits: it belongs to the next unit.
    while value.abs() >= step * 0.9995 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0} {}", units[0]) } else { format!("{} {}", three(value), units[unit]) }
}

/// Three significant digits without an exponent.
fn three(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_the_right_unit() {
        assert_eq!(rate(0.0), "0 bit/s");
        assert_eq!(rate(950_400.0), "950 kbit/s");
        assert_eq!(rate(999_600.0), "1.00 Mbit/s");
        assert_eq!(rate(12_345_678.0), "12.3 Mbit/s");
        assert_eq!(bytes(1_000_000.0), "1.00 MB");
        assert_eq!(time_us(123.0), "0.12 ms");
        assert_eq!(time_us(1_200_000.0), "1.20 s");
        assert_eq!(count(9_999), "9999");
        assert_eq!(count(12_345), "12.3k");
    }
}
