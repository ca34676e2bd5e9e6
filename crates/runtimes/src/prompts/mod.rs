//! Prompts from files: `prompts/REGISTRY.yaml` says which versions there are, `prompts/packs/<domain>/` holds them.
//!
//! `registry`, `spec` and `message` read files into checked values; `packs` puts them together and finds a prompt by its
//! name; `library` serves them, and lets tools make messages through the whole pipeline.

mod files;
mod library;
mod message;
mod naming;
mod packs;
mod reader;
mod registry;
mod shelf;
mod spec;
#[cfg(test)]
mod tests;
mod version;

pub use library::Library;
pub use packs::{Listed, Packs};
pub use shelf::Shelf;
