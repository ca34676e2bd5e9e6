//! JSON pointers (RFC 6901) into text, without building a tree.

use super::{ParseError, Token, Tokenizer, members};
use std::ops::Range;

/// The byte range of the value at `pointer`; `None` when there is none.
pub fn pointer(bytes: &[u8], pointer: &str) -> Result<Option<Range<usize>>, ParseError> {
    let mut range = 0..bytes.len();
    let mut rest = pointer;
    while let Some(tail) = rest.strip_prefix('/') {
        let (step, after) = tail.split_at(tail.find('/').unwrap_or(tail.len()));
        let Some(inner) = child(&bytes[range.clone()], &step.replace("~1", "/").replace("~0", "~"))? else {
            return Ok(None);
        };
        range = range.start + inner.start..range.start + inner.end;
        rest = after;
    }
    Ok(rest.is_empty().then_some(range))
}

/// Whether the text is a valid pointer: empty, or parts that each begin with a slash.
pub fn is_pointer(text: &str) -> bool {
    let escapes = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escapes
}

fn child(bytes: &[u8], name: &str) -> Result<Option<Range<usize>>, ParseError> {
    if let Some(members) = members(bytes)? {
        return Ok(members.into_iter().find(|(key, _)| key == name).map(|(_, range)| range));
    }
    let canonical = name == "0" || (!name.starts_with('0') && !name.starts_with('+'));
    match name.parse().ok().filter(|_| canonical) {
        Some(index) => {
            Ok(elements(bytes)?.and_then(|all: Vec<Range<usize>>| all.get::<usize>(index).cloned()))
        }
        None => Ok(None),
    }
}

/// The byte ranges of an array's elements; `None` when the value is not an array.
pub fn elements(bytes: &[u8]) -> Result<Option<Vec<Range<usize>>>, ParseError> {
    let mut tokens = Tokenizer::new(bytes)?;
    let Some((Token::ArrayStart, _)) = tokens.next()? else { return Ok(None) };
    let (mut elements, mut start) = (Vec::new(), None);
    while let Some((_, at)) = tokens.next()? {
        let start_of_element = *start.get_or_insert(at);
        match tokens.depth() {
            // The array's own end.
            0 => break,
            1 => {
                elements.push(start_of_element..tokens.position());
                start = None;
            }
            _ => {}
        }
    }
    // Fails if text follows the array.
    while tokens.next()?.is_some() {}
    Ok(Some(elements))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn pointers_find_what_the_rfc_says() {
        let text = br#"{"foo": ["bar", "baz", [1, {"k": null}]], "": 0, "a/b": 1, "m~n": 8, " ": 7}"#;
        for (at, found) in [
            ("", Some(std::str::from_utf8(text).unwrap())),
            ("/foo/0", Some("\"bar\"")),
            ("/foo/2/1/k", Some("null")),
            ("/foo/2", Some(r#"[1, {"k": null}]"#)),
            ("/", Some("0")),
            ("/a~1b", Some("1")),
            ("/m~0n", Some("8")),
            ("/ ", Some("7")),
            ("/foo/3", None),
            ("/foo/-", None),
            ("/foo/00", None),
            ("/foo/+1", None),
            ("/nothing", None),
            ("/foo/0/x", None),
        ] {
            let range = pointer(text, at).unwrap();
            assert_eq!(range.map(|range| std::str::from_utf8(&text[range]).unwrap()), found, "{at}");
        }
        assert!(is_pointer("/a~1b") && is_pointer("") && !is_pointer("a") && !is_pointer("/~2"));
    }

    fn paths(value: &Value, at: &str, found: &mut Vec<(String, Value)>) {
        found.push((at.to_owned(), value.clone()));
        match value {
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, item)| paths(item, &format!("{at}/{i}"), found));
            }
            Value::Object(members) => members.iter().for_each(|(key, item)| {
                paths(item, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }),
            _ => {}
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            "[a-z~/\" é]{0,6}".prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map("[a-z~/\" é]{0,4}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_pointer_into_a_value_is_found(value in any_value(), pretty in any::<bool>()) {
            let text =
                if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
            let mut all = Vec::new();
            paths(&value, "", &mut all);
            for (at, expected) in all {
                let range = pointer(&text, &at).unwrap().unwrap();
                let found: Value = serde_json::from_slice(&text[range]).unwrap();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
