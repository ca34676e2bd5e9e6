//! Rejects schemas whose validation would not end: reference cycles that never descend into the value, and references
//! that multiply (a chain of 40 definitions that each refer twice to the next is 2^40 applications).

use crate::percent;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Keywords whose sub-schemas apply to the same location of the value.
const IN_PLACE_LISTS: &[&str] = &["allOf", "anyOf", "oneOf"];
const IN_PLACE_MAPS: &[&str] = &["dependentSchemas", "dependencies"];
const IN_PLACE: &[&str] = &["not", "if", "then", "else"];
const REFERENCES: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef"];
/// The validator applies sub-schemas once more to find out what these keywords are about.
const UNEVALUATED: &[&str] = &["unevaluatedProperties", "unevaluatedItems"];

/// How many sub-schemas may be applied to one location of a value.
const MAX_APPLICATIONS: u64 = 10_000;

pub fn reject(schema: &Value) -> Result<(), String> {
    let mut finder = Finder::default();
    finder.collect(schema, schema);
    finder.visit_all(schema)
}

#[derive(Default)]
struct Finder<'s> {
    /// Sub-schemas with an `$id`.
    resources: Vec<(&'s str, &'s Value)>,
    /// The resource that each sub-schema is part of: references without a base start there.
    homes: HashMap<*const Value, &'s Value>,
    anchors: HashMap<&'s str, Vec<&'s Value>>,
    /// How many sub-schemas an application of a finished sub-schema takes, itself included.
    known: HashMap<*const Value, u64>,
}

impl<'s> Finder<'s> {
    fn collect(&mut self, value: &'s Value, mut home: &'s Value) {
        match value {
            Value::Object(members) => {
                let text = |name: &str| members.get(name).and_then(Value::as_str);
                match text("$id") {
                    Some(id) if id.starts_with('#') => self.anchors.entry(&id[1..]).or_default().push(value),
                    Some(id) => {
                        self.resources.push((id, value));
                        home = value;
                    }
                    None => {}
                }
                self.homes.insert(value, home);
                for name in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text) {
                    self.anchors.entry(name).or_default().push(value);
                }
                members.values().for_each(|member| self.collect(member, home));
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item, home)),
            _ => {}
        }
    }

    /// Starts a search at every sub-schema.
    fn visit_all(&mut self, value: &'s Value) -> Result<(), String> {
        // The parser limits the depth of documents, and with it this recursion.
        match value {
            Value::Object(members) => {
                self.applications(value, &mut Vec::new())?;
                members.values().try_for_each(|member| self.visit_all(member))
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.visit_all(item)),
            _ => Ok(()),
        }
    }

    /// How many sub-schemas are applied where this one is.
    fn applications(&mut self, schema: &'s Value, path: &mut Vec<*const Value>) -> Result<u64, String> {
        let here: *const Value = schema;
        if let Some(known) = self.known.get(&here) {
            return Ok(*known);
        }
        let Value::Object(members) = schema else { return Ok(1) };
        if path.contains(&here) {
            return Err("a '$ref' refers to itself in an endless cycle".to_owned());
        }
        path.push(here);
        let mut total = 0u64;
        for (name, member) in members {
            let found = self.in_place(name, member, path)?;
            total = total.saturating_add(found);
        }
        path.pop();
        let passes = if UNEVALUATED.iter().any(|name| members.contains_key(*name)) { 2 } else { 1 };
        let total = total.saturating_mul(passes).saturating_add(1);
        if total > MAX_APPLICATIONS {
            return Err(format!(
                "its references multiply: more than {MAX_APPLICATIONS} sub-schemas would be applied to one place of a value"
            ));
        }
        self.known.insert(here, total);
        Ok(total)
    }

    fn in_place(
        &mut self,
        name: &str,
        member: &'s Value,
        path: &mut Vec<*const Value>,
    ) -> Result<u64, String> {
        let schemas: Vec<&'s Value> = match name {
            _ if IN_PLACE_LISTS.contains(&name) => member.as_array().into_iter().flatten().collect(),
            _ if IN_PLACE_MAPS.contains(&name) => {
                member.as_object().into_iter().flat_map(Map::values).collect()
            }
            _ if IN_PLACE.contains(&name) => vec![member],
            _ if REFERENCES.contains(&name) => {
                let targets = self.targets(member.as_str(), path.last());
                return targets
                    .into_iter()
                    .try_fold(0, |most, target| Ok(self.applications(target, path)?.max(most)));
            }
            _ => return Ok(0),
        };
        schemas
            .into_iter()
            .try_fold(0u64, |sum, schema| Ok(sum.saturating_add(self.applications(schema, path)?)))
    }

    /// What a reference may lead to, and all of it where several resources or anchors fit. References to documents that
    /// only the validator knows lead nowhere.
    fn targets(&self, reference: Option<&str>, from: Option<&*const Value>) -> Vec<&'s Value> {
        let Some(reference) = reference else { return Vec::new() };
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let Some(fragment) = percent::decode(fragment) else { return Vec::new() };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return self.anchors.get(fragment.as_str()).cloned().unwrap_or_default();
        }
        let named = self.resources.iter().filter(|(id, _)| may_name(base, id)).map(|(_, value)| *value);
        let home = from.and_then(|from| self.homes.get(from)).copied();
        let roots: Vec<&Value> = if base.is_empty() { home.into_iter().collect() } else { named.collect() };
        roots.into_iter().filter_map(|root| root.pointer(&fragment)).collect()
    }
}

/// Whether the reference can resolve to the resource; relative ones are compared by their last segment.
fn may_name(base: &str, id: &str) -> bool {
    let id = id.trim_end_matches('#');
    let last = |uri: &str| uri.rsplit(['/', ':']).next().map(str::to_owned);
    base == id || (!(base.contains("://") && id.contains("://")) && last(base) == last(id))
}
