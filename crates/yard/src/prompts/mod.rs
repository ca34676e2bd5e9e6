//! Prompts from files: `prompts/REGISTRY.yaml` lists the versions, `prompts/packs/<domain>/` holds them.
//!
//! `registry`, `spec` and `message` read files into checked values; `packs` combines them and finds a prompt
//! by name; `service` serves them, and runs tools that build messages through the whole pipeline.

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
