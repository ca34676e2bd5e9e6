//! Dialog tools: real processes, through the whole pipeline, with a caller that records everything.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test states what it expects, in its helpers too"
)]

mod hostile;
mod messages;
mod support;
