//! Prompts from files: `prompts/REGISTRY.yaml` says which versions there are, `prompts/packs/<domain>/` holds them.
//!
//! `registry`, `spec` and `message` read files into checked values; `packs` puts them together and finds a prompt by its
//! name; `service` serves them, and lets tools make messages through the whole pipeline.

mod files;
mod index;
mod message;
mod naming;
mod packs;
mod reader;
mod registry;
mod service;
mod spec;
#[cfg(test)]
mod tests;
mod version;

pub use index::PromptIndex;
pub use packs::{Packs, PromptListing};
pub use service::PromptService;
