//! Integration tests of the program: real files, real processes, real sockets.
//!
//! One test binary, so that it is linked once. Tests describe what a user sees; helpers are in `support`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test states what it expects, in its helpers too, and says what it had to leave out"
)]

mod answers;
mod architecture;
mod arguments;
mod audit;
mod bounds;
mod builtin;
mod cache;
mod cli;
mod clients;
mod config;
mod config_reload;
mod conformance;
mod console;
mod denials;
mod dependencies;
mod dialects;
mod dialog;
mod disk;
mod docs;
mod drain;
mod driver;
mod entry_forms;
mod environment;
mod escape;
mod examples;
mod files;
mod flood;
mod foreign_state;
mod grants;
mod hostile;
mod hostile_files;
mod hostile_yards;
mod http;
mod instructions;
mod jobs;
mod kills;
mod kinds;
mod layouts;
mod levels;
mod limits;
mod log;
mod looking;
mod mcp;
mod memory;
mod origins;
mod planted;
mod preparing;
mod programs;
mod prompts;
mod proxy_clients;
mod prune;
mod resources;
mod secrets;
mod shims;
mod sockets;
mod streams;
mod support;
mod terminal_text;
mod token;
mod trace_sandbox;
mod trees;
mod usage;
mod values;
mod walk;
mod yard_folder;
