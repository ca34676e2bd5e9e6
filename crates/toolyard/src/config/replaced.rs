//! Keys of earlier versions, whose unit was part of the name. They are refused, with the line to write instead.

use std::time::Duration;
use toolyard_formats::doc::{Fields, Value};
use toolyard_formats::duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub struct Replaced {
    pub section: &'static str,
    pub old: &'static str,
    unit: Duration,
    pub new: &'static str,
}

pub const REPLACED: &[Replaced] = &[
    row("server", "session_idle_ms", MS, "session_idle"),
    row("server", "header_ms", MS, "header_timeout"),
    row("server", "stalled_ms", MS, "stalled"),
    row("server", "ping_ms", MS, "ping"),
    row("server", "drain_ms", MS, "drain"),
    row("limits", "timeout_ms", MS, "timeout"),
    row("cache", "ttl_seconds", SECOND, "ttl"),
    row("audit", "retention_days", DAY, "retention"),
    row("jobs", "keep_short_seconds", SECOND, "keep_short"),
    row("jobs", "keep_long_seconds", SECOND, "keep_long"),
    row("jobs", "keep_failed_seconds", SECOND, "keep_failed"),
];

const fn row(section: &'static str, old: &'static str, unit: Duration, new: &'static str) -> Replaced {
    Replaced { section, old, unit, new }
}

/// Reports the replaced keys of a section.
pub fn refuse(section: &str, fields: &mut Fields<'_>) {
    for row in REPLACED.iter().filter(|row| row.section == section) {
        if let Some((position, node)) = fields.take_replaced(row.old) {
            let number = if let Value::Number(number) = &node.value { number } else { "" };
            let hint = format!("write {} = \"{}\"", row.new, row.convert(number));
            fields.problem(position, row.message(), &hint);
        }
    }
}

impl Replaced {
    pub fn message(&self) -> String {
        let Replaced { section, old, new, .. } = self;
        format!("'{section}.{old}' was replaced by '{section}.{new}', a duration with its unit")
    }

    /// The value with its unit; an example when `number` is not valid.
    pub fn convert(&self, number: &str) -> String {
        let value = number.parse().ok().and_then(|number| self.unit.checked_mul(number));
        duration::format(value.unwrap_or(Duration::from_secs(30)))
    }
}
