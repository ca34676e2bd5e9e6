//! MsgPack as bytes: a strict scanner for what comes in, and a view as JSON for logs.

mod scan;
mod view;

pub use scan::{Defect, MAX_DEPTH, scan};
pub use view::to_json;
