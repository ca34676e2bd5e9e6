//! `[sandbox]`: what happens to tools that this machine cannot confine.

use toolyard_runtimes::Unconfined;
use toolyard_wire::doc::Fields;

#[derive(Default)]
pub struct Sandbox {
    pub when_unavailable: Unconfined,
}

impl Sandbox {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        match fields.placed_text("when_unavailable") {
            Some(("refuse", _)) => self.when_unavailable = Unconfined::Refuse,
            Some(("run unconfined", _)) => self.when_unavailable = Unconfined::Run,
            Some((other, place)) => {
                let message = format!("'sandbox.when_unavailable' is '{other}'");
                fields.problem(place, message, "it must be \"refuse\" or \"run unconfined\"");
            }
            None => {}
        }
    }
}
