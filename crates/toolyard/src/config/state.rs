//! `[state]`: the state folder.

use super::view;
use std::path::{Path, PathBuf};
use toolyard_formats::doc::Fields;
use toolyard_runtimes::builtin::Setting;

#[derive(Clone, Default)]
pub struct State {
    /// Relative to the yard; default `.toolyard`.
    pub dir: Option<PathBuf>,
}

impl State {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        if let Some(dir) = fields.text("dir") {
            self.dir = Some(PathBuf::from(dir));
        }
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        let dir = self.dir.as_deref().unwrap_or(Path::new(".toolyard"));
        vec![("dir", view::text(dir.display()))]
    }
}
