//! `config.get`: returns one value, one section or everything.

use super::{Section, Setting};
use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use toolyard_formats::redact::by_name::is_secret_name;
use toolyard_protocol::text::nearest;
use toolyard_protocol::{Annotations, Context, Error, ErrorKind, Request, Tool, Violation};

pub struct Get(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct GetRequest {
    /// A section of toolyard.toml; default all.
    #[serde(default)]
    pub section: Option<String>,
    /// A key of the section; default all.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct GetResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub value: ConfigValue,
}

type Keys = BTreeMap<&'static str, Setting>;

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ConfigValue {
    One(Setting),
    Keys(Keys),
    Sections(BTreeMap<&'static str, Keys>),
}

impl Request for GetRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        if self.key.is_some() && self.section.is_none() {
            validate::add(violations, "/section", "is required with 'key'");
        }
    }
}

impl Tool for Get {
    type Request = GetRequest;
    type Response = GetResponse;

    const NAME: &'static str = "config.get";
    const TITLE: &'static str = "Get configuration";
    const DESCRIPTION: &'static str =
        "Returns the effective configuration: one value, one section or everything. Secrets are never shown.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;

    async fn run(&self, request: GetRequest, _: Context<'_>) -> Result<GetResponse, Error> {
        let GetRequest { section, key } = request;
        let sections = self.0.config.sections();
        let value = match (&section, &key) {
            (None, _) => ConfigValue::Sections(sections.iter().map(|one| (one.name, keys(one))).collect()),
            (Some(section), None) => ConfigValue::Keys(keys(find_section(&sections, section)?)),
            (Some(section), Some(key)) => {
                let mut keys = keys(find_section(&sections, section)?);
                let value = keys.remove(key.as_str());
                ConfigValue::One(value.ok_or_else(|| missing("key", key, keys.keys().copied()))?)
            }
        };
        Ok(GetResponse { section, key, value })
    }
}

fn find_section<'s>(sections: &'s [Section], name: &str) -> Result<&'s Section, Error> {
    let found = sections.iter().find(|section| section.name == name);
    found.ok_or_else(|| missing("section", name, sections.iter().map(|section| section.name)))
}

fn keys(section: &Section) -> Keys {
    section.settings.iter().map(|(key, value)| (*key, redacted(key, value))).collect()
}

/// Redacts settings with the name of a secret, and passwords in URLs.
fn redacted(key: &str, value: &Setting) -> Setting {
    match value {
        Setting::Text(_) if is_secret_name(key) => Setting::Text("[hidden]".to_owned()),
        Setting::Text(text) => Setting::Text(without_password(text)),
        other => other.clone(),
    }
}

/// Replaces the user info of `scheme://user:password@host`.
fn without_password(text: &str) -> String {
    let hidden = text.split_once("://").and_then(|(scheme, rest)| {
        let authority = rest.split(['/', '?', '#']).next()?;
        let at = authority.rfind('@')?;
        Some(format!("{scheme}://[hidden]{}", &rest[at..]))
    });
    hidden.unwrap_or_else(|| text.to_owned())
}

fn missing<'k>(what: &str, name: &str, known: impl Iterator<Item = &'k str> + Clone) -> Error {
    let hint = match nearest(name, known.clone()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("known: {}", known.collect::<Vec<_>>().join(", ")),
    };
    Error::new(ErrorKind::ResourceNotFound, format!("unknown {what} in the configuration")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_hidden() {
        for (given, shown) in [
            ("postgres://u:p@db/x?y=@", "postgres://[hidden]@db/x?y=@"),
            ("https://host/a@b", "https://host/a@b"),
            ("127.0.0.1:3333", "127.0.0.1:3333"),
            ("https://u:p@s@host", "https://[hidden]@host"),
        ] {
            assert_eq!(without_password(given), shown);
        }
        let text = |value: &str| Setting::Text(value.to_owned());
        assert_eq!(redacted("api_key", &text("k")), text("[hidden]"));
        assert_eq!(redacted("listen", &text("l")), text("l"));
    }
}
