//! Golden files of every built-in tool's description and of some calls. `UPDATE_GOLDEN=1` rewrites them.

use crate::fixture::Fixture;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use toolyard_formats::schema::Schema;
use toolyard_protocol::Format;
use toolyard_wire::tool_list::{self, ToolRow};
use toolyard_wire::typed;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/builtins")
}

fn assert_golden(name: &str, text: &str) {
    let file = folder().join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "{name} differs; run the test with UPDATE_GOLDEN=1 to update it\n{text}");
}

#[tokio::test]
async fn every_tool_matches_its_golden_file() {
    let fixture = Fixture::new();
    let snapshot = fixture.engine.registry.snapshot();
    assert!(snapshot.problems().is_empty(), "{:?}", snapshot.problems());
    let mut names = BTreeSet::new();
    for entry in snapshot.entries() {
        let spec = &entry.spec;
        let row = ToolRow { spec: Some(spec), source: &spec.source, enabled: true, problems: &[] };
        let mut listed: Value = serde_json::from_slice(&tool_list::write_tool(&row)).unwrap();
        // They change with every version.
        let members = listed.as_object_mut().unwrap();
        members.retain(|name, _| !matches!(name.as_str(), "digest" | "version"));
        assert_golden(&format!("{}.json", spec.name), &format!("{listed:#}\n"));
        names.insert(format!("{}.json", spec.name));
    }
    assert_eq!(names.len(), toolyard_runtimes::builtin::TOOLS.len());
    names.insert("calls.txt".to_owned());
    let files = std::fs::read_dir(folder()).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, names, "golden files without a tool");
}

#[tokio::test]
async fn schemas_are_objects_without_references_and_defaults() {
    let fixture = Fixture::new();
    for entry in fixture.engine.registry.snapshot().entries() {
        let (input, output) =
            (entry.spec.input_schema.as_ref().unwrap(), entry.spec.output_schema.as_ref().unwrap());
        for schema in [input, output] {
            Schema::compile(schema.bytes()).unwrap();
            let text = std::str::from_utf8(schema.bytes()).unwrap();
            for word in ["\"$ref\"", "\"$defs\"", "\"default\":", "\"$schema\"", "\"format\":\"uint"] {
                assert!(!text.contains(word), "{word} in {}: {text}", entry.spec.name);
            }
            assert_eq!(serde_json::from_str::<Value>(text).unwrap()["type"], "object", "{}", entry.spec.name);
        }
        let input: Value = serde_json::from_slice(input.bytes()).unwrap();
        assert_eq!(input["additionalProperties"], false, "{}", entry.spec.name);
    }
}

#[tokio::test]
async fn responses_match_their_schemas() {
    let fixture = Fixture::frozen();
    for (tool, arguments) in CALLS.iter().map(|(tool, text)| (*tool, serde_json::from_str(text).unwrap())) {
        let response = fixture.ok(tool, arguments).await;
        let entry = fixture.engine.registry.find(tool).unwrap();
        let schema = Schema::compile(entry.spec.output_schema.as_ref().unwrap().bytes()).unwrap();
        use toolyard_protocol::{Check, Payload};
        assert_eq!(schema.check(&Payload::json(response.to_string())), Ok(()), "{tool}: {response}");
    }
}

/// Run in this order; later calls use the data of earlier ones.
const CALLS: &[(&str, &str)] = &[
    ("yard.echo", r#"{"message":"héllo"}"#),
    ("yard.ping", "{}"),
    ("cas.store", r#"{"data":"TVT/","mime_type":"audio/midi"}"#),
    ("cas.inspect", r#"{"hash":"ef988828f944084116351ab04d6cf477faa022248967bcf17aa3ca668d7f4f3b"}"#),
    ("cas.get", r#"{"hash":"ef988828f944084116351ab04d6cf477faa022248967bcf17aa3ca668d7f4f3b","length":2}"#),
    ("graph.bind", r#"{"id":"synth","name":"A synth","hints":[{"kind":"midi_name","value":"Synth 1"}]}"#),
    ("graph.bind", r#"{"id":"mixer","name":"A mixer"}"#),
    ("graph.tag", r#"{"identity_id":"synth","namespace":"role","value":"bass"}"#),
    (
        "graph.connect",
        r#"{"from_identity":"synth","from_port":"out","to_identity":"mixer","to_port":"in 1"}"#,
    ),
    ("graph.find", r#"{"name":"SYN"}"#),
    ("graph.query", r#"{"start":{"name":"synth"},"direction":"out"}"#),
    ("graph.context", "{}"),
    ("config.get", r#"{"section":"server","key":"listen"}"#),
    ("job.sleep", r#"{"milliseconds":1}"#),
];

#[tokio::test]
async fn calls_have_the_golden_bytes_in_both_formats() {
    let (text, packed) = (Fixture::frozen(), Fixture::frozen());
    let mut page = String::new();
    for (tool, arguments) in CALLS {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let request = request_in_msgpack(tool, &arguments);
        let given = text.run(tool, arguments.clone()).await.data().unwrap().clone();
        writeln!(page, "{tool}\n> {arguments}\n< {}", std::str::from_utf8(given.bytes()).unwrap()).unwrap();
        let sent = typed::write(&request, Format::MsgPack).unwrap();
        let given = packed.packed_value(tool, sent.clone()).await;
        writeln!(page, "> {}\n< {}\n", hex(sent.bytes()), hex(given.bytes())).unwrap();
    }
    assert_golden("calls.txt", &page);
}

/// In MsgPack, `data` is binary instead of base64.
fn request_in_msgpack(tool: &str, arguments: &Value) -> Pack {
    let mut pack = Pack(arguments.clone(), Vec::new());
    if tool == "cas.store" {
        pack.1.push("data");
    }
    pack
}

struct Pack(Value, Vec<&'static str>);

impl serde::Serialize for Pack {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let members = self.0.as_object().unwrap();
        let mut map = serializer.serialize_map(Some(members.len()))?;
        for (name, value) in members {
            if self.1.contains(&name.as_str()) {
                let blob: toolyard_protocol::Blob = serde_json::from_value(value.clone()).unwrap();
                map.serialize_entry(name, &blob)?;
            } else {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn names_on_mcp_are_short() {
    let fixture = Fixture::new();
    for (name, exposed) in
        [("yard.echo", "echo"), ("yard.ping", "ping"), ("cas.store", "cas_store"), ("tool.list", "tool_list")]
    {
        assert_eq!(fixture.engine.registry.find(name).unwrap().spec.exposed.as_str(), exposed);
        assert!(fixture.engine.registry.find(exposed).is_some());
    }
    assert_eq!(fixture.ok("echo", json!({"message": "x"})).await, json!({"message": "x"}));
}
