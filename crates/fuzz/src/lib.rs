//! Hostile input, made from a small corpus by mutation, for everything that reads what others wrote.
//!
//! The same seed makes the same cases. A case must neither panic, nor take long, nor take much memory, and many cases
//! together must leave no memory behind.

mod memory;
mod mutate;
mod run;
pub mod targets;

pub use run::{Limits, Report, fuzz};
