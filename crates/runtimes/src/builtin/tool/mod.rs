//! `tool.*`: the tools themselves, as data.

pub mod list;
