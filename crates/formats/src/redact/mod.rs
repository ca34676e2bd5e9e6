//! Redaction: of members by name, of secrets by value.

pub mod by_name;
pub mod by_value;
