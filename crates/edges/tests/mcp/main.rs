//! The MCP edge over real sockets and pipes, with a real engine and interactive tools.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test states what it expects, in its helpers too"
)]

mod bounds;
mod client;
mod dialects;
mod framed;
mod handshake;
mod outgoing;
mod resources_and_prompts;
mod server;
mod services;
mod stateless;
mod stdio;
mod tools;
