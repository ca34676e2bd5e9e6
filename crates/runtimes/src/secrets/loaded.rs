//! The secrets loaded from all sources.

use super::check;
use super::folder_stamp::FolderStamp;
use super::keyring;
use super::store::Store;
use crate::host::Host;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use toolyard_formats::redact::by_value::SecretRedactor;
use toolyard_protocol::SecretName;

/// Replaced or removed values are still redacted, up to this number, because a running tool may have them.
const MAX_RETIRED: usize = 256;

/// A value, or why it cannot be used.
pub type Value = Result<String, String>;

#[derive(Default)]
pub struct LoadedSecrets {
    /// By variable name.
    environment: BTreeMap<String, (String, Value)>,
    stored: BTreeMap<SecretName, Value>,
    /// Only names that a tool declares are looked up in the keyring.
    keyring: BTreeMap<SecretName, Value>,
    retired: Vec<(String, String)>,
    last_stamp: Option<FolderStamp>,
    /// Why no secret can be used at all.
    pub problem: Option<String>,
    pub redactor: Arc<SecretRedactor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Environment,
    Store,
    Keyring,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretListing {
    pub name: String,
    pub source: Source,
    pub problem: Option<String>,
}

impl LoadedSecrets {
    pub fn of_environment(host: &Host) -> LoadedSecrets {
        let mut loaded = LoadedSecrets::default();
        for (variable, name, value) in host.secret_variables() {
            let value = value.to_str().ok_or_else(|| "it is not UTF-8".to_owned());
            let value = value.and_then(|value| check(value).map(|()| value.to_owned()));
            loaded.environment.insert(variable.to_owned(), (name, value));
        }
        loaded.rebuild_redactor();
        loaded
    }

    /// Reads the folder again if anything in it may have changed.
    pub fn refresh(&mut self, store: &Store) {
        if self.last_stamp.as_ref().is_some_and(FolderStamp::is_current) {
            return;
        }
        // Before reading, so that a change in between is detected at the next refresh.
        self.last_stamp = Some(store.stamp());
        let read = match store.read() {
            Ok(read) => {
                self.problem = None;
                read
            }
            Err(problem) => {
                self.problem = Some(problem);
                BTreeMap::new()
            }
        };
        if read == self.stored {
            return;
        }
        for (name, value) in std::mem::replace(&mut self.stored, read) {
            if let Ok(value) = value
                && self.stored.get(&name).is_none_or(|new| new.as_deref() != Ok(value.as_str()))
            {
                self.retire(&name, value);
            }
        }
        self.rebuild_redactor();
    }

    /// Looks the yard's key up in the kernel's keyring, unless another source has the name.
    pub fn load_from_keyring(&mut self, yard: &Path, name: &SecretName) {
        if self.environment.contains_key(&name.variable()) || self.stored.contains_key(name) {
            return;
        }
        let found = keyring::read(yard, name);
        if found.as_ref() == self.keyring.get(name) {
            return;
        }
        let before = match found {
            Some(value) => self.keyring.insert(name.clone(), value),
            None => self.keyring.remove(name),
        };
        if let Some(Ok(value)) = before {
            self.retire(name, value);
        }
        self.rebuild_redactor();
    }

    /// Keeps redacting a replaced value, which a running tool may still have.
    fn retire(&mut self, name: &SecretName, value: String) {
        self.retired.push((name.as_str().to_owned(), value));
        let surplus = self.retired.len().saturating_sub(MAX_RETIRED);
        self.retired.drain(..surplus);
    }

    /// The environment takes precedence.
    pub fn find(&self, name: &SecretName) -> Option<Result<&str, &str>> {
        let value = match self.environment.get(&name.variable()) {
            Some((_, value)) => value,
            None => self.stored.get(name).or_else(|| self.keyring.get(name))?,
        };
        Some(value.as_deref().map_err(String::as_str))
    }

    pub fn list(&self) -> Vec<SecretListing> {
        let listed = |name: &str, source, value: &Value| SecretListing {
            name: name.to_owned(),
            source,
            problem: value.as_ref().err().cloned(),
        };
        let from_env =
            self.environment.values().map(|(name, value)| listed(name, Source::Environment, value));
        let stored = self.stored.iter().map(|(name, value)| {
            let mut listed = listed(name.as_str(), Source::Store, value);
            if self.environment.contains_key(&name.variable()) {
                listed.problem = Some(format!("overridden by {}", name.variable()));
            }
            listed
        });
        let from_keyring =
            self.keyring.iter().map(|(name, value)| listed(name.as_str(), Source::Keyring, value));
        let mut all: Vec<SecretListing> = from_env.chain(stored).chain(from_keyring).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn rebuild_redactor(&mut self) {
        let usable = |name, value: &'_ Value| value.as_ref().ok().cloned().map(|value| (name, value));
        let from_env = self.environment.values().filter_map(|(name, value)| usable(name.clone(), value));
        let stored = self.stored.iter().filter_map(|(name, value)| usable(name.as_str().to_owned(), value));
        let from_keyring =
            self.keyring.iter().filter_map(|(name, value)| usable(name.as_str().to_owned(), value));
        let all: Vec<(String, String)> =
            stored.chain(from_env).chain(from_keyring).chain(self.retired.iter().cloned()).collect();
        match SecretRedactor::new(all.iter().map(|(name, value)| (name.as_str(), value.as_str()))) {
            Ok(redactor) => self.redactor = Arc::new(redactor),
            // Secrets that cannot be redacted are not provided.
            Err(what) => self.problem = Some(format!("cannot redact the secrets in results: {what}")),
        }
    }
}
