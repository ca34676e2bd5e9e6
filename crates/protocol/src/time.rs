//! Timestamps, written as RFC 3339 in UTC.

use std::fmt;

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    pub fn from_unix_ms(ms: u64) -> Timestamp {
        Timestamp(ms)
    }

    pub fn unix_ms(self) -> u64 {
        self.0
    }

    /// `2026-11-15T20:44:18.123Z`, without the formatting machinery (it is on the hot path).
    pub fn text(self) -> TimestampText {
        let (days, ms_of_day) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let mut out = *b"0000-00-00T00:00:00.000Z";
        put(&mut out[0..4], year.min(9999));
        put(&mut out[5..7], month);
        put(&mut out[8..10], day);
        put(&mut out[11..13], ms_of_day / 3_600_000);
        put(&mut out[14..16], ms_of_day / 60_000 % 60);
        put(&mut out[17..19], ms_of_day / 1000 % 60);
        put(&mut out[20..23], ms_of_day % 1000);
        TimestampText(out)
    }
}

/// The 24 characters of a [`Timestamp`], on the stack.
pub struct TimestampText([u8; 24]);

impl TimestampText {
    pub fn as_str(&self) -> &str {
        // Cannot fail: only ASCII was written.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().as_str())
    }
}

fn put(slot: &mut [u8], mut value: u64) {
    for digit in slot.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// The proleptic Gregorian date of a day count, in eras of 400 years starting on 1 March.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339_in_utc() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_794_775_458_123, "2026-11-15T20:44:18.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp::from_unix_ms(ms).to_string(), text);
        }
    }
}
