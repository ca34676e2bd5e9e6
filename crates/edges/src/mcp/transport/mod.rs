//! Transports: each carries JSON-RPC messages and knows nothing of methods.

pub(super) mod duplex;
pub(super) mod framed_stdio;
pub(super) mod http;
pub(super) mod legacy_sse;
mod sse;
pub(super) mod stdio;
pub(super) mod websocket;
