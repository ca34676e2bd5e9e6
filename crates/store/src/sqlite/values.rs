//! Ids, times and payloads as single-column SQL values.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use toolyard_protocol::{Format, Id, Payload, Timestamp};

/// 16 bytes, which sort as the ids do.
pub struct IdColumn(pub Id);

impl ToSql for IdColumn {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0.as_bytes())))
    }
}

impl FromSql for IdColumn {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<IdColumn> {
        <[u8; 16]>::column_result(value).map(|bytes| IdColumn(Id::from_bytes(bytes)))
    }
}

/// Milliseconds; `bounds::time` checks that they fit.
pub struct TimeColumn(pub Timestamp);

impl ToSql for TimeColumn {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.unix_ms() as i64))
    }
}

impl FromSql for TimeColumn {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<TimeColumn> {
        value.as_i64().map(|ms| TimeColumn(Timestamp::from_unix_ms(ms as u64)))
    }
}

/// A payload as one blob: a byte for the format, then the bytes.
pub struct PayloadColumn(pub Payload);

impl ToSql for PayloadColumn {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let mut blob = Vec::with_capacity(1 + self.0.len());
        blob.push(match self.0.format() {
            Format::Json => 0,
            Format::MsgPack => 1,
        });
        blob.extend_from_slice(self.0.bytes());
        Ok(ToSqlOutput::from(blob))
    }
}

impl FromSql for PayloadColumn {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<PayloadColumn> {
        let (format, bytes) = match value.as_blob()?.split_first() {
            Some((0, bytes)) => (Format::Json, bytes),
            Some((1, bytes)) => (Format::MsgPack, bytes),
            _ => return Err(FromSqlError::Other("unknown payload format".into())),
        };
        Ok(PayloadColumn(Payload::new(format, bytes.to_vec())))
    }
}
