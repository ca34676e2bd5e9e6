//! Rejects reference cycles that never descend into the value: validation against such a schema would not
//! terminate.

use serde_json::Value;

/// Keywords whose sub-schemas apply to the same location of the value.
const IN_PLACE_LISTS: &[&str] = &["allOf", "anyOf", "oneOf"];
const IN_PLACE: &[&str] = &["not", "if", "then", "else", "$ref", "$dynamicRef"];

pub fn reject(schema: &Value) -> Result<(), String> {
    let mut finder = Finder { root: schema, done: Vec::new() };
    finder.visit_all(schema)
}

struct Finder<'s> {
    root: &'s Value,
    /// Sub-schemas without a cycle.
    done: Vec<*const Value>,
}

impl<'s> Finder<'s> {
    /// Starts a search at every sub-schema.
    fn visit_all(&mut self, value: &'s Value) -> Result<(), String> {
        // The parser limits the depth of documents, and with it this recursion.
        match value {
            Value::Object(members) => {
                self.follow(value, &mut Vec::new())?;
                members.values().try_for_each(|member| self.visit_all(member))
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.visit_all(item)),
            _ => Ok(()),
        }
    }

    fn follow(&mut self, schema: &'s Value, path: &mut Vec<*const Value>) -> Result<(), String> {
        let here: *const Value = schema;
        if self.done.contains(&here) {
            return Ok(());
        }
        if path.contains(&here) {
            return Err("a '$ref' refers to itself in an endless cycle".to_owned());
        }
        let Value::Object(members) = schema else { return Ok(()) };
        path.push(here);
        for (name, member) in members {
            if IN_PLACE_LISTS.contains(&name.as_str()) {
                for item in member.as_array().into_iter().flatten() {
                    self.follow(item, path)?;
                }
            } else if IN_PLACE.contains(&name.as_str()) {
                match member.as_str().map(|reference| self.target(reference)) {
                    None => self.follow(member, path)?,
                    Some(Some(target)) => self.follow(target, path)?,
                    Some(None) => {}
                }
            }
        }
        path.pop();
        self.done.push(here);
        Ok(())
    }

    /// Resolves references by pointer within the document; the validator handles all others.
    fn target(&self, reference: &str) -> Option<&'s Value> {
        let pointer = reference.strip_prefix('#')?;
        let decoded = pointer.replace("%25", "%").replace("%22", "\"");
        self.root.pointer(&decoded)
    }
}
