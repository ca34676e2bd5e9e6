//! Conformance suite of the stores, and the in-memory stores: the model that the others are compared with.

#[cfg(test)]
pub(crate) mod cases;
pub mod memory;
