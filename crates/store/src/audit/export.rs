//! Exports records as they are stored.

use super::AuditError;
use super::folder::Folder;
use super::reader::LineReader;
use super::record::Line;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use toolyard_protocol::{Id, Timestamp};

/// Which records to export; by default all of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportFilter {
    pub since: Option<Timestamp>,
    pub call: Option<Id>,
}

/// Copies whole lines, segment by segment, oldest first; returns how many.
pub fn export(state_dir: &Path, out: &mut dyn Write, selection: &ExportFilter) -> Result<u64, AuditError> {
    let folder = Folder::of(state_dir);
    let wanted = LineFilter {
        since: selection.since.map(|since| since.to_string()),
        call: selection.call.map(|call| format!(",\"call\":\"{call}\"")),
    };
    let mut exported = 0;
    for id in folder.segment_ids()? {
        let path = folder.segment(id);
        let failed = |e| AuditError::io("read", &path, e);
        let Some(mut lines) = LineReader::open(&path, 0).map_err(failed)? else { continue };
        while let Some(raw) = lines.read().map_err(failed)? {
            if !raw.whole() {
                break;
            }
            if wanted.matches(raw.bytes) {
                out.write_all(raw.bytes).map_err(|e| AuditError::Export(Arc::new(e)))?;
                exported += 1;
            }
        }
    }
    out.flush().map_err(|e| AuditError::Export(Arc::new(e)))?;
    Ok(exported)
}

struct LineFilter {
    since: Option<String>,
    call: Option<String>,
}

impl LineFilter {
    fn matches(&self, bytes: &[u8]) -> bool {
        if self.since.is_none() && self.call.is_none() {
            return true;
        }
        let Some(line) = Line::read(bytes) else { return false };
        // RFC 3339 in UTC with a fixed number of digits sorts as text.
        let in_time = self.since.as_deref().is_none_or(|since| line.time >= since);
        let of_call = self
            .call
            .as_ref()
            .is_none_or(|call| line.flat().windows(call.len()).any(|window| window == call.as_bytes()));
        in_time && of_call
    }
}
