//! Reads files and stdin within a size limit.

use bytes::Bytes;
use std::io::Read;
use std::path::Path;
use toolyard_protocol::{Error, ErrorKind};

/// The largest JSON document that is read, in bytes.
pub const MAX_JSON: u64 = 64 << 20;

/// The content of a file, or of stdin when the file is `-`; over `max` bytes it is refused.
pub fn read(file: &Path, max: u64) -> Result<Bytes, Error> {
    let is_stdin = file.as_os_str() == "-";
    let shown = if is_stdin { "stdin".to_owned() } else { file.display().to_string() };
    let mut content = Vec::new();
    let read = if is_stdin {
        std::io::stdin().lock().take(max + 1).read_to_end(&mut content)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(max + 1).read_to_end(&mut content))
    };
    read.map_err(|error| {
        Error::new(ErrorKind::ResourceNotFound, format!("{shown} cannot be read: {error}"))
    })?;
    if content.len() as u64 > max {
        return Err(Error::new(ErrorKind::InputTooLarge, format!("{shown} is over {max} bytes")));
    }
    Ok(content.into())
}
