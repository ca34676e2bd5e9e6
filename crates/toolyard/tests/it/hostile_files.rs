//! Files of a yard that are no files: pipes, devices and links. Each is a problem of its own, nothing waits for it,
//! and everything else is loaded.

use crate::support::{Kind, RunAs, Yard, eventually, run_for};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(15);

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap();
}

/// A uv script with its manifest; `make` puts the script there.
fn uv_tool(yard: &Yard, make: impl Fn(&Path)) {
    yard.file(
        "tools/u/tool.json",
        r#"{"id": "u", "runtime": "python-uv-script", "entry": {"script": "tools/u/u.py"}}"#,
    );
    make(&yard.path("tools/u/u.py"));
}

type Make = fn(&Yard);

const HOSTILE: &[(&str, Make, &str)] = &[
    (
        "a pipe as schema",
        |yard| {
            yard.file(
                "tools/s.tool.yaml",
                "id: s\nkind: cli\nentry: [echo, '1']\nschema: {input: {$ref: ./s.json}}\n",
            );
            pipe(&yard.path("tools/s.json"));
        },
        "s.json is not a regular file",
    ),
    ("a pipe as tool file", |yard| pipe(&yard.path("tools/f.tool.yaml")), "is not a regular file"),
    (
        "a pipe as script",
        |yard| {
            yard.file("tools/p.tool.yaml", "id: p\nkind: python\nentry: tools/p.py\n");
            pipe(&yard.path("tools/p.py"));
        },
        "the script 'tools/p.py' is not a regular file",
    ),
    ("a pipe as uv script", |yard| uv_tool(yard, pipe), "the script 'tools/u/u.py' is not a regular file"),
    (
        "a device as uv script",
        |yard| uv_tool(yard, |path| symlink("/dev/zero", path).unwrap()),
        "the script 'tools/u/u.py'",
    ),
    (
        "a pipe as prompt",
        |yard| {
            yard.file("prompts/REGISTRY.yaml", "packs: [{id: a, path: packs/a}]\n");
            pipe(&yard.path("prompts/packs/a/pack.yaml"));
        },
        "prompts/",
    ),
    ("a pipe as list of prompts", |yard| pipe(&yard.path("prompts/REGISTRY.yaml")), "REGISTRY.yaml"),
    ("a pipe as resource", |yard| pipe(&yard.path("resources/r.resource.yaml")), "r.resource.yaml"),
    (
        "a link as tool file",
        |yard| {
            yard.file("data/t.yaml", "id: linked\nkind: cli\nentry: [echo, '1']\n");
            symlink(yard.path("data/t.yaml"), yard.path("tools/linked.tool.yaml")).unwrap();
        },
        "tools/linked.tool.yaml: is a symbolic link",
    ),
    (
        "a link to a folder",
        |yard| {
            yard.file("data/t.tool.yaml", "id: linked\nkind: cli\nentry: [echo, '1']\n");
            symlink(yard.path("data"), yard.path("tools/more")).unwrap();
        },
        "tools/more: is a symbolic link",
    ),
    (
        "a link as schema",
        |yard| {
            yard.file("data/s.json", "{}");
            yard.file(
                "tools/s.tool.yaml",
                "id: s\nkind: cli\nentry: [echo, '1']\nschema: {input: {$ref: ./s.json}}\n",
            );
            symlink(yard.path("data/s.json"), yard.path("tools/s.json")).unwrap();
        },
        "s.json is a symbolic link",
    ),
];

#[test]
fn each_is_reported_at_once_and_the_rest_is_loaded() {
    for run_as in RunAs::all() {
        for (what, make, message) in HOSTILE {
            let yard = Yard::of(run_as);
            yard.shell(Kind::Cli, "good", "echo 1");
            make(&yard);
            let mut command = yard.command();
            command.arg("check");
            let checked = run_for(command, LIMIT).stdout;
            assert!(checked.contains(message), "{what}, {run_as:?}: {checked}");
            let mut command = yard.command();
            command.arg("list");
            let listed = run_for(command, LIMIT).expect(0).stdout;
            assert!(listed.contains("good") && !listed.contains("linked"), "{what}, {run_as:?}: {listed}");
        }
    }
}

#[test]
fn the_same_files_are_read_when_they_are_files() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        yard.file(
            "tools/s.tool.yaml",
            "id: s\nkind: cli\nentry: [echo, '1']\nschema: {input: {$ref: ./s.json}}\n",
        );
        yard.file("tools/s.json", "{}").file("toolyard.toml", "[limits]\ntimeout = \"7s\"\n");
        yard.file("tools/p.tool.yaml", "id: p\nkind: python\nentry: tools/p.py\n")
            .file("tools/p.py", "print(1)\n");
        let checked = yard.run(&["check"]).expect(0).stdout;
        assert!(checked.contains("2 tool(s) loaded, 0 error(s), 0 warning(s)"), "{checked}");
        assert!(yard.run(&["show", "s"]).expect(0).stdout.contains("7000 ms"));
    }
}

#[test]
fn a_configuration_that_is_no_file_of_the_yard_is_refused_and_a_server_goes_on_reloading() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        yard.shell(Kind::Cli, "first", "echo 1");
        let server = yard.serve();
        pipe(&yard.path("toolyard.toml"));
        eventually("the server says so", LIMIT, || server.stderr().contains("is not a regular file"));
        yard.shell(Kind::Cli, "second", "echo 2");
        eventually("the reload", LIMIT, || server.get("/v1/tools/second").status == 200);
        let mut command = yard.command();
        command.arg("list");
        let refused = run_for(command, LIMIT).expect(9);
        assert!(refused.stderr.contains("toolyard.toml is not a regular file"), "{refused:?}");
        fs::remove_file(yard.path("toolyard.toml")).unwrap();
        yard.file("data/config.toml", "[sandbox]\nrequire = \"none\"\n");
        symlink("data/config.toml", yard.path("toolyard.toml")).unwrap();
        let refused = yard.run(&["list"]).expect(9);
        assert!(refused.stderr.contains("toolyard.toml is a symbolic link"), "{refused:?}");
    }
}
