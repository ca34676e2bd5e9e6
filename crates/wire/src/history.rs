//! `audit list --json` and `audit verify --json`.

use crate::json::Object;

pub struct Row<'a> {
    pub call: &'a str,
    pub time: &'a str,
    pub tool: &'a str,
    pub caller: &'a str,
    pub edge: &'a str,
    pub status: &'a str,
    pub error: Option<&'a str>,
    pub message: Option<&'a str>,
    pub duration_us: Option<i64>,
    pub output_bytes: Option<i64>,
}

pub fn write<'a>(rows: impl Iterator<Item = Row<'a>>) -> Vec<u8> {
    let mut out = vec![b'['];
    for (i, row) in rows.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let mut object = Object::new(&mut out);
        object
            .text("call", row.call)
            .text("time", row.time)
            .text("tool", row.tool)
            .text("caller", row.caller);
        object.text("edge", row.edge).text("status", row.status);
        object.text_or_null("error", row.error).text_or_null("message", row.message);
        for (name, value) in [("durationUs", row.duration_us), ("outputBytes", row.output_bytes)] {
            object.raw(name, value.map_or("null".to_owned(), |value| value.to_string()).as_bytes());
        }
        object.end();
    }
    out.push(b']');
    out
}

pub fn write_report(segments: u64, records: u64, problems: &[String], notes: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    object.bool("intact", problems.is_empty()).number("segments", segments).number("records", records);
    object
        .texts("problems", problems.iter().map(String::as_str))
        .texts("notes", notes.iter().map(String::as_str));
    object.end();
    out
}
