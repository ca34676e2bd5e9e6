//! How a tool runs: as a child process, over HTTP, or as a typed function of this program.
//!
//! Runners make no policy decisions: the engine's gates have already admitted the call.

pub mod beneath;
pub mod builtin;
pub mod command;
pub mod declaration;
mod denials;
mod dialog;
pub mod grants;
mod homes;
mod host;
pub mod http;
mod installation;
pub mod interpreter;
mod probe;
pub mod proxy_clients;
#[cfg(test)]
#[path = "../../../tests/require.rs"]
mod require;
pub mod sandbox_builder;
pub mod secrets;
pub mod shims;
pub mod trace_report;
pub mod uv;

pub use host::Host;
pub use secrets::Secrets;
