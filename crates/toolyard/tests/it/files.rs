//! Invalid tool files: each problem has a file, a position and a hint, and affects no other file.

use crate::support::{Kind, TIMEOUT, Yard, eventually};
use serde_json::{Value, json};

/// A file's content and what `check` must say about it.
struct Bad {
    what: &'static str,
    path: &'static str,
    content: &'static str,
    place: (u64, u64),
    message: &'static str,
    hint: &'static str,
}

const fn pack(what: &'static str, content: &'static str, place: (u64, u64), said: [&'static str; 2]) -> Bad {
    Bad { what, path: "tools/bad.tool.yaml", content, place, message: said[0], hint: said[1] }
}

const fn manifest(
    what: &'static str,
    content: &'static str,
    place: (u64, u64),
    said: [&'static str; 2],
) -> Bad {
    Bad { what, path: "tools/bad/tool.json", content, place, message: said[0], hint: said[1] }
}

const BAD: &[Bad] = &[
    pack(
        "YAML syntax",
        "id: bad\nkind: cli\nentry: [sh, -c\n",
        (4, 1),
        ["not valid YAML", "indentation and quotes"],
    ),
    pack("a tab in YAML", "id: bad\nlimits:\n\tinput: 5\n", (3, 2), ["not valid YAML", "indentation"]),
    pack(
        "a field given twice",
        "id: bad\nkind: cli\nid: worse\nentry: [true]\n",
        (3, 1),
        ["'id' is given twice", "remove one"],
    ),
    pack("two documents", "id: bad\n---\nid: worse\n", (2, 1), ["second YAML document", "two files"]),
    pack("no map", "- id: bad\n", (1, 1), ["must be a map", ""]),
    pack(
        "an unknown field",
        "id: bad\nkind: cli\nentry: [sh]\ntimeoutms: 5\n",
        (4, 1),
        ["unknown field 'timeoutms'", "did you mean 'timeoutMs'?"],
    ),
    pack(
        "an unknown nested field",
        "id: bad\nkind: cli\nentry: [sh]\nlimits:\n  ouput: 5\n",
        (5, 3),
        ["unknown field 'limits.ouput'", "did you mean 'limits.output'?"],
    ),
    pack(
        "a wrong type",
        "id: bad\nkind: cli\nentry: [sh]\ntimeoutMs: soon\n",
        (4, 12),
        ["'timeoutMs' must be a whole number", ""],
    ),
    pack(
        "a number out of range",
        "id: bad\nkind: cli\nentry: [sh]\ntimeoutMs: 0\n",
        (4, 12),
        ["'timeoutMs' must be a whole number from 1", ""],
    ),
    pack(
        "a wrong type in a list",
        "id: bad\nkind: cli\nentry: [sh, 5]\n",
        (3, 13),
        ["'entry' must contain only strings, not a number", "quotes"],
    ),
    pack(
        "an id that is no text",
        "id: 5\nkind: cli\nentry: [sh]\n",
        (1, 5),
        ["'id' must be a string, not a number", ""],
    ),
    pack(
        "an id that is no name",
        "id: bad name!\nkind: cli\nentry: [sh]\n",
        (1, 5),
        ["'id' \"bad name!\"", "letters, digits"],
    ),
    pack("no id", "kind: cli\nentry: [sh]\n", (1, 1), ["'id' is missing", "give the tool a name"]),
    pack("no entry", "id: bad\nkind: cli\n", (1, 1), ["'entry' is missing", "name the program"]),
    pack(
        "an empty entry",
        "id: bad\nkind: cli\nentry: []\n",
        (1, 1),
        ["'entry' names no program", "first element"],
    ),
    pack(
        "an unknown kind",
        "id: bad\nkind: clj\nentry: [sh]\n",
        (2, 7),
        ["'kind' is 'clj', which does not exist", "did you mean 'cli'?"],
    ),
    pack(
        "NUL in an argument",
        "id: bad\nkind: cli\nentry: [sh, \"a\\0b\"]\n",
        (3, 13),
        ["NUL character", "remove it"],
    ),
    pack(
        "a value under env",
        "id: bad\nkind: cli\nentry: [sh]\nenv: [\"A=1\"]\n",
        (4, 7),
        ["not a variable name", "names only"],
    ),
    pack(
        "a version that is none",
        "id: bad\nkind: cli\nentry: [sh]\nversion: \"1\"\n",
        (4, 10),
        ["not a semantic version", "1.2.3"],
    ),
    manifest(
        "JSON syntax",
        "{\"id\": \"bad\",\n  \"runtime\": \"process\",\n}\n",
        (3, 1),
        ["not valid JSON", "trailing commas"],
    ),
    manifest(
        "a field given twice",
        "{\"id\": \"bad\",\n \"id\": \"b\"}",
        (2, 2),
        ["duplicate member \"id\"", ""],
    ),
    manifest(
        "an unknown field",
        "{\"id\": \"bad\", \"runtime\": \"process\",\n \"entry\": {\"command\": \"sh\"},\n \"polcy\": {}}",
        (3, 2),
        ["unknown field 'polcy'", "did you mean 'policy'?"],
    ),
    manifest(
        "an unknown nested field",
        "{\"id\": \"bad\", \"runtime\": \"process\",\n \"entry\": {\"command\": \"sh\", \"arg\": []}}",
        (2, 29),
        ["unknown field 'entry.arg'", "did you mean 'entry.args'?"],
    ),
    manifest(
        "a wrong type",
        "{\"id\": \"bad\", \"runtime\": \"process\",\n \"entry\": \"sh\"}",
        (2, 11),
        ["'entry' must be a map", ""],
    ),
    manifest(
        "an unknown runtime",
        "{\"id\": \"bad\", \"runtime\": \"proces\",\n \"entry\": {\"command\": \"sh\"}}",
        (1, 26),
        ["'runtime' is 'proces', which does not exist", "did you mean 'process'?"],
    ),
    manifest(
        "NUL in an argument",
        "{\"id\": \"bad\", \"runtime\": \"process\",\n \"entry\": {\"command\": \"sh\", \"args\": [\"a\\u0000\"]}}",
        (2, 38),
        ["NUL character", "remove it"],
    ),
    manifest(
        "a binary without a path",
        "{\"id\": \"bad\", \"runtime\": \"binary\",\n \"entry\": {\"command\": \"sh\"}}",
        (2, 23),
        ["named by its path", "relative to the yard"],
    ),
];

#[test]
fn every_wrong_file_is_reported_with_its_place_and_a_hint_and_disturbs_no_other() {
    let mut wrong = Vec::new();
    for bad in BAD {
        let yard = Yard::new();
        yard.shell(Kind::Cli, "good", "echo '{\"data\": 1}'").file(bad.path, bad.content);
        let ran = yard.run(&["check", "--json"]);
        assert_eq!(ran.code, 3, "{}: {ran:?}", bad.what);
        let problems = ran.json();
        let [problem] = problems.as_array().unwrap().as_slice() else {
            wrong.push(format!("{}: not one problem: {problems}", bad.what));
            continue;
        };
        let text = |name: &str| problem[name].as_str().unwrap_or_default();
        let place = (problem["line"].as_u64().unwrap_or(0), problem["column"].as_u64().unwrap_or(0));
        let right = text("file") == bad.path
            && text("severity") == "error"
            && place == bad.place
            && text("message").contains(bad.message)
            && text("hint").contains(bad.hint);
        if !right {
            wrong.push(format!("{}: {problem}", bad.what));
        }
        // The text output has the same, in one line that an editor can parse.
        let shown = yard.run(&["check"]).expect(3).stdout;
        let line = format!("error: {}:{}:{}: ", bad.path, place.0, place.1);
        assert!(
            shown.contains(&line) && shown.ends_with("1 tool(s) loaded, 1 error(s), 0 warning(s)\n"),
            "{shown}"
        );
        let (_, envelope) = yard.call("good", &json!({}));
        assert_eq!(envelope["data"], json!({"result": 1}), "{}: the good tool is disturbed", bad.what);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn all_problems_of_a_file_are_reported_at_once() {
    let yard = Yard::new();
    yard.file("tools/bad.tool.yaml", "id: 5\nkind: cli\nentry: 7\ntimeoutMs: x\nextra: 1\n");
    let problems = yard.run(&["check", "--json"]).expect(3).json();
    let lines: Vec<u64> = problems.as_array().unwrap().iter().map(|p| p["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [1, 3, 4, 5], "{problems}");
}

#[test]
fn of_two_tools_with_one_name_the_first_by_path_stays_and_both_files_are_named() {
    for (first, second) in
        [("tools/a.tool.yaml", "tools/b.tool.yaml"), ("tools/a.tool.yaml", "tools/z/tool.json")]
    {
        let yard = Yard::new();
        let content = |path: &str, says: &str| match path.ends_with(".json") {
            true => {
                json!({"id": "tools.twin", "runtime": "process", "entry": {"command": "echo", "args": [says]}})
            }
            false => json!({"id": "tools.twin", "kind": "cli", "entry": ["echo", says]}),
        };
        yard.file(second, content(second, "2").to_string()).file(first, content(first, "1").to_string());
        yard.shell(Kind::Process, "other", "echo 3");
        let problems = yard.run(&["check", "--json"]).expect(3).json();
        let [problem] = problems.as_array().unwrap().as_slice() else { panic!("{problems}") };
        assert_eq!(problem["file"], second);
        let message = problem["message"].as_str().unwrap();
        assert!(
            message.contains(first) && message.contains(second) && message.contains("'tools.twin'"),
            "{message}"
        );
        assert_eq!(yard.call("tools.twin", &json!({})).1["data"]["result"], 1);
        assert_eq!(yard.call("other", &json!({})).1["data"]["result"], 3);
    }
}

#[test]
fn a_server_with_broken_files_says_so_and_serves_the_rest() {
    let yard = Yard::new();
    yard.shell(Kind::Binary, "good", "echo '{\"n\": 1}'").file("tools/bad.tool.yaml", "id: [");
    let server = yard.serve();
    assert_eq!(server.post("good", "{}").json()["body"], json!({"n": 1}));
    assert_eq!(server.post("bad", "{}").status, 404);
    eventually("stderr names the file", TIMEOUT, || {
        server.stderr().contains("ERROR toolyard: tools/bad.tool.yaml:")
    });
    let list = yard.run(&["list", "--json"]).expect(0).json();
    let broken = list.as_array().unwrap().iter().find(|row| row["source"] == "tools/bad.tool.yaml").unwrap();
    assert_eq!((&broken["name"], &broken["enabled"]), (&Value::Null, &json!(false)));
    assert!(broken["problems"][0].as_str().unwrap().contains("not valid YAML"));
}

#[test]
fn files_that_cannot_be_read_or_are_no_text_are_problems_of_their_own() {
    let yard = Yard::new();
    yard.file("tools/latin.tool.yaml", b"id: caf\xe9\nkind: cli\n");
    yard.file("tools/huge.tool.yaml", vec![b'#'; (1 << 20) + 1]);
    yard.file("tools/empty.tool.yaml", "");
    yard.shell(Kind::Cli, "good", "echo 1");
    let problems = yard.run(&["check", "--json"]).expect(3).json();
    let of = |name: &str| {
        let file = format!("tools/{name}.tool.yaml");
        let found = problems.as_array().unwrap().iter().find(|p| p["file"] == file.as_str()).cloned();
        found.unwrap_or_else(|| panic!("{file} is not in {problems}"))
    };
    assert!(of("latin")["message"].as_str().unwrap().contains("not UTF-8"));
    assert_eq!((of("latin")["line"].as_u64(), of("latin")["column"].as_u64()), (Some(1), Some(8)));
    assert!(of("huge")["message"].as_str().unwrap().contains("at most 1048576"));
    assert!(of("empty")["message"].as_str().unwrap().contains("'id' is missing"));
    assert_eq!(yard.call("good", &json!({})).1["data"]["result"], 1);
}

#[test]
fn links_are_not_followed_and_hidden_folders_are_left_out() {
    let yard = Yard::new();
    let other = Yard::new();
    other.shell(Kind::Cli, "outside", "echo 1");
    std::os::unix::fs::symlink(other.path("tools"), yard.path("tools/link")).unwrap();
    std::os::unix::fs::symlink(yard.path("tools"), yard.path("tools/circle")).unwrap();
    yard.file("tools/.git/x.tool.yaml", "broken: [").file("tools/node_modules/x.tool.yaml", "broken: [");
    let rows = yard.run(&["list", "--json"]).expect(0).json();
    assert!(rows.as_array().unwrap().iter().all(|row| row["name"].is_null()), "{rows}");
    let checked = yard.run(&["check"]).expect(0).stdout;
    assert!(checked.contains("0 tool(s) loaded, 0 error(s), 2 warning(s)"), "{checked}");
    for link in ["tools/link", "tools/circle"] {
        let words =
            format!("warning: {link}: is a symbolic link to a folder, which is not searched for tools");
        assert!(checked.contains(&words), "{checked}");
    }
}

#[test]
fn an_empty_folder_is_a_valid_yard_and_a_missing_one_is_not() {
    let yard = Yard::new();
    std::fs::remove_dir(yard.path("tools")).unwrap();
    yard.run(&["check"]).expect(0);
    assert_eq!(yard.run(&["list", "--json"]).expect(0).json(), json!([]));
    let missing = yard.run(&["list", "--yard", "nowhere"]).expect(4);
    assert!(
        missing.stderr.contains("nowhere cannot be opened") && missing.stderr.contains("toolyard init"),
        "{missing:?}"
    );
    yard.file("plain", "");
    assert!(yard.run(&["list", "--yard", "plain"]).expect(3).stderr.contains("is not a folder"));
}
