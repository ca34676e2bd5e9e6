//! Bytes to and from the vocabulary: pure functions, no socket, no file.
//!
//! This is the only crate that may look inside JSON.

pub mod answer;
pub mod arguments;
pub mod batch;
pub mod cache_key;
pub mod checkup;
mod content;
pub mod context;
pub mod dialog;
pub mod doc;
pub mod envelope;
pub mod form;
pub mod framing;
pub mod history;
pub mod jobs;
pub mod json;
pub mod jsonrpc;
pub mod listing;
pub mod mcp;
pub mod msgpack;
pub mod outcome;
pub mod percent;
pub mod plain;
pub mod problems;
pub mod prompt;
pub mod redact;
pub mod render;
pub mod resource_list;
pub mod schema;
pub mod secret_list;
pub mod template;
pub mod typed;
pub mod uri_template;
pub mod view;
pub mod websocket;
