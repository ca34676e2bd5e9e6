//! Calls the built-in tools through the whole engine, with real stores in a temporary folder.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test states what it expects, in its helpers too"
)]

mod content;
mod fixture;
mod formats;
mod golden;
mod graph;
mod jobs;
mod resources;
mod yard;
