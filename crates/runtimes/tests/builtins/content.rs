//! Tests of `cas.*`, `artifact.*` and `annotation.*`.

use crate::fixture::Fixture;
use serde_json::{Value, json};
use toolyard_protocol::{Call, Edge, ErrorKind, Format, NoopCaller, Payload, base64};

async fn store(fixture: &Fixture, bytes: &[u8]) -> String {
    let stored =
        fixture.ok("cas.store", json!({"data": base64::encode(bytes), "mime_type": "text/plain"})).await;
    stored["hash"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn content_is_found_by_its_hash() {
    let fixture = Fixture::new();
    let bytes = b"some content\nof two lines";
    let stored =
        fixture.ok("cas.store", json!({"data": base64::encode(bytes), "mime_type": "text/plain"})).await;
    let hash = blake3::hash(bytes).to_hex().to_string();
    assert_eq!(stored, json!({"hash": hash, "size": 25, "mime_type": "text/plain"}));
    let seen = fixture.ok("cas.inspect", json!({"hash": hash})).await;
    assert_eq!(
        seen,
        json!({"hash": hash, "exists": true, "size": 25, "preview": "some content\nof two lines"})
    );
    let whole = fixture.ok("cas.get", json!({"hash": hash})).await;
    assert_eq!(whole, json!({"hash": hash, "size": 25, "offset": 0, "data": base64::encode(bytes)}));
    let part = fixture.ok("cas.get", json!({"hash": hash, "offset": 5, "length": 7})).await;
    assert_eq!(part, json!({"hash": hash, "size": 25, "offset": 5, "data": base64::encode(b"content")}));
    let rest = fixture.ok("cas.get", json!({"hash": hash, "offset": 25})).await;
    assert_eq!(rest["data"], "");
    for (offset, length) in [(26, None), (20, Some(6)), (u64::MAX, Some(1)), (0, Some(u64::MAX))] {
        let error = fixture.err("cas.get", json!({"hash": hash, "offset": offset, "length": length})).await;
        assert_eq!(error.kind, ErrorKind::InvalidInput, "{offset} {length:?}: {error}");
        assert!(error.message.contains("has 25 bytes"), "{error}");
    }
}

#[tokio::test]
async fn missing_content_and_invalid_arguments_are_reported() {
    let fixture = Fixture::new();
    let hash = "0".repeat(64);
    let seen = fixture.ok("cas.inspect", json!({"hash": hash})).await;
    assert_eq!(seen, json!({"hash": hash, "exists": false}));
    assert_eq!(fixture.err("cas.get", json!({"hash": hash})).await.kind, ErrorKind::ResourceNotFound);
    for bad in ["abc", &"0".repeat(63), &"A".repeat(64)] {
        let error = fixture.err("cas.get", json!({"hash": bad})).await;
        assert_eq!(
            (error.kind, error.details.violations[0].pointer.as_str()),
            (ErrorKind::InvalidInput, "/hash")
        );
    }
    let error = fixture.err("cas.store", json!({"data": "AA", "mime_type": "x"})).await;
    assert_eq!(error.details.violations[0].pointer, "/data");
    let error = fixture.err("cas.store", json!({"data": "", "mime_type": "x"})).await;
    assert_eq!(error.details.violations[0].pointer, "/mime_type");
}

#[tokio::test]
async fn large_content_is_uploaded_as_a_file_and_read_in_parts() {
    let fixture = Fixture::new();
    let size = (32 << 20) + 3;
    let bytes: Vec<u8> = (0..size).map(|i: u32| (i % 251) as u8).collect();
    fixture.file("large.bin", &bytes);
    let stored =
        fixture.ok("cas.upload_file", json!({"file_path": "large.bin", "mime_type": "audio/wav"})).await;
    assert_eq!((&stored["size"], &stored["mime_type"]), (&json!(size), &json!("audio/wav")));
    let hash = stored["hash"].as_str().unwrap();
    assert_eq!(hash, blake3::hash(&bytes).to_hex().as_str());
    let error = fixture.err("cas.get", json!({"hash": hash})).await;
    assert_eq!(
        (error.kind, error.hint.as_deref()),
        (ErrorKind::OutputTooLarge, Some("request parts with 'offset' and 'length'"))
    );
    let part = fixture.ok("cas.get", json!({"hash": hash, "offset": size - 4})).await;
    assert_eq!(part["data"], base64::encode(&bytes[bytes.len() - 4..]));
    // Over the limit of one call, in MsgPack.
    let request = [&b"\x82\xa9mime_type\xa3a/b\xa4data\xc6"[..], &size.to_be_bytes(), &bytes].concat();
    let call =
        Call::new(fixture.engine.call_id(), "cas.store", Payload::new(Format::MsgPack, request), Edge::Cli);
    let outcome = fixture.engine.run(call, &NoopCaller).await;
    assert_eq!(outcome.error().unwrap().details.violations[0].pointer, "/data");
}

#[tokio::test]
async fn no_file_outside_the_yard_can_be_stored() {
    let fixture = Fixture::new();
    std::os::unix::fs::symlink("/etc/passwd", fixture.root.join("link")).unwrap();
    for tool in ["cas.upload_file", "artifact.upload"] {
        for path in ["../x", "/etc/passwd", "link", ".toolyard/yard.sqlite"] {
            let error = fixture.err(tool, json!({"file_path": path, "mime_type": "a/b"})).await;
            assert_eq!(error.kind, ErrorKind::Forbidden, "{tool} {path}: {error}");
        }
        let error = fixture.err(tool, json!({"file_path": "nothing", "mime_type": "a/b"})).await;
        assert_eq!(error.kind, ErrorKind::ResourceNotFound);
    }
}

async fn create(fixture: &Fixture, more: Value) -> String {
    let hash = store(fixture, b"x").await;
    let mut arguments = json!({"cas_hash": hash, "mime_type": "audio/midi"});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    fixture.ok("artifact.create", arguments).await["artifact_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn artifacts_have_the_fields_they_were_created_with() {
    let fixture = Fixture::new();
    let parent = create(&fixture, json!({})).await;
    let made = json!({"tags": ["b", "a", "b"], "creator": "me", "parent_id": parent, "variation_set_id": "v",
                      "metadata": {"bpm": 120.50, "z": [null]}});
    let id = create(&fixture, made).await;
    let got = fixture.ok("artifact.get", json!({"id": id})).await;
    let (hash, created) = (blake3::hash(b"x").to_hex().to_string(), got["created_at"].clone());
    let expected = json!({"id": id, "content_hash": hash, "size": 1, "mime_type": "audio/midi", "tags": ["a", "b"],
        "creator": "me", "created_at": created, "parent_id": parent, "variation_set_id": "v",
        "metadata": {"bpm": 120.50, "z": [null]}});
    assert_eq!(got, expected);
    // Equal content, two artifacts.
    assert_ne!(parent, id);
    let newest = fixture.ok("artifact.list", json!({"limit": 1})).await;
    assert_eq!((&newest["count"], &newest["artifacts"][0]["id"]), (&json!(1), &json!(id)));
    let older = fixture.ok("artifact.list", json!({"before": id})).await;
    assert_eq!((&older["count"], &older["artifacts"][0]["id"]), (&json!(1), &json!(parent)));
    assert_eq!(fixture.ok("artifact.list", json!({"tag": "a", "creator": "me"})).await["count"], 1);
    assert_eq!(fixture.ok("artifact.list", json!({"tag": "c"})).await["count"], 0);
}

#[tokio::test]
async fn artifacts_refer_only_to_existing_content_and_parents() {
    let fixture = Fixture::new();
    let nothing = "01923456-789a-7fff-bfff-ffffffffffff";
    let error = fixture.err("artifact.create", json!({"cas_hash": "0".repeat(64), "mime_type": "a/b"})).await;
    assert_eq!(error.kind, ErrorKind::ResourceNotFound);
    assert!(error.hint.unwrap().contains("cas.store"));
    let hash = store(&fixture, b"x").await;
    let error = fixture
        .err("artifact.create", json!({"cas_hash": hash, "mime_type": "a/b", "parent_id": nothing}))
        .await;
    assert_eq!(error.kind, ErrorKind::ResourceNotFound);
    let error = fixture.err("artifact.get", json!({"id": nothing})).await;
    assert_eq!(error.message, format!("artifact '{nothing}' not found"));
    let wrong = json!({"cas_hash": hash, "mime_type": "a/b", "tags": ["", "ok"], "metadata": [1]});
    let error = fixture.err("artifact.create", wrong).await;
    let pointers: Vec<&str> = error.details.violations.iter().map(|found| found.pointer.as_str()).collect();
    assert_eq!(pointers, ["/tags/0", "/metadata"]);
}

#[tokio::test]
async fn a_new_artifact_emits_an_event() {
    let fixture = Fixture::new();
    let cursor = fixture.ok("event.poll", json!({"timeout_ms": 0})).await["cursor"].clone();
    fixture.file("a.txt", "content");
    let made = fixture
        .ok("artifact.upload", json!({"file_path": "a.txt", "mime_type": "text/plain", "tags": ["t"]}))
        .await;
    let page = fixture.ok("event.poll", json!({"cursor": cursor, "types": ["artifact_created"]})).await;
    assert_eq!(page["events"].as_array().unwrap().len(), 1);
    let event = &page["events"][0];
    assert_eq!((&event["data"], &event["subject"]), (&made, &made["artifact_id"]));
    assert_eq!(fixture.ok("cas.inspect", json!({"hash": made["content_hash"]})).await["preview"], "content");
}

#[tokio::test]
async fn annotations_are_listed_and_found() {
    let fixture = Fixture::new();
    let id = create(&fixture, json!({})).await;
    let add = |message: &str, vibe: &str| json!({"artifact_id": id, "message": message, "source": "me", "vibe": vibe});
    let first = fixture.ok("annotation.add", add("A warm pad", "dreamy")).await;
    assert_eq!(first["artifact_id"], id.as_str());
    fixture.ok("annotation.add", add("Too loud", "harsh")).await;
    let all = fixture.ok("annotation.list", json!({"artifact_id": id})).await;
    assert_eq!((&all["count"], &all["annotations"][0]["id"]), (&json!(2), &first["annotation_id"]));
    let found = fixture.ok("annotation.search", json!({"query": "WARM dream*"})).await;
    assert_eq!((&found["count"], &found["annotations"][0]["message"]), (&json!(1), &json!("A warm pad")));
    let error = fixture.err("annotation.search", json!({"query": "…"})).await;
    assert_eq!(error.details.violations[0].pointer, "/query");
    let nothing = json!({"artifact_id": "01923456-789a-7fff-bfff-ffffffffffff", "message": "x"});
    assert_eq!(fixture.err("annotation.add", nothing).await.kind, ErrorKind::ResourceNotFound);
}
