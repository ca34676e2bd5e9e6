//! `[sandbox]`: the sandbox level, and what happens to tools that cannot be sandboxed on this machine.

use super::view;
use toolyard_formats::doc::Fields;
use toolyard_runtimes::builtin::Setting;
use toolyard_sandbox::SandboxLevel;
use toolyard_yard::WhenUnavailable;

pub struct Sandbox {
    /// The strongest level to use, if the machine supports it.
    pub level: SandboxLevel,
    pub when_unavailable: WhenUnavailable,
    /// Tools may run although the yard is a home folder.
    pub allow_home: bool,
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        let (level, when_unavailable) = (SandboxLevel::Full, WhenUnavailable::Refuse);
        Sandbox { level, when_unavailable, allow_home: false }
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
        match fields.text_with_position("when_unavailable") {
            Some(("refuse", _)) => self.when_unavailable = WhenUnavailable::Refuse,
            Some(("run unconfined", _)) => self.when_unavailable = WhenUnavailable::Run,
            Some((other, position)) => {
                let message = format!("'sandbox.when_unavailable' is '{other}'");
                fields.problem(position, message, "it must be \"refuse\" or \"run unconfined\"");
            }
            None => {}
        }
        self.allow_home = fields.bool("allow_home").unwrap_or(self.allow_home);
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        let level = match self.level {
            SandboxLevel::Full => "full",
            SandboxLevel::Landlock => "landlock",
            SandboxLevel::None => "none",
        };
        let unavailable = match self.when_unavailable {
            WhenUnavailable::Refuse => "refuse",
            WhenUnavailable::Run => "run unconfined",
        };
        vec![
            ("level", view::text(level)),
            ("when_unavailable", view::text(unavailable)),
            ("allow_home", Setting::Switch(self.allow_home)),
        ]
    }
}
