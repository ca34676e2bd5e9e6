//! Tools that talk while they run: real processes, through the whole pipeline, to a caller that writes everything
//! down.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test states what it expects, in its helpers too"
)]

mod hostile;
mod messages;
mod support;
