//! The stores of one machine: tables of one SQLite file that several processes may share.

mod database;
mod failure;
mod faults;
mod migrate;
mod newest;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use database::Database;
pub use faults::{Fault, Faults, NoFaults, POINTS};
pub use newest::Newest;
