//! What a tool or a stranger's yard tries against other tools of the yard, its owner and its callers. Each attempt
//! has a control that shows the same thing working where it is allowed.

use crate::support::{Kind, RunAs, Upstream, Yard, run_for};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::Duration;

/// A Python function of the yard that runs the text it is given.
const PROBE: &str = "def run(code=''):\n    names = {}\n    exec(code, names)\n    return names.get('r')\n";

fn tool(yard: &Yard, name: &str, entry: &str, extra: &str) {
    yard.file(
        &format!("tools/{name}.tool.yaml"),
        format!("id: {name}\nkind: python\nentry: {entry}\n{extra}\n"),
    );
}

#[track_caller]
fn result(yard: &Yard, name: &str, arguments: Value) -> Value {
    let (ran, envelope) = yard.call(name, &arguments);
    assert_eq!(ran.code, 0, "{ran:?}");
    envelope["data"].get("result").unwrap_or(&envelope["data"]).clone()
}

/// Every way to start Python that a yard can write down; each prints where `html` was imported from.
fn python_tools(yard: &Yard) -> [&'static str; 6] {
    let body = "import html, json, sys\n";
    let print = "print(json.dumps({'result': [html.__file__, sys.argv[1:], own.NAME]}))\n";
    yard.file("own.py", "NAME = 'own'\n").file("lib/own.py", "NAME = 'own'\n");
    yard.file(
        "lib/function.py",
        format!("{body}import own\ndef run():\n    return [html.__file__, [], own.NAME]\n"),
    );
    yard.file("main.py", format!("{body}import own\n{print}"))
        .file("lib/deep.py", format!("{body}import own\n{print}"));
    tool(yard, "function", "lib.function:run", "sandbox: none");
    tool(yard, "script", "main.py", "sandbox: none");
    tool(yard, "deeper", "[python3, -u, lib/deep.py, '{{ input.x | default(1) }}']", "sandbox: none");
    tool(yard, "module", "[python3, -m, lib.deep, '2']", "sandbox: none");
    // What its text names would not be writable.
    let text = "import runpy; runpy.run_path('main.py', run_name='__main__')";
    tool(yard, "text", &format!("[python3, -Bc, \"{text}\", '3']"), "sandbox: none");
    yard.tool(Kind::Cli, "command", &["python3", "main.py", "4"], json!({"sandbox": "none"}));
    ["function", "script", "deeper", "module", "text", "command"]
}

#[test]
fn a_folder_that_a_tool_may_write_is_not_imported_in_place_of_a_module() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        let tools = python_tools(&yard);
        yard.file("tools/probe.py", PROBE);
        for folder in ["html", "sitecustomize", "usercustomize", "encodings", "lib/html"] {
            yard.file(&format!("{folder}/readme"), "");
        }
        let write = "sandbox: {fs: {write: [html, sitecustomize, usercustomize, encodings, lib/html]}}";
        tool(&yard, "writer", "tools.probe:run", write);
        let seen = |name: &str| result(&yard, name, json!({}));
        let before: Vec<Value> = tools.iter().map(|name| seen(name)).collect();
        let arguments: Vec<&Value> = before.iter().map(|seen| &seen[1]).collect();
        assert_eq!(json!(arguments), json!([[], [], ["1"], ["2"], ["3"], ["4"]]));
        // The yard's own modules are found, in the root and beside a script.
        assert!(before.iter().all(|seen| seen[2] == "own"), "{before:?}");
        let plant = "import os\nfor d in ('html', 'lib/html', 'sitecustomize', 'usercustomize', 'encodings'):\n    open(d + '/__init__.py', 'w').write('raise SystemExit(\"planted\")')\nr = os.path.exists('html/__init__.py')";
        // The control: the folder is writable, and Python as such would import from it.
        assert_eq!(result(&yard, "writer", json!({"code": plant})), true);
        let plain =
            Command::new("python3").args(["-c", "import html"]).current_dir(yard.root()).output().unwrap();
        assert!(String::from_utf8_lossy(&plain.stderr).contains("planted"), "{plain:?}");
        let after: Vec<Value> = tools.iter().map(|name| seen(name)).collect();
        assert_eq!(after, before, "{run_as:?}");
    }
}

#[test]
fn a_script_of_python_runs_as_the_main_module() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        let body = "import sys, json, inspect\nclass A: pass\nimport __main__\nprint(json.dumps({'result': [__name__, __file__, sys.argv, __main__.A is A, A.__module__, sorted(n for n in dir() if not n.startswith('__'))]}))\n";
        yard.file("lib/a.py", body);
        yard.tool(Kind::Cli, "plain", &["python3", "lib/a.py", "x"], json!({"sandbox": "none"}));
        let file = yard.path("lib/a.py");
        let expected =
            json!(["__main__", file, ["lib/a.py", "x"], true, "__main__", ["A", "inspect", "json", "sys"]]);
        assert_eq!(result(&yard, "plain", json!({})), expected);
        // As Python itself runs it.
        let mut plain = Command::new("python3");
        let plain = plain.args(["lib/a.py", "x"]).current_dir(yard.root()).output().unwrap().stdout;
        assert_eq!(serde_json::from_slice::<Value>(&plain).unwrap()["result"], expected);
    }
}

#[test]
fn what_interpreters_read_as_code_is_not_writable() {
    for run_as in RunAs::all() {
        let names = "its entry names lib/mod, which tools/writer.tool.yaml lets a tool write";
        for (folder, reason, loaded) in [
            (
                "lib/__pycache__",
                "\"lib/__pycache__\" lies in a folder named __pycache__, which interpreters read as code",
                ["victim"].as_slice(),
            ),
            (
                "web/node_modules/x",
                "lies in a folder named node_modules, which interpreters read as code",
                &["victim"],
            ),
            ("own/mod", "own/mod, which Python would import in place of", &["victim"]),
            // Of these two the one that would run what the other writes is refused.
            ("lib", names, &["writer"]),
            ("data", "", &["victim", "writer"]),
        ] {
            let yard = Yard::of(run_as);
            yard.file(&format!("{folder}/readme"), "").file("lib/mod.py", "def run():\n    return 1\n");
            yard.file("own/mod.py", "").file("tools/probe.py", PROBE);
            tool(&yard, "victim", "lib.mod:run", "sandbox: none");
            tool(&yard, "writer", "tools.probe:run", &format!("sandbox: {{fs: {{write: [{folder}]}}}}"));
            let checked = yard.run(&["check"]);
            assert!(checked.stdout.contains(reason), "{folder}: {checked:?}");
            for name in ["victim", "writer"] {
                let answer = yard.call(name, &json!({})).1;
                let is_loaded = answer["error"]["error_details"]["kind"] != "unknown_tool";
                assert_eq!(is_loaded, loaded.contains(&name), "{folder}, {name}: {answer}");
            }
        }
    }
}

#[test]
fn a_schema_reads_neither_the_state_folder_nor_hidden_files() {
    for run_as in RunAs::all() {
        let yard = Yard::of_without_secret(run_as);
        let private = r#"{"type": "object", "description": "PRIVATE", "n": "PRIVATE-TEXT"}"#;
        yard.file(".toolyard/secrets/aws", private).file(".git/config", private).file("store/key", private);
        yard.file("tools/visible.json", private)
            .file("tools/nested.json", r#"{"allOf": [{"$ref": "../.git/config"}]}"#);
        fs::create_dir(yard.path("store/secrets")).unwrap();
        let hidden = "cannot be used: names that begin with '.' are not allowed";
        let state = "cannot be used: it lies in the state folder";
        for (reference, reason) in [
            ("../.toolyard/secrets/aws", hidden),
            ("../.toolyard/secrets/aws#/n", hidden),
            ("../x/../.git/config", hidden),
            ("./nested.json", hidden),
            ("../store/key", state),
            // The control: a file like any other.
            ("./visible.json", ""),
        ] {
            let tool =
                format!("id: t\nkind: cli\nentry: [echo, '1']\nschema: {{input: {{$ref: '{reference}'}}}}\n");
            yard.file("tools/t.tool.yaml", tool);
            let yard_state = if reason == state { "store" } else { ".toolyard" };
            let mut command = yard.command();
            command.env("TOOLYARD_STATE_DIR", yard_state).arg("check");
            let checked = run_for(command, crate::support::TIMEOUT).stdout;
            assert!(checked.contains(reason), "{reference}: {checked}");
            let loaded = if reason.is_empty() { "1 tool(s) loaded" } else { "0 tool(s) loaded" };
            assert!(checked.contains(loaded) && !checked.contains("PRIVATE"), "{reference}: {checked}");
        }
        // What is wrong in a file is told without what it holds.
        yard.file(
            "tools/t.tool.yaml",
            "id: t\nkind: cli\nentry: [echo, '1']\nschema: {input: {allOf: [{$ref: './visible.json#/n'}]}}\n",
        );
        let checked = yard.run(&["check"]).stdout;
        assert!(checked.contains("not a valid JSON Schema") && !checked.contains("PRIVATE"), "{checked}");
    }
}

#[test]
fn files_of_the_yard_are_stored_for_the_owner_only_and_never_hidden_ones() {
    for run_as in RunAs::all() {
        let yard = Yard::of_without_secret(run_as);
        yard.file("toolyard.toml", "[builtin]\ncas = true\nartifacts = true\n").file("a.txt", "text");
        yard.file(".env", "TOKEN=1").file(".git/config", "x").file("tools/.hidden/x", "x");
        let server = yard.serve();
        let token = yard.run(&["token"]).expect(0).stdout.trim_end().to_owned();
        let bearer = format!("Bearer {token}");
        let send = |tool: &str, path: &str, headers: &[(&str, &str)]| {
            let body = json!({"file_path": path, "mime_type": "text/plain"}).to_string();
            server.client().send("POST", &format!("/mcp/tool/{tool}"), headers, body.as_bytes())
        };
        for tool in ["cas_upload_file", "artifact_upload"] {
            let refused = send(tool, "a.txt", &[]);
            assert_eq!(refused.status, 403, "{tool}");
            let answer = refused.json().to_string();
            assert!(
                answer.contains("reads files of the yard's owner, so its callers need the yard's token"),
                "{answer}"
            );
            let owner = [("authorization", bearer.as_str())];
            assert_eq!(send(tool, "a.txt", &owner).status, 200, "{tool}");
            for path in [".env", ".git/config", "tools/../.env", "tools/.hidden/x"] {
                let refused = send(tool, path, &owner).json().to_string();
                assert!(
                    refused.contains("'file_path' has a name that begins with '.'"),
                    "{tool} {path}: {refused}"
                );
            }
            let refused = send(tool, ".toolyard/token", &owner).json().to_string();
            assert!(refused.contains("is in the yard's state folder"), "{tool}: {refused}");
        }
    }
}

#[test]
fn a_template_never_becomes_program_text() {
    for run_as in RunAs::all() {
        let yard = Yard::of_without_secret(run_as);
        let x = "echo {{ input.x }}";
        for (argv, reason) in [
            (json!(["sh", "-ec", x]), "a template inside the program text after '-ec'"),
            (json!(["bash", "-lc", x]), "after '-lc'"),
            (json!(["sh", "-c", "--", x]), "a template as the script or the program text of 'sh'"),
            (json!(["python3", "-Ic", x]), "after '-Ic'"),
            (json!(["node", "-pe", x]), "after '-pe'"),
            (json!(["node", "--eval={{ input.x }}"]), "a template in the option '--eval' of 'node'"),
            (json!(["perl", "-le", x]), "after '-le'"),
            (json!(["ruby", "-e{{ input.x }}"]), "a template in the option '-e' of 'ruby'"),
            (json!(["awk", x]), "a template as the script or the program text of 'awk'"),
            (json!(["sed", "{{ input.x }}"]), "a template as the script or the program text of 'sed'"),
        ] {
            yard.tool(Kind::Cli, "t", &[], json!({"entry": argv}));
            let checked = yard.run(&["check"]).stdout;
            assert!(checked.contains(reason), "{argv}: {checked}");
            assert!(checked.contains("would let callers run code of their own"), "{argv}: {checked}");
            assert!(checked.contains("0 tool(s) loaded"), "{argv}: {checked}");
        }
        for argv in [
            json!(["sh", "-ec", "printf '\"%s\"' \"$1\"", "sh", "{{ input.x }}"]),
            json!(["python3", "-c", "import json, sys; print(json.dumps(sys.argv[1]))", "{{ input.x }}"]),
            json!(["awk", "-v", "x={{ input.x }}", "BEGIN { printf \"\\\"%s\\\"\", x }"]),
        ] {
            yard.tool(Kind::Cli, "t", &[], json!({"entry": argv}));
            assert_eq!(result(&yard, "t", json!({"x": "$(id)"})), "$(id)", "{argv}");
        }
    }
}

#[test]
fn looking_reads_no_file_without_bound() {
    for run_as in RunAs::all() {
        let yard = Yard::of_without_secret(run_as);
        yard.file("lib/mod.py", "def run():\n    return 1\n").file("tools/p.py", "print(1)\n");
        tool(&yard, "function", "lib.mod:run", "");
        tool(&yard, "script", "tools/p.py", "");
        let look = |command: &str| {
            let mut looking = yard.command();
            looking.arg(command);
            run_for(looking, Duration::from_secs(20))
        };
        assert!(look("check").stdout.contains("2 tool(s) loaded, 0 error(s)"));
        let sparse =
            |path: &str, length: u64| fs::File::create(yard.path(path)).unwrap().set_len(length).unwrap();
        // 64 MiB is the bound, and not beyond it.
        sparse("lib/data.bin", 64 << 20);
        assert!(look("check").stdout.contains("2 tool(s) loaded, 0 error(s)"));
        sparse("lib/data.bin", 200 << 30);
        sparse("tools/p.py", 20 << 30);
        let checked = look("check").stdout;
        for file in ["lib/data.bin", "tools/p.py"] {
            let reason = format!("{file} is too large for a file of a tool: at most 67108864 bytes are read");
            assert!(checked.contains(&reason), "{checked}");
        }
        assert!(checked.contains("0 tool(s) loaded"), "{checked}");
        look("list").expect(0);
        sparse("tools/p.py", 0);
        for i in 0..5 {
            sparse(&format!("lib/data{i}.bin"), 60 << 20);
        }
        sparse("lib/data.bin", 0);
        let checked = look("check").stdout;
        assert!(
            checked.contains("the files of the tool are too large: at most 268435456 bytes are read"),
            "{checked}"
        );
    }
}

#[test]
fn the_proxy_forwards_no_control_character() {
    for run_as in RunAs::all() {
        let upstream = Upstream::json("1");
        let yard = Yard::of_without_secret(run_as);
        let code = "import json, socket, sys\ns = socket.create_connection(('127.0.0.1', 3128))\ns.sendall(json.load(sys.stdin)['request'].encode())\nprint(json.dumps(s.makefile('rb').read().decode()))\n";
        let host = format!("127.0.0.1:{}", upstream.port);
        yard.tool(Kind::Cli, "send", &["python3", "-c", code], json!({"sandbox": {"network": [host]}}));
        let send = |path: &str| {
            result(&yard, "send", json!({"request": format!("GET http://{host}/{path} HTTP/1.1\r\n\r\n")}))
                .to_string()
        };
        assert!(send("plain").contains("200 OK"));
        for path in ["\rX: y", "a\u{b}", "\u{7f}"] {
            let refused = send(&path.replace(' ', ""));
            let reason = "the target of the request has a character that must be percent-encoded";
            assert!(refused.contains(reason), "{path:?}: {refused}");
        }
        let seen = upstream.seen();
        assert!(seen.len() == 1 && seen[0].starts_with("GET /plain HTTP/1.1"), "{seen:?}");
    }
}

#[test]
fn new_files_are_not_written_through_links() {
    for run_as in RunAs::all() {
        let yard = Yard::of_without_secret(run_as);
        let outside = yard.home().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o777)).unwrap();
        let untouched = || assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        yard.run(&["new", "tool", "--kind", "cli", "first"]).expect(0);
        fs::remove_dir_all(yard.path("tools")).unwrap();
        symlink(&outside, yard.path("tools")).unwrap();
        let refused = yard.run(&["new", "tool", "--kind", "cli", "foo"]);
        assert_ne!(refused.code, 0);
        assert!(refused.stderr.contains("is a symbolic link, or lies behind one"), "{refused:?}");
        untouched();
        let refused = yard.run(&["init"]);
        assert_ne!(refused.code, 0);
        assert!(refused.stderr.contains("is a symbolic link, or lies behind one"), "{refused:?}");
        untouched();
        fs::remove_file(yard.path("tools")).unwrap();
        yard.file("tools/.keep", "");
        symlink(outside.join("dangling"), yard.path("tools/foo.tool.yaml")).unwrap();
        let refused = yard.run(&["new", "tool", "--kind", "cli", "foo"]);
        assert!(
            refused.stderr.contains("tools/foo.tool.yaml exists already; nothing was created"),
            "{refused:?}"
        );
        untouched();
        yard.run(&["init"]).expect(0);
        assert!(yard.path("tools/system/disk_free.sh").is_file());
    }
}

#[test]
fn an_export_shows_control_characters_on_a_terminal_and_keeps_them_for_programs() {
    for run_as in RunAs::all() {
        let yard = Yard::of_without_secret(run_as);
        let hostile = "x\u{9b}31m\u{202e}y";
        yard.run(&["call", hostile]);
        let mut terminal = yard.command_of("script");
        terminal.args(["-qec", &format!("{} audit export", yard.program().display()), "/dev/null"]);
        let shown = run_for(terminal, crate::support::TIMEOUT).stdout;
        assert!(shown.contains("x\\u{9b}31m\\u{202e}y"), "{shown:?}");
        assert!(!shown.contains(['\u{9b}', '\u{202e}']), "{shown:?}");
        assert!(yard.run(&["audit", "export"]).expect(0).stdout.contains(hostile));
    }
}

#[test]
fn a_schema_whose_references_multiply_is_refused_when_it_is_loaded() {
    for run_as in RunAs::all() {
        let yard = Yard::of_without_secret(run_as);
        let tool = |length: usize| {
            let next = |i: usize| json!({"allOf": [{"$ref": format!("#/$defs/d{i}")}, {"$ref": format!("#/$defs/d{i}")}]});
            let mut definitions: serde_json::Map<String, Value> =
                (0..length).map(|i| (format!("d{i}"), next(i + 1))).collect();
            definitions.insert(format!("d{length}"), json!({"minProperties": 0}));
            let schema = json!({"$defs": definitions, "$ref": "#/$defs/d0"});
            yard.tool(Kind::Cli, "t", &["echo", "1"], json!({"schema": {"input": schema}}));
        };
        tool(8);
        assert_eq!(result(&yard, "t", json!({})), 1);
        tool(40);
        let checked = yard.run(&["check"]).stdout;
        let reason =
            "its references multiply: more than 10000 sub-schemas would be applied to one place of a value";
        assert!(checked.contains(reason) && checked.contains("0 tool(s) loaded"), "{checked}");
        assert_ne!(yard.run(&["call", "t", "{}"]).code, 0);
    }
}

#[test]
fn a_callers_value_does_not_decide_how_much_memory_a_template_takes() {
    for run_as in RunAs::all() {
        let yard = Yard::of_without_secret(run_as);
        let text = |filter: &str| format!("{{{{ input.x | {filter} | length }}}}");
        let calls: [(&str, Value, &str); 3] = [
            (
                "replace('a', input.y)",
                json!({"x": "a".repeat(20_000), "y": "b".repeat(40_000)}),
                "more than 1048576 bytes",
            ),
            ("indent(input.y)", json!({"x": "a", "y": 2_000_000_000}), "more than 1000 items or columns"),
            ("batch(input.y, 'x')", json!({"x": [1], "y": 2_000_000_000}), "more than 1000 items or columns"),
        ];
        for (filter, hostile, reason) in calls {
            yard.tool(Kind::Cli, "t", &["echo", &text(filter)], json!({}));
            let server = yard.serve();
            let body = hostile.to_string();
            let refused = server.post("t", &body).json().to_string();
            assert!(refused.contains(reason), "{filter}: {refused}");
            assert!(server.peak_memory_kb() < 300_000, "{filter}: {} kB", server.peak_memory_kb());
        }
        yard.tool(Kind::Cli, "t", &["echo", &text("replace('a', input.y)")], json!({}));
        assert_eq!(result(&yard, "t", json!({"x": "aa", "y": "bcd"})), 6);
    }
}
