//! `doctor --json`: one object per thing that was looked at.

use crate::json::Object;

pub struct Row {
    pub name: &'static str,
    pub ok: bool,
    pub detail: String,
}

pub fn write(rows: &[Row]) -> Vec<u8> {
    let mut out = vec![b'['];
    for (i, row) in rows.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let mut object = Object::new(&mut out);
        object.text("name", row.name).bool("ok", row.ok).text("detail", &row.detail);
        object.end();
    }
    out.push(b']');
    out
}
