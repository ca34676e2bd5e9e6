//! Every built-in tool accepts the same requests in both formats, and no input makes one panic.

use crate::fixture::Fixture;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use toolyard_protocol::{Format, Payload};
use toolyard_runtimes::builtin::TOOLS;
use toolyard_wire::typed::{self, Typed};

fn tools() -> (Fixture, Vec<Box<dyn Typed>>) {
    let fixture = Fixture::new();
    let tools = TOOLS.iter().map(|tool| tool.make(&fixture.services)).collect();
    (fixture, tools)
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        (0u64..200).prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-2.0..2.0f64).prop_map(Into::into),
        "[a-z/*]{0,12}".prop_map(Into::into),
        Just(json!("01923456-789a-7fff-bfff-ffffffffffff")),
        Just(json!("ef988828f944084116351ab04d6cf477faa022248967bcf17aa3ca668d7f4f3b")),
        Just(json!("audio/midi")),
        Just(json!("any")),
        Just(json!("out")),
        Just(json!("complete")),
    ];
    let hint = ("[a-z]{0,3}", "[a-z]{0,3}", -0.5..1.5f64).prop_map(
        |(kind, value, confidence)| json!({"kind": kind, "value": value, "confidence": confidence}),
    );
    prop_oneof![
        4 => leaf.clone(),
        1 => proptest::collection::vec(leaf, 0..3).prop_map(Into::into),
        1 => proptest::collection::vec(hint, 0..3).prop_map(Into::into),
        1 => "[a-z]{0,3}".prop_map(|name| json!({"name": name})),
    ]
}

/// Requests with arbitrary values for the members of a tool's schema, some omitted.
fn requests(tool: &dyn Typed) -> impl Strategy<Value = Value> + use<> {
    let schema: Value = serde_json::from_slice(tool.spec().input_schema.bytes()).unwrap();
    let names: Vec<String> =
        schema["properties"].as_object().map_or(Vec::new(), |members| members.keys().cloned().collect());
    // Bytes are encoded differently in the two formats.
    let names: Vec<String> = names.into_iter().filter(|name| name != "data").collect();
    let members = names.len();
    proptest::collection::vec(proptest::option::weighted(0.7, values()), members).prop_map(move |given| {
        let given = names.iter().cloned().zip(given).filter_map(|(name, value)| Some((name, value?)));
        Value::Object(given.collect::<Map<_, _>>())
    })
}

#[tokio::test]
async fn both_formats_accept_the_same_requests() {
    let (_fixture, tools) = tools();
    let mut accepted = 0;
    for tool in &tools {
        let mut runner =
            TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
        let ran = runner.run(&requests(tool.as_ref()), |request| {
            let text = tool.check(&Payload::json(request.to_string()));
            let packed = tool.check(&typed::write(&request, Format::MsgPack).unwrap());
            if text.is_ok() {
                prop_assert_eq!(&packed, &Ok(()), "{}", request);
            }
            // In MsgPack an array may encode an object by position.
            let lists =
                request.as_object().unwrap().values().any(Value::is_array) || request["start"].is_array();
            if packed.is_ok() && !lists {
                prop_assert_eq!(&text, &Ok(()), "{}", request);
            }
            Ok(())
        });
        ran.unwrap_or_else(|error| panic!("{}: {error}", tool.spec().name));
        accepted += usize::from(tool.check(&Payload::json("{}")).is_ok());
    }
    // Tools without required members, so that the property does not cover rejections only.
    assert!(accepted >= 8, "{accepted}");
}

#[tokio::test]
async fn no_input_makes_a_tool_panic() {
    let (_fixture, tools) = tools();
    for tool in &tools {
        let mut runner =
            TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
        let damage = (requests(tool.as_ref()), any::<proptest::sample::Index>(), any::<u8>(), any::<bool>());
        let ran = runner.run(&damage, |(request, at, byte, is_text)| {
            let format = if is_text { Format::Json } else { Format::MsgPack };
            let mut bytes = typed::write(&request, format).unwrap().bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = tool.check(&Payload::new(format, bytes.clone()));
            bytes.truncate(at);
            let _ = tool.check(&Payload::new(format, bytes));
            Ok(())
        });
        ran.unwrap_or_else(|error| panic!("{}: {error}", tool.spec().name));
    }
}
