//! The yard's secrets: where their values come from, who gets them, and what must be hidden.
//!
//! A value leaves this module in two ways only: to the tool that declares it, and into the search that hides it.

mod keyring;
mod known;
mod look;
mod store;

pub use known::{Listed, Source};

use crate::host::Host;
use known::Known;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use store::Store;
use toolyard_protocol::{Error, ErrorKind, Payload, Redactor, SecretName};
use toolyard_wire::redact::{Hidden, MIN_CHARS};

/// How long a secret that another process set may stay unknown to the search. Whoever is given a value looks anew.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const MAX_BYTES: usize = 16 << 10;

pub struct Secrets {
    store: Store,
    known: Mutex<Known>,
    born: Instant,
    /// Milliseconds after `born` when the folder is looked at again.
    next_look: AtomicU64,
    /// There is nothing to hide: most yards have no secrets and must not pay for them.
    quiet: AtomicBool,
}

impl Secrets {
    pub fn new(state: &Path, host: &Host) -> Secrets {
        Secrets {
            store: Store::new(state.join("secrets")),
            known: Mutex::new(Known::of_environment(host)),
            born: Instant::now(),
            next_look: AtomicU64::new(0),
            quiet: AtomicBool::new(false),
        }
    }

    /// The value, for the tool that declares it.
    pub fn get(&self, name: &SecretName) -> Result<String, Error> {
        let mut known = self.look();
        known.ask_keyring(name);
        self.quiet.store(known.hidden.is_empty(), Ordering::Relaxed);
        if let Some(problem) = &known.problem {
            return Err(Error::new(ErrorKind::Unavailable, problem.clone()));
        }
        match known.find(name) {
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
    pub fn mark<'a>(&self, names: impl Iterator<Item = &'a SecretName>) -> Option<[u8; 32]> {
        let mut names = names.peekable();
        names.peek()?;
        let mut known = self.look();
        let mut hasher = blake3::Hasher::new_derive_key("toolyard 2026-11-15 secrets in cache keys");
        for name in names {
            known.ask_keyring(name);
            let value = known.find(name).and_then(Result::ok).unwrap_or_default();
            for part in [name.as_str(), value] {
                // A length before each part keeps two parts from being read as one.
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
            }
        }
        Some(*hasher.finalize().as_bytes())
    }

    /// Names and sources, by name.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        let known = self.look();
        match &known.problem {
            Some(problem) => Err(Error::new(ErrorKind::Unavailable, problem.clone())),
            None => Ok(known.list()),
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
    pub fn hide_in_tail(&self, text: String) -> String {
        self.hidden().and_then(|hidden| hidden.tail(&text)).unwrap_or(text)
    }

    fn hidden(&self) -> Option<Arc<Hidden>> {
        let due = self.born.elapsed().as_millis() as u64 >= self.next_look.load(Ordering::Relaxed);
        if !due && self.quiet.load(Ordering::Relaxed) {
            return None;
        }
        let known = if due { self.look() } else { self.lock() };
        Some(known.hidden.clone()).filter(|hidden| !hidden.is_empty())
    }

    /// What is known after a look at the folder.
    fn look(&self) -> MutexGuard<'_, Known> {
        let mut known = self.lock();
        known.look(&self.store);
        let next = self.born.elapsed() + LOOK_EVERY;
        self.next_look.store(next.as_millis() as u64, Ordering::Relaxed);
        self.quiet.store(known.hidden.is_empty(), Ordering::Relaxed);
        known
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
