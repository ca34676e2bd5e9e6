//! How callers reach Toolyard over a socket. Edges know protocols; what a tool is made of they never learn.

mod connection_limits;
mod in_process;
mod limits;
mod mcp;
mod plain_http;
mod query;
mod server;
mod v1;

pub use in_process::InProcess;
pub use mcp::{Mcp, McpOptions, Services, serve_framed, serve_stdio};
pub use server::{Options, serve};
