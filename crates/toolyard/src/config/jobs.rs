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
    max_attempts: Option<u64>,
    keep_short: Option<Duration>,
    keep_long: Option<Duration>,
    keep_failed: Option<Duration>,
}

impl Jobs {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        let counts = [
            ("max_open", 1..=10_000_000, &mut self.max_open),
            ("max_open_per_caller", 1..=10_000_000, &mut self.max_open_per_caller),
            ("max_running", 1..=100_000, &mut self.max_running),
            ("max_running_per_caller", 1..=100_000, &mut self.max_running_per_caller),
            ("max_attempts", 1..=100, &mut self.max_attempts),
        ];
        for (name, range, setting) in counts {
            *setting = fields.integer(name, range).or(*setting);
        }
        let (second, day) = (Duration::from_secs(1), Duration::from_secs(24 * 60 * 60));
        let times = [
            ("keep_short", &mut self.keep_short),
            ("keep_long", &mut self.keep_long),
            ("keep_failed", &mut self.keep_failed),
        ];
        for (name, setting) in times {
            *setting = fields.duration(name, second..=day * 366).or(*setting);
        }
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        let options = self.options();
        vec![
            ("max_open", Setting::Number(options.max_open)),
            ("max_open_per_caller", Setting::Number(options.max_open_of_caller)),
            ("max_running", view::number(options.max_running)),
            ("max_running_per_caller", view::number(options.max_running_of_caller)),
            ("max_attempts", view::number(options.max_attempts)),
            ("keep_short", view::duration(options.keep_short)),
            ("keep_long", view::duration(options.keep_long)),
            ("keep_failed", view::duration(options.keep_failed)),
        ]
    }

    /// Takes over the limits of running jobs, which are fixed when the server starts.
    pub fn keep_running_limits(&mut self, running: &Jobs) {
        self.max_running = running.max_running;
        self.max_running_per_caller = running.max_running_per_caller;
    }

    pub fn options(&self) -> Options {
        let default = Options::default();
        let count = |value: Option<u64>, default| value.map_or(default, |value| value as usize);
        Options {
            max_open: self.max_open.unwrap_or(default.max_open),
            max_open_of_caller: self.max_open_per_caller.unwrap_or(default.max_open_of_caller),
            max_running: count(self.max_running, default.max_running),
            max_running_of_caller: count(self.max_running_per_caller, default.max_running_of_caller),
            max_attempts: count(self.max_attempts, default.max_attempts),
            keep_short: self.keep_short.unwrap_or(default.keep_short),
            keep_long: self.keep_long.unwrap_or(default.keep_long),
            keep_failed: self.keep_failed.unwrap_or(default.keep_failed),
            ..default
        }
    }
}
