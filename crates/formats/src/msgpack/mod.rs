//! MsgPack: a strict scanner and a conversion to JSON.

mod convert;
mod scan;

pub use convert::{to_json, to_log};
pub use scan::{MAX_DEPTH, ParseError, scan};
