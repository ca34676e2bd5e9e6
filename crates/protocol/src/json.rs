//! A JSON writer that embeds raw payloads without parsing them.

use crate::text::push_json_string;

/// Appends an array; `write` appends each item.
pub fn array<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, write: impl Fn(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// An array of objects; `fill` writes the members of one.
pub fn objects<T>(items: impl IntoIterator<Item = T>, fill: impl Fn(&mut Object<'_>, T)) -> Vec<u8> {
    let mut out = Vec::new();
    push_objects(&mut out, items, fill);
    out
}

/// Appends an array of objects to a buffer.
pub fn push_objects<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    fill: impl Fn(&mut Object<'_>, T),
) {
    array(out, items, |out, item| {
        let mut object = Object::new(out);
        fill(&mut object, item);
        object.end();
    });
}

/// Appends one object to a buffer. Dropping it writes the closing brace, so that no object can be left open.
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Object<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Object<'a> {
        out.push(b'{');
        Object { out, first: true }
    }

    /// Writes the member's name and returns the buffer for its value.
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
        array(self.member(name), values, push_json_string);
        self
    }

    /// A member that is an array of objects; `fill` writes the members of one.
    pub fn objects<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        fill: impl Fn(&mut Object<'_>, T),
    ) -> &mut Self {
        push_objects(self.member(name), items, fill);
        self
    }

    /// Closes the object before the end of its scope.
    pub fn end(self) {}
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        self.out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_closed_where_its_scope_ends() {
        fn fill(out: &mut Vec<u8>) -> Option<()> {
            let mut object = Object::new(out);
            let mut inner = Object::new(object.member("a"));
            inner.texts("b", ["x", "y"]);
            None?;
            inner.text("c", "never");
            Some(())
        }
        let mut out = Vec::new();
        array(&mut out, 0..2, |out, _| assert_eq!(fill(out), None));
        assert_eq!(out, br#"[{"a":{"b":["x","y"]}},{"a":{"b":["x","y"]}}]"#);
    }
}
