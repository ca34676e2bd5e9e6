//! `[auth]`: what HTTP clients need the yard's token for.

use super::view;
use toolyard_edges::TokenPolicy;
use toolyard_formats::doc::Fields;
use toolyard_runtimes::builtin::Setting;

#[derive(Clone)]
pub struct Auth {
    pub token: TokenPolicy,
}

impl Default for Auth {
    fn default() -> Auth {
        Auth { token: TokenPolicy::Guarded }
    }
}

const POLICIES: [(&str, TokenPolicy); 3] =
    [("guarded", TokenPolicy::Guarded), ("all", TokenPolicy::All), ("off", TokenPolicy::Off)];

impl Auth {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        let Some((text, position)) = fields.text_with_position("token") else { return };
        match POLICIES.iter().find(|(name, _)| *name == text) {
            Some((_, policy)) => self.token = *policy,
            None => {
                let message = format!("'auth.token' is '{text}'");
                fields.problem(position, message, "it must be \"guarded\", \"all\" or \"off\"");
            }
        }
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        let name = POLICIES.iter().find(|(_, policy)| *policy == self.token).map_or("", |(name, _)| name);
        vec![("token", view::text(name))]
    }
}
