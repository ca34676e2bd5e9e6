//! `secret list --json`: names and where each comes from, never a value.

use crate::json::Object;

pub struct Row<'a> {
    pub name: &'a str,
    /// `environment` or `store`.
    pub source: &'a str,
    /// Why the secret cannot be used.
    pub problem: Option<&'a str>,
}

pub fn write<'a>(rows: impl Iterator<Item = Row<'a>>) -> Vec<u8> {
    let mut out = vec![b'['];
    for (i, row) in rows.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let mut object = Object::new(&mut out);
        object.text("name", row.name).text("source", row.source).text_or_null("problem", row.problem);
        object.end();
    }
    out.push(b']');
    out
}
