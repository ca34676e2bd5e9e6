//! Encoding and decoding of messages to and from the types of `protocol`: pure functions without I/O.

pub mod arguments;
pub mod batch;
pub mod child_io;
mod content;
pub mod context;
pub mod dialog;
pub mod envelope;
pub mod form;
pub mod framed_dialect;
pub mod framing;
pub mod jobs;
pub mod jsonrpc;
pub mod mcp;
pub mod outcome;
pub mod prompt;
pub mod render;
pub mod tool_list;
pub mod typed;
pub mod websocket;
