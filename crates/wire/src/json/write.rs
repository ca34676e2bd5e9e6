//! A writer for JSON objects that embeds payloads as they are, without parsing them again.

use toolyard_protocol::text::push_json_string;

/// Writes one object into a buffer; `end` closes it.
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Object<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Object<'a> {
        out.push(b'{');
        Object { out, first: true }
    }

    /// Writes the member's name and hands back the buffer for its value.
    pub fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        push_json_string(self.out, name);
        self.out.push(b':');
        self.out
    }

    pub fn text(&mut self, name: &str, value: &str) -> &mut Self {
        push_json_string(self.member(name), value);
        self
    }

    /// The value, or `null`.
    pub fn text_or_null(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.text(name, value),
            None => self.raw(name, b"null"),
        }
    }

    /// `value` must be one JSON value.
    pub fn raw(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.member(name).extend_from_slice(value);
        self
    }

    pub fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.member(name).extend_from_slice(value.to_string().as_bytes());
        self
    }

    pub fn bool(&mut self, name: &str, value: bool) -> &mut Self {
        self.raw(name, if value { b"true" } else { b"false" })
    }

    pub fn texts<'t>(&mut self, name: &str, values: impl IntoIterator<Item = &'t str>) -> &mut Self {
        let out = self.member(name);
        out.push(b'[');
        for (i, value) in values.into_iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            push_json_string(out, value);
        }
        out.push(b']');
        self
    }

    pub fn end(self) {
        self.out.push(b'}');
    }
}
