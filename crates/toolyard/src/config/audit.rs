//! `[audit]`: when records are synced to disk and how long they are retained.

use super::view;
use std::time::Duration;
use toolyard_formats::doc::Fields;
use toolyard_runtimes::builtin::Setting;
use toolyard_store::audit::SyncMode;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone)]
pub struct Audit {
    pub sync: SyncMode,
    pub retention: Option<Duration>,
}

impl Default for Audit {
    fn default() -> Audit {
        Audit { sync: SyncMode::Batched, retention: None }
    }
}

impl Audit {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        match fields.text_with_position("sync") {
            Some(("batched", _)) => self.sync = SyncMode::Batched,
            Some(("always", _)) => self.sync = SyncMode::Always,
            Some((other, position)) => {
                let message = format!("'audit.sync' is '{other}'; it must be \"batched\" or \"always\"");
                fields.problem(position, message, "\"always\" syncs to disk before each response");
            }
            None => {}
        }
        self.retention = fields.duration("retention", DAY..=DAY * 36_500).or(self.retention);
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        let sync = match self.sync {
            SyncMode::Batched => "batched",
            SyncMode::Always => "always",
        };
        vec![("sync", view::text(sync)), ("retention", view::optional(self.retention.map(view::duration)))]
    }
}
