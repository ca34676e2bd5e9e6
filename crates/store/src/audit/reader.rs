//! Reads a segment line by line in bounded memory.

use super::record;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

pub(super) struct LineReader {
    reader: BufReader<File>,
    line: Vec<u8>,
    offset: u64,
}

/// Bytes up to and including the next newline.
pub(super) struct RawLine<'a> {
    pub start: u64,
    pub bytes: &'a [u8],
}

impl RawLine<'_> {
    /// Whether it ends with a newline; if not, the file ends here or the line is too long to be a record.
    pub fn whole(&self) -> bool {
        self.bytes.ends_with(b"\n")
    }
}

impl LineReader {
    /// `None` when there is no such segment.
    pub fn open(path: &Path, offset: u64) -> io::Result<Option<LineReader>> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))?;
        }
        Ok(Some(LineReader { reader: BufReader::with_capacity(64 * 1024, file), line: Vec::new(), offset }))
    }

    pub fn read(&mut self) -> io::Result<Option<RawLine<'_>>> {
        self.line.clear();
        let start = self.offset;
        let read = (&mut self.reader).take(record::MAX as u64).read_until(b'\n', &mut self.line)?;
        self.offset += read as u64;
        Ok((read > 0).then_some(RawLine { start, bytes: &self.line }))
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn at_end(&mut self) -> io::Result<bool> {
        Ok(self.reader.fill_buf()?.is_empty())
    }
}
