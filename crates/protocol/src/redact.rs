//! What must not be shown is replaced before anyone can see it.

use crate::Payload;

/// Knows the yard's secrets and hides them. `None` means that there is nothing to hide, which costs nothing when
/// there are no secrets.
pub trait Redactor: Send + Sync {
    fn text(&self, text: &str) -> Option<String>;

    fn payload(&self, payload: &Payload) -> Option<Payload>;
}

/// Hides nothing: for engines whose tools know no secrets.
pub struct NoopRedactor;

impl Redactor for NoopRedactor {
    fn text(&self, _: &str) -> Option<String> {
        None
    }

    fn payload(&self, _: &Payload) -> Option<Payload> {
        None
    }
}
