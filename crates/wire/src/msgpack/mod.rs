//! MsgPack as bytes: a strict scanner for what comes in, and the same as JSON.

mod scan;
mod view;

pub use scan::{Defect, MAX_DEPTH, scan};
pub use view::{to_json, to_log};
