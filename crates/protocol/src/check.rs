//! Operations on payloads for code that does not parse them itself; `formats` and `wire` implement them.

use crate::{Error, Outcome, Payload};

/// One violation of a schema or of another rule.
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

/// Computes the key under which the result of a deterministic tool is cached.
pub trait CacheKey: Send + Sync {
    fn key(&self, arguments: &Payload) -> Result<Vec<u8>, Error>;
}

/// Reads JSON for code that must not parse it itself.
pub trait JsonView: Send + Sync {
    /// The arguments as compact JSON with secret-looking values replaced; an object with the size only if
    /// that is over `cap` bytes.
    fn redacted(&self, payload: &Payload, cap: usize) -> Result<Vec<u8>, Error>;

    /// String members of a flat JSON object, for indexing audit records.
    fn members(&self, json: &[u8], names: &[&str]) -> Result<Vec<Option<String>>, Error>;
}

/// Encodes an outcome as one payload, for stores and other processes, without loss.
pub trait OutcomeCodec: Send + Sync {
    fn write(&self, outcome: &Outcome) -> Payload;

    fn read(&self, payload: &Payload) -> Result<Outcome, Error>;
}
