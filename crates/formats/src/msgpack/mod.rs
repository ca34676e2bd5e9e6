//! MsgPack as bytes: a strict scanner for what comes in, and the same as JSON.

mod convert;
mod scan;

pub use convert::{to_json, to_log};
pub use scan::{MAX_DEPTH, ParseError, scan};
