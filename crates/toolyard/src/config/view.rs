//! The effective configuration, as `config.get` shows it.

use super::Config;
use std::time::Duration;
use toolyard_runtimes::builtin::{ConfigView, Section, Setting};

impl ConfigView for Config {
    fn sections(&self) -> Vec<Section> {
        let section = |name, settings| Section { name, settings };
        vec![
            section("server", self.server.settings()),
            section("auth", self.auth.settings()),
            section("limits", self.limits.settings()),
            section("audit", self.audit.settings()),
            section("cache", self.cache.settings()),
            section("sandbox", self.sandbox.settings()),
            section("prepare", self.prepare.settings()),
            section("state", self.state.settings()),
            section("jobs", self.jobs.settings()),
            section("builtin", self.builtin.settings()),
            section("resources", self.resources.settings()),
        ]
    }
}

pub fn text(value: impl ToString) -> Setting {
    Setting::Text(value.to_string())
}

pub fn number(value: usize) -> Setting {
    Setting::Number(value as u64)
}

/// As it is written in `toolyard.toml`.
pub fn duration(value: Duration) -> Setting {
    Setting::Text(toolyard_formats::duration::format(value))
}

/// An unset value: its default is defined elsewhere, or there is none.
pub fn optional(value: Option<Setting>) -> Setting {
    value.unwrap_or(Setting::Unset(()))
}
