//! Durations as text: a whole number and a unit, such as `30s`. One unit only, so that there is one way to
//! write and to read each value.

use std::time::Duration;

/// How to write a duration, for messages.
pub const FORM: &str = "write a whole number and a unit: 250ms, 30s, 5m, 2h or 7d";

/// From the largest to the smallest, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationError {
    NotADuration,
    /// More milliseconds than 64 bits hold.
    TooLong,
}

pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = UNITS.iter().find(|(name, _)| *name == unit && digits > 0);
    let (_, milliseconds) = unit.ok_or(DurationError::NotADuration)?;
    let number: u64 = number.parse().map_err(|_| DurationError::TooLong)?;
    number.checked_mul(*milliseconds).map(Duration::from_millis).ok_or(DurationError::TooLong)
}

/// In the largest unit that gives a whole number; less than a millisecond is cut off.
pub fn format(duration: Duration) -> String {
    let total = duration.as_millis();
    let exact = UNITS.iter().find(|(_, unit)| total > 0 && total.is_multiple_of(u128::from(*unit)));
    let (name, unit) = exact.unwrap_or(&("s", 1000));
    format!("{}{name}", total / u128::from(*unit))
}

impl std::fmt::Display for DurationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DurationError::NotADuration => FORM,
            DurationError::TooLong => "the duration is too long",
        })
    }
}

impl std::error::Error for DurationError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_whole_number_and_one_unit_are_read_and_nothing_else() {
        for (text, milliseconds) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in [
            "", "5", "s", "5 s", " 5s", "5s ", "+5s", "-5s", "1.5h", "1h30m", "5S", "5min", "5M", "1w", "1y",
            "5µs", "٥s", "0x5s", "1_000ms", "1e3s",
        ] {
            assert_eq!(parse(text), Err(DurationError::NotADuration), "{text:?}");
        }
        for text in ["18446744073709551616ms", "213503982335d", "99999999999999999999999d"] {
            assert_eq!(parse(text), Err(DurationError::TooLong), "{text}");
        }
    }

    #[test]
    fn the_largest_whole_unit_is_written() {
        for (milliseconds, text) in [
            (0, "0s"),
            (1, "1ms"),
            (1500, "1500ms"),
            (10_000, "10s"),
            (90_000, "90s"),
            (1_800_000, "30m"),
            (86_400_000, "1d"),
            (365 * 86_400_000, "365d"),
        ] {
            assert_eq!(format(Duration::from_millis(milliseconds)), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(milliseconds: u64) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_read_or_refused_and_any_duration_written(
            text in ".{0,30}", number in "[0-9]{0,25}", unit in "d|h|m|s|ms|", seconds: u64, nanoseconds in 0u32..1_000_000_000
        ) {
            for text in [text, format!("{number}{unit}")] {
                if let Ok(duration) = parse(&text) {
                    prop_assert_eq!(parse(&format(duration)), Ok(duration));
                }
            }
            prop_assert!(!format(Duration::new(seconds, nanoseconds)).is_empty());
        }
    }
}
