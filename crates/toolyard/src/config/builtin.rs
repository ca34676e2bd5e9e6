//! `[builtin]`: which groups of built-in tools are enabled; none by default.

use toolyard_formats::doc::Fields;
use toolyard_runtimes::builtin::{Group, Selection, Setting};

#[derive(Default)]
pub struct Builtin {
    pub on: Selection,
}

impl Builtin {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        for group in Group::ALL {
            if let Some(on) = fields.bool(group.key()) {
                self.on.set(group, on);
            }
        }
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        Group::ALL.into_iter().map(|group| (group.key(), Setting::Switch(self.on.has(group)))).collect()
    }
}
