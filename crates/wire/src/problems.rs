//! `check --json`: problems of files, for machines.

use crate::json::Object;

pub struct Row<'a> {
    pub source: &'a str,
    pub place: Option<(u32, u32)>,
    pub message: &'a str,
    pub hint: Option<&'a str>,
    /// error, warning or note.
    pub severity: &'a str,
}

pub fn write<'a>(rows: impl Iterator<Item = Row<'a>>) -> Vec<u8> {
    let mut out = vec![b'['];
    for (i, row) in rows.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let mut object = Object::new(&mut out);
        object.text("file", row.source).text("severity", row.severity);
        if let Some((line, column)) = row.place {
            object.number("line", line.into()).number("column", column.into());
        }
        object.text("message", row.message).text_or_null("hint", row.hint);
        object.end();
    }
    out.push(b']');
    out
}
