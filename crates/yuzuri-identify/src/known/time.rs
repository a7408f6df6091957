//! Times as logs write them.

/// Decimal seconds (`75.901249`) in nanoseconds, without the rounding of floating point.
pub(crate) fn seconds_ns(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once(['.', ',']).unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 10 || !digits(whole) || !digits(part) {
        return None;
    }
    let part: String = part.chars().chain("000000000".chars()).take(9).collect();
    Some(whole.parse::<i64>().ok()? * 1_000_000_000 + part.parse::<i64>().ok()?)
}

/// A line that holds nothing but a time: seconds (`date +%s.%N`), date and time (`date -Ins`,
/// RFC 3339) or a time of day (`date +%T.%N`). Zones do not matter: only differences do.
pub(crate) fn line_ns(line: &str) -> Option<i64> {
    let line =
        line.trim().trim_start_matches(['#', '=', '-', '[', ' ']).trim_end_matches(['=', '-', ']', ':', ' ']);
    let (date, time) = match line.split_once(['T', ' ']) {
        Some((date, time)) => (Some(date), time),
        None => (None, line),
    };
    let Some(date) = date else {
        return if time.contains(':') { of_day_ns(time) } else { seconds_ns(time) };
    };
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..=2200).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 in the Gregorian calendar: years begin in March, so that the leap day is the
    // last.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400_000_000_000 + of_day_ns(time)?)
}

/// `hh:mm:ss.fraction`, with any zone after it.
fn of_day_ns(time: &str) -> Option<i64> {
    let mut parts = time.splitn(3, ':');
    let (hour, minute, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(rest.len());
    let (hour, minute) = (hour.parse::<i64>().ok()?, minute.parse::<i64>().ok()?);
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) {
        return None;
    }
    let second_ns = seconds_ns(&rest[..end]).filter(|ns| *ns < 61_000_000_000)?;
    Some((hour * 60 + minute) * 60_000_000_000 + second_ns)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn printed_times_are_parsed() {
        const DAY_NS: i64 = 86_400_000_000_000;
        assert_eq!(line_ns("1700000000.123456789\n"), Some(1_700_000_000_123_456_789));
        assert_eq!(line_ns("# 12.5"), Some(12_500_000_000));
        assert_eq!(line_ns("1970-01-02T00:00:01,5+00:00"), Some(DAY_NS + 1_500_000_000));
        assert_eq!(line_ns("2000-03-01 00:00:00"), Some(11_017 * DAY_NS));
        assert_eq!(line_ns("2024-02-29T12:00:00Z"), Some(19_782 * DAY_NS + DAY_NS / 2));
        assert_eq!(line_ns("00:01:02.25"), Some(62_250_000_000));
        for not in ["", "State Recv-Q", "10.0.0.1:80", "25:00:00", "2024-13-01T00:00:00", "1.2.3", "-"] {
            assert_eq!(line_ns(not), None, "{not}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_lines_are_parsed_or_skipped(line in ".{0,40}") {
            let _ = line_ns(&line);
        }

        #[test]
        fn seconds_survive_a_round_trip(ns in 0..9_999_999_999_999_999_999i128) {
            let ns = i64::try_from(ns).unwrap_or(i64::MAX);
            prop_assert_eq!(seconds_ns(&format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)), Some(ns));
        }
    }
}
