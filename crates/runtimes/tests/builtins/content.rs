//! Content by hash, artifacts, and what is said about them.

use crate::bench::Bench;
use serde_json::{Value, json};
use toolyard_protocol::{Call, Edge, ErrorKind, Format, Nobody, Payload, blob};

async fn store(bench: &Bench, bytes: &[u8]) -> String {
    let stored = bench.ok("cas.store", json!({"data": blob::encode(bytes), "mime_type": "text/plain"})).await;
    stored["hash"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn content_is_found_again_by_its_hash() {
    let bench = Bench::new();
    let bytes = b"some content\nof two lines";
    let stored = bench.ok("cas.store", json!({"data": blob::encode(bytes), "mime_type": "text/plain"})).await;
    let hash = blake3::hash(bytes).to_hex().to_string();
    assert_eq!(stored, json!({"hash": hash, "size": 25, "mime_type": "text/plain"}));
    let seen = bench.ok("cas.inspect", json!({"hash": hash})).await;
    assert_eq!(
        seen,
        json!({"hash": hash, "exists": true, "size": 25, "preview": "some content\nof two lines"})
    );
    let whole = bench.ok("cas.get", json!({"hash": hash})).await;
    assert_eq!(whole, json!({"hash": hash, "size": 25, "offset": 0, "data": blob::encode(bytes)}));
    let part = bench.ok("cas.get", json!({"hash": hash, "offset": 5, "length": 7})).await;
    assert_eq!(part, json!({"hash": hash, "size": 25, "offset": 5, "data": blob::encode(b"content")}));
    let rest = bench.ok("cas.get", json!({"hash": hash, "offset": 25})).await;
    assert_eq!(rest["data"], "");
    for (offset, length) in [(26, None), (20, Some(6)), (u64::MAX, Some(1)), (0, Some(u64::MAX))] {
        let error = bench.err("cas.get", json!({"hash": hash, "offset": offset, "length": length})).await;
        assert_eq!(error.kind, ErrorKind::InvalidInput, "{offset} {length:?}: {error}");
        assert!(error.message.contains("has 25 bytes"), "{error}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_told() {
    let bench = Bench::new();
    let hash = "0".repeat(64);
    let seen = bench.ok("cas.inspect", json!({"hash": hash})).await;
    assert_eq!(seen, json!({"hash": hash, "exists": false}));
    assert_eq!(bench.err("cas.get", json!({"hash": hash})).await.kind, ErrorKind::ResourceNotFound);
    for bad in ["abc", &"0".repeat(63), &"A".repeat(64)] {
        let error = bench.err("cas.get", json!({"hash": bad})).await;
        assert_eq!(
            (error.kind, error.details.violations[0].pointer.as_str()),
            (ErrorKind::InvalidInput, "/hash")
        );
    }
    let error = bench.err("cas.store", json!({"data": "AA", "mime_type": "x"})).await;
    assert_eq!(error.details.violations[0].pointer, "/data");
    let error = bench.err("cas.store", json!({"data": "", "mime_type": "x"})).await;
    assert_eq!(error.details.violations[0].pointer, "/mime_type");
}

#[tokio::test]
async fn large_content_goes_in_as_a_file_and_comes_out_in_parts() {
    let bench = Bench::new();
    let size = (32 << 20) + 3;
    let bytes: Vec<u8> = (0..size).map(|i: u32| (i % 251) as u8).collect();
    bench.file("large.bin", &bytes);
    let stored =
        bench.ok("cas.upload_file", json!({"file_path": "large.bin", "mime_type": "audio/wav"})).await;
    assert_eq!((&stored["size"], &stored["mime_type"]), (&json!(size), &json!("audio/wav")));
    let hash = stored["hash"].as_str().unwrap();
    assert_eq!(hash, blake3::hash(&bytes).to_hex().as_str());
    let error = bench.err("cas.get", json!({"hash": hash})).await;
    assert_eq!(
        (error.kind, error.hint.as_deref()),
        (ErrorKind::OutputTooLarge, Some("ask for parts, with 'offset' and 'length'"))
    );
    let part = bench.ok("cas.get", json!({"hash": hash, "offset": size - 4})).await;
    assert_eq!(part["data"], blob::encode(&bytes[bytes.len() - 4..]));
    // Over the cap of one call, in the format that could carry it.
    let request = [&b"\x82\xa9mime_type\xa3a/b\xa4data\xc6"[..], &size.to_be_bytes(), &bytes].concat();
    let call =
        Call::new(bench.engine.call_id(), "cas.store", Payload::new(Format::MsgPack, request), Edge::Cli);
    let outcome = bench.engine.run(call, &Nobody).await;
    assert_eq!(outcome.error().unwrap().details.violations[0].pointer, "/data");
}

#[tokio::test]
async fn no_file_outside_the_yard_can_be_stored() {
    let bench = Bench::new();
    std::os::unix::fs::symlink("/etc/passwd", bench.root.join("link")).unwrap();
    for tool in ["cas.upload_file", "artifact.upload"] {
        for path in ["../x", "/etc/passwd", "link", ".toolyard/yard.sqlite"] {
            let error = bench.err(tool, json!({"file_path": path, "mime_type": "a/b"})).await;
            assert_eq!(error.kind, ErrorKind::Forbidden, "{tool} {path}: {error}");
        }
        let error = bench.err(tool, json!({"file_path": "nothing", "mime_type": "a/b"})).await;
        assert_eq!(error.kind, ErrorKind::ResourceNotFound);
    }
}

async fn create(bench: &Bench, more: Value) -> String {
    let hash = store(bench, b"x").await;
    let mut arguments = json!({"cas_hash": hash, "mime_type": "audio/midi"});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bench.ok("artifact.create", arguments).await["artifact_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn artifacts_keep_what_they_were_made_with() {
    let bench = Bench::new();
    let parent = create(&bench, json!({})).await;
    let made = json!({"tags": ["b", "a", "b"], "creator": "me", "parent_id": parent, "variation_set_id": "v",
                      "metadata": {"bpm": 120.50, "z": [null]}});
    let id = create(&bench, made).await;
    let got = bench.ok("artifact.get", json!({"id": id})).await;
    let (hash, created) = (blake3::hash(b"x").to_hex().to_string(), got["created_at"].clone());
    let expected = json!({"id": id, "content_hash": hash, "size": 1, "mime_type": "audio/midi", "tags": ["a", "b"],
        "creator": "me", "created_at": created, "parent_id": parent, "variation_set_id": "v",
        "metadata": {"bpm": 120.50, "z": [null]}});
    assert_eq!(got, expected);
    // Equal content, two artifacts.
    assert_ne!(parent, id);
    let newest = bench.ok("artifact.list", json!({"limit": 1})).await;
    assert_eq!((&newest["count"], &newest["artifacts"][0]["id"]), (&json!(1), &json!(id)));
    let older = bench.ok("artifact.list", json!({"before": id})).await;
    assert_eq!((&older["count"], &older["artifacts"][0]["id"]), (&json!(1), &json!(parent)));
    assert_eq!(bench.ok("artifact.list", json!({"tag": "a", "creator": "me"})).await["count"], 1);
    assert_eq!(bench.ok("artifact.list", json!({"tag": "c"})).await["count"], 0);
}

#[tokio::test]
async fn artifacts_name_only_what_is_there() {
    let bench = Bench::new();
    let nothing = "01923456-789a-7fff-bfff-ffffffffffff";
    let error = bench.err("artifact.create", json!({"cas_hash": "0".repeat(64), "mime_type": "a/b"})).await;
    assert_eq!(error.kind, ErrorKind::ResourceNotFound);
    assert!(error.hint.unwrap().contains("cas.store"));
    let hash = store(&bench, b"x").await;
    let error = bench
        .err("artifact.create", json!({"cas_hash": hash, "mime_type": "a/b", "parent_id": nothing}))
        .await;
    assert_eq!(error.kind, ErrorKind::ResourceNotFound);
    let error = bench.err("artifact.get", json!({"id": nothing})).await;
    assert_eq!(error.message, format!("there is no artifact '{nothing}'"));
    let wrong = json!({"cas_hash": hash, "mime_type": "a/b", "tags": ["", "ok"], "metadata": [1]});
    let error = bench.err("artifact.create", wrong).await;
    let pointers: Vec<&str> = error.details.violations.iter().map(|found| found.pointer.as_str()).collect();
    assert_eq!(pointers, ["/tags/0", "/metadata"]);
}

#[tokio::test]
async fn a_new_artifact_is_an_event() {
    let bench = Bench::new();
    let cursor = bench.ok("event.poll", json!({"timeout_ms": 0})).await["cursor"].clone();
    bench.file("a.txt", "content");
    let made = bench
        .ok("artifact.upload", json!({"file_path": "a.txt", "mime_type": "text/plain", "tags": ["t"]}))
        .await;
    let page = bench.ok("event.poll", json!({"cursor": cursor, "types": ["artifact_created"]})).await;
    assert_eq!(page["events"].as_array().unwrap().len(), 1);
    let event = &page["events"][0];
    assert_eq!((&event["data"], &event["subject"]), (&made, &made["artifact_id"]));
    assert_eq!(bench.ok("cas.inspect", json!({"hash": made["content_hash"]})).await["preview"], "content");
}

#[tokio::test]
async fn annotations_are_listed_and_found() {
    let bench = Bench::new();
    let id = create(&bench, json!({})).await;
    let add = |message: &str, vibe: &str| json!({"artifact_id": id, "message": message, "source": "me", "vibe": vibe});
    let first = bench.ok("annotation.add", add("A warm pad", "dreamy")).await;
    assert_eq!(first["artifact_id"], id.as_str());
    bench.ok("annotation.add", add("Too loud", "harsh")).await;
    let all = bench.ok("annotation.list", json!({"artifact_id": id})).await;
    assert_eq!((&all["count"], &all["annotations"][0]["id"]), (&json!(2), &first["annotation_id"]));
    let found = bench.ok("annotation.search", json!({"query": "WARM dream*"})).await;
    assert_eq!((&found["count"], &found["annotations"][0]["message"]), (&json!(1), &json!("A warm pad")));
    let error = bench.err("annotation.search", json!({"query": "…"})).await;
    assert_eq!(error.details.violations[0].pointer, "/query");
    let nothing = json!({"artifact_id": "01923456-789a-7fff-bfff-ffffffffffff", "message": "x"});
    assert_eq!(bench.err("annotation.add", nothing).await.kind, ErrorKind::ResourceNotFound);
}
