//! Gate: the tool exists.

use crate::registry::{Entry, Registry};
use std::sync::Arc;
use toolyard_protocol::{Error, ErrorKind, text::escape_control};

pub fn find(registry: &Registry, name: &str) -> Result<Arc<Entry>, Error> {
    registry.find(name).ok_or_else(|| unknown(registry, name))
}

fn unknown(registry: &Registry, name: &str) -> Error {
    let shown: String = escape_control(name).chars().take(100).collect();
    let snapshot = registry.snapshot();
    let hint = match snapshot.nearest(name) {
        Some(near) => format!("did you mean '{near}'?"),
        None if snapshot.entries().is_empty() => "no tools are loaded; 'toolyard check' says why".to_owned(),
        None => "'toolyard list' shows the tools that are loaded".to_owned(),
    };
    Error::new(ErrorKind::UnknownTool, format!("there is no tool '{shown}'")).hint(hint)
}
