//! `[state]`: where the yard keeps what it must remember.

use std::path::PathBuf;
use toolyard_wire::doc::Fields;

#[derive(Default)]
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
}
