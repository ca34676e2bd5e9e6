//! The edges: HTTP and MCP on sockets and stdio. Edges know protocols, never how a tool is implemented.

mod buffers;
mod connection_limits;
mod counted_body;
mod in_process;
mod limits;
mod mcp;
mod plain_http;
mod query;
mod routes;
mod server;
mod v1;

pub use in_process::InProcess;
pub use mcp::{Mcp, McpOptions, Services, serve_framed, serve_stdio};
pub use server::{Auth, Options, TokenPolicy, serve};
