//! Results of checks, as `doctor` and `test` print them.

use toolyard_formats::json;

pub struct Row {
    pub name: &'static str,
    pub ok: bool,
    pub detail: String,
}

pub fn json(rows: &[Row]) -> Vec<u8> {
    json::objects(rows, |object, row| {
        object.text("name", row.name).bool("ok", row.ok).text("detail", &row.detail);
    })
}
