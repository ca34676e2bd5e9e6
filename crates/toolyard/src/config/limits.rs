//! `[limits]`: defaults for tools that declare no limits, and limits of resources and concurrent calls.

use super::view;
use std::time::Duration;
use toolyard_engine::CallLimit;
use toolyard_formats::doc::Fields;
use toolyard_protocol::Limits as ToolLimits;
use toolyard_runtimes::builtin::Setting;
use toolyard_yard::Defaults;

#[derive(Default)]
pub struct Limits {
    timeout: Option<Duration>,
    input: Option<usize>,
    output: Option<usize>,
    resource: Option<u64>,
    max_calls: Option<usize>,
}

impl Limits {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        let (ms, day) = (Duration::from_millis(1), Duration::from_secs(24 * 60 * 60));
        self.timeout = fields.duration("timeout", ms..=day).or(self.timeout);
        self.input = fields.integer("input", 1..=1 << 30).map(|bytes| bytes as usize).or(self.input);
        self.output = fields.integer("output", 1..=1 << 30).map(|bytes| bytes as usize).or(self.output);
        self.max_calls =
            fields.integer("max_calls", 1..=1_000_000).map(|calls| calls as usize).or(self.max_calls);
        self.resource = fields.integer("resource", 1..=1 << 30).or(self.resource);
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        let bytes = |value: Option<usize>| view::optional(value.map(view::number));
        vec![
            ("timeout", view::optional(self.timeout.map(view::duration))),
            ("input", bytes(self.input)),
            ("output", bytes(self.output)),
            ("resource", Setting::Number(self.resource())),
            ("max_calls", view::number(self.max_calls())),
        ]
    }

    /// The largest resource that is read or written, in bytes.
    pub fn resource(&self) -> u64 {
        self.resource.unwrap_or(8 << 20)
    }

    /// Calls of all tools and callers that may run at once.
    pub fn max_calls(&self) -> usize {
        self.max_calls.unwrap_or(CallLimit::DEFAULT)
    }

    /// The configured limits, else the defaults of each format.
    pub fn defaults(&self) -> Defaults {
        let with = |timeout: u64| ToolLimits {
            timeout: self.timeout.unwrap_or(Duration::from_millis(timeout)),
            input: self.input.unwrap_or(64 << 10),
            output: self.output.unwrap_or(256 << 10),
        };
        Defaults { pack: with(30_000), manifest: with(8_000) }
    }
}
