//! Code in a folder that another tool may write, in every form in which an entry can name it. Each form has two
//! controls: it runs in a folder that no tool may write, and what the writer left runs where it is declared.

use crate::support::{RunAs, Yard};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

const WRITER: &str = "import os\n\
    def run(files):\n    \
    for path, text in files.items():\n        \
    os.makedirs(os.path.dirname(path), exist_ok=True)\n        \
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC\n        \
    with os.fdopen(os.open(path, flags, 0o755), 'w') as file:\n            file.write(text)\n    \
    return 'written'\n\
    def look(path):\n    \
    try:\n        return os.listdir(path) if os.path.isdir(path) else open(path).read()\n    \
    except OSError as error:\n        return {'errno': error.errno}\n";

const SH: &str = "#!/bin/sh\necho '\"ran\"'\n";
const PYTHON: &str = "print('\"ran\"')\n";
const NODE: &str = "console.log('\"ran\"')\n";
const RUBY: &str = "puts '\"ran\"'\n";
const PHP: &str = "<?php echo '\"ran\"';\n";
const PERL: &str = "print '\"ran\"'; 1;\n";

/// A form of an entry: its tool file without the id, where `@` stands for the folder and `^` for the yard, and the
/// file in that folder which it runs.
struct Form {
    tool: Value,
    file: &'static str,
    text: &'static str,
}

fn cli(entry: &[&str], file: &'static str, text: &'static str) -> Form {
    Form { tool: json!({"kind": "cli", "entry": entry}), file, text }
}

fn kind(kind: &str, field: &str, entry: &str, file: &'static str, text: &'static str) -> Form {
    Form { tool: json!({"kind": kind, (field): entry}), file, text }
}

/// Forms that name the folder where a reader of the tool file sees it.
fn forms() -> Vec<Form> {
    vec![
        cli(&["sh", "@/x.sh"], "x.sh", SH),
        cli(&["sh", "^/@/x.sh"], "x.sh", SH),
        cli(&["sh", "./tools/..//@/x.sh"], "x.sh", SH),
        cli(&["sh", "@/x"], "x", SH),
        cli(&["python3", "@/x.txt"], "x.txt", PYTHON),
        cli(&["sh", "-e", "--", "@/x.conf"], "x.conf", SH),
        cli(&["@/program"], "program", SH),
        cli(&["^/@/program"], "program", SH),
        cli(&["sh", "link/x"], "x", SH),
        cli(&["python3", "-m", "@.package"], "package.py", PYTHON),
        cli(&["python3", "-Bm@.package"], "package.py", PYTHON),
        cli(&["python3", "@"], "__main__.py", PYTHON),
        cli(&["python3", "-c", "exec(open('@/x').read())"], "x", PYTHON),
        cli(&["awk", "-f", "@/x"], "x", "BEGIN { print \"\\\"ran\\\"\" }\n"),
        cli(&["awk", "-f@/x"], "x", "BEGIN { print \"\\\"ran\\\"\" }\n"),
        cli(&["node", "--require=./@/x.cjs", "-e", "0"], "x.cjs", NODE),
        cli(&["node", "-r", "./@/x", "-e", "0"], "x", NODE),
        cli(&["node", "--import", "./@/x.mjs", "-e", "0"], "x.mjs", NODE),
        cli(&["node", "-e", "require('./@/x')"], "x.js", NODE),
        cli(&["node", "@"], "index.js", NODE),
        cli(&["ruby", "-I@", "-rx", "-e", "0"], "x.rb", RUBY),
        cli(&["ruby", "-r./@/x", "-e", "0"], "x.rb", RUBY),
        cli(&["ruby", "-e", "load '@/x'"], "x", RUBY),
        cli(&["php", "-f", "@/x"], "x", PHP),
        cli(&["php", "-d", "auto_prepend_file=@/x", "tools/empty.php"], "x", PHP),
        cli(&["perl", "-I@", "-Mx", "-e", "0"], "x.pm", PERL),
        cli(&["perl", "-wI@", "-Mx", "-e", "0"], "x.pm", PERL),
        cli(&["perl", "-e", "do './@/x'"], "x", PERL),
        cli(&["sh", "-c", ". ./@/x"], "x", SH),
        cli(&["sh", "-c", "cd @; sh x"], "x", SH),
        cli(&["sh", "-c", "sh \"$PWD/@/x\""], "x", SH),
        cli(&["sh", "-c", "sh <@/x"], "x", SH),
        cli(&["env", "X=1", "sh", "@/x"], "x", SH),
        cli(&["env", "BASH_ENV=@/x", "bash", "-c", ":"], "x", SH),
        cli(&["env", "PYTHONPATH=@", "python3", "-m", "x"], "x.py", PYTHON),
        cli(&["timeout", "9", "sh", "@/x"], "x", SH),
        cli(&["make", "-sf", "@/x"], "x", "all:\n\t@echo '\"ran\"'\n"),
        cli(&["make", "-sC", "@"], "Makefile", "all:\n\t@echo '\"ran\"'\n"),
        kind("python", "entry", "@/x.py", "x.py", PYTHON),
        kind("node", "entry", "@/x.mjs", "x.mjs", NODE),
        kind("ruby", "entry", "@/x.rb", "x.rb", RUBY),
        kind("php", "php", "@/x.php", "x.php", PHP),
        Form {
            tool: json!({"kind": "php", "php": "tools/empty.php", "phpBinary": "@/program"}),
            file: "program",
            text: SH,
        },
    ]
}

impl Form {
    fn write(&self, yard: &Yard, name: &str, folder: &str, extra: Value) {
        let root = fs::canonicalize(yard.root()).unwrap().display().to_string();
        let link = format!("{folder}_link");
        let text = self.tool.to_string().replace("link", &link).replace('@', folder).replace('^', &root);
        let mut tool: Value = serde_json::from_str(&text).unwrap();
        tool["id"] = json!(name);
        tool.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        yard.file(&format!("tools/{name}.tool.yaml"), tool.to_string());
    }

    fn file_is_linked(&self) -> bool {
        self.tool.to_string().contains("link/")
    }

    /// Its own folder below `top`, so that files of several forms do not meet.
    fn folder(&self, top: &str, index: usize) -> String {
        format!("{top}{index}")
    }
}

fn base(run_as: RunAs, level: &str) -> Yard {
    let yard = Yard::of(run_as);
    yard.file("toolyard.toml", format!("[sandbox]\nlevel = \"{level}\"\n"));
    yard.file("tools/writer.py", WRITER).file("tools/empty.php", "");
    yard
}

fn writer(yard: &Yard, folders: &[String]) {
    let write = json!({"fs": {"write": folders}});
    let tool = json!({"id": "writer", "kind": "python", "entry": "tools.writer:run", "sandbox": write});
    yard.file("tools/writer.tool.yaml", tool.to_string());
    yard.file("tools/look.tool.yaml", "id: look\nkind: python\nentry: tools.writer:look\n");
}

fn result(envelope: &Value) -> &Value {
    envelope["data"].get("result").unwrap_or(&envelope["data"])
}

/// A tool in the sandbox does not see what another one may write, so no form leads there.
#[test]
fn code_that_another_tool_may_write_does_not_run_in_the_sandbox() {
    const ENOENT: i32 = 2;
    const EACCES: i32 = 13;
    let mut ran = Vec::new();
    for run_as in RunAs::all() {
        for level in ["full", "landlock"] {
            let yard = base(run_as, level);
            let forms = forms();
            let written: Vec<String> =
                forms.iter().enumerate().map(|(index, form)| form.folder("data", index)).collect();
            let mut planted = serde_json::Map::new();
            for (index, form) in forms.iter().enumerate() {
                let (data, code) = (form.folder("data", index), form.folder("fixed", index));
                yard.file(&format!("{data}/readme"), "");
                yard.executable(&format!("{code}/{}", form.file), form.text);
                for folder in [&data, &code] {
                    symlink(folder, yard.path(&format!("{folder}_link"))).unwrap();
                }
                form.write(&yard, &format!("victim{index}"), &data, json!({}));
                form.write(&yard, &format!("control{index}"), &code, json!({}));
                planted.insert(format!("{data}/{}", form.file), json!(form.text));
            }
            writer(&yard, &written);
            let checked = yard.run(&["check"]).stdout;
            let server = yard.serve();
            let call = |name: &str, arguments: Value| {
                let answer = server.post(name, arguments.to_string()).json();
                answer["body"].get("result").unwrap_or(&answer["body"]).clone()
            };
            assert_eq!(call("writer", json!({"files": planted})), "written", "{run_as:?}, {level}");
            let at = |form: &Form| format!("{}, {run_as:?}, {level}", form.tool);
            for (index, form) in forms.iter().enumerate() {
                assert_eq!(call(&format!("control{index}"), json!({})), "ran", "{}", at(form));
            }
            let has_run = |index: &usize| call(&format!("victim{index}"), json!({})) == "ran";
            let before = ran.len();
            ran.extend((0..forms.len()).filter(has_run).map(|index| at(&forms[index])));
            if ran.len() > before {
                continue;
            }
            for (index, form) in forms.iter().enumerate() {
                let warned = format!("warning: tools/victim{index}.tool.yaml: its entry names data{index}");
                let reason = "which tools/writer.tool.yaml lets another tool write";
                let is_warned = checked.lines().any(|line| line.contains(&warned) && line.contains(reason));
                // Where an owner's link leads is not looked up for a message; the sandbox hides it all the same.
                assert!(is_warned || form.file_is_linked(), "{}: {checked}", at(form));
                let seen = call("look", json!({"path": format!("data{index}/{}", form.file)}));
                let errno = if level == "full" { ENOENT } else { EACCES };
                assert_eq!(seen, json!({"errno": errno}), "{}", at(form));
            }
        }
    }
    assert!(ran.is_empty(), "{} forms ran: {ran:#?}", ran.len());
}

/// A tool without a sandbox sees everything, so it is refused if its entry names what another may write.
#[test]
fn a_tool_without_a_sandbox_names_nothing_that_another_may_write() {
    for run_as in RunAs::all() {
        let mut loaded = Vec::new();
        for form in forms() {
            let yard = base(run_as, "full");
            yard.file("data/readme", "").executable(&format!("fixed/{}", form.file), form.text);
            for folder in ["data", "fixed"] {
                symlink(folder, yard.path(&format!("{folder}_link"))).unwrap();
            }
            writer(&yard, &["data".to_owned()]);
            form.write(&yard, "unconfined", "fixed", json!({"sandbox": "none"}));
            let (ran, envelope) = yard.call("unconfined", &json!({}));
            assert_eq!(*result(&envelope), "ran", "{}: {ran:?}", form.tool);
            let call = |name: &str, arguments: Value| yard.call(name, &arguments).1;
            form.write(&yard, "unconfined", "data", json!({"sandbox": "none"}));
            let checked = yard.run(&["check"]).stdout;
            let named = "error: tools/unconfined.tool.yaml: its entry names data";
            let reason = "which tools/writer.tool.yaml lets a tool write, and it runs without a sandbox";
            if !checked.lines().any(|line| line.contains(named) && line.contains(reason)) {
                loaded.push(form.tool.to_string());
            }
            // The next command loads the tools again, now that the file exists.
            let planted = json!({"files": {(format!("data/{}", form.file)): form.text}});
            assert_eq!(*result(&call("writer", planted)), "written", "{}", form.tool);
            let refused = call("unconfined", json!({}));
            assert_eq!(refused["error"]["error_details"]["kind"], "unknown_tool", "{}", form.tool);
        }
        assert!(loaded.is_empty(), "{run_as:?}, {} forms: {loaded:#?}", loaded.len());
    }
}

/// What one tool writes another can read, and run, if its own file says that it uses it.
#[test]
fn what_another_tool_writes_is_seen_where_it_is_declared() {
    for run_as in RunAs::all() {
        for level in ["full", "landlock"] {
            let yard = base(run_as, level);
            for folder in ["data", "data/deep", "shared"] {
                yard.file(&format!("{folder}/readme"), "");
            }
            writer(&yard, &["data".to_owned(), "shared".to_owned()]);
            let reader = |fs: &str| {
                yard.file(
                    "tools/reader.tool.yaml",
                    format!(
                        "id: reader\nkind: cli\nentry: [cat, data/deep/x.json]\nsandbox: {{fs: {{{fs}}}}}\n"
                    ),
                );
                yard.call("reader", &json!({})).1
            };
            let files = json!({"files": {"data/deep/x.json": "{\"result\": 7}", "shared/x.json": "1"}});
            assert_eq!(*result(&yard.call("writer", &files).1), "written", "{run_as:?}, {level}");
            let hidden = reader("read: [shared]").to_string();
            let errno = if level == "full" { "No such file or directory" } else { "Permission denied" };
            assert!(hidden.contains(errno), "{run_as:?}, {level}: {hidden}");
            for fs in [
                "read: [data]",
                "read: [data/deep]",
                "read: [data/deep/x.json]",
                "write: [data]",
                "read: [.]",
            ] {
                assert_eq!(*result(&reader(fs)), 7, "{fs}, {run_as:?}, {level}");
            }
            // What is named as code is not what others write, whether it is declared or not; nor what it writes itself.
            let refused = |fs: &str, writer: &str| {
                yard.file(
                    "tools/reader.tool.yaml",
                    format!("id: reader\nkind: cli\nentry: [sh, data/x.sh]\nsandbox: {{fs: {{{fs}}}}}\n"),
                );
                let checked = yard.run(&["check"]).expect(3).stdout;
                let reason = format!(
                    "error: tools/reader.tool.yaml: its code data/x.sh lies where tools/{writer}.tool.yaml lets a tool write"
                );
                assert!(checked.contains(&reason), "{run_as:?}, {level}: {checked}");
            };
            refused("read: [data]", "writer");
            fs::remove_file(yard.path("tools/writer.tool.yaml")).unwrap();
            refused("write: [data]", "reader");
        }
    }
}

/// Whatever a tool does to its folder, what it wrote stays hidden and hides nothing else: a link in place of a folder,
/// a module beside another, or a folder that comes into being after the tools were loaded.
#[test]
fn a_tool_cannot_change_what_others_see_by_what_it_writes() {
    for run_as in RunAs::all() {
        let yard = base(run_as, "full");
        for folder in ["lib/cache", "data/out"] {
            yard.file(&format!("{folder}/readme"), "");
        }
        yard.file("lib/mod.py", "def run():\n    return 'as written'\n").executable("fixed/x", SH);
        let unconfined = "id: unconfined\nkind: python\nentry: lib.mod:run\nsandbox: none\n";
        yard.file("tools/unconfined.tool.yaml", unconfined);
        // Its module does not exist yet.
        let later = "id: later\nkind: python\nentry: late.made:run\nsandbox: none\n";
        yard.file("tools/later.tool.yaml", later);
        // A link in the folder can lead elsewhere while the tools are loaded.
        symlink("../fixed", yard.path("data/hop")).unwrap();
        cli(&["sh", "@/x"], "x", SH).write(&yard, "hopping", "data/hop", json!({"sandbox": "none"}));
        writer(&yard, &["lib/cache".to_owned(), "data".to_owned(), "late".to_owned()]);
        yard.file(
            "tools/inner.tool.yaml",
            "id: inner\nkind: cli\nentry: ['true']\nsandbox: {fs: {write: [data/out]}}\n",
        );
        for (name, folder) in [("cached", "lib/cache"), ("new", "late"), ("control", "fixed")] {
            cli(&["sh", "@/x"], "x", SH).write(&yard, name, folder, json!({}));
        }
        let call = |name: &str, arguments: Value| yard.call(name, &arguments).1;
        assert_eq!(*result(&call("control", json!({}))), "ran", "{run_as:?}");
        let module = "def run():\n    return 'ran'\n";
        let files = json!({"files": {"lib/cache/x": SH, "lib/cache/made.py": module, "late/x": SH, "late/made.py": module}});
        let missing = call("writer", files.clone()).to_string();
        assert!(missing.contains("its path late does not exist"), "{run_as:?}: {missing}");
        yard.file("late/readme", "");
        assert_eq!(*result(&call("writer", files)), "written", "{run_as:?}");
        for name in ["cached", "new"] {
            let stopped = call(name, json!({})).to_string();
            assert!(stopped.contains("cannot open"), "{run_as:?}: {stopped}");
        }
        let checked = yard.run(&["check"]).expect(3).stdout;
        for (name, path) in [("later", "late/made"), ("hopping", "data/hop/x")] {
            let reason = format!(
                "tools/{name}.tool.yaml: its entry names {path}, which tools/writer.tool.yaml lets a tool write"
            );
            assert!(checked.contains(&reason), "{run_as:?}: {checked}");
            let refused = call(name, json!({}));
            assert_eq!(refused["error"]["error_details"]["kind"], "unknown_tool", "{run_as:?}: {refused}");
        }
        // A module in a folder below is not the code of the tool beside it.
        assert_eq!(*result(&call("unconfined", json!({}))), "as written", "{run_as:?}");
        fs::remove_dir_all(yard.path("data/out")).unwrap();
        symlink("../tools", yard.path("data/out")).unwrap();
        assert_eq!(*result(&call("control", json!({}))), "ran", "{run_as:?}");
        assert_eq!(*result(&call("look", json!({"path": "tools/writer.py"}))), WRITER, "{run_as:?}");
    }
}

/// What a tool uses wherever it lies, such as its program outside the yard and its schemas.
#[test]
fn a_tool_uses_no_part_that_another_may_write() {
    for run_as in RunAs::all() {
        let yard = base(run_as, "full");
        yard.file("data/readme", "").file("data/schema.json", "{\"type\": \"object\"}");
        let outside = fs::canonicalize(yard.home()).unwrap().parent().unwrap().join("programs");
        yard.executable("../programs/bin/program", SH).file("../programs/lib/x/y", "");
        let program = outside.join("bin/program").display().to_string();
        let (lib, bin) =
            (outside.join("lib/x").display().to_string(), outside.join("bin").display().to_string());
        let schema = json!({"schema": {"input": {"$ref": "../data/schema.json"}}});
        for (entry, extra, written, part) in [
            (program.as_str(), json!({}), bin.as_str(), program.clone()),
            (&program, json!({}), &lib, outside.join("lib").display().to_string()),
            ("/bin/sh", schema, "data", "data/schema.json".to_owned()),
        ] {
            let mut tool = json!({"id": "t", "kind": "cli", "entry": [entry]});
            tool.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            writer(&yard, &["data".to_owned()]);
            yard.file("tools/t.tool.yaml", json!({"id": "t", "kind": "cli", "entry": [program]}).to_string());
            assert_eq!(*result(&yard.call("t", &json!({})).1), "ran", "{run_as:?}: control");
            assert!(
                yard.run(&["check"]).stdout.contains("3 tool(s) loaded, 0 error(s)"),
                "{run_as:?}: control"
            );
            writer(&yard, &[written.to_owned()]);
            yard.file("tools/t.tool.yaml", tool.to_string());
            let checked = yard.run(&["check"]).expect(3).stdout;
            let reason =
                format!("tools/t.tool.yaml: it uses {part}, where tools/writer.tool.yaml lets a tool write");
            assert!(checked.contains(&reason), "{run_as:?}, {written}: {checked}");
            assert!(checked.contains("2 tool(s) loaded, 1 error(s)"), "{run_as:?}, {written}: {checked}");
        }
    }
}
