//! What happens to a call: the pipeline and its gates, the registry of tools, the audit log.
//!
//! The engine opens no listening socket and starts no child; edges and runtimes do.

pub mod audit;
pub mod clock;
