//! How a tool runs: child processes, and on top of them one file per kind of tool.
//!
//! Runtimes decide nothing about policy; what may run, and for how long, is the engine's business.

pub mod child;
