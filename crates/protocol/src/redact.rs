//! Redaction of secrets in text and payloads.

use crate::Payload;

/// Replaces the yard's secrets. `None` means that nothing was replaced, so that no copy is made.
pub trait Redactor: Send + Sync {
    fn text(&self, text: &str) -> Option<String>;

    fn payload(&self, payload: &Payload) -> Option<Payload>;
}

/// Redacts nothing: for engines without secrets.
pub struct NoopRedactor;

impl Redactor for NoopRedactor {
    fn text(&self, _: &str) -> Option<String> {
        None
    }

    fn payload(&self, _: &Payload) -> Option<Payload> {
        None
    }
}
