//! What a tool or a stranger's yard tries against other tools of the yard, its owner and its callers. Each attempt
//! has a control that shows the same thing working where it is allowed.

use crate::support::{Kind, RunAs, Yard, run_for};
use serde_json::{Value, json};
use std::fs;
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
    let text = serde_json::to_string(&format!("{body}import own\n{print}")).unwrap();
    tool(yard, "text", &format!("[python3, -Bc, {text}, '3']"), "sandbox: none");
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
        let plain = std::process::Command::new("python3")
            .args(["-c", "import html"])
            .current_dir(yard.root())
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&plain.stderr).contains("planted"), "{plain:?}");
        let after: Vec<Value> = tools.iter().map(|name| seen(name)).collect();
        assert_eq!(after, before, "{run_as:?}");
    }
}

#[test]
fn a_script_of_python_runs_as_the_main_module() {
    let yard = Yard::new();
    let body = "import sys, json, inspect\nclass A: pass\nimport __main__\nprint(json.dumps({'result': [__name__, __file__, sys.argv, __main__.A is A, A.__module__, sorted(n for n in dir() if not n.startswith('__'))]}))\n";
    yard.file("lib/a.py", body);
    yard.tool(Kind::Cli, "plain", &["python3", "lib/a.py", "x"], json!({"sandbox": "none"}));
    let file = yard.path("lib/a.py");
    let expected =
        json!(["__main__", file, ["lib/a.py", "x"], true, "__main__", ["A", "inspect", "json", "sys"]]);
    assert_eq!(result(&yard, "plain", json!({})), expected);
    // As Python itself runs it.
    let mut plain = std::process::Command::new("python3");
    let plain = plain.args(["lib/a.py", "x"]).current_dir(yard.root()).output().unwrap().stdout;
    assert_eq!(serde_json::from_slice::<Value>(&plain).unwrap()["result"], expected);
}

#[test]
fn what_interpreters_read_as_code_is_not_writable() {
    for (folder, reason) in [
        (
            "lib/__pycache__",
            "'lib/__pycache__' lies in a folder named __pycache__, which interpreters read as code",
        ),
        ("web/node_modules/x", "lies in a folder named node_modules, which interpreters read as code"),
        ("lib/mod", "lib/mod, which Python would import in place of"),
        ("lib", "lib/mod.py, which is the code of a tool"),
        ("data", ""),
    ] {
        let yard = Yard::new();
        yard.file(&format!("{folder}/readme"), "").file("lib/mod.py", "def run():\n    return 1\n");
        yard.file("tools/probe.py", PROBE);
        tool(&yard, "victim", "lib.mod:run", "sandbox: none");
        tool(&yard, "writer", "tools.probe:run", &format!("sandbox: {{fs: {{write: [{folder}]}}}}"));
        let checked = yard.run(&["check"]);
        let loaded = if reason.is_empty() { 2 } else { 1 };
        assert!(checked.stdout.contains(reason), "{folder}: {checked:?}");
        assert!(checked.stdout.contains(&format!("{loaded} tool(s) loaded")), "{folder}: {checked:?}");
        assert_eq!(result(&yard, "victim", json!({})), 1, "{folder}");
    }
}
