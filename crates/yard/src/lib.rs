//! Reads and watches the files of a yard: tools, prompts, resources. Nothing here runs a tool.

pub mod kinds;
pub mod prompts;
pub mod resources;
#[cfg(test)]
mod testing;
pub mod tools;
pub mod watch;

pub use prompts::{Packs, PromptIndex, PromptService};
pub use tools::{Defaults, Loaded, Loader, SandboxPolicy, WhenUnavailable};
pub use watch::{WatchEvent, WatchOptions, Watcher};
