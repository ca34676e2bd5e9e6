//! Secrets: who gets them, and that a planted one appears nowhere else.

use crate::support::{Kind, PATIENCE, Ran, Upstream, Yard, response, run_for};
use serde_json::json;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// Characters that every encoding changes, so that each test means something.
const VALUE: &str = "pl4nted+S3cret/\"with\" sp@ce~\u{f6}?";

/// The same value as programs that know nothing of us encode it.
fn forms() -> Vec<String> {
    let script = "import base64, json, sys, urllib.parse\n\
        v = sys.argv[1]; b = v.encode()\n\
        out = [v, json.dumps(v)[1:-1], json.dumps(v, ensure_ascii=False)[1:-1], b.hex(), b.hex().upper()]\n\
        out += [urllib.parse.quote(v), urllib.parse.quote(v, safe=''), urllib.parse.quote_plus(v)]\n\
        for before in (b'', b'u', b'u:'):\n    \
            for encode in (base64.b64encode, base64.urlsafe_b64encode):\n        \
                e = encode(before + b).decode(); out += [e[4:-4]]\n\
        print(json.dumps(sorted(set(out))))\n";
    let output = Command::new("python3").args(["-c", script, VALUE]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A command of the program with something on its stdin.
fn run_with_input(mut command: Command, input: &str) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[track_caller]
fn set(yard: &Yard, name: &str, value: &str) -> Ran {
    let mut command = yard.command();
    command.args(["secret", "set", name]);
    run_with_input(command, &format!("{value}\n"))
}

/// Prints the variable in the way its argument asks for.
const LEAK: &str = r#"
import base64, json, os, sys, urllib.parse
def run(how, given=""):
    v = os.environ.get("API_KEY", "unset")
    b = v.encode()
    if how == "unset": return v == "unset"
    if how == "length": return len(v)
    if how == "raw": return {"value": v, v: [v]}
    if how == "base64": return [f(p + b + b"!").decode() for p in (b"", b"u", b"u:") for f in (base64.b64encode, base64.urlsafe_b64encode)]
    if how == "unpadded": return base64.b64encode(b).decode().rstrip("=")
    if how == "url": return ["https://h/?q=" + f(v) for f in (urllib.parse.quote, urllib.parse.quote_plus)]
    if how == "hex": return [b.hex(), b.hex().upper()]
    if how == "json": return json.dumps({"inner": json.dumps(v)})
    if how == "given": return given
    if how == "stderr":
        sys.stderr.write("connecting with " + v + "\n")
        sys.exit(3)
    if how == "long":
        sys.stderr.write(v * 200)
        sys.exit(3)
    if how == "error": raise ValueError("refused: " + urllib.parse.quote(v))
"#;

const HOWS: &[&str] =
    &["raw", "base64", "unpadded", "url", "hex", "json", "given", "stderr", "long", "error"];

fn leaking_yard() -> Yard {
    let yard = Yard::new();
    let tool = |name: &str, extra: &str| {
        yard.file(
            &format!("tools/{name}.tool.yaml"),
            format!("id: {name}\nkind: python\nentry: tools.leak:run\n{extra}"),
        );
    };
    yard.file("tools/leak.py", LEAK);
    tool("leak", "deterministic: true\nsecrets: {API_KEY: \"secret:my_key\"}\n");
    tool("other", "");
    yard
}

#[track_caller]
fn assert_hidden(what: &str, text: &[u8]) {
    for form in forms() {
        let found = text.windows(form.len()).any(|window| window == form.as_bytes());
        assert!(!found, "{what} holds {form}: {}", String::from_utf8_lossy(text));
    }
}

fn assert_hidden_below(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().unwrap() != "secrets" {
            assert_hidden_below(&path);
        } else if path.is_file() {
            assert_hidden(&path.display().to_string(), &std::fs::read(&path).unwrap());
        }
    }
}

#[test]
fn only_the_tool_that_declares_a_secret_gets_it() {
    let yard = leaking_yard();
    for kind in [Kind::Cli, Kind::Process] {
        let argv = ["/bin/sh", "-c", "printf '{\"length\":%s}' $(printf %s \"$TOKEN\" | wc -c)"];
        let name = format!("size_{kind:?}").to_lowercase();
        yard.tool(kind, &name, &argv, json!({"secrets": {"TOKEN": "secret:my_key"}}));
    }
    set(&yard, "my_key", VALUE).expect(0);
    assert_eq!(yard.call("leak", &json!({"how": "length"})).1["data"]["result"], VALUE.chars().count());
    assert_eq!(yard.call("other", &json!({"how": "unset"})).1["data"]["result"], true);
    for name in ["size_cli", "size_process"] {
        assert!(yard.call(name, &json!({})).1["data"]["length"].as_u64().unwrap() >= 30, "{name}");
    }
    // The daemon's environment comes first, and reaches no one else either.
    let with_variable = |tool: &str, how: &str| {
        let mut command = yard.command();
        command.args(["call", tool, &format!("how={how}"), "--json"]);
        run_for(command_with(command, "TOOLYARD_SECRET_MY_KEY", "another value"), PATIENCE).expect(0).json()
    };
    assert_eq!(with_variable("leak", "length")["data"]["result"], 13);
    assert_eq!(with_variable("other", "unset")["data"]["result"], true);
}

fn command_with(mut command: Command, name: &str, value: &str) -> Command {
    command.env(name, value);
    command
}

#[test]
fn a_planted_secret_is_in_no_answer_no_record_and_no_file() {
    let yard = leaking_yard();
    set(&yard, "my_key", VALUE).expect(0);
    let server = yard.serve();
    for how in HOWS {
        for tool in ["leak", "other"] {
            // What a caller sends may hold a secret too.
            let arguments = json!({"how": how, "given": format!("x{VALUE}x")}).to_string();
            let answer = server.post(tool, &arguments);
            assert_hidden(&format!("the answer of {tool} {how}"), &answer.body);
            let ran = yard.run(&["call", tool, &arguments]);
            assert_hidden(&format!("the output of {tool} {how}"), (ran.stdout + &ran.stderr).as_bytes());
            let ran = yard.run(&["call", tool, &arguments, "--json"]);
            assert_hidden(&format!("the envelope of {tool} {how}"), (ran.stdout + &ran.stderr).as_bytes());
        }
    }
    let raw = server.post("leak", r#"{"how":"raw"}"#).json();
    assert_eq!(raw["body"], json!({"value": "[secret my_key]", "[secret my_key]": ["[secret my_key]"]}));
    let failed = server.post("leak", r#"{"how":"stderr"}"#).json();
    assert!(failed.to_string().contains("connecting with [secret my_key]"), "{failed}");
    // Refused calls are recorded as well.
    for (tool, arguments) in [("nothere", json!({"x": VALUE})), (VALUE, json!({}))] {
        let ran = yard.run(&["call", tool, &arguments.to_string()]);
        assert_hidden("a refused call", (ran.stdout + &ran.stderr).as_bytes());
    }
    assert_hidden("the server's stderr", server.stderr().as_bytes());
    assert_eq!(server.stop(), 0);
    assert_hidden("the export", yard.run(&["audit", "export"]).expect(0).stdout.as_bytes());
    assert_hidden("the list", yard.run(&["audit", "list", "--json"]).expect(0).stdout.as_bytes());
    for command in ["check", "list", "doctor"] {
        let ran = yard.run(&[command, "--json"]);
        assert_hidden(command, (ran.stdout + &ran.stderr).as_bytes());
    }
    assert!(yard.path(".toolyard/cache.sqlite").exists());
    assert_hidden_below(&yard.path(".toolyard"));
    yard.run(&["audit", "verify"]).expect(0);
}

#[test]
fn headers_may_use_secrets_and_urls_and_bodies_may_not() {
    let yard = Yard::new();
    let upstream = Upstream::json(&json!({"you_sent": format!("Bearer {VALUE}")}).to_string());
    let file = |entry: &str, rest: &str| {
        format!(
            "id: web\nkind: http\nentry: http://127.0.0.1:{}/{entry}\nallowPrivate: true\nsecrets: {{KEY: \"secret:web.key\"}}\n{rest}",
            upstream.port
        )
    };
    let good = "headers: {Authorization: \"Bearer {{ secrets.KEY }}\"}\n";
    yard.file("tools/web.tool.yaml", file("x", good));
    // Header values are Latin-1 or ASCII to most servers.
    let value = "ascii-only-token-0123456789";
    set(&yard, "web.key", value).expect(0);
    let (_, envelope) = yard.call("web", &json!({}));
    assert!(envelope["data"]["you_sent"].is_string(), "{envelope}");
    assert!(upstream.seen()[0].contains(&format!("authorization: Bearer {value}")), "{:?}", upstream.seen());
    let echo =
        Upstream::answering(response("500 Broken", "text/plain", &format!("{}{value}", "x".repeat(190))));
    yard.file(
        "tools/web.tool.yaml",
        file("x", good).replace(&upstream.port.to_string(), &echo.port.to_string()),
    );
    let (ran, envelope) = yard.call("web", &json!({}));
    assert!(!ran.stdout.contains(&value[..8]), "cut in the middle: {envelope}");
    for (entry, rest, what) in [
        ("{{ secrets.KEY }}", "", "in 'headers' only"),
        ("x", "body: '{\"k\": {{ secrets.KEY }}}'\n", "in 'headers' only"),
        ("x", "headers: {X: \"{{ secrets.OTHER }}\"}\n", "does not declare"),
    ] {
        yard.file("tools/web.tool.yaml", file(entry, rest));
        let checked = yard.run(&["check"]).expect(3).stdout;
        assert!(checked.contains(what), "{checked}");
    }
    yard.file(
        "tools/web.tool.yaml",
        "id: web\nkind: cli\nentry: [echo, '{{ secrets.KEY }}']\nsecrets: {KEY: 'secret:k'}\n",
    );
    let checked = yard.run(&["check"]).expect(3).stdout;
    assert!(checked.contains("can read arguments"), "{checked}");
}

#[test]
fn declarations_are_checked_and_a_value_in_their_place_is_not_repeated() {
    let yard = Yard::new();
    for (line, what) in [
        ("secrets: {KEY: sk-live-0123456789}", "must refer to a secret"),
        ("secrets: {KEY: \"secret:a/b\"}", "must refer to a secret"),
        ("secrets: {KEY: 123456789}", "must refer to a secret"),
        ("secrets: {\"A B\": \"secret:x\"}", "no name for a variable"),
        ("secrets: {TOOLYARD_CONTEXT: \"secret:x\"}", "no name for a variable"),
        ("secrets: [x]", "must be a map"),
        ("env: [KEY]\nsecrets: {KEY: \"secret:x\"}", "both passed on and a secret"),
        ("env: [TOOLYARD_SECRET_X]", "which holds a secret"),
    ] {
        yard.file("tools/t.tool.yaml", format!("id: t\nkind: cli\nentry: [echo, '1']\n{line}\n"));
        let checked = yard.run(&["check"]).expect(3).stdout;
        assert!(checked.contains(what), "{line}: {checked}");
        assert!(!checked.contains("0123456789") && !checked.contains("123456789"), "{checked}");
    }
}

#[test]
fn a_missing_secret_is_a_warning_and_then_a_clear_error() {
    let yard = leaking_yard();
    let checked = yard.run(&["check"]).expect(0).stdout;
    assert!(checked.contains("warning") && checked.contains("the secret 'my_key' is not set"), "{checked}");
    let ran = yard.run(&["call", "leak", "how=raw"]).expect(4);
    assert!(ran.stderr.contains("the secret 'my_key' is not set"), "{ran:?}");
    assert!(ran.stderr.contains("toolyard secret set my_key"), "{ran:?}");
}

#[test]
fn secrets_are_stored_privately_listed_by_name_and_removed() {
    let yard = leaking_yard();
    let stored = set(&yard, "my_key", VALUE).expect(0);
    assert_hidden("secret set", (stored.stdout + &stored.stderr).as_bytes());
    let (folder, file) = (yard.path(".toolyard/secrets"), yard.path(".toolyard/secrets/my_key"));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), VALUE, "without the newline of the shell");
    let mut command = yard.command();
    command.args(["secret", "list", "--json"]).env("TOOLYARD_SECRET_OTHER_KEY", "other value");
    let listed = run_for(command, PATIENCE).expect(0);
    let expected = json!([
        {"name": "my_key", "source": "store", "problem": null},
        {"name": "other_key", "source": "environment", "problem": null},
    ]);
    assert_eq!(listed.json(), expected);
    for bad in ["short", ""] {
        let refused = set(&yard, "tiny", bad).expect(3);
        assert!(refused.stderr.contains("fewer than 6"), "{refused:?}");
    }
    let refused = yard.run(&["secret", "set", "sk-live/0123456789"]).expect(3);
    assert!(!refused.stderr.contains("0123456789"), "{refused:?}");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let refused = yard.run(&["call", "leak", "how=raw"]).expect(9);
    assert!(refused.stderr.contains("mode 644") && refused.stderr.contains("my_key"), "{refused:?}");
    assert_hidden("the refusal", refused.stderr.as_bytes());
    yard.run(&["secret", "rm", "my_key"]).expect(0);
    yard.run(&["secret", "rm", "my_key"]).expect(4);
    assert!(!file.exists());
}
