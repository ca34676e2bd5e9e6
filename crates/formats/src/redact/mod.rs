//! Hiding what must not be shown: members by their names, secrets by their values.

pub mod by_name;
pub mod by_value;
