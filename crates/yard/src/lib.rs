//! Reads and watches the files of a yard: tools, prompts, resources. Nothing here runs a tool.

mod is_yard;
pub mod kinds;
pub mod prompts;
pub mod resources;
#[cfg(test)]
mod testing;
pub mod tools;
pub mod watch;

pub use is_yard::is_yard;
pub use prompts::{Packs, PromptIndex, PromptService};
pub use tools::{Defaults, LoadSettings, Loaded, Loader, SandboxPolicy};
pub use watch::{WatchEvent, WatchOptions, Watcher};
