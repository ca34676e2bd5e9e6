//! `tool.*`: the tools of the yard.

pub mod list;
