//! Built-in tools: disabled by default, available to every caller once enabled.

use crate::support::{Kind, TIMEOUT, Yard, eventually};
use serde_json::{Value, json};

const ALL: &str = "[builtin]\necho = true\ntools = true\nconfig = true\ncas = true\nartifacts = true\njobs = true\ngraph = true\nevents = true\n";

fn data(yard: &Yard, tool: &str, arguments: Value) -> Value {
    let (ran, envelope) = yard.call(tool, &arguments);
    assert_eq!(ran.code, 0, "{ran:?}");
    envelope["data"].clone()
}

fn names(yard: &Yard) -> Vec<String> {
    let listed = yard.run(&["list", "--json"]).expect(0).json();
    listed.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn there_are_none_unless_they_are_enabled() {
    let yard = Yard::new();
    assert_eq!(names(&yard), Vec::<String>::new());
    let ran = yard.run(&["call", "echo", "message=hi"]).expect(4);
    assert!(ran.stderr.contains("there is no tool 'echo'"), "{ran:?}");
    yard.file("toolyard.toml", "[builtin]\necho = true\njobs = false\n");
    assert_eq!(names(&yard), ["yard.echo", "yard.ping"]);
    assert_eq!(
        yard.run(&["call", "echo", "message=hi", "--json"]).expect(0).json()["data"],
        json!({"message": "hi"})
    );
    assert_eq!(
        yard.run(&["call", "yard.echo", "message=5", "--json"]).expect(0).json()["data"],
        json!({"message": "5"})
    );
    let shown = yard.run(&["show", "echo", "--json"]).expect(0).json();
    assert_eq!(
        (&shown["kind"], &shown["source"], &shown["sandbox"]),
        (&json!("builtin"), &json!("builtin"), &json!("not needed"))
    );
    yard.file("toolyard.toml", "[builtin]\nehco = true\n");
    let ran = yard.run(&["list"]).expect(3);
    assert!(
        ran.stderr.contains("unknown field 'builtin.ehco'") && ran.stderr.contains("'builtin.echo'"),
        "{ran:?}"
    );
    yard.file("toolyard.toml", "[builtin]\necho = \"yes\"\n");
    assert!(yard.run(&["list"]).expect(3).stderr.contains("must be true or false"));
}

#[test]
fn listing_them_creates_no_files() {
    let yard = Yard::new();
    yard.file("toolyard.toml", ALL);
    assert_eq!(names(&yard).len(), 27);
    yard.run(&["check"]).expect(0);
    yard.run(&["show", "cas_store"]).expect(0);
    assert!(!yard.path(".toolyard/yard.sqlite").exists() && !yard.path(".toolyard/blobs").exists());
    data(&yard, "echo", json!({"message": "x"}));
    assert!(!yard.path(".toolyard/yard.sqlite").exists() && !yard.path(".toolyard/blobs").exists());
}

#[test]
fn data_stored_by_one_process_is_found_by_the_next() {
    let yard = Yard::new();
    yard.file("toolyard.toml", ALL).file("song.mid", b"MThd\x00");
    let made = data(
        &yard,
        "artifact.upload",
        json!({"file_path": "song.mid", "mime_type": "audio/midi", "tags": ["demo"]}),
    );
    let artifact = &made["artifact_id"];
    data(&yard, "annotation.add", json!({"artifact_id": artifact, "message": "rather short"}));
    let found = data(&yard, "annotation.search", json!({"query": "short"}));
    assert_eq!(found["annotations"][0]["artifact_id"], *artifact);
    let content = data(&yard, "cas.get", json!({"hash": made["content_hash"]}));
    assert_eq!((&content["data"], &content["size"]), (&json!("TVRoZAA="), &json!(5)));
    // Uploads and annotations were jobs.
    let jobs = data(&yard, "job.list", json!({}));
    let sources: Vec<&str> =
        jobs["jobs"].as_array().unwrap().iter().map(|job| job["source"].as_str().unwrap()).collect();
    assert_eq!(sources, ["annotation.add", "artifact.upload"]);
    let recent = data(&yard, "event.poll", json!({"since_ms": 600_000, "types": ["artifact_created"]}));
    assert_eq!(recent["events"][0]["subject"], *artifact);
}

#[test]
fn a_server_offers_them_before_and_after_reloads() {
    let yard = Yard::new();
    yard.file("toolyard.toml", ALL);
    let server = yard.serve();
    let post = |tool: &str, arguments: Value| server.post(tool, arguments.to_string());
    assert_eq!(post("echo", json!({"message": "é"})).json()["body"], json!({"message": "é"}));
    let refused = post("echo", json!({"mesage": "x"}));
    assert_eq!(refused.status, 400);
    let violations = refused.json()["error"]["details"]["violations"].clone();
    assert_eq!(
        violations[1],
        json!({"pointer": "/mesage", "message": "unknown member; did you mean 'message'?"})
    );
    // The address given with --listen overrides the file.
    let listen = post("config_get", json!({"section": "server", "key": "listen"})).json();
    assert_eq!(listen["body"]["value"], "127.0.0.1:0");
    yard.shell(Kind::Cli, "fresh", "echo 1");
    eventually("the new tool is there", TIMEOUT, || post("fresh", json!({})).status == 200);
    let listed = post("tool_list", json!({"limit": 1000})).json()["body"].clone();
    assert_eq!(listed["count"], 28);
    assert_eq!(post("echo", json!({"message": "still"})).status, 200);
}

#[test]
fn a_file_cannot_take_the_name_of_one_that_is_on() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "echo", "echo '\"mine\"'");
    assert_eq!(yard.run(&["call", "echo", "--json"]).expect(0).json()["data"], json!({"result": "mine"}));
    yard.file("toolyard.toml", "[builtin]\necho = true\n");
    assert_eq!(data(&yard, "echo", json!({"message": "x"})), json!({"message": "x"}));
    let ran = yard.run(&["check"]).expect(3);
    assert!(
        ran.stdout.contains("tools/echo.tool.yaml") && ran.stdout.contains("already taken by builtin"),
        "{ran:?}"
    );
}
