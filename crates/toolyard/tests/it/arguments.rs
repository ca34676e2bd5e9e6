//! Arguments reach the tool unchanged, or are refused before anything runs.

use crate::support::{Kind, Yard};
use serde_json::{Value, json};

/// A tool that returns its input, for either format.
fn echo(kind: Kind, yard: &Yard) {
    match kind {
        Kind::Cli => yard.tool(kind, "echo", &["/bin/cat"], json!({})),
        Kind::Process | Kind::Binary => yard.tool(kind, "echo", &["/bin/cat"], json!({})),
    };
}

fn echoed(kind: Kind, data: &Value) -> Value {
    if kind == Kind::Cli { data.clone() } else { data["arguments"].clone() }
}

#[test]
fn nul_newlines_and_every_other_character_reach_the_tool_unchanged() {
    let text = "nul \u{0} line\nbreak\r\n quote\" back\\slash \u{1b}[31m é 漢 🎼 \u{202e}";
    for kind in Kind::ALL {
        let yard = Yard::new();
        echo(kind, &yard);
        let arguments = json!({"text": text, "list": ["a\u{0}b", "c\nd"], "big": 12345678901234567890u64});
        let (ran, envelope) = yard.call("echo", &arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(echoed(kind, &envelope["data"]), arguments, "{kind:?} on the command line");
        let server = yard.serve();
        let body = server.post("echo", arguments.to_string()).json()["body"].clone();
        assert_eq!(echoed(kind, &body), arguments, "{kind:?} over HTTP");
        // White space between tokens is preserved; a manifest tool still gets a single line.
        let pretty = serde_json::to_string_pretty(&arguments).unwrap();
        let body = server.post("echo", pretty).json()["body"].clone();
        assert_eq!(echoed(kind, &body), arguments, "{kind:?} in several lines");
    }
}

#[test]
fn a_manifests_tool_is_sent_exactly_one_line() {
    let yard = Yard::new();
    yard.shell(Kind::Process, "lines", "wc -l");
    assert_eq!(yard.serve().post("lines", "{\n\n\"a\"\n:\r\n1}").json()["body"], json!(1));
}

#[test]
fn numbers_are_passed_through_digit_by_digit() {
    let yard = Yard::new();
    echo(Kind::Cli, &yard);
    let body = r#"{"n":123456789012345678901234567890,"f":1.50,"e":1E400}"#;
    let answer = yard.serve().post("echo", body);
    let text = String::from_utf8(answer.body).unwrap();
    assert!(text.contains(body), "{text}");
}

#[test]
fn arguments_over_the_cap_are_refused_before_anything_runs() {
    for kind in Kind::ALL {
        let yard = Yard::new();
        let writes = json!({"sandbox": {"fs": {"write": ["data"]}}});
        yard.file("data/.keep", "");
        yard.tool(kind, "tool", &["/bin/sh", "-c", "touch data/ran; echo '{}'"], writes);
        let fits = format!("{{\"a\":\"{}\"}}", "x".repeat(65_536 - 8));
        assert_eq!(fits.len(), 65_536);
        let over = fits.replace("\"a\"", "\"aa\"");
        let server = yard.serve();
        let answer = server.post("tool", &over);
        assert_eq!(answer.status, 413);
        let error = answer.json()["error"].clone();
        assert_eq!((&error["code"], &error["details"]["kind"]), (&json!("ECAP"), &json!("input_too_large")));
        assert!(
            error["message"].as_str().unwrap().contains("65537 bytes; 'tool' takes at most 65536"),
            "{error}"
        );
        assert!(error["details"]["hint"].as_str().unwrap().contains("limits.input"), "{error}");
        assert!(!yard.path("data/ran").exists(), "{kind:?} ran all the same");
        assert_eq!(server.post("tool", &fits).status, 200);
        assert!(yard.path("data/ran").exists());
        drop(server);
        let refused: Vec<Value> =
            yard.records().into_iter().filter(|record| record["kind"] == "refused").collect();
        assert_eq!(refused.len(), 1);
        assert_eq!((&refused[0]["error"], &refused[0]["tool"]), (&json!("input_too_large"), &json!("tool")));
    }
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "echo 1").file("toolyard.toml", "[limits]\ninput = 10\n");
    let (ran, envelope) = yard.call("tool", &json!({"text": "too long"}));
    assert_eq!((ran.code, &envelope["error"]["error_details"]["code"]), (6, &json!("ECAP")));
}

#[test]
fn a_body_over_the_servers_cap_is_refused_while_it_arrives() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "echo 1").file("toolyard.toml", "[server]\nmax_body = 1000\n");
    let server = yard.serve();
    let answer = server.post("tool", format!("{{\"a\":\"{}\"}}", "x".repeat(1000)));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (413, &json!("ECAP")));
    assert_eq!(server.post("tool", "{}").status, 200);
}

#[test]
fn arguments_that_are_no_object_are_refused_with_the_position() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "touch ran; echo 1");
    let server = yard.serve();
    for (body, what) in [
        ("[1]", "must be a JSON object, not a"),
        ("\"text\"", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ("{\"a\":1", "not valid JSON"),
        ("{\"a\":1} {}", "not valid JSON"),
        ("{'a':1}", "not valid JSON"),
        ("{\"a\":01}", "not valid JSON"),
        ("{\"a\":1,\"a\":2}", "duplicate member"),
        ("{\"o\":{\"a\":1,\"\\u0061\":2}}", "duplicate member"),
        ("{\"a\":\"\\ud800\"}", "not valid JSON"),
        ("{\"a\":NaN}", "not valid JSON"),
    ] {
        let answer = server.post("tool", body);
        let json = answer.json();
        assert_eq!((answer.status, &json["error"]["code"]), (400, &json!("EINVAL")), "{body}: {json}");
        assert!(json["error"]["message"].as_str().unwrap().contains(what), "{body}: {json}");
    }
    let answer = server.post("tool", b"{\"a\":\"\xff\"}");
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!("EINVAL")));
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(server.post("tool", deep).status, 400);
    assert!(!yard.path("ran").exists(), "a refused call ran");
    let ran = yard.run(&["call", "tool", "{\"a\":1,\"a\":2}"]).expect(3);
    assert!(ran.stderr.starts_with("error[EINVAL]: "), "{ran:?}");
}

#[test]
fn words_on_the_command_line_become_typed_arguments() {
    let yard = Yard::new();
    echo(Kind::Cli, &yard);
    let ran = yard.run(&["call", "echo", "n=5", "s=a b;$(id)", "l:=[1,2]", "--json"]).expect(0);
    assert_eq!(ran.json()["data"], json!({"n": 5, "s": "a b;$(id)", "l": [1, 2]}));
    for (words, what) in
        [(vec!["plain"], "neither a JSON object nor key=value"), (vec!["a=1", "a=2"], "given twice")]
    {
        let ran = yard.run(&[vec!["call", "echo"], words].concat()).expect(3);
        assert!(ran.stderr.contains(what) && ran.stderr.contains("hint: "), "{ran:?}");
    }
}
