//! `[sandbox]`: how strong the walls may be, and what happens to tools that this machine cannot confine.

use super::shown;
use toolyard_runtimes::Unconfined;
use toolyard_runtimes::builtin::Setting;
use toolyard_runtimes::child::Level;
use toolyard_wire::doc::Fields;

pub struct Sandbox {
    /// The strongest level that is used, where the machine gives it.
    pub level: Level,
    pub when_unavailable: Unconfined,
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox { level: Level::Full, when_unavailable: Unconfined::Refuse }
    }
}

impl Sandbox {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        match fields.placed_text("level") {
            Some(("full", _)) => self.level = Level::Full,
            Some(("landlock", _)) => self.level = Level::Landlock,
            Some((other, place)) => {
                let message = format!("'sandbox.level' is '{other}'");
                fields.problem(
                    place,
                    message,
                    "it must be \"full\" or \"landlock\"; a single tool may say sandbox: none",
                );
            }
            None => {}
        }
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

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        let level = match self.level {
            Level::Full => "full",
            Level::Landlock => "landlock",
            Level::None => "none",
        };
        let unavailable = match self.when_unavailable {
            Unconfined::Refuse => "refuse",
            Unconfined::Run => "run unconfined",
        };
        vec![("level", shown::text(level)), ("when_unavailable", shown::text(unavailable))]
    }
}
