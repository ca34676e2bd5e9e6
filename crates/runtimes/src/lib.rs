//! How a tool runs: child processes, one file per kind, and the files that declare tools.
//!
//! Runtimes decide no policy: by the time a runner is asked, the pipeline has let the call through.

mod beneath;
pub mod builtin;
pub mod child;
mod command;
mod confine;
mod dialog;
mod host;
mod http;
pub mod interpreter;
mod kinds;
pub mod prompts;
pub mod proxy;
pub mod resources;
pub mod secrets;
mod uv;
pub mod yard;

pub use host::Host;
pub use prompts::{Library, Packs, Shelf};
pub use secrets::Secrets;
pub use yard::{Defaults, Loaded, Loader, Seen, Unconfined, Walls, WatchOptions, Watcher};
