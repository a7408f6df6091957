//! Quantities and names as people type them.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::time::Duration;
use yuzuri_policy::{Objective, PolicyName};
use yuzuri_trace::Density;

/// A value on the command line that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The text is not of the expected kind.
    #[error("'{text}' is not {what}: write {write}")]
    Not {
        /// The text as written.
        text: String,
        /// The expected kind.
        what: &'static str,
        /// The allowed forms.
        write: &'static str,
    },
    /// A time without a unit, where any default would be a guess.
    #[error("'{0}' has no unit: write {0}ms or {0}s, or ack for every ACK")]
    NoUnit(String),
}

impl ValueError {
    /// `text` is not `what`; `write` lists the allowed forms.
    pub fn not(text: &str, what: &'static str, write: &'static str) -> ValueError {
        ValueError::Not { text: text.to_owned(), what, write }
    }
}

/// `20`, `20s`, `500ms`, `1.5m`, `2h`; a bare number means seconds.
pub fn duration(text: &str) -> Result<Duration, ValueError> {
    let wrong = || ValueError::not(text, "a time", "20s, 500ms, 2m or 1h");
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * factor).map_err(|_| wrong())
}

/// As [`bytes`], but at least 1 byte.
pub fn some_bytes(text: &str) -> Result<u64, ValueError> {
    match bytes(text)? {
        0 => Err(ValueError::not(text, "a number of bytes above 0", "1000000, 64k, 10MB or 1GiB")),
        bytes => Ok(bytes),
    }
}

/// As [`bytes`], but at least one page. A smaller number most likely lacks its unit.
pub fn ring_bytes(text: &str) -> Result<u64, ValueError> {
    let bytes = bytes(text)?;
    if bytes < 4096 {
        Err(ValueError::not(text, "the size of a ring, which has at least 4KiB", "64KiB, 4MiB or 16MiB"))
    } else {
        Ok(bytes)
    }
}

/// `1000`, `64k`, `10MB`, `1GiB`: bytes; `k`, `M`, `G`, `T` are powers of 1000, `Ki`, `Mi`, `Gi`,
/// `Ti` of 1024.
pub fn bytes(text: &str) -> Result<u64, ValueError> {
    let wrong = || ValueError::not(text, "a number of bytes", "1000000, 64k, 10MB or 1GiB");
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim_end_matches(['b', 'B']) {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" | "m" => 1e6,
        "G" | "g" => 1e9,
        "T" | "t" => 1e12,
        "Ki" | "ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let bytes = number * factor;
    if !(0.0..9e18).contains(&bytes) { Err(wrong()) } else { Ok(bytes.round() as u64) }
}

/// As [`bytes`], or `none` for no limit.
pub fn max_bytes(text: &str) -> Result<Maximum, ValueError> {
    maximum(text, bytes)
}

/// A number, or `none` for no limit.
pub fn max_count(text: &str) -> Result<Maximum, ValueError> {
    maximum(text, |text| text.parse().map_err(|_| ValueError::not(text, "a number", "1000, or none")))
}

/// A limit, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maximum(pub Option<u64>);

fn maximum(text: &str, parse: impl Fn(&str) -> Result<u64, ValueError>) -> Result<Maximum, ValueError> {
    if text == "none" { Ok(Maximum(None)) } else { parse(text).map(|limit| Maximum(Some(limit))) }
}

/// `ack`, or the minimum time between two samples of a flow. A number without a unit could mean
/// milliseconds or seconds, so only 0 is accepted.
pub fn density(text: &str) -> Result<Density, ValueError> {
    if text == "ack" {
        return Ok(Density::EveryAck);
    }
    if text.parse::<f64>().is_ok_and(|number| number != 0.0) {
        return Err(ValueError::NoUnit(text.to_owned()));
    }
    match duration(text) {
        Ok(time) if time.is_zero() => Ok(Density::EveryAck),
        Ok(time) if time <= Duration::from_secs(60) => Ok(Density::Interval { ns: time.as_nanos() as u64 }),
        _ => Err(ValueError::not(text, "a density", "ack for every ACK, or a time up to 60s such as 1ms")),
    }
}

/// The name of a policy; help and completions list them all.
pub fn policy() -> impl TypedValueParser<Value = PolicyName> {
    PossibleValuesParser::new(PolicyName::ALL.map(PolicyName::name)).try_map(|name| name.parse())
}

/// The name of an objective, likewise.
pub fn objective() -> impl TypedValueParser<Value = Objective> {
    PossibleValuesParser::new(Objective::ALL.map(Objective::name)).try_map(|name| name.parse())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_file_lists_every_policy_and_objective() {
        let file = include_str!("../../../packaging/share.toml");
        assert!(file.contains(&PolicyName::ALL.map(PolicyName::name).join(", ")));
        assert!(file.contains(&Objective::ALL.map(Objective::name).join(", ")));
    }

    #[test]
    fn times_bytes_and_densities() {
        assert_eq!(duration("20"), Ok(Duration::from_secs(20)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(duration("-1s").is_err() && duration("x").is_err() && duration("1e400").is_err());
        assert_eq!(bytes("64k"), Ok(64_000));
        assert_eq!(bytes("10MB"), Ok(10_000_000));
        assert_eq!(bytes("1GiB"), Ok(1 << 30));
        assert_eq!(bytes("1TB"), Ok(1_000_000_000_000));
        assert!(bytes("-1").is_err() && bytes("1x").is_err());
        assert_eq!(ring_bytes("16MiB"), Ok(16 << 20));
        assert!(ring_bytes("16").is_err_and(|why| why.to_string().contains("16MiB")));
        assert_eq!(max_bytes("10MB"), Ok(Maximum(Some(10_000_000))));
        assert_eq!((max_bytes("none"), max_count("none")), (Ok(Maximum(None)), Ok(Maximum(None))));
        assert_eq!(max_count("7"), Ok(Maximum(Some(7))));
        assert!(max_bytes("some").is_err() && max_count("-1").is_err() && max_count("1k").is_err());
        assert_eq!(density("ack"), Ok(Density::EveryAck));
        assert_eq!(density("1ms"), Ok(Density::default()));
        assert!(density("2h").is_err());
        assert!(
            density("5").is_err_and(|why| why.to_string().contains("5ms"))
                && density("0") == Ok(Density::EveryAck)
        );
    }
}
