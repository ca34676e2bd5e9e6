//! Which keys of a changed `toolyard.toml` a running server applies, and which need a restart.

use super::Config;
use toolyard_runtimes::builtin::ConfigView;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// To calls, loads and requests from now on.
    Now,
    /// Only when the server starts.
    AtStart,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    pub section: &'static str,
    pub key: &'static str,
    pub applies: Applies,
}

/// The keys that are read only at the start; a section without a key stands for all of its keys.
const AT_START: &[(&str, Option<&str>)] = &[
    ("server", None),
    ("auth", None),
    ("audit", None),
    ("state", None),
    ("jobs", Some("max_running")),
    ("jobs", Some("max_running_per_caller")),
];

fn applies(section: &str, key: &str) -> Applies {
    let is_row = |row: &(&str, Option<&str>)| row.0 == section && row.1.is_none_or(|known| known == key);
    if AT_START.iter().any(is_row) { Applies::AtStart } else { Applies::Now }
}

impl Config {
    /// The keys in which `new` differs.
    pub fn changes(&self, new: &Config) -> Vec<Change> {
        let (old, new) = (self.sections(), new.sections());
        let mut changes = Vec::new();
        for (old, new) in old.iter().zip(&new) {
            let keys = old.settings.iter().zip(&new.settings).filter(|(old, new)| old != new);
            changes.extend(keys.map(|((key, _), _)| Change {
                section: old.name,
                key,
                applies: applies(old.name, key),
            }));
        }
        changes
    }

    /// This configuration, as a server that started with `running` applies it.
    pub fn applied_over(mut self, running: &Config) -> Config {
        self.server = running.server.clone();
        self.auth = running.auth.clone();
        self.audit = running.audit.clone();
        self.state = running.state.clone();
        self.jobs.keep_running_limits(&running.jobs);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_formats::doc::{self, DocumentFormat};

    /// Another value for every key: one document each.
    fn documents() -> Vec<(&'static str, &'static str, String)> {
        use toolyard_runtimes::builtin::Setting;
        let mut documents = Vec::new();
        for section in Config::default().sections() {
            for (key, value) in section.settings {
                let name = section.name;
                let other = match (name, key) {
                    ("resources", "root") => {
                        let text = "[[resources.root]]\npath = \"a\"\nname = \"a\"\n".to_owned();
                        documents.push((name, key, text));
                        continue;
                    }
                    ("server", "listen") => "\"127.0.0.1:1\"".to_owned(),
                    ("auth", "token") => "\"all\"".to_owned(),
                    ("audit", "sync") => "\"always\"".to_owned(),
                    ("audit", "retention") => "\"99d\"".to_owned(),
                    ("sandbox", "level") => "\"landlock\"".to_owned(),
                    ("sandbox", "require") => "\"full\"".to_owned(),
                    ("prepare", "network") => "\"deny\"".to_owned(),
                    ("state", "dir") => "\"elsewhere\"".to_owned(),
                    ("limits", "timeout") => "\"7s\"".to_owned(),
                    ("limits", "input" | "output") => "7".to_owned(),
                    _ => match value {
                        Setting::Number(number) => (number + 1).to_string(),
                        Setting::Switch(on) => (!on).to_string(),
                        Setting::Text(_) => "\"7m\"".to_owned(),
                        Setting::Unset(()) => panic!("give {name}.{key} another value here"),
                    },
                };
                documents.push((name, key, format!("[{name}]\n{key} = {other}\n")));
            }
        }
        documents
    }

    #[test]
    fn every_key_is_reported_and_is_either_applied_or_kept() {
        for (section, key, text) in documents() {
            let running = Config::default();
            let mut new = Config::default();
            new.add(&doc::read(DocumentFormat::Toml, text.as_bytes()).unwrap()).unwrap();
            let changes = running.changes(&new);
            let [change] = &changes[..] else { panic!("{text}: {changes:?}") };
            assert_eq!((change.section, change.key), (section, key), "{text}");
            let applied = new.applied_over(&running);
            let left = usize::from(change.applies == Applies::Now);
            assert_eq!(running.changes(&applied).len(), left, "{text}: applied and said otherwise");
        }
    }

    #[test]
    fn every_row_names_a_key() {
        let sections = Config::default().sections();
        for (section, key) in AT_START {
            let section = sections.iter().find(|known| known.name == *section).unwrap();
            assert!(key.is_none_or(|key| section.settings.iter().any(|(known, _)| *known == key)), "{key:?}");
        }
    }
}
