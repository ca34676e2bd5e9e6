//! What the engine may ask of a payload without knowing JSON. `wire` implements these traits.

use crate::{Error, Outcome, Payload};

/// One place where a value breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer into the value; empty means the value itself.
    pub pointer: String,
    pub message: String,
}

/// A compiled schema.
pub trait Check: Send + Sync {
    /// Every violation, or `Ok` when there is none.
    fn check(&self, payload: &Payload) -> Result<(), Vec<Violation>>;
}

/// What makes two calls of a deterministic tool the same.
pub trait CacheKey: Send + Sync {
    fn key(&self, arguments: &Payload) -> Result<Vec<u8>, Error>;
}

/// Looks into JSON on behalf of code that must not parse it itself.
pub trait JsonView: Send + Sync {
    /// The arguments as one line of compact JSON with every secret-looking value replaced; at most `cap` bytes
    /// (longer ones become an object that states the size and digest).
    fn redacted(&self, payload: &Payload, cap: usize) -> Result<Vec<u8>, Error>;

    /// String members of a flat JSON object, for indexing audit records.
    fn members(&self, json: &[u8], names: &[&str]) -> Result<Vec<Option<String>>, Error>;
}

/// An outcome as one payload, for stores and for other processes; nothing is lost on the way there and back.
pub trait OutcomeCodec: Send + Sync {
    fn write(&self, outcome: &Outcome) -> Payload;

    fn read(&self, payload: &Payload) -> Result<Outcome, Error>;
}
