//! `[prepare]`: how the environments of tools are prepared.

use super::view;
use toolyard_formats::doc::Fields;
use toolyard_runtimes::builtin::Setting;

pub struct Prepare {
    /// Packages may be downloaded.
    pub network: bool,
}

impl Default for Prepare {
    fn default() -> Prepare {
        Prepare { network: true }
    }
}

impl Prepare {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        match fields.text_with_position("network") {
            Some(("allow", _)) => self.network = true,
            Some(("deny", _)) => self.network = false,
            Some((other, position)) => {
                let message = format!("'prepare.network' is '{other}'");
                fields.problem(position, message, "it must be \"allow\" or \"deny\"");
            }
            None => {}
        }
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        vec![("network", view::text(if self.network { "allow" } else { "deny" }))]
    }
}
