//! `[cache]`: size and lifetime of cached results of deterministic tools.

use super::view;
use std::time::Duration;
use toolyard_engine::cache::Options;
use toolyard_formats::doc::Fields;
use toolyard_runtimes::builtin::Setting;

#[derive(Default)]
pub struct Cache {
    max_bytes: Option<u64>,
    ttl: Option<Duration>,
}

impl Cache {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        self.max_bytes = fields.integer("max_bytes", 4096..=1 << 40).or(self.max_bytes);
        let (second, day) = (Duration::from_secs(1), Duration::from_secs(24 * 60 * 60));
        self.ttl = fields.duration("ttl", second..=day * 366).or(self.ttl);
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        let options = self.options();
        vec![("max_bytes", Setting::Number(options.max_bytes)), ("ttl", view::duration(options.ttl))]
    }

    pub fn options(&self) -> Options {
        let default = Options::default();
        Options {
            max_bytes: self.max_bytes.unwrap_or(default.max_bytes),
            ttl: self.ttl.unwrap_or(default.ttl),
        }
    }
}
