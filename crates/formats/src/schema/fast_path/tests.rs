//! Tests the fast path against the validator: it accepts only valid values, and all that are plainly written.

use super::FastValidator;
use proptest::prelude::*;
use serde_json::{Value, json};

fn is_valid(schema: &Value, text: &str) -> bool {
    is_valid_in(jsonschema::Draft::Draft202012, schema, text)
}

fn is_valid_in(draft: jsonschema::Draft, schema: &Value, text: &str) -> bool {
    let validator = jsonschema::options().with_draft(draft).build(schema).unwrap();
    serde_json::from_str(text).is_ok_and(|value: Value| validator.is_valid(&value))
}

#[test]
fn common_schemas_take_the_fast_path() {
    let tree = json!({"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}});
    let named = json!({"items": {"$ref": "#/$defs/a~1b"}, "$defs": {"a/b": {"$ref": "#/$defs/c"}, "c": {"const": 5}}});
    let object = json!({"type": "object", "required": ["x", "y"], "properties": {"x": {"type": "string", "minLength": 2}}, "additionalProperties": {"type": "integer", "minimum": -1}});
    for (schema, text) in [
        (&tree, r#" {"kids" : [ {"kids":[]}, {} ] , "more": [1.5e-7, "\u00e9\n", null, {"a":{}}]} "#),
        (&named, "[5,5]"),
        (&object, r#"{"x":"éé","y":-1,"z":9}"#),
        (&json!({"enum": [1, "a", null, true]}), "null"),
        (&json!({"type": ["string", "number"]}), "-0.5"),
        (&json!({"type": "string", "description": "any"}), r#""line\n\"two\"""#),
        (&json!(true), "[]"),
    ] {
        assert!(FastValidator::compile(schema).unwrap().accepts(text.as_bytes()), "{schema} {text}");
        assert!(is_valid(schema, text), "{schema} {text}");
    }
}

#[test]
fn undecided_values_are_left_to_the_validator() {
    let deep = "[".repeat(100) + &"]".repeat(100);
    let object = json!({"properties": {"a": {"type": "integer"}}});
    for (schema, text) in [
        // Duplicate members, plain and escaped.
        (&object, r#"{"a":"text","a":1}"#),
        (&object, r#"{"\u0061":"text"}"#),
        // Numbers that parsers treat differently.
        (&json!({"type": "integer"}), "1.0"),
        (&json!({"type": "integer"}), "-0"),
        (&json!({"type": "integer"}), "18446744073709551615"),
        (&json!({"maximum": 5}), "5.5"),
        (&json!(true), "1e999"),
        (&json!(true), "1e400"),
        // An escape is longer than the character it encodes.
        (&json!({"maxLength": 1}), r#""\n""#),
        (&json!({"const": "\n"}), r#""\n""#),
        (&json!(true), r#""\ud83d\ude00""#),
        (&json!(true), deep.as_str()),
        (&json!(true), "[1] 2"),
        (&json!(true), "\"\u{1}\""),
        (&json!(true), ""),
    ] {
        assert!(!FastValidator::compile(schema).unwrap().accepts(text.as_bytes()), "{schema} {text}");
    }
    assert!(!FastValidator::compile(&json!(true)).unwrap().accepts(b"\"\xff\""));
}

#[test]
fn schemas_with_other_keywords_have_no_fast_path() {
    let deep = (0..100).fold(json!(true), |inner, _| json!({"items": inner}));
    let wide: serde_json::Map<_, _> = (0..65).map(|n| (format!("p{n}"), json!(true))).collect();
    for schema in [
        json!({"pattern": "^a"}),
        json!({"format": "date"}),
        json!({"properties": {"a": {"anyOf": [true]}}}),
        json!({"$ref": "#/$defs/a", "type": "string", "$defs": {"a": true}}),
        json!({"$ref": "#/$defs/a%25", "$defs": {"a%": true}}),
        json!({"$defs": {"a": {"$id": "https://example.com/a"}}}),
        json!({"items": [true]}),
        json!({"const": 1.5}),
        json!({"enum": [{}]}),
        json!({"minimum": 0.5}),
        json!({"x-own": 1}),
        json!({"properties": wide}),
        deep,
    ] {
        assert!(FastValidator::compile(&schema).is_none(), "{schema}");
    }
}

const NAMES: &[&str] = &["a", "b", "é"];

fn schemas() -> impl Strategy<Value = Value> {
    let bound = -2..4i64;
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        Just(json!({})),
        Just(json!({"$ref": "#/$defs/d"})),
        prop::sample::subsequence(
            vec!["null", "boolean", "string", "integer", "number", "array", "object"],
            1..4
        )
        .prop_map(|kinds| json!({"type": kinds})),
        (0..3u64, 0..4u64).prop_map(|(least, most)| json!({"minLength": least, "maxLength": most})),
        (bound.clone(), bound).prop_map(|(least, most)| json!({"minimum": least, "maximum": most})),
        prop::sample::subsequence(
            vec![json!(1), json!("a"), json!("é"), json!(null), json!(true), json!(0)],
            1..4
        )
        .prop_map(|values| json!({"enum": values})),
        Just(json!({"const": "a"})),
    ];
    let name = || prop::sample::select(NAMES);
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            (inner.clone(), 0..2u64, 0..4u64)
                .prop_map(|(items, least, most)| json!({"items": items, "minItems": least, "maxItems": most})),
            (
                prop::collection::btree_map(name(), inner.clone(), 0..3),
                prop::collection::btree_set(name(), 0..2),
                inner,
            )
                .prop_map(|(properties, required, others)| {
                    json!({"properties": properties, "required": required, "additionalProperties": others})
                }),
        ]
    })
    // Nested one level, because a reference must not have other keywords beside it.
    .prop_map(|schema| {
        json!({"items": schema, "additionalProperties": schema, "$defs": {"d": {"type": ["integer", "null"], "maximum": 2}}})
    })
}

/// Keywords that the fast path does not know, each with a value that rejects something.
fn other_keywords() -> impl Strategy<Value = (&'static str, Value)> {
    prop::sample::select(vec![
        ("pattern", json!("^b")),
        ("multipleOf", json!(2)),
        ("exclusiveMinimum", json!(0)),
        ("exclusiveMaximum", json!(1)),
        ("uniqueItems", json!(true)),
        ("contains", json!({"type": "null"})),
        ("minProperties", json!(1)),
        ("maxProperties", json!(1)),
        ("propertyNames", json!({"maxLength": 0})),
        ("patternProperties", json!({"a": false})),
        ("not", json!({"type": "string"})),
        ("allOf", json!([{"type": "integer"}])),
        ("anyOf", json!([{"type": "integer"}])),
        ("oneOf", json!([{"type": "integer"}, {"type": "number"}])),
    ])
}

/// JSON texts built from these scalars and member names, with optional white space.
fn texts(scalars: &'static [&'static str], names: &'static [&'static str]) -> impl Strategy<Value = String> {
    let space = || prop::sample::select(&["", "", " ", "\n\t"][..]);
    let leaf = prop::sample::select(scalars).prop_map(str::to_owned);
    leaf.prop_recursive(3, 12, 4, move |inner| {
        let member = (prop::sample::select(names), space(), inner.clone());
        let member = member.prop_map(|(name, space, value)| format!("\"{name}\"{space}:{value}"));
        prop_oneof![
            (prop::collection::vec(inner, 0..4), space())
                .prop_map(|(items, space)| format!("[{space}{}]", items.join(&format!("{space},")))),
            (prop::collection::vec(member, 0..4), space())
                .prop_map(|(members, space)| format!("{{{space}{}{space}}}", members.join(","))),
        ]
    })
}

const PLAIN: &[&str] =
    &["null", "true", "false", "0", "1", "-1", "3", "17", "\"\"", "\"a\"", "\"é\"", "\"abc\"", "\"日本語\""];
const ODD: &[&str] = &[
    "1.0",
    "-0",
    "-0.0",
    "1e0",
    "10E-1",
    "1e999",
    "1e400",
    "18446744073709551616",
    "9223372036854775808",
    "01",
    "1.",
    "-",
    "+1",
    "nul",
    "\"\\u0061\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud800\"",
    "\"\\n\"",
    "\"\\x\"",
    "\"a",
    "1",
    "\"a\"",
    "null",
    "",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn accepted_values_are_valid(
        schema in schemas(),
        text in texts(ODD, &["a", "b", "é", "\\u0061", "c"]),
    ) {
        let fast = FastValidator::compile(&schema).expect("only common keywords");
        if fast.accepts(text.as_bytes()) {
            prop_assert!(is_valid(&schema, &text), "{schema} {text}");
        }
    }

    #[test]
    fn no_other_keyword_is_overlooked(
        mut schema in schemas(),
        (keyword, value) in other_keywords(),
        below in prop::sample::select(vec!["/items", "/additionalProperties", "/$defs/d", ""]),
        text in texts(PLAIN, &["a", "b", "é", "c"]),
    ) {
        if let Some(Value::Object(keywords)) = schema.pointer_mut(below) {
            keywords.insert(keyword.to_owned(), value);
        }
        if FastValidator::compile(&schema).is_some_and(|fast| fast.accepts(text.as_bytes())) {
            for draft in [jsonschema::Draft::Draft202012, jsonschema::Draft::Draft7] {
                prop_assert!(is_valid_in(draft, &schema, &text), "{draft:?} {schema} {text}");
            }
        }
    }

    #[test]
    fn on_plainly_written_values_both_agree(schema in schemas(), text in texts(PLAIN, &["a", "b", "é", "c"])) {
        let fast = FastValidator::compile(&schema).expect("only common keywords");
        // Duplicate members are rejected before validation.
        prop_assume!(crate::json::scan(text.as_bytes()).is_ok());
        prop_assert_eq!(fast.accepts(text.as_bytes()), is_valid(&schema, &text), "{} {}", schema, text);
    }

    #[test]
    fn only_json_is_accepted(text in "[\\[\\]{}:,\"\\\\ a1\\-.eEtrufalsn0]{0,24}") {
        if FastValidator::compile(&json!(true)).unwrap().accepts(text.as_bytes()) {
            prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
        }
    }

    #[test]
    fn never_panics_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = FastValidator::compile(&json!({"items": {"type": "string"}})).unwrap().accepts(&bytes);
    }
}
