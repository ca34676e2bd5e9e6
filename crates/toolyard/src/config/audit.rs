//! `[audit]`: how hard and how long records are kept.

use std::time::Duration;
use toolyard_engine::audit::SyncMode;
use toolyard_wire::doc::Fields;

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
        match fields.placed_text("sync") {
            Some(("batched", _)) => self.sync = SyncMode::Batched,
            Some(("always", _)) => self.sync = SyncMode::Always,
            Some((other, place)) => {
                let message = format!("'audit.sync' is '{other}'; it must be \"batched\" or \"always\"");
                fields.problem(place, message, "\"always\" waits for the disk before each answer");
            }
            None => {}
        }
        if let Some(days) = fields.integer("retention_days", 1..=36_500) {
            self.retention = Some(Duration::from_secs(days * 24 * 60 * 60));
        }
    }
}
