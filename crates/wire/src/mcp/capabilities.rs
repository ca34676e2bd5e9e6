//! What a client says it can do.

use toolyard_formats::json;

/// Only what we act on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// Forms for a person; `elicitation: {}` means these.
    pub form: bool,
    /// Pages for a person to visit.
    pub url: bool,
    pub sampling: bool,
    pub roots: bool,
    /// The extension for jobs.
    pub tasks: bool,
}

pub const TASKS: &str = "io.modelcontextprotocol/tasks";

impl ClientCapabilities {
    /// Reads the raw object; what is not understood counts as not there.
    pub fn read(raw: &[u8]) -> ClientCapabilities {
        // The common case, on every request of a stateless client.
        if raw == b"{}" {
            return ClientCapabilities::default();
        }
        let mut found = ClientCapabilities::default();
        for (name, raw) in objects(raw) {
            match name.as_str() {
                "sampling" => found.sampling = true,
                "roots" => found.roots = true,
                "elicitation" => {
                    let modes = objects(raw);
                    let has = |mode: &str| modes.iter().any(|(name, _)| name == mode);
                    found.url = has("url");
                    found.form = has("form") || !found.url;
                }
                "extensions" => found.tasks = objects(raw).iter().any(|(name, _)| name == TASKS),
                _ => {}
            }
        }
        found
    }
}

/// The members that are objects.
fn objects(raw: &[u8]) -> Vec<(String, &[u8])> {
    let members = json::members(raw).ok().flatten().unwrap_or_default();
    let members = members.into_iter().map(|(name, range)| (name.into_owned(), &raw[range]));
    members.filter(|(_, raw)| raw.first() == Some(&b'{')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_in_every_form() {
        let read = |text: &str| ClientCapabilities::read(text.as_bytes());
        let none = ClientCapabilities::default();
        for (text, expected) in [
            ("{}", none),
            ("7", none),
            (r#"{"sampling":true}"#, none),
            (r#"{"sampling":{"tools":{}}}"#, ClientCapabilities { sampling: true, ..none }),
            (r#"{"elicitation":{}}"#, ClientCapabilities { form: true, ..none }),
            (r#"{"elicitation":{"url":{}}}"#, ClientCapabilities { url: true, ..none }),
            (r#"{"elicitation":{"url":{},"form":{}}}"#, ClientCapabilities { url: true, form: true, ..none }),
            (r#"{"roots":{"listChanged":true}}"#, ClientCapabilities { roots: true, ..none }),
            (
                r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
                ClientCapabilities { tasks: true, ..none },
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
