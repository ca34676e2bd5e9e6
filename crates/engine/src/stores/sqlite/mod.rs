//! The stores of one machine: tables of one SQLite file that several processes may share.

mod columns;
mod database;
mod events;
mod failure;
mod faults;
mod jobs;
mod migrate;
mod newest;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use database::Database;
pub use events::{EventLog, Events, RING};
pub use faults::{Fault, Faults, NoFaults, POINTS};
pub use jobs::Jobs;
