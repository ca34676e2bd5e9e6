//! The known defects of the original toolpack system, each shown to be absent here.

use crate::support::{Upstream, Yard, response};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn python(yard: &Yard, name: &str, code: &str, extra: &str) {
    yard.file(&format!("tools/{name}.py"), code).file(
        &format!("tools/{name}.tool.yaml"),
        format!("id: {name}\nkind: python\nentry: tools.{name}:run\n{extra}"),
    );
}

fn message(envelope: &Value) -> &str {
    envelope["error"]["error_message"].as_str().expect("an error")
}

#[test]
fn a_timeout_ends_a_slow_function_when_it_says() {
    let yard = Yard::new();
    python(&yard, "slow", "import time\ndef run():\n    time.sleep(20)\n", "timeoutMs: 400\n");
    let started = Instant::now();
    let (ran, envelope) = yard.call("slow", &json!({}));
    assert_eq!(ran.code, 5, "{envelope}");
    assert!(started.elapsed() < Duration::from_secs(10), "it took {:?}", started.elapsed());
    assert_eq!(envelope["error"]["error_type"], "TimeoutError");
}

#[test]
fn an_unknown_tool_is_an_error() {
    let (ran, envelope) = Yard::new().call("web_search_query", &json!({"q": "x"}));
    assert_eq!(ran.code, 4);
    assert_eq!(envelope["status"], "failure");
}

#[test]
fn an_error_object_is_a_failure_for_every_kind() {
    let yard = Yard::new();
    python(
        &yard,
        "says",
        "def run():\n    return {'error': {'code': 'EINVAL', 'message': 'bad input'}}\n",
        "",
    );
    yard.file("tools/prints.tool.yaml", "id: prints\nkind: cli\nentry: [echo, '{\"error\": {\"code\": \"ECAP\", \"message\": \"too much\"}}']\n");
    let (ran, envelope) = yard.call("says", &json!({}));
    assert_eq!((ran.code, message(&envelope)), (3, "bad input"));
    let (ran, envelope) = yard.call("prints", &json!({}));
    assert_eq!((ran.code, message(&envelope)), (6, "too much"));
}

#[test]
fn a_function_sees_only_the_listed_variables() {
    let yard = Yard::new();
    python(&yard, "env", "import os\ndef run():\n    return sorted(os.environ)\n", "env: [CHOSEN]\n");
    let mut command = yard.command();
    command.env("CHOSEN", "1").env("SECRET", "2").args(["call", "env", "--json"]);
    let envelope = crate::support::run_for(command, crate::support::TIMEOUT).json();
    let seen: Vec<&str> =
        envelope["data"]["result"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
    assert!(seen.contains(&"CHOSEN") && !seen.contains(&"SECRET"), "{seen:?}");
    // Python itself sets LC_CTYPE.
    let known = ["CHOSEN", "HOME", "LANG", "PATH", "TMPDIR", "LC_CTYPE"];
    assert!(seen.iter().all(|name| known.contains(name)), "{seen:?}");
}

#[test]
fn a_cache_hit_does_not_skip_validation() {
    let yard = Yard::new();
    let extra = "deterministic: true\ntemplating: {cacheKey: same}\nschema:\n  input: {type: object, properties: {n: {type: integer}}}\n";
    python(&yard, "cached", "def run(n):\n    return n\n", extra);
    assert_eq!(yard.call("cached", &json!({"n": 1})).0.code, 0);
    let (ran, envelope) = yard.call("cached", &json!({"n": "text"}));
    assert_eq!(ran.code, 3, "{envelope}");
    assert_eq!(envelope["error"]["error_details"]["violations"][0]["pointer"], "/n");
    // Both calls have the same cache key.
    let (_, envelope) = yard.call("cached", &json!({"n": 2}));
    assert_eq!(envelope["data"]["result"], 1);
}

#[test]
fn references_inside_a_schema_work_and_circles_are_refused() {
    let yard = Yard::new();
    let inner = r##"{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["a"],
        "properties": {"a": {"$ref": "#/definitions/x"}, "b": {"$ref": "shared.json#/definitions/y"}},
        "definitions": {"x": {"type": "integer"}}}"##;
    yard.file("tools/in.json", inner)
        .file("tools/shared.json", r#"{"definitions": {"y": {"enum": ["yes", "no"]}}}"#);
    yard.file("tools/one.json", r#"{"properties": {"p": {"$ref": "two.json"}}}"#);
    yard.file("tools/two.json", r#"{"properties": {"q": {"$ref": "one.json"}}}"#);
    python(&yard, "good", "def run(**given):\n    return given\n", "schema: {input: {$ref: ./in.json}}\n");
    python(&yard, "circle", "def run():\n    pass\n", "schema: {input: {$ref: ./one.json}}\n");
    python(
        &yard,
        "away",
        "def run():\n    pass\n",
        "schema: {input: {$ref: 'https://evil.example/x.json'}}\n",
    );
    let (ran, _) = yard.call("good", &json!({"a": 1, "b": "yes"}));
    assert_eq!(ran.code, 0, "{ran:?}");
    let (_, envelope) = yard.call("good", &json!({"a": "1", "b": "maybe"}));
    let violations = envelope["error"]["error_details"]["violations"].as_array().unwrap();
    let pointers: Vec<&str> = violations.iter().map(|v| v["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["/a", "/b"], "{envelope}");
    let checked = yard.run(&["check"]).expect(3).stdout;
    assert!(checked.contains("in a cycle: ") && checked.contains("nothing is fetched"), "{checked}");
}

#[test]
fn a_function_that_raises_runs_once_and_its_message_is_reported() {
    let yard = Yard::new();
    let code = "def run():\n    open('data/ran', 'a').write('x')\n    print('to the log')\n    raise ValueError('the third row is empty')\n";
    yard.file("data/.keep", "");
    python(&yard, "raises", code, "sandbox: {fs: {write: [data]}}\n");
    let (ran, envelope) = yard.call("raises", &json!({}));
    assert_eq!((ran.code, message(&envelope)), (1, "ValueError: the third row is empty"));
    assert_eq!(std::fs::read_to_string(yard.path("data/ran")).unwrap(), "x");
    let stderr = envelope["error"]["error_details"]["stderr"].as_str().unwrap();
    assert!(stderr.contains("to the log") && stderr.contains("Traceback"), "{stderr}");
}

#[test]
fn arguments_a_function_does_not_take_are_invalid_input() {
    let yard = Yard::new();
    python(&yard, "two", "def run(a, b=2):\n    return a + b\n", "");
    assert_eq!(yard.call("two", &json!({"a": 1})).1["data"]["result"], 3);
    for wrong in [json!({}), json!({"a": 1, "c": 3})] {
        assert_eq!(yard.call("two", &wrong).0.code, 3, "{wrong}");
    }
}

#[test]
fn an_undefined_value_in_a_template_is_an_error() {
    let yard = Yard::new();
    yard.file("tools/t.tool.yaml", "id: t\nkind: cli\nentry: [echo, '\"{{ input.missing }}\"']\n");
    let (ran, envelope) = yard.call("t", &json!({}));
    assert_eq!(ran.code, 3);
    assert!(message(&envelope).contains("do not have"), "{envelope}");
}

#[test]
fn http_status_and_content_type_are_respected() {
    for (answer, code, what) in [
        (response("500 Internal Server Error", "application/json", r#"{"error": "broken"}"#), 1, "500"),
        (response("404 Not Found", "text/plain", "no such thing"), 1, "no such thing"),
        (response("429 Too Many Requests", "text/plain", "slow down"), 8, "429"),
        (response("503 Service Unavailable", "text/plain", ""), 9, "503"),
        (response("200 OK", "application/octet-stream", "\u{1}\u{2}"), 1, "neither JSON nor text"),
        (response("200 OK", "application/json", "{not json"), 1, "not JSON"),
        (
            response("200 OK", "application/json", r#"{"error": {"code": "EINVAL", "message": "no"}}"#),
            3,
            "no",
        ),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://localhost:1/\r\ncontent-length: 0\r\n\r\n".to_owned(),
            1,
            "redirect",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n".to_owned() + &"1".repeat(300_000),
            6,
            "more than",
        ),
        ("garbage".to_owned(), 9, "the request to 127.0.0.1 failed"),
    ] {
        let upstream = Upstream::answering(answer);
        let yard = Yard::new();
        yard.file(
            "tools/h.tool.yaml",
            format!("id: h\nkind: http\nallowPrivate: true\nentry: http://127.0.0.1:{}/\n", upstream.port),
        );
        let (ran, envelope) = yard.call("h", &json!({}));
        assert_eq!(ran.code, code, "{envelope}");
        assert!(message(&envelope).contains(what), "{envelope}");
    }
    let upstream = Upstream::json(r#"{"data": {"n": 12345678901234567890123}}"#);
    let yard = Yard::new();
    yard.file(
        "tools/h.tool.yaml",
        format!("id: h\nkind: http\nallowPrivate: true\nentry: http://127.0.0.1:{}/\n", upstream.port),
    );
    let ran = yard.run(&["call", "h", "a=1", "--json"]);
    assert!(ran.stdout.contains(r#""data":{"n": 12345678901234567890123}"#), "{ran:?}");
    assert!(upstream.seen()[0].ends_with(r#"{"input":{"a":1}}"#), "{:?}", upstream.seen());
}

#[test]
fn private_addresses_are_reached_only_when_the_file_says_so() {
    let upstream = Upstream::json("{}");
    let yard = Yard::new();
    let tool = |name: &str, host: &str| {
        yard.file(
            &format!("tools/{name}.tool.yaml"),
            format!("id: {name}\nkind: http\nentry: http://{host}:{}/\n", upstream.port),
        );
    };
    tool("number", "127.0.0.1");
    tool("mapped", "[::ffff:7f00:1]");
    tool("named", "localhost");
    let checked = yard.run(&["check"]).expect(3).stdout;
    assert!(
        checked.contains("127.0.0.1 is a private address") && checked.contains("::ffff:127.0.0.1"),
        "{checked}"
    );
    let (ran, envelope) = yard.call("named", &json!({}));
    assert_eq!(ran.code, 7, "{envelope}");
    assert!(upstream.seen().is_empty(), "{:?}", upstream.seen());
}
