//! Values that a caller sends stay data: as an argument, in a URL, in a header, in a cache key.

use crate::support::{Upstream, Yard};
use serde_json::{Value, json};

const HOSTILE: &[&str] = &[
    "a; touch pwned",
    "$(id)",
    "`id`",
    "../../x",
    "@evil.example",
    "\r\nX: y",
    "{{ 7*7 }}",
    "{% raw %}",
    "-rf",
    "--",
    "a b\tc",
    "'\"\\",
    "*",
    "ünï\u{202e}",
    "",
];

/// Prints its arguments as a JSON list.
const ARGV: &str = r#"import json, sys; print(json.dumps({"data": sys.argv[1:]}))"#;

#[test]
fn each_argv_element_stays_one_argument() {
    let yard = Yard::new();
    yard.file("tools/argv.py", ARGV).file(
        "tools/argv.tool.yaml",
        "id: argv\nkind: python\nentry: [python3, tools/argv.py, before, '{{ input.v }}', 'x-{{ input.v }}', after]\n",
    );
    for value in HOSTILE {
        let (ran, envelope) = yard.call("argv", &json!({"v": value}));
        assert_eq!(ran.code, 0, "{value:?}: {ran:?}");
        let expected = json!({"result": ["before", value, format!("x-{value}"), "after"]});
        assert_eq!(envelope["data"], expected, "{value:?}");
    }
    assert!(!yard.path("pwned").exists());
    let (ran, envelope) = yard.call("argv", &json!({"v": "a\0b"}));
    assert_eq!(ran.code, 3, "a NUL cannot be an argument: {ran:?}");
    assert!(envelope["error"]["error_message"].as_str().unwrap().contains("NUL"), "{envelope}");
}

#[test]
fn a_value_in_a_url_changes_neither_scheme_nor_host_nor_path() {
    let upstream = Upstream::json("{\"ok\":true}");
    let yard = Yard::new();
    yard.file(
        "tools/get.tool.yaml",
        format!(
            "id: get\nkind: http\nmethod: GET\nallowPrivate: true\nentry: 'http://127.0.0.1:{}/a/{{{{ input.v }}}}/b?q={{{{ input.v }}}}'\n",
            upstream.port
        ),
    );
    for value in HOSTILE.iter().filter(|value| !value.is_empty()) {
        let (ran, _) = yard.call("get", &json!({"v": value}));
        assert_eq!(ran.code, 0, "{value:?}: {ran:?}");
    }
    for value in ["..", "."] {
        let (ran, envelope) = yard.call("get", &json!({"v": value}));
        assert_eq!(ran.code, 3, "{value:?} climbs in the path: {envelope}");
    }
    let seen = upstream.seen();
    assert_eq!(seen.len(), HOSTILE.len() - 1);
    for request in seen {
        let line = request.lines().next().unwrap();
        let path = line.strip_prefix("GET /a/").and_then(|rest| rest.strip_suffix(" HTTP/1.1")).expect(line);
        let (segment, query) = path.split_once("/b?q=").expect(line);
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b));
        assert!(plain(segment) && plain(query), "{line}");
        assert!(!request.to_ascii_lowercase().contains("\r\nx:"), "{request}");
    }
}

#[test]
fn a_value_in_a_header_cannot_start_another_one() {
    let upstream = Upstream::json("{}");
    let yard = Yard::new();
    yard.file(
        "tools/head.tool.yaml",
        format!("id: head\nkind: http\nallowPrivate: true\nentry: http://127.0.0.1:{}/\nheaders:\n  X-Token: '{{{{ input.v }}}}'\n", upstream.port),
    );
    for value in ["a; touch pwned", "$(id)", "@evil.example", "{{ 7*7 }}"] {
        let (ran, _) = yard.call("head", &json!({"v": value}));
        assert_eq!(ran.code, 0, "{value:?}: {ran:?}");
    }
    for value in ["\r\nX: y", "a\nb", "a\rb", "a\0b"] {
        let (ran, envelope) = yard.call("head", &json!({"v": value}));
        assert_eq!(ran.code, 3, "{value:?}: {envelope}");
        assert!(
            envelope["error"]["error_message"].as_str().unwrap().contains("control character"),
            "{envelope}"
        );
    }
    let seen = upstream.seen();
    assert_eq!(seen.len(), 4, "refused values are never sent");
    assert!(seen[3].contains("x-token: {{ 7*7 }}\r\n"), "{}", seen[3]);
}

#[test]
fn a_value_in_a_cache_key_is_text_and_keeps_calls_apart() {
    let yard = Yard::new();
    yard.file("tools/argv.py", ARGV).file(
        "tools/keyed.tool.yaml",
        "id: keyed\nkind: python\nentry: [python3, tools/argv.py, '{{ input.v }}']\ndeterministic: true\ntemplating: {cacheKey: 'k{{ input.v }}'}\n",
    );
    let mut answers: Vec<Value> = Vec::new();
    for value in HOSTILE {
        let (_, envelope) = yard.call("keyed", &json!({"v": value}));
        assert_eq!(envelope["data"]["result"], json!([value]));
        answers.push(envelope["data"].clone());
    }
    // Once more, now from the cache.
    for (value, answer) in HOSTILE.iter().zip(answers) {
        let (_, envelope) = yard.call("keyed", &json!({"v": value}));
        assert_eq!(envelope["data"], answer, "{value:?}");
    }
}

#[test]
fn a_body_template_quotes_what_it_is_given() {
    let upstream = Upstream::json("{}");
    let yard = Yard::new();
    yard.file(
        "tools/post.tool.yaml",
        format!("id: post\nkind: http\nallowPrivate: true\nentry: http://127.0.0.1:{}/\nbody: '{{\"q\": {{{{ input.v }}}}, \"n\": {{{{ input.n }}}}}}'\n", upstream.port),
    );
    let value = "\", \"admin\": true, \"x\": \"";
    let (ran, _) = yard.call("post", &json!({"v": value, "n": [1, {"a": null}]}));
    assert_eq!(ran.code, 0, "{ran:?}");
    let request = upstream.seen().remove(0);
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body, json!({"q": value, "n": [1, {"a": null}]}));
}

#[test]
fn templates_never_reach_program_text_or_choose_the_program() {
    let yard = Yard::new();
    for (name, entry) in [
        ("a", "[sh, -c, 'echo {{ input.v }}']"),
        ("b", "[env, bash, -c, 'echo {{ input.v }}']"),
        ("c", "[python3, -c, 'print({{ input.v }})']"),
        ("d", "['{{ input.v }}', x]"),
    ] {
        yard.file(&format!("tools/{name}.tool.yaml"), format!("id: {name}\nkind: cli\nentry: {entry}\n"));
    }
    yard.file("tools/ok.tool.yaml", "id: ok\nkind: cli\nentry: [sh, -c, 'printf \"{\\\"data\\\": %s}\" \"$1\"', sh, '{{ input.v | tojson }}']\n");
    let checked = yard.run(&["check"]).expect(3).stdout;
    for (name, what) in [
        ("a", "code of their own"),
        ("b", "code of their own"),
        ("c", "code of their own"),
        ("d", "choose what runs"),
    ] {
        let line =
            checked.lines().find(|line| line.contains(&format!("tools/{name}.tool.yaml"))).expect(&checked);
        assert!(line.contains(what), "{line}");
    }
    let (_, envelope) = yard.call("ok", &json!({"v": "$(touch pwned)"}));
    assert_eq!(envelope["data"]["result"], json!("$(touch pwned)"));
    assert!(!yard.path("pwned").exists());
}
