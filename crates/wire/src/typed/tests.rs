//! Tests of valid and invalid requests of a typed tool in both formats.

use super::*;
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Instant;
use toolyard_protocol::{Blob, Call, Edge, Id, NoopCaller};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct EchoRequest {
    name: String,
    #[serde(default)]
    count: Option<u8>,
    #[serde(default)]
    parts: Vec<Part>,
    #[serde(default)]
    data: Option<Blob>,
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    more: Option<AnyJson>,
    #[serde(default)]
    id: Option<Id>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Part {
    kind: String,
    weight: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Any,
    AllOfThem,
}

impl Request for EchoRequest {
    fn check(&self, broken: &mut Vec<Violation>) {
        let rule =
            |pointer: &str, message: &str| Violation { pointer: pointer.into(), message: message.into() };
        if self.name.is_empty() {
            broken.push(rule("/name", "must not be empty"));
        }
        if self.count == Some(13) {
            broken.push(rule("/count", "must not be 13"));
        }
    }
}

/// Returns its request.
struct Mirror;

impl Tool for Mirror {
    type Request = EchoRequest;
    type Response = EchoRequest;

    const NAME: &'static str = "test.mirror";
    const TITLE: &'static str = "Mirror";
    const DESCRIPTION: &'static str = "Returns its request.";
    const ANNOTATIONS: Annotations =
        Annotations { read_only: Some(true), destructive: None, idempotent: None, open_world: None };

    async fn run(&self, request: EchoRequest, _: Context<'_>) -> Result<EchoRequest, Error> {
        Ok(request)
    }
}

fn run(arguments: Payload) -> Result<Payload, Error> {
    let call = Call::new(Id::from_bytes([7; 16]), "mirror", arguments.clone(), Edge::Cli);
    let tool = typed(Mirror);
    let context = Context { call: &call, caller: &NoopCaller, deadline: Instant::now() };
    let mut future = tool.run(&arguments, context);
    // The tool never waits, so one poll is enough.
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut task) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => panic!("the mirror waits"),
    }
}

fn violations(payload: Payload) -> Vec<(String, String)> {
    let error = run(payload).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidInput);
    error.details.violations.into_iter().map(|found| (found.pointer, found.message)).collect()
}

fn json(text: &str) -> Payload {
    Payload::json(text.to_owned())
}

fn pack(bytes: impl Into<Vec<u8>>) -> Payload {
    Payload::new(Format::MsgPack, bytes.into())
}

fn request() -> EchoRequest {
    EchoRequest {
        name: "n".into(),
        count: Some(5),
        parts: vec![Part { kind: "k".into(), weight: 0.5 }],
        data: Some(Blob(Bytes::from_static(&[1, 2, 255]))),
        mode: Mode::AllOfThem,
        more: AnyJson::new(json(r#"{"a":[null],"z":1.5}"#)),
        id: Some(Id::from_bytes([0xab; 16])),
    }
}

#[test]
fn the_response_comes_in_the_callers_format() {
    let text = r#"{"name":"n","count":5,"parts":[{"kind":"k","weight":0.5}],"data":"AQL/","mode":"all_of_them","more":{"a":[null],"z":1.5},"id":"abababab-abab-abab-abab-abababababab"}"#;
    let given = run(json(text)).unwrap();
    assert_eq!((given.format(), std::str::from_utf8(given.bytes()).unwrap()), (Format::Json, text));
    let bytes = rmp_serde::to_vec_named(&request()).unwrap();
    let given = run(pack(bytes.clone())).unwrap();
    assert_eq!(given.format(), Format::MsgPack);
    let back: EchoRequest = read(&given).unwrap();
    assert_eq!(EchoRequest { more: None, ..back }, EchoRequest { more: None, ..request() });
    // Bytes are bin, ids are 16 bytes of bin, fields have names.
    for part in
        [&b"\xa4data\xc4\x03\x01\x02\xff"[..], b"\xa2id\xc4\x10\xab\xab", b"\xa4mode\xabal\x6c_of_them"]
    {
        assert!(given.bytes().windows(part.len()).any(|window| window == part), "{part:x?} in {given:?}");
    }
}

#[test]
fn violations_name_the_position_but_not_the_value() {
    for (text, pointer, message) in [
        (r#"{}"#, "", "missing argument 'name'"),
        (r#"{"name":5}"#, "/name", "must be a string, not a whole number"),
        (r#"{"name":null}"#, "/name", "must be a string, not null"),
        (r#"{"name":"n","count":300}"#, "/count", "must be a whole number from 0 to 255"),
        (
            r#"{"name":"n","count":1.5}"#,
            "/count",
            "must be a whole number from 0 to 255, not a number with a fraction",
        ),
        (r#"{"name":"n","count":"hunter2"}"#, "/count", "must be a whole number from 0 to 255, not a string"),
        (
            r#"{"name":"n","parts":[{"kind":"a","weight":1},{"kind":"b","weight":"x"}]}"#,
            "/parts/1/weight",
            "must be a number, not a string",
        ),
        (r#"{"name":"n","parts":[{"kind":"a"}]}"#, "/parts/0", "missing property 'weight'"),
        (r#"{"name":"n","parts":[["a",1]]}"#, "/parts/0", "must be an object, not a list"),
        (r#"{"name":"n","parts":{}}"#, "/parts", "must be a list, not an object"),
        (r#"{"name":"n","mode":"ayn"}"#, "/mode", "must be one of any, all_of_them; did you mean 'any'?"),
        (r#"{"name":"n","mode":5}"#, "/mode", "must be one of any, all_of_them"),
        (
            r#"{"name":"n","data":"@@@@"}"#,
            "/data",
            "not base64: character 1 is not in the standard alphabet (A-Z a-z 0-9 + /, '=' at the end)",
        ),
        (r#"{"name":"n","data":[1]}"#, "/data", "must be base64 text, not a list"),
        (
            r#"{"name":"n","id":"7"}"#,
            "/id",
            "not a UUID: 36 characters as in 01923456-789a-7fff-bfff-ffffffffffff",
        ),
        (r#"{"name":"n","name":"m"}"#, "", r#"not valid JSON: duplicate member "name" at line 1, column 13"#),
        (r#"[]"#, "", "must be an object, not a list"),
        (r#"5"#, "", "must be an object, not a whole number"),
        (r#"{"name":"n"} x"#, "", "not valid JSON: unexpected text after the value at line 1, column 14"),
    ] {
        assert_eq!(violations(json(text)), [(pointer.to_owned(), message.to_owned())], "{text}");
    }
}

#[test]
fn unknown_members_are_rejected_in_json_with_the_nearest_name() {
    let found =
        violations(json(r#"{"nam":"n","parts":[{"kind":"k","weight":1,"wieght":2,"zzzzzz":3}],"name":"n"}"#));
    let expected = [
        ("/nam", "unknown member; did you mean 'name'?"),
        ("/parts/0/wieght", "unknown member; did you mean 'weight'?"),
        ("/parts/0/zzzzzz", "unknown member; expected kind, weight"),
    ];
    assert_eq!(found, expected.map(|(pointer, message)| (pointer.to_owned(), message.to_owned())));
    // A misspelt name is reported beside the missing one.
    let found = violations(json(r#"{"naem":"n"}"#));
    assert_eq!(
        (found[0].1.as_str(), found[1].1.as_str()),
        ("missing argument 'name'", "unknown member; did you mean 'name'?")
    );
    assert_eq!(violations(json(r#"{"name":"n","a/b~c":1}"#))[0].0, "/a~1b~0c");
}

#[test]
fn unknown_fields_are_ignored_in_msgpack_by_name_and_by_position() {
    let wanted = EchoRequest {
        count: None,
        parts: vec![],
        data: None,
        mode: Mode::Any,
        more: None,
        id: None,
        ..request()
    };
    // {name: "n", _deadline_ms: 5, x: [1, {}]}
    let named = b"\x83\xa4name\xa1n\xac_deadline_ms\x05\xa1x\x92\x01\x80";
    assert_eq!(read::<EchoRequest>(&pack(*named)).unwrap(), wanted);
    // Positional: name, count, parts, data, mode, more, id and two more fields of a newer client.
    let positional = b"\x99\xa1n\xc0\x90\xc0\xa3any\xc0\xc0\x01\x80";
    assert_eq!(read::<EchoRequest>(&pack(*positional)).unwrap(), wanted);
    // Fewer fields, as an older client writes them; parts are positional too.
    assert_eq!(read::<EchoRequest>(&pack(*b"\x91\xa1n")).unwrap(), wanted);
    let part = read::<EchoRequest>(&pack(*b"\x93\xa1n\xc0\x91\x92\xa1k\x01")).unwrap().parts;
    assert_eq!(part, [Part { kind: "k".into(), weight: 1.0 }]);
}

#[test]
fn msgpack_is_as_strict_about_types_as_json() {
    for (bytes, pointer, message) in [
        (&b"\x81\xa4name\x05"[..], "/name", "must be a string, not a whole number"),
        (b"\x81\xa4name\xc4\x01n", "/name", "must be a string, not bytes"),
        (b"\x82\xa4name\xa1n\xa4data\xa4AQL/", "/data", "must be bytes (bin), not a string"),
        (b"\x82\xa4name\xa1n\xa4data\x93\x01\x02\x03", "/data", "must be bytes (bin), not a list"),
        (b"\x82\xa4name\xa1n\xa4mode\x00", "/mode", "must be a string, not a whole number"),
        (b"\x82\xa4name\xa1n\xa5parts\x91\x91\xa1k", "/parts/0", "has too few elements (1)"),
        (b"\x82\xa4name\xa1n\xa2id\xc4\x01\x00", "/id", "not a UUID: it must have 16 bytes"),
        (b"\x81\xa4name\xd4\x01\x00", "/name", "must be a string, not another type of value"),
        (b"\x82\xa4name\xa1n\xa4more\xc4\x01\x00", "/more", "must be any valid JSON value, not bytes"),
        (b"\x81\xa4name\xa1n\xc0", "", "not valid MsgPack: data after the value (at byte 8)"),
        (b"\x90", "", "has too few elements (0)"),
    ] {
        let found = violations(pack(bytes));
        assert_eq!(found, [(pointer.to_owned(), message.to_owned())], "{bytes:x?}");
    }
}

#[test]
fn all_violations_are_reported_at_once() {
    let found = violations(json(r#"{"name":"","count":13}"#));
    let pointers: Vec<&str> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
    assert_eq!(pointers, ["/name", "/count"]);
    let error = run(json(r#"{"name":"","count":13}"#)).unwrap_err();
    assert_eq!(
        error.message,
        "invalid arguments for 'test.mirror': at /name: must not be empty (and 1 more)"
    );
}

#[test]
fn schemas_are_self_contained_closed_and_without_defaults() {
    let spec = typed(Mirror).spec().clone();
    let input: serde_json::Value = serde_json::from_slice(spec.input_schema.bytes()).unwrap();
    let output: serde_json::Value = serde_json::from_slice(spec.output_schema.bytes()).unwrap();
    let text = input.to_string();
    for word in ["$ref", "$defs", "default", "uint8", "double", "title", "$schema"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    assert_eq!(input["additionalProperties"], false);
    assert_eq!(input["properties"]["parts"]["items"]["additionalProperties"], false);
    assert_eq!(input["properties"]["data"]["contentEncoding"], "base64");
    assert_eq!(input["required"], serde_json::json!(["name"]));
    assert!(output.get("additionalProperties").is_none());
    for schema in [&spec.input_schema, &spec.output_schema] {
        toolyard_formats::schema::Schema::compile(schema.bytes()).unwrap();
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        (-1e9f64..1e9).prop_map(Into::into),
        ".{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::btree_map(".{0,4}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

prop_compose! {
    fn requests()(
        name in ".{1,20}",
        count in proptest::option::of(0u8..13),
        parts in proptest::collection::vec((".{0,6}", -1e9f64..1e9), 0..4),
        data in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
        mode in prop_oneof![Just(Mode::Any), Just(Mode::AllOfThem)],
        more in proptest::option::of(any_json()),
        id in proptest::option::of(any::<[u8; 16]>()),
    ) -> EchoRequest {
        EchoRequest {
            name,
            count,
            parts: parts.into_iter().map(|(kind, weight)| Part { kind, weight }).collect(),
            data: data.map(|data| Blob(data.into())),
            mode,
            // Null and absent are the same in an optional field.
            more: more.filter(|more| !more.is_null()).and_then(|more| AnyJson::new(json(&more.to_string()))),
            id: id.map(Id::from_bytes),
        }
    }
}

proptest! {
    #[test]
    fn a_request_is_the_same_in_both_formats(request in requests()) {
        let text = write(&request, Format::Json).unwrap();
        let named = write(&request, Format::MsgPack).unwrap();
        let positional = pack(rmp_serde::to_vec(&request).unwrap());
        prop_assert_eq!(&read::<EchoRequest>(&text).unwrap(), &request);
        prop_assert_eq!(&read::<EchoRequest>(&named).unwrap(), &request);
        prop_assert_eq!(&read::<EchoRequest>(&positional).unwrap(), &request);
        // Through the tool and back: the same value in the same format.
        prop_assert_eq!(&read::<EchoRequest>(&run(text).unwrap()).unwrap(), &request);
        prop_assert_eq!(&run(named.clone()).unwrap(), &named);
    }

    #[test]
    fn what_the_listed_schema_rejects_the_type_rejects_too(request in requests(), at in 0usize..7, with in any_json()) {
        let fields = ["name", "count", "parts", "data", "mode", "more", "id"];
        let mut value = serde_json::to_value(&request).unwrap();
        value[fields[at]] = with;
        let payload = json(&value.to_string());
        let schema = toolyard_formats::schema::Schema::compile(typed(Mirror).spec().input_schema.bytes()).unwrap();
        use toolyard_protocol::Check;
        let (listed, accepted) = (schema.check(&payload), read::<EchoRequest>(&payload));
        if listed.is_err() {
            prop_assert!(accepted.is_err(), "{} is accepted, but the schema reports {:?}", value, listed);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = read::<EchoRequest>(&pack(bytes.clone()));
        let _ = read::<EchoRequest>(&Payload::json(bytes));
    }

    #[test]
    fn damaged_requests_are_rejected_or_read_but_never_panic(
        request in requests(), at in any::<proptest::sample::Index>(), byte in any::<u8>(), is_text in any::<bool>()
    ) {
        let format = if is_text { Format::Json } else { Format::MsgPack };
        let written = write(&request, format).unwrap();
        let mut bytes = written.bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Err(violations) = read::<EchoRequest>(&Payload::new(format, bytes)) {
            prop_assert!(!violations.is_empty() && violations.iter().all(|found| !found.message.is_empty()));
        }
    }
}
