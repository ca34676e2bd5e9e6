//! What the traits promise, one case per sentence, run against every store; and random histories against the model.

mod annotations;
mod archive;
mod artifacts;
mod cache;
mod dice;
mod graph;
mod histories;
mod limits;
mod properties;
mod steps;
mod stores;
