//! General formats as pure functions: no I/O, and no knowledge of any protocol.

pub mod cache_key;
pub mod doc;
pub mod duration;
pub mod json;
pub mod msgpack;
pub mod percent;
pub mod redact;
pub mod schema;
pub mod template;
mod template_filters;
pub mod uri_template;
