//! Tests of `graph.*`.

use crate::fixture::Fixture;
use serde_json::{Value, json};
use toolyard_protocol::{ErrorKind, base64};

async fn chain(fixture: &Fixture) {
    for (id, name) in [("a", "Keyboard"), ("b", "Synth"), ("c", "Mixer"), ("d", "Speaker")] {
        fixture.ok("graph.bind", json!({"id": id, "name": name})).await;
    }
    for (from, to, transport) in [("a", "b", "midi"), ("b", "c", "audio"), ("c", "d", "audio")] {
        let ends = json!({"from_identity": from, "from_port": "out", "to_identity": to, "to_port": "in", "transport": transport});
        fixture.ok("graph.connect", ends).await;
    }
}

#[tokio::test]
async fn identities_are_bound_tagged_and_found() {
    let fixture = Fixture::new();
    let hint = json!({"kind": "usb_serial", "value": "42"});
    let bound = fixture.ok("graph.bind", json!({"id": "a", "name": "Keyboard", "hints": [hint]})).await;
    assert_eq!(bound["hints"], json!([{"kind": "usb_serial", "value": "42", "confidence": 1.0}]));
    let tagged =
        fixture.ok("graph.tag", json!({"identity_id": "a", "namespace": "role", "value": "keys"})).await;
    assert_eq!(tagged, json!({"identity_id": "a", "tags": [{"namespace": "role", "value": "keys"}]}));
    for which in [
        json!({"name": "KEY"}),
        json!({"tag_namespace": "role", "tag_value": "keys"}),
        json!({"hint_kind": "usb_serial", "hint_value": "42"}),
    ] {
        let found = fixture.ok("graph.find", which.clone()).await;
        assert_eq!((&found["count"], &found["identities"][0]["id"]), (&json!(1), &json!("a")), "{which}");
    }
    assert_eq!(fixture.ok("graph.find", json!({"name": "drum"})).await["count"], 0);
    let error = fixture.err("graph.tag", json!({"identity_id": "z", "namespace": "n", "value": "v"})).await;
    assert_eq!(error.kind, ErrorKind::ResourceNotFound);
    let wrong = json!({"id": "", "name": "x", "hints": [{"kind": "k", "value": "v", "confidence": 1.5}]});
    let error = fixture.err("graph.bind", wrong).await;
    let pointers: Vec<&str> = error.details.violations.iter().map(|found| found.pointer.as_str()).collect();
    assert_eq!(pointers, ["/id", "/hints/0/confidence"]);
}

#[tokio::test]
async fn reachable_identities_are_sorted_by_depth() {
    let fixture = Fixture::new();
    chain(&fixture).await;
    let reached = |answer: &Value| -> Vec<(String, u64)> {
        let results = answer["results"].as_array().unwrap();
        results
            .iter()
            .map(|r| (r["identity"]["id"].as_str().unwrap().to_owned(), r["depth"].as_u64().unwrap()))
            .collect()
    };
    let expect = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
        pairs.iter().map(|(id, depth)| ((*id).to_owned(), *depth)).collect()
    };
    let answer = fixture.ok("graph.query", json!({"start": {"name": "Keyboard"}})).await;
    assert_eq!(reached(&answer), expect(&[("a", 0), ("b", 1), ("c", 2), ("d", 3)]));
    assert_eq!((&answer["count"], &answer["truncated"]), (&json!(4), &json!(false)));
    assert_eq!(answer["connections"].as_array().unwrap().len(), 3);
    let answer = fixture.ok("graph.query", json!({"start": {"name": "Keyboard"}, "max_depth": 1})).await;
    assert_eq!(reached(&answer), expect(&[("a", 0), ("b", 1)]));
    let answer = fixture.ok("graph.query", json!({"start": {"name": "Mixer"}, "direction": "in"})).await;
    assert_eq!(reached(&answer), expect(&[("c", 0), ("b", 1), ("a", 2)]));
    let answer = fixture
        .ok("graph.query", json!({"start": {"name": "Mixer"}, "direction": "both", "transport": "audio"}))
        .await;
    assert_eq!(reached(&answer), expect(&[("c", 0), ("b", 1), ("d", 1)]));
    let answer = fixture.ok("graph.query", json!({"start": {"name": "Keyboard"}, "limit": 2})).await;
    assert_eq!((&answer["count"], &answer["truncated"]), (&json!(2), &json!(true)));
    for (wrong, pointer) in [
        (json!({"direction": "sideways"}), "/direction"),
        (json!({"start": {"nam": "x"}}), "/start/nam"),
        (json!({"max_depth": 33}), "/max_depth"),
        (json!({"query": "{ Identity { id } }"}), "/query"),
    ] {
        let error = fixture.err("graph.query", wrong).await;
        assert_eq!(error.details.violations[0].pointer, pointer, "{error}");
    }
}

#[tokio::test]
async fn connecting_twice_creates_one_connection() {
    let fixture = Fixture::new();
    chain(&fixture).await;
    let ends = json!({"from_identity": "a", "from_port": "out", "to_identity": "b", "to_port": "in", "transport": "usb"});
    let first = fixture.ok("graph.connect", ends.clone()).await;
    let again = fixture.ok("graph.connect", ends).await;
    assert_eq!(first, again);
    let answer = fixture.ok("graph.query", json!({})).await;
    assert_eq!(answer["connections"].as_array().unwrap().len(), 3);
    let ends = json!({"from_identity": "a", "from_port": "out", "to_identity": "z", "to_port": "in"});
    assert_eq!(fixture.err("graph.connect", ends).await.kind, ErrorKind::ResourceNotFound);
}

#[tokio::test]
async fn the_context_has_one_line_per_artifact_annotation_and_identity() {
    let fixture = Fixture::frozen();
    chain(&fixture).await;
    let stored =
        fixture.ok("cas.store", json!({"data": base64::encode(b"x"), "mime_type": "audio/midi"})).await;
    let make = |creator: &str| json!({"cas_hash": stored["hash"], "mime_type": "audio/midi", "creator": creator, "tags": ["t"], "metadata": {"bpm": 120}});
    let id = fixture.ok("artifact.create", make("me")).await["artifact_id"].clone();
    fixture.ok("artifact.create", make("you")).await;
    let note = json!({"artifact_id": id, "message": "warm\n- 666 forged entry", "source": "critic", "vibe": "dreamy"});
    fixture.ok("annotation.add", note).await;
    let all = fixture.ok("graph.context", json!({})).await;
    assert_eq!((&all["artifact_count"], &all["identity_count"]), (&json!(2), &json!(4)));
    let text = all["context"].as_str().unwrap();
    assert!(text.contains("  note (critic, dreamy): warm - 666 forged entry\n"), "{text}");
    assert!(text.contains("- a: Keyboard\n") && !text.contains("metadata"), "{text}");
    for (filter, count) in [
        (json!({"creator": "me"}), 1),
        (json!({"tag": "t", "limit": 1}), 1),
        (json!({"tag": "other"}), 0),
        (json!({"vibe_search": "dream*"}), 1),
        (json!({"vibe_search": "dreamy", "creator": "you"}), 0),
        (json!({"within_minutes": 5}), 2),
    ] {
        assert_eq!(fixture.ok("graph.context", filter.clone()).await["artifact_count"], count, "{filter}");
    }
    let bare =
        fixture.ok("graph.context", json!({"include_annotations": false, "include_metadata": true})).await;
    let text = bare["context"].as_str().unwrap();
    assert!(!text.contains("note") && text.contains("  metadata: {\"bpm\":120}\n"), "{text}");
}
