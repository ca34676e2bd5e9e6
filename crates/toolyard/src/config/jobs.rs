//! `[jobs]`: limits on open and running jobs, and how long finished jobs are retained.

use super::view;
use std::time::Duration;
use toolyard_engine::jobs::Options;
use toolyard_formats::doc::Fields;
use toolyard_runtimes::builtin::Setting;

#[derive(Default)]
pub struct Jobs {
    max_open: Option<u64>,
    max_open_per_caller: Option<u64>,
    max_running: Option<u64>,
    max_running_per_caller: Option<u64>,
    keep_short: Option<u64>,
    keep_long: Option<u64>,
    keep_failed: Option<u64>,
}

impl Jobs {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        let year = 366 * 24 * 60 * 60;
        let settings = [
            ("max_open", 1..=10_000_000, &mut self.max_open),
            ("max_open_per_caller", 1..=10_000_000, &mut self.max_open_per_caller),
            ("max_running", 1..=100_000, &mut self.max_running),
            ("max_running_per_caller", 1..=100_000, &mut self.max_running_per_caller),
            ("keep_short_seconds", 1..=year, &mut self.keep_short),
            ("keep_long_seconds", 1..=year, &mut self.keep_long),
            ("keep_failed_seconds", 1..=year, &mut self.keep_failed),
        ];
        for (name, range, setting) in settings {
            *setting = fields.integer(name, range).or(*setting);
        }
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        let options = self.options();
        let seconds = |value: Duration| Setting::Number(value.as_secs());
        vec![
            ("max_open", Setting::Number(options.max_open)),
            ("max_open_per_caller", Setting::Number(options.max_open_of_caller)),
            ("max_running", view::number(options.max_running)),
            ("max_running_per_caller", view::number(options.max_running_of_caller)),
            ("keep_short_seconds", seconds(options.keep_short)),
            ("keep_long_seconds", seconds(options.keep_long)),
            ("keep_failed_seconds", seconds(options.keep_failed)),
        ]
    }

    pub fn options(&self) -> Options {
        let default = Options::default();
        let seconds = |value: Option<u64>, default| value.map_or(default, Duration::from_secs);
        let count = |value: Option<u64>, default| value.map_or(default, |value| value as usize);
        Options {
            max_open: self.max_open.unwrap_or(default.max_open),
            max_open_of_caller: self.max_open_per_caller.unwrap_or(default.max_open_of_caller),
            max_running: count(self.max_running, default.max_running),
            max_running_of_caller: count(self.max_running_per_caller, default.max_running_of_caller),
            keep_short: seconds(self.keep_short, default.keep_short),
            keep_long: seconds(self.keep_long, default.keep_long),
            keep_failed: seconds(self.keep_failed, default.keep_failed),
            ..default
        }
    }
}
