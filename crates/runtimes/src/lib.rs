//! How a tool runs: as a child process, over HTTP, or as a typed function of this program.
//!
//! Runtimes decide no policy: by the time a runner is asked, the engine has let the call through.

pub mod beneath;
pub mod builtin;
pub mod command;
mod dialog;
mod host;
pub mod http;
pub mod interpreter;
pub mod sandbox_builder;
pub mod secrets;
pub mod uv;

pub use host::Host;
pub use secrets::Secrets;
