//! The common keywords of a schema as a list of rules that refer to each other by index.

use serde_json::{Map, Value};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// Deeper schemas are left to the validator, so that neither compiling nor reading can exhaust the stack.
const MAX_DEPTH: usize = 64;
/// The rule that allows everything.
pub const ANYTHING: usize = 0;

pub const NULL: u8 = 1;
pub const BOOLEAN: u8 = 2;
pub const STRING: u8 = 4;
pub const INTEGER: u8 = 8;
pub const NUMBER: u8 = 16;
pub const ARRAY: u8 = 32;
pub const OBJECT: u8 = 64;

/// The constraints of one sub-schema. Each applies only to values of its type.
pub struct Rule {
    pub kinds: u8,
    /// `enum` or `const`.
    pub one_of: Option<Box<[Scalar]>>,
    /// In code points.
    pub length: Option<RangeInclusive<u64>>,
    pub range: Option<RangeInclusive<i64>>,
    pub count: RangeInclusive<u64>,
    pub items: usize,
    pub members: Box<[Member]>,
    /// One bit per entry of `members`.
    pub required: u64,
    /// For members that are not listed.
    pub others: usize,
}

pub struct Member {
    pub name: Box<str>,
    pub rule: usize,
}

#[derive(PartialEq)]
pub enum Scalar {
    Null,
    Boolean(bool),
    Integer(i64),
    Text(Box<str>),
}

/// The rules and the index of the root; `None` if a keyword is not supported.
pub fn compile(schema: &Value) -> Option<(Vec<Rule>, usize)> {
    // `$id` changes the base of references.
    if has_member(schema, "$id") {
        return None;
    }
    let mut compiler = Compiler { schema, rules: vec![Rule::of_kinds(u8::MAX)], known: HashMap::new() };
    let root = compiler.rule(schema, 0)?;
    Some((compiler.rules, root))
}

struct Compiler<'s> {
    schema: &'s Value,
    rules: Vec<Rule>,
    /// By address, because a schema may contain itself.
    known: HashMap<*const Value, usize>,
}

impl<'s> Compiler<'s> {
    fn rule(&mut self, schema: &'s Value, depth: usize) -> Option<usize> {
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return Some(*known);
        }
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some(reference) = schema.get("$ref") {
            return self.rule(self.target(schema, reference)?, depth + 1);
        }
        let number = self.rules.len();
        self.rules.push(Rule::of_kinds(0));
        self.known.insert(schema, number);
        self.rules[number] = match schema {
            Value::Bool(all) => Rule::of_kinds(if *all { u8::MAX } else { 0 }),
            Value::Object(keywords) => self.keywords(keywords, depth + 1)?,
            _ => return None,
        };
        Some(number)
    }

    fn keywords(&mut self, keywords: &'s Map<String, Value>, depth: usize) -> Option<Rule> {
        let mut rule = Rule::of_kinds(u8::MAX);
        for (keyword, value) in keywords {
            match keyword.as_str() {
                "type" => rule.kinds = kinds(value)?,
                "enum" | "const" if rule.one_of.is_some() => return None,
                "enum" => rule.one_of = Some(value.as_array()?.iter().map(scalar).collect::<Option<_>>()?),
                "const" => rule.one_of = Some(Box::new([scalar(value)?])),
                "minLength" => rule.length = Some(at_least(rule.length, value.as_u64()?)),
                "maxLength" => rule.length = Some(at_most(rule.length, value.as_u64()?)),
                "minimum" => rule.range = Some(at_least(rule.range, value.as_i64()?)),
                "maximum" => rule.range = Some(at_most(rule.range, value.as_i64()?)),
                "minItems" => rule.count = at_least(Some(rule.count), value.as_u64()?),
                "maxItems" => rule.count = at_most(Some(rule.count), value.as_u64()?),
                "items" => rule.items = self.rule(value, depth)?,
                "additionalProperties" => rule.others = self.rule(value, depth)?,
                // Handled below, because `required` needs the rule of `additionalProperties`.
                "properties" | "required" => {}
                _ if is_annotation(keyword) => {}
                _ => return None,
            }
        }
        self.members(&mut rule, keywords, depth)?;
        Some(rule)
    }

    fn members(&mut self, rule: &mut Rule, keywords: &'s Map<String, Value>, depth: usize) -> Option<()> {
        let mut members = Vec::new();
        if let Some(properties) = keywords.get("properties") {
            for (name, schema) in properties.as_object()? {
                members.push(Member { name: name.as_str().into(), rule: self.rule(schema, depth)? });
            }
        }
        for name in keywords.get("required").map_or(Some(&Vec::new()), Value::as_array)? {
            let name = name.as_str()?;
            let at = members.iter().position(|member| *member.name == *name).unwrap_or_else(|| {
                members.push(Member { name: name.into(), rule: rule.others });
                members.len() - 1
            });
            rule.required |= 1u64.checked_shl(u32::try_from(at).ok()?)?;
        }
        rule.members = members.into();
        (rule.members.len() <= u64::BITS as usize).then_some(())
    }

    /// The target of a reference. Keywords beside it are unsupported, because the drafts differ on them.
    fn target(&self, schema: &Value, reference: &Value) -> Option<&'s Value> {
        let alone = schema.as_object()?.keys().all(|keyword| keyword == "$ref" || is_annotation(keyword));
        let pointer = reference.as_str()?.strip_prefix('#')?;
        let plain = alone && !pointer.contains('%');
        plain.then(|| self.schema.pointer(pointer)).flatten()
    }
}

impl Rule {
    fn of_kinds(kinds: u8) -> Rule {
        Rule {
            kinds,
            one_of: None,
            length: None,
            range: None,
            count: 0..=u64::MAX,
            items: ANYTHING,
            members: Box::default(),
            required: 0,
            others: ANYTHING,
        }
    }
}

/// Keywords that are no constraint in either draft.
fn is_annotation(keyword: &str) -> bool {
    matches!(
        keyword,
        "$schema"
            | "$comment"
            | "$defs"
            | "definitions"
            | "title"
            | "description"
            | "default"
            | "examples"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
    )
}

fn has_member(value: &Value, name: &str) -> bool {
    match value {
        Value::Object(members) => {
            members.contains_key(name) || members.values().any(|member| has_member(member, name))
        }
        Value::Array(items) => items.iter().any(|item| has_member(item, name)),
        _ => false,
    }
}

fn kinds(value: &Value) -> Option<u8> {
    let kind = |value: &Value| {
        Some(match value.as_str()? {
            "null" => NULL,
            "boolean" => BOOLEAN,
            "string" => STRING,
            "integer" => INTEGER,
            "number" => NUMBER | INTEGER,
            "array" => ARRAY,
            "object" => OBJECT,
            _ => return None,
        })
    };
    match value {
        Value::Array(several) => several.iter().try_fold(0, |kinds, value| Some(kinds | kind(value)?)),
        one => kind(one),
    }
}

fn scalar(value: &Value) -> Option<Scalar> {
    Some(match value {
        Value::Null => Scalar::Null,
        Value::Bool(value) => Scalar::Boolean(*value),
        Value::Number(number) => Scalar::Integer(number.as_i64()?),
        Value::String(text) => Scalar::Text(text.as_str().into()),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

trait Bounded: Copy {
    const EVERYTHING: RangeInclusive<Self>;
}

impl Bounded for u64 {
    const EVERYTHING: RangeInclusive<u64> = u64::MIN..=u64::MAX;
}

impl Bounded for i64 {
    const EVERYTHING: RangeInclusive<i64> = i64::MIN..=i64::MAX;
}

fn at_least<T: Bounded>(range: Option<RangeInclusive<T>>, least: T) -> RangeInclusive<T> {
    least..=*range.unwrap_or(T::EVERYTHING).end()
}

fn at_most<T: Bounded>(range: Option<RangeInclusive<T>>, most: T) -> RangeInclusive<T> {
    *range.unwrap_or(T::EVERYTHING).start()..=most
}
