//! Mutation fuzzer: mutates a small corpus into hostile input for everything that parses untrusted data.
//!
//! The same seed gives the same cases. A case must not panic, take long or use much memory, and many cases
//! together must not leak memory.

mod memory;
mod mutate;
mod run;
pub mod targets;

pub use run::{Limits, Report, fuzz, run_case};
