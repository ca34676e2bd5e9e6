//! What the traits promise, one case per sentence, run against every store.

mod annotations;
mod archive;
mod artifacts;
mod cache;
mod graph;
mod limits;
mod stores;
