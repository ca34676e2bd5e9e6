//! The yard's secrets: their sources, the tools that get them, and their redaction.
//!
//! A value leaves this module only to the tool that declares it and to the redactor.

mod folder_stamp;
mod keyring;
mod loaded;
mod store;

pub use loaded::{SecretListing, Source};

use crate::host::Host;
use loaded::LoadedSecrets;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use store::Store;
use toolyard_formats::redact::by_value::{MIN_CHARS, SecretRedactor};
use toolyard_protocol::{Error, ErrorKind, Payload, Redactor, SecretName};

/// How long a secret set by another process may be unknown to the redactor. Reading a value always refreshes.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
const MAX_BYTES: usize = 16 << 10;

/// A secret that a tool declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretBinding {
    /// The environment variable, or the name in header templates.
    pub variable: String,
    pub name: SecretName,
}

pub struct Secrets {
    /// The folder of the yard whose keys in the kernel's keyring are used.
    yard: Option<PathBuf>,
    store: Store,
    loaded: Mutex<LoadedSecrets>,
    started: Instant,
    /// Next check of the folder, in milliseconds after `started`.
    next_refresh: AtomicU64,
    /// Fast path for yards without secrets.
    nothing_to_redact: AtomicBool,
}

impl Secrets {
    /// `yard` and `state` are the real paths of these folders.
    pub fn new(yard: &Path, state: &Path, host: &Host) -> Secrets {
        Secrets::with_sources(Some(yard.to_owned()), Store::new(state.join("secrets")), host)
    }

    /// Without stored secrets and keys.
    pub fn of_environment(host: &Host) -> Secrets {
        // No file has this path.
        Secrets::with_sources(None, Store::new(PathBuf::new()), host)
    }

    fn with_sources(yard: Option<PathBuf>, store: Store, host: &Host) -> Secrets {
        Secrets {
            yard,
            store,
            loaded: Mutex::new(LoadedSecrets::of_environment(host)),
            started: Instant::now(),
            next_refresh: AtomicU64::new(0),
            nothing_to_redact: AtomicBool::new(false),
        }
    }

    /// The value of a secret, for the tool that declares it.
    pub fn get(&self, name: &SecretName) -> Result<String, Error> {
        let mut loaded = self.refresh();
        self.load_from_keyring(&mut loaded, name);
        self.nothing_to_redact.store(loaded.redactor.is_empty(), Ordering::Relaxed);
        if let Some(problem) = &loaded.problem {
            return Err(Error::new(ErrorKind::Unavailable, problem.clone()));
        }
        match loaded.find(name) {
            Some(Ok(value)) => Ok(value.to_owned()),
            Some(Err(problem)) => {
                let message = format!("the secret '{name}' cannot be used: {problem}");
                Err(Error::new(ErrorKind::Unavailable, message)
                    .hint(format!("run 'toolyard secret set {name}' to store it again")))
            }
            None => Err(Error::new(ErrorKind::FileNotFound, format!("the secret '{name}' is not set"))
                .hint(format!("run 'toolyard secret set {name}', or start with {} set", name.variable()))),
        }
    }

    /// A hash that changes when one of the values changes; `None` without names.
    pub fn fingerprint<'a>(&self, names: impl Iterator<Item = &'a SecretName>) -> Option<[u8; 32]> {
        let mut names = names.peekable();
        names.peek()?;
        let mut loaded = self.refresh();
        let mut hasher = blake3::Hasher::new_derive_key("toolyard 2026-11-15 secrets in cache keys");
        for name in names {
            self.load_from_keyring(&mut loaded, name);
            let value = loaded.find(name).and_then(Result::ok).unwrap_or_default();
            for part in [name.as_str(), value] {
                // Length-prefixed, so that different parts cannot hash alike.
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
            }
        }
        Some(*hasher.finalize().as_bytes())
    }

    /// Names and sources, sorted by name.
    pub fn list(&self) -> Result<Vec<SecretListing>, Error> {
        let loaded = self.refresh();
        match &loaded.problem {
            Some(problem) => Err(Error::new(ErrorKind::Unavailable, problem.clone())),
            None => Ok(loaded.list()),
        }
    }

    pub fn set(&self, name: &SecretName, value: &str) -> Result<(), Error> {
        check(value).map_err(|what| {
            Error::new(ErrorKind::InvalidInput, format!("cannot store the secret '{name}': {what}"))
        })?;
        self.store.write(name, value).map_err(|what| Error::new(ErrorKind::Unavailable, what))
    }

    /// `false` if no such secret is stored.
    pub fn remove(&self, name: &SecretName) -> Result<bool, Error> {
        self.store.remove(name).map_err(|what| Error::new(ErrorKind::Unavailable, what))
    }

    /// Redacts the tail of a longer text, which may begin in the middle of a secret.
    pub fn redact_tail(&self, text: String) -> String {
        self.redactor().and_then(|redactor| redactor.tail(&text)).unwrap_or(text)
    }

    fn redactor(&self) -> Option<Arc<SecretRedactor>> {
        let due = self.started.elapsed().as_millis() as u64 >= self.next_refresh.load(Ordering::Relaxed);
        if !due && self.nothing_to_redact.load(Ordering::Relaxed) {
            return None;
        }
        let loaded = if due { self.refresh() } else { self.lock() };
        Some(loaded.redactor.clone()).filter(|redactor| !redactor.is_empty())
    }

    /// Refreshes the secrets from the folder.
    fn refresh(&self) -> MutexGuard<'_, LoadedSecrets> {
        let mut loaded = self.lock();
        loaded.refresh(&self.store);
        let next = self.started.elapsed() + REFRESH_INTERVAL;
        self.next_refresh.store(next.as_millis() as u64, Ordering::Relaxed);
        self.nothing_to_redact.store(loaded.redactor.is_empty(), Ordering::Relaxed);
        loaded
    }

    fn load_from_keyring(&self, loaded: &mut LoadedSecrets, name: &SecretName) {
        if let Some(yard) = &self.yard {
            loaded.load_from_keyring(yard, name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, LoadedSecrets> {
        self.loaded.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Redactor for Secrets {
    fn text(&self, text: &str) -> Option<String> {
        self.redactor()?.text(text)
    }

    fn payload(&self, payload: &Payload) -> Option<Payload> {
        self.redactor()?.payload(payload)
    }
}

/// Checks that a value can be passed in a variable and redacted in a result.
fn check(value: &str) -> Result<(), String> {
    let length = value.chars().count();
    if length < MIN_CHARS {
        return Err(format!(
            "it has {length} characters; fewer than {MIN_CHARS} cannot be redacted without affecting ordinary text"
        ));
    }
    if value.len() > MAX_BYTES {
        return Err(format!("it has {} bytes; the maximum is {MAX_BYTES}", value.len()));
    }
    if value.contains('\0') {
        return Err("it contains a NUL character".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
