//! Protocol types as SQL columns: payloads are a format and bytes, ids are 16 bytes, numbers are signed.

use rusqlite::Row;
use rusqlite::types::Type;
use toolyard_protocol::{Format, Id, Payload};

/// Stored on disk; never renumber.
pub fn format_code(format: Format) -> i64 {
    match format {
        Format::Json => 0,
        Format::MsgPack => 1,
    }
}

pub fn read_payload(row: &Row, format: usize, bytes: usize) -> rusqlite::Result<Payload> {
    Ok(Payload::new(read_format(row.get(format)?, format)?, row.get::<_, Vec<u8>>(bytes)?))
}

/// `None` when the format is NULL.
pub fn read_optional_payload(row: &Row, format: usize, bytes: usize) -> rusqlite::Result<Option<Payload>> {
    match row.get::<_, Option<i64>>(format)? {
        Some(_) => read_payload(row, format, bytes).map(Some),
        None => Ok(None),
    }
}

pub fn read_id(row: &Row, column: usize) -> rusqlite::Result<Id> {
    Ok(Id::from_bytes(row.get(column)?))
}

/// SQLite integers are signed; larger values are clamped.
pub fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The error for a code that no version of Toolyard writes.
pub fn unknown_code<T>(what: &str, code: i64, column: usize) -> rusqlite::Result<T> {
    let why = format!("unknown {what} {code}");
    Err(rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, why.into()))
}

fn read_format(code: i64, column: usize) -> rusqlite::Result<Format> {
    match code {
        0 => Ok(Format::Json),
        1 => Ok(Format::MsgPack),
        _ => unknown_code("payload format", code, column),
    }
}
