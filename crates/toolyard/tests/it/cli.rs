//! The command line: what each command prints, as text and as JSON, and its exit code.

use crate::support::{Kind, Running, TIMEOUT, Yard};
use serde_json::{Value, json};
use toolyard_protocol::ErrorKind;

#[track_caller]
/// Sorted, because the JSON reader sorts them.
fn members(value: &Value) -> Vec<&str> {
    value.as_object().unwrap_or_else(|| panic!("no object: {value}")).keys().map(String::as_str).collect()
}

#[test]
fn init_creates_a_yard_that_works() {
    let yard = Yard::new();
    let created = yard.run(&["init", "fresh"]).expect(0);
    assert!(created.stdout.contains("toolyard call disk_free --yard fresh"), "{created:?}");
    let checked = yard.run(&["check", "--yard", "fresh"]).expect(0);
    assert_eq!(checked.stdout, "1 tool(s) loaded, 0 error(s), 0 warning(s)\n");
    let called = yard.run(&["call", "disk_free", "--yard", "fresh", "--json"]).expect(0).json();
    assert!(called["data"]["size"].as_u64().unwrap() > 0, "{called}");
    yard.run(&["doctor", "--yard", "fresh"]).expect(0);
    // Again: nothing is overwritten.
    yard.file("fresh/toolyard.toml", "# mine\n");
    let again = yard.run(&["init", "fresh"]).expect(0);
    assert!(
        again.stderr.contains("skipped toolyard.toml") && again.stdout.starts_with("0 file(s) created"),
        "{again:?}"
    );
    assert_eq!(std::fs::read_to_string(yard.path("fresh/toolyard.toml")).unwrap(), "# mine\n");
}

#[test]
fn list_show_check_and_doctor_print_json_with_the_documented_members() {
    let yard = Yard::new();
    yard.file(
        "tools/a.tool.yaml",
        "id: one\nkind: cli\nentry: [echo, '1']\nversion: \"1.0.0\"\nannotations: {readOnlyHint: true}\n",
    );
    yard.tool(Kind::Process, "off", &["echo"], json!({"enabled": false}));
    yard.file("tools/broken.tool.yaml", "id: broken\n");
    let list = yard.run(&["list", "--json"]).expect(0).json();
    let rows = list.as_array().unwrap();
    assert_eq!(rows.len(), 3, "{list}");
    for row in rows {
        for name in ["name", "exposed", "kind", "source", "version", "timing", "enabled", "problems"] {
            assert!(row.get(name).is_some(), "{name} is missing in {row}");
        }
    }
    let one = rows.iter().find(|row| row["exposed"] == "one").unwrap();
    assert_eq!(
        (&one["name"], &one["kind"], &one["version"]),
        (&json!("tools.one"), &json!("cli"), &json!("1.0.0"))
    );
    assert_eq!(
        (&one["timing"], &one["enabled"], &one["source"]),
        (&json!("sync"), &json!(true), &json!("tools/a.tool.yaml"))
    );
    let off = rows.iter().find(|row| row["exposed"] == "off").unwrap();
    assert_eq!(off["enabled"], false);

    let shown = yard.run(&["show", "one", "--json"]).expect(0).json();
    for name in
        ["name", "title", "description", "annotations", "limits", "digest", "inputSchema", "outputSchema"]
    {
        assert!(shown.get(name).is_some(), "{name} is missing in {shown}");
    }
    assert_eq!(shown["annotations"], json!({"readOnlyHint": true}));
    assert_eq!(members(&shown["limits"]), ["input", "output", "timeoutMs"]);

    let checked = yard.run(&["check", "--json"]).expect(3).json();
    for problem in checked.as_array().unwrap() {
        assert_eq!(members(problem), ["column", "file", "hint", "line", "message", "severity"]);
    }
    let doctor = yard.run(&["doctor", "--json"]).expect(9).json();
    let rows = doctor.as_array().unwrap();
    rows.iter().for_each(|row| assert_eq!(members(row), ["detail", "name", "ok", "state"]));
    let of = |name: &str| {
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {doctor}"))
    };
    assert_eq!((&of("process trees")["ok"], &of("tools")["ok"]), (&json!(true), &json!(false)));
}

#[test]
fn a_disabled_tool_is_listed_but_cannot_be_called() {
    let yard = Yard::new();
    yard.tool(Kind::Cli, "off", &["echo", "1"], json!({"enabled": false}));
    yard.run(&["call", "off"]).expect(4);
    assert!(yard.run(&["list"]).expect(0).stdout.contains("(disabled)"));
}

#[test]
fn list_prints_a_table_and_show_a_page() {
    let yard = Yard::new();
    yard.file(
        "tools/a.tool.yaml",
        "id: one\nkind: cli\nentry: [echo, '1']\ntitle: The One\ndescription: First line.\n",
    );
    let list = yard.run(&["list"]).expect(0).stdout;
    assert_eq!(list, "NAME  KIND  VERSION  DESCRIPTION\none   cli   -        First line.\n");
    let page = yard.run(&["show", "tools.one"]).expect(0).stdout;
    for line in ["The One  (one)", "First line.", "canonical name  tools.one", "timeout         30000 ms"] {
        assert!(page.contains(line), "{page}");
    }
    let unknown = yard.run(&["show", "oen"]).expect(4);
    assert!(unknown.stderr.contains("hint: did you mean 'one'?"), "{unknown:?}");
}

#[test]
fn json_output_is_the_result_envelope_on_success_and_on_failure() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "object", "echo '{\"data\":{\"n\":1}}'").shell(Kind::Cli, "number", "echo 5");
    yard.shell(Kind::Cli, "nothing", "echo '{\"data\":null}'").shell(
        Kind::Cli,
        "fails",
        "echo no >&2; exit 1",
    );
    for (tool, data) in
        [("object", json!({"n": 1})), ("number", json!({"result": 5})), ("nothing", Value::Null)]
    {
        let (ran, envelope) = yard.call(tool, &json!({}));
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
        assert_eq!(members(&envelope), ["data", "error", "explanation", "status"]);
        assert_eq!((&envelope["status"], &envelope["data"]), (&json!("success"), &data));
        assert_eq!((&envelope["error"], &envelope["explanation"]), (&Value::Null, &Value::Null));
    }
    let (ran, envelope) = yard.call("fails", &json!({}));
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    assert_eq!(
        members(&envelope["error"]),
        ["correlation_id", "error_details", "error_message", "error_type"]
    );
    assert_eq!(
        (&envelope["status"], &envelope["error"]["error_type"]),
        (&json!("failure"), &json!("ToolExecutionError"))
    );
    // Failures before a call, too.
    let envelope = yard.run(&["show", "nowhere", "--json"]).expect(4).json();
    assert_eq!(
        (&envelope["status"], &envelope["error"]["error_type"]),
        (&json!("failure"), &json!("ResourceNotFound"))
    );
}

#[test]
fn results_are_printed_readably() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "text", "printf %s '{\"data\":\"two\\nlines \\u001b[31m\"}'");
    yard.shell(Kind::Cli, "object", "echo '{\"a\":[1,2]}'");
    yard.shell(Kind::Process, "content", r#"echo '{"content":[{"type":"text","text":"hello"}]}'"#);
    assert_eq!(yard.run(&["call", "text"]).expect(0).stdout, "two\nlines \\u{1b}[31m\n");
    let shown = yard.run(&["call", "object"]).expect(0);
    assert_eq!(shown.json(), json!({"a": [1, 2]}));
    assert!(shown.stdout.lines().count() > 1, "indented: {shown:?}");
    assert_eq!(yard.run(&["call", "content"]).expect(0).stdout, "hello\n");
}

#[test]
fn exit_codes_follow_the_error_table() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "slow", "sleep 60").shell(Kind::Cli, "fails", "exit 9").shell(
        Kind::Cli,
        "chatty",
        "yes",
    );
    yard.tool(Kind::Cli, "absent", &["./nothing"], json!({})).shell(Kind::Cli, "silent", ":");
    for (arguments, kind) in [
        (vec!["call", "slow", "--timeout", "100ms"], ErrorKind::Timeout),
        (vec!["call", "fails"], ErrorKind::ToolFailed),
        (vec!["call", "silent"], ErrorKind::InvalidOutput),
        (vec!["call", "chatty"], ErrorKind::OutputTooLarge),
        (vec!["call", "absent"], ErrorKind::FileNotFound),
        (vec!["call", "nowhere"], ErrorKind::UnknownTool),
        (vec!["call", "fails", "nonsense"], ErrorKind::InvalidInput),
    ] {
        let ran = yard.run(&arguments);
        assert_eq!(ran.code, i32::from(kind.row().exit), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.starts_with(&format!("error[{}]: ", kind.row().code)), "{arguments:?}: {ran:?}");
    }
    yard.run(&["--version"]).expect(0);
    yard.run(&["--help"]).expect(0);
}

#[test]
fn all_processes_of_a_yard_share_a_rate_limit() {
    let yard = Yard::new();
    let limit = "rateLimit: {calls: 1, perMs: 3600000}";
    yard.file("tools/once.tool.yaml", format!("id: once\nkind: cli\nentry: [echo, '1']\n{limit}\n"));
    yard.run(&["call", "once"]).expect(0);
    let refused = yard.run(&["call", "once"]).expect(8);
    assert!(
        refused.stderr.contains("the tool's rate limit of 1 calls per 3600000 ms is exceeded"),
        "{}",
        refused.stderr
    );
    let server = yard.serve();
    let answer = server.post("once", "{}");
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn completions_are_there_for_each_shell_and_know_the_commands() {
    let yard = Yard::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = yard.run(&["completions", shell]).expect(0).stdout;
        for command in ["init", "list", "call", "serve", "audit", "doctor"] {
            assert!(script.contains(command), "{shell} does not complete '{command}'");
        }
    }
    yard.run(&["completions", "tcl"]).expect(2);
}

#[test]
fn a_closed_stdout_ends_the_program_without_an_error() {
    let yard = Yard::without_secret();
    yard.shell(Kind::Cli, "much", "head -c 200000 /dev/zero | tr '\\0' 1");
    let program = yard.command();
    let mut command = std::process::Command::new("/bin/sh");
    let line = format!("{} call much | head -c 1", program.get_program().to_string_lossy());
    command.args(["-c", &line]).current_dir(yard.root()).env_clear().env("PATH", "/usr/bin:/bin");
    let ran = Running::start(command).finish(TIMEOUT).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("1", ""));
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let yard = Yard::without_secret();
    yard.shell(Kind::Cli, "one", "echo 1");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    yard.run(&["call", "one"]).expect(0);
    for words in [
        &["call", "one"][..],
        &["list"],
        &["call", "one", "--json"],
        &["show", "one"],
        &["check"],
        &["doctor"],
        &["test"],
        &["job", "list", "--json"],
        &["resource", "list", "--json"],
        &["prompt", "list", "--json"],
        &["secret", "list", "--json"],
        &["audit", "list"],
        &["audit", "verify"],
        &["audit", "export"],
        &["completions", "bash"],
    ] {
        let mut command = yard.command();
        let ran = command.args(words).stdout(full.try_clone().unwrap()).output().unwrap();
        assert_eq!(ran.status.code(), Some(10), "{words:?}: {ran:?}");
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert!(stderr.contains("cannot write to stdout: No space left on device"), "{words:?}: {stderr}");
    }
}
