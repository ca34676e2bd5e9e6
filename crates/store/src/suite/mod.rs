//! What every implementation of the stores must do, and the one in memory: the model the others are compared with.

#[cfg(test)]
pub(crate) mod cases;
pub mod memory;
