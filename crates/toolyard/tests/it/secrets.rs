//! Secrets: which tools get them, how they are declared and stored. Leaks are tested in `planted`.

use crate::planted::{assert_hidden, leaking_yard, set};
use crate::support::{Kind, RunAs, TIMEOUT, Upstream, Yard, planted, response, run_for};
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

#[test]
fn only_the_tool_that_declares_a_secret_gets_it() {
    let yard = leaking_yard(Yard::new());
    for kind in [Kind::Cli, Kind::Process] {
        let argv = ["/bin/sh", "-c", "printf '{\"length\":%s}' $(printf %s \"$TOKEN\" | wc -c)"];
        let name = format!("size_{kind:?}").to_lowercase();
        yard.tool(kind, &name, &argv, json!({"secrets": {"TOKEN": "secret:my_key"}}));
    }
    let value = planted::secret();
    set(&yard, "my_key", &value).expect(0);
    assert_eq!(yard.call("leak", &json!({"how": "length"})).1["data"]["result"], value.chars().count());
    assert_eq!(yard.call("other", &json!({"how": "unset"})).1["data"]["result"], true);
    for name in ["size_cli", "size_process"] {
        assert!(yard.call(name, &json!({})).1["data"]["length"].as_u64().unwrap() >= 30, "{name}");
    }
    // A variable of the server takes precedence and reaches no other tool.
    let with_variable = |tool: &str, how: &str| {
        let mut command = yard.command();
        command.args(["call", tool, &format!("how={how}"), "--json"]);
        run_for(command_with(command, "TOOLYARD_SECRET_MY_KEY", "another value"), TIMEOUT).expect(0).json()
    };
    assert_eq!(with_variable("leak", "length")["data"]["result"], 13);
    assert_eq!(with_variable("other", "unset")["data"]["result"], true);
}

fn command_with(mut command: Command, name: &str, value: &str) -> Command {
    command.env(name, value);
    command
}

#[test]
fn headers_may_use_secrets_and_urls_and_bodies_may_not() {
    let yard = Yard::new();
    let upstream = Upstream::json(&json!({"you_sent": format!("Bearer {}", planted::secret())}).to_string());
    let file = |entry: &str, rest: &str| {
        format!(
            "id: web\nkind: http\nentry: http://127.0.0.1:{}/{entry}\nallowPrivate: true\nsecrets: {{KEY: \"secret:web.key\"}}\n{rest}",
            upstream.port
        )
    };
    let good = "headers: {Authorization: \"Bearer {{ secrets.KEY }}\"}\n";
    yard.file("tools/web.tool.yaml", file("x", good));
    // Header values are Latin-1 or ASCII to most servers.
    let value = planted::plain_part();
    set(&yard, "web.key", &value).expect(0);
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
        ("secrets: {\"A B\": \"secret:x\"}", "not an allowed variable name"),
        ("secrets: {TOOLYARD_CONTEXT: \"secret:x\"}", "not an allowed variable name"),
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
    let yard = leaking_yard(Yard::new());
    let checked = yard.run(&["check"]).expect(0).stdout;
    assert!(checked.contains("warning") && checked.contains("the secret 'my_key' is not set"), "{checked}");
    let ran = yard.run(&["call", "leak", "how=raw"]).expect(4);
    assert!(ran.stderr.contains("the secret 'my_key' is not set"), "{ran:?}");
    assert!(ran.stderr.contains("toolyard secret set my_key"), "{ran:?}");
}

#[test]
fn secrets_are_stored_privately_listed_by_name_and_removed() {
    for run_as in RunAs::all() {
        let yard = leaking_yard(Yard::of_without_secret(run_as));
        let value = planted::secret();
        let stored = set(&yard, "my_key", &value).expect(0);
        assert_hidden("secret set", (stored.stdout + &stored.stderr).as_bytes());
        let (folder, file) = (yard.path(".toolyard/secrets"), yard.path(".toolyard/secrets/my_key"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), value, "without the newline of the shell");
        let mut command = yard.command();
        command.args(["secret", "list", "--json"]).env("TOOLYARD_SECRET_OTHER_KEY", "other value");
        let listed = run_for(command, TIMEOUT).expect(0);
        let expected = json!([
            {"name": "my_key", "source": "store", "problem": null},
            {"name": "other_key", "source": "environment", "problem": null},
        ]);
        assert_eq!(listed.json(), expected);
        for bad in ["short", ""] {
            let refused = set(&yard, "tiny", bad).expect(3);
            assert!(refused.stderr.contains("fewer than 6"), "{refused:?}");
        }
        let refused = yard.run(&["secret", "set", "sk-live/0123456789"]).expect(2);
        assert!(!refused.stderr.contains("0123456789"), "{refused:?}");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        let refused = yard.run(&["call", "leak", "how=raw"]).expect(9);
        assert!(refused.stderr.contains("mode 644") && refused.stderr.contains("my_key"), "{refused:?}");
        assert_hidden("the refusal", refused.stderr.as_bytes());
        yard.run(&["secret", "rm", "my_key"]).expect(0);
        yard.run(&["secret", "rm", "my_key"]).expect(4);
        assert!(!file.exists());
    }
}

/// Every encoding in which programs print a value without meaning to disclose it.
#[test]
fn a_secret_is_redacted_in_every_common_encoding() {
    let code = "import base64, html, json, os, urllib.parse\n\
        def run():\n    \
        v = os.environ['KEY']; b = v.encode(); utf16 = v.encode('utf-16-le')\n    \
        forms = [v, v.upper(), v.lower(), json.dumps(v), html.escape(v), ''.join(f'&#{ord(c)};' for c in v)]\n    \
        forms += [urllib.parse.quote(v, safe=''), urllib.parse.quote_plus(v), b.hex(), b.hex().upper()]\n    \
        forms += [f(b).decode() for f in (base64.b64encode, base64.urlsafe_b64encode, base64.b32encode)]\n    \
        forms += [utf16.hex(), base64.b64encode(utf16).decode(), base64.b32encode(utf16).decode()]\n    \
        return {'forms': forms, 'length': len(v), 'not_secret': v[:5]}\n";
    for run_as in RunAs::all() {
        let yard = Yard::of_without_secret(run_as);
        yard.file("tools/encode.py", code).file(
            "tools/encode.tool.yaml",
            "id: encode\nkind: python\nentry: tools.encode:run\nsecrets: {KEY: \"secret:my_key\"}\n",
        );
        let value = "Correct-horse<battery>&staple";
        set(&yard, "my_key", value).expect(0);
        let data = yard.call("encode", &json!({})).1["data"].clone();
        // Controls: the tool has the value, and what is no secret stays.
        assert_eq!(
            (&data["length"], &data["not_secret"]),
            (&json!(value.len()), &json!("Corre")),
            "{run_as:?}"
        );
        for form in data["forms"].as_array().unwrap() {
            let form = form.as_str().unwrap();
            assert!(form.contains("[secret my_key]") && form.len() < 30, "{run_as:?}: {data}");
        }
        assert_eq!(data["forms"].as_array().unwrap().len(), 16);
    }
}
