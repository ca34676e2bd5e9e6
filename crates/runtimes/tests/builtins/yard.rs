//! Tests of `yard.*`, `tool.*` and `config.*`.

use crate::fixture::Fixture;
use serde_json::json;
use toolyard_protocol::{Call, Edge, ErrorKind, Format, NoopCaller, Payload};

#[tokio::test]
async fn msgpack_is_not_converted_to_json() {
    let fixture = Fixture::new();
    let call = |bytes: &'static [u8]| {
        let arguments = Payload::new(Format::MsgPack, bytes);
        Call::new(fixture.engine.call_id(), "yard.echo", arguments, Edge::Cli)
    };
    let outcome = fixture.engine.run(call(b"\x82\xa7message\xa2hi\xa5later\xc0"), &NoopCaller).await;
    let data = outcome.data().unwrap();
    assert_eq!((data.format(), &data.bytes()[..]), (Format::MsgPack, &b"\x81\xa7message\xa2hi"[..]));
    // An older client encodes fields by position.
    let outcome = fixture.engine.run(call(b"\x91\xa2hi"), &NoopCaller).await;
    assert_eq!(&outcome.data().unwrap().bytes()[..], b"\x81\xa7message\xa2hi");
    let outcome = fixture.engine.run(call(b"\x81\xa7message\x05"), &NoopCaller).await;
    assert_eq!(outcome.error().unwrap().details.violations[0].pointer, "/message");
}

#[tokio::test]
async fn invalid_arguments_are_reported_with_their_pointers() {
    let fixture = Fixture::new();
    let error = fixture.err("echo", json!({"mesage": "x"})).await;
    assert_eq!(error.kind, ErrorKind::InvalidInput);
    assert_eq!(error.message, "invalid arguments for 'yard.echo': missing argument 'message' (and 1 more)");
    assert_eq!(error.details.violations[1].message, "unknown member; did you mean 'message'?");
    // For a job, arguments are checked before the job is created.
    let error = fixture.err("job.sleep", json!({"milliseconds": 30001})).await;
    assert_eq!(
        (error.kind, error.details.violations[0].pointer.as_str()),
        (ErrorKind::InvalidInput, "/milliseconds")
    );
    assert_eq!(fixture.ok("job.list", json!({})).await["total"], 0);
    // Larger than the tool's input limit.
    let error = fixture.err("echo", json!({"message": "x".repeat(70_000)})).await;
    assert_eq!(error.kind, ErrorKind::InputTooLarge);
}

#[tokio::test]
async fn tools_are_listed_page_by_page() {
    let fixture = Fixture::new();
    let all = fixture.ok("tool.list", json!({})).await;
    assert_eq!(all["count"], toolyard_runtimes::builtin::TOOLS.len());
    assert_eq!(all["has_more"], false);
    let page = fixture.ok("tool.list", json!({"module": "cas", "limit": 3})).await;
    let names: Vec<&str> =
        page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!((names, &page["has_more"]), (vec!["cas.get", "cas.inspect", "cas.store"], &json!(true)));
    let rest = fixture.ok("tool.list", json!({"module": "cas", "after": "cas.store", "schemas": true})).await;
    assert_eq!((&rest["count"], &rest["has_more"]), (&json!(1), &json!(false)));
    let listed = &rest["tools"][0];
    assert_eq!((&listed["name"], &listed["timing"]), (&json!("cas.upload_file"), &json!("async_short")));
    assert_eq!(listed["input_schema"]["required"], json!(["file_path", "mime_type"]));
    assert_eq!(fixture.err("tool.list", json!({"limit": 0})).await.details.violations[0].pointer, "/limit");
}

#[tokio::test]
async fn the_configuration_is_shown_without_its_secrets() {
    let fixture = Fixture::new();
    let one = fixture.ok("config.get", json!({"section": "server", "key": "max_body"})).await;
    assert_eq!(one, json!({"section": "server", "key": "max_body", "value": 4096}));
    let server = fixture.ok("config.get", json!({"section": "server"})).await;
    let expected = json!({"listen": "127.0.0.1:3333", "max_body": 4096, "tls": false, "retention": null});
    assert_eq!(server, json!({"section": "server", "value": expected}));
    let all = fixture.ok("config.get", json!({})).await;
    assert_eq!(all["value"]["store"], json!({"url": "postgres://[hidden]@db/x", "api_key": "[hidden]"}));
    assert!(!all.to_string().contains("hunter2"));
    let error = fixture.err("config.get", json!({"section": "sever"})).await;
    assert_eq!(
        (error.kind, error.hint.as_deref()),
        (ErrorKind::ResourceNotFound, Some("did you mean 'server'?"))
    );
    let error = fixture.err("config.get", json!({"section": "server", "key": "listn"})).await;
    assert_eq!(error.hint.as_deref(), Some("did you mean 'listen'?"));
    let error = fixture.err("config.get", json!({"key": "listen"})).await;
    assert_eq!(error.details.violations[0].pointer, "/section");
}
