//! `[sandbox]`: the strongest sandbox level that is used, and the weakest at which tools are started.

use super::view;
use toolyard_formats::doc::{Fields, Value};
use toolyard_runtimes::builtin::Setting;
use toolyard_sandbox::SandboxLevel;

pub struct Sandbox {
    /// The strongest level to use, if the machine supports it.
    pub level: SandboxLevel,
    /// The weakest level at which tools are started.
    pub require: SandboxLevel,
    /// Tools may run although the yard is a home folder.
    pub allow_home: bool,
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox { level: SandboxLevel::Full, require: SandboxLevel::Landlock, allow_home: false }
    }
}

impl Sandbox {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        match fields.text_with_position("level") {
            Some(("full", _)) => self.level = SandboxLevel::Full,
            Some(("landlock", _)) => self.level = SandboxLevel::Landlock,
            Some((other, position)) => {
                let message = format!("'sandbox.level' is '{other}'");
                fields.problem(
                    position,
                    message,
                    "it must be \"full\" or \"landlock\"; a single tool may say sandbox: none",
                );
            }
            None => {}
        }
        if let Some((position, node)) = fields.take_replaced("when_unavailable") {
            let require =
                if node.value == Value::Text("run unconfined".to_owned()) { "none" } else { "landlock" };
            let message = "'sandbox.when_unavailable' was replaced by 'sandbox.require'".to_owned();
            fields.problem(position, message, &format!("write require = \"{require}\""));
        }
        match fields.text_with_position("require") {
            Some(("full", _)) => self.require = SandboxLevel::Full,
            Some(("landlock", _)) => self.require = SandboxLevel::Landlock,
            Some(("none", _)) => self.require = SandboxLevel::None,
            Some((other, position)) => {
                let message = format!("'sandbox.require' is '{other}'");
                fields.problem(position, message, "it must be \"full\", \"landlock\" or \"none\"");
            }
            None => {}
        }
        self.allow_home = fields.bool("allow_home").unwrap_or(self.allow_home);
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        vec![
            ("level", view::text(self.level)),
            ("require", view::text(self.require)),
            ("allow_home", Setting::Switch(self.allow_home)),
        ]
    }
}
