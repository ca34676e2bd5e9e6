//! The yard's secrets: where their values come from, who gets them, and what must be hidden.
//!
//! A value leaves this module in two ways only: to the tool that declares it, and into the search that hides it.

mod folder_stamp;
mod keyring;
mod loaded;
mod store;

pub use loaded::{SecretListing, Source};

use crate::host::Host;
use loaded::LoadedSecrets;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use store::Store;
use toolyard_formats::redact::by_value::{MIN_CHARS, SecretRedactor};
use toolyard_protocol::{Error, ErrorKind, Payload, Redactor, SecretName};

/// How long a secret that another process set may stay unknown to the search. Whoever is given a value looks anew.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
const MAX_BYTES: usize = 16 << 10;

/// One secret of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretBinding {
    /// The environment variable, or the name in header templates.
    pub variable: String,
    pub name: SecretName,
}

pub struct Secrets {
    store: Store,
    loaded: Mutex<LoadedSecrets>,
    started: Instant,
    /// Milliseconds after `started` when the folder is looked at again.
    next_refresh: AtomicU64,
    /// There is nothing to hide: most yards have no secrets and must not pay for them.
    nothing_to_redact: AtomicBool,
}

impl Secrets {
    pub fn new(state: &Path, host: &Host) -> Secrets {
        Secrets {
            store: Store::new(state.join("secrets")),
            loaded: Mutex::new(LoadedSecrets::of_environment(host)),
            started: Instant::now(),
            next_refresh: AtomicU64::new(0),
            nothing_to_redact: AtomicBool::new(false),
        }
    }

    /// The value, for the tool that declares it.
    pub fn get(&self, name: &SecretName) -> Result<String, Error> {
        let mut loaded = self.refresh();
        loaded.load_from_keyring(name);
        self.nothing_to_redact.store(loaded.hidden.is_empty(), Ordering::Relaxed);
        if let Some(problem) = &loaded.problem {
            return Err(Error::new(ErrorKind::Unavailable, problem.clone()));
        }
        match loaded.find(name) {
            Some(Ok(value)) => Ok(value.to_owned()),
            Some(Err(problem)) => {
                let message = format!("the secret '{name}' cannot be used: {problem}");
                Err(Error::new(ErrorKind::Unavailable, message)
                    .hint(format!("'toolyard secret set {name}' stores it anew")))
            }
            None => Err(Error::new(ErrorKind::FileNotFound, format!("the secret '{name}' is not set")).hint(
                format!("'toolyard secret set {name}' stores it; or start with {} set", name.variable()),
            )),
        }
    }

    /// Changes when one of the values changes, and tells nothing about them; `None` for no names.
    pub fn fingerprint<'a>(&self, names: impl Iterator<Item = &'a SecretName>) -> Option<[u8; 32]> {
        let mut names = names.peekable();
        names.peek()?;
        let mut loaded = self.refresh();
        let mut hasher = blake3::Hasher::new_derive_key("toolyard 2026-11-15 secrets in cache keys");
        for name in names {
            loaded.load_from_keyring(name);
            let value = loaded.find(name).and_then(Result::ok).unwrap_or_default();
            for part in [name.as_str(), value] {
                // A length before each part keeps two parts from being read as one.
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
            }
        }
        Some(*hasher.finalize().as_bytes())
    }

    /// Names and sources, by name.
    pub fn list(&self) -> Result<Vec<SecretListing>, Error> {
        let loaded = self.refresh();
        match &loaded.problem {
            Some(problem) => Err(Error::new(ErrorKind::Unavailable, problem.clone())),
            None => Ok(loaded.list()),
        }
    }

    pub fn set(&self, name: &SecretName, value: &str) -> Result<(), Error> {
        check(value).map_err(|what| {
            Error::new(ErrorKind::InvalidInput, format!("the secret '{name}' is not stored: {what}"))
        })?;
        self.store.write(name, value).map_err(|what| Error::new(ErrorKind::Unavailable, what))
    }

    /// `false` when no such secret is stored.
    pub fn remove(&self, name: &SecretName) -> Result<bool, Error> {
        self.store.remove(name).map_err(|what| Error::new(ErrorKind::Unavailable, what))
    }

    /// Hides secrets in the end of a longer text, which may begin in the middle of one.
    pub fn redact_tail(&self, text: String) -> String {
        self.hidden().and_then(|hidden| hidden.tail(&text)).unwrap_or(text)
    }

    fn hidden(&self) -> Option<Arc<SecretRedactor>> {
        let due = self.started.elapsed().as_millis() as u64 >= self.next_refresh.load(Ordering::Relaxed);
        if !due && self.nothing_to_redact.load(Ordering::Relaxed) {
            return None;
        }
        let loaded = if due { self.refresh() } else { self.lock() };
        Some(loaded.hidden.clone()).filter(|hidden| !hidden.is_empty())
    }

    /// What is known after a look at the folder.
    fn refresh(&self) -> MutexGuard<'_, LoadedSecrets> {
        let mut loaded = self.lock();
        loaded.refresh(&self.store);
        let next = self.started.elapsed() + REFRESH_INTERVAL;
        self.next_refresh.store(next.as_millis() as u64, Ordering::Relaxed);
        self.nothing_to_redact.store(loaded.hidden.is_empty(), Ordering::Relaxed);
        loaded
    }

    fn lock(&self) -> MutexGuard<'_, LoadedSecrets> {
        self.loaded.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Redactor for Secrets {
    fn text(&self, text: &str) -> Option<String> {
        self.hidden()?.text(text)
    }

    fn payload(&self, payload: &Payload) -> Option<Payload> {
        self.hidden()?.payload(payload)
    }
}

/// What can be delivered in a variable and hidden in a result.
fn check(value: &str) -> Result<(), String> {
    let length = value.chars().count();
    if length < MIN_CHARS {
        return Err(format!(
            "it has {length} characters; fewer than {MIN_CHARS} could not be hidden without hiding ordinary text"
        ));
    }
    if value.len() > MAX_BYTES {
        return Err(format!("it has {} bytes; at most {MAX_BYTES} are kept", value.len()));
    }
    if value.contains('\0') {
        return Err("it holds a NUL character, which no variable can".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
