//! What a weaker sandbox level says about itself: in `doctor`, in `list`, when a server starts, and when a tool is
//! refused. Levels are those of a machine that refuses namespaces or Landlock (`restricted.py`).

use crate::support::{CommandOutput, RunAs, Server, TIMEOUT, Yard, is_root, require, run_for};
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;

const RESTRICTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/restricted.py");
/// In a mount namespace of its own: no cgroups, and root without its rights over the machine.
const CONTAINER: &str = "mount -t tmpfs none /sys/fs/cgroup \
     && exec setpriv --bounding-set -sys_admin --inh-caps=-all \"$@\"";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    Root,
    OrdinaryUser,
    NamespacesRefused,
    NoLandlock,
    Neither,
    Container,
}

impl Machine {
    fn yard(self) -> Yard {
        Yard::of(if self == Machine::OrdinaryUser { RunAs::Nobody } else { RunAs::CurrentUser })
    }

    /// The program of the yard as this machine would run it.
    fn command(self, yard: &Yard) -> Command {
        let program = yard.command().get_program().to_owned();
        let restricted = |what: &str| {
            let mut command = yard.command_of("python3");
            command.arg(RESTRICTED).arg(what).arg(&program);
            command
        };
        match self {
            Machine::Root | Machine::OrdinaryUser => yard.command(),
            Machine::NamespacesRefused => restricted("namespaces"),
            Machine::NoLandlock => restricted("landlock"),
            Machine::Neither => restricted("namespaces,landlock"),
            Machine::Container => {
                let mut command = yard.command_of("unshare");
                command.args(["--mount", "sh", "-c", CONTAINER, "sh", "python3", RESTRICTED, "namespaces"]);
                command.arg(&program);
                command
            }
        }
    }

    fn run(self, yard: &Yard, arguments: &[&str]) -> CommandOutput {
        let mut command = self.command(yard);
        command.args(arguments);
        run_for(command, TIMEOUT)
    }
}

fn plain_tool(yard: &Yard) {
    yard.file("tools/t.tool.yaml", "id: t\nkind: cli\nentry: [echo, '1']\n");
}

#[test]
fn doctor_says_the_level_the_reason_and_the_remedy() {
    if !require(is_root(), "only root can be restricted in every way") {
        return;
    }
    for (machine, name, code) in [
        (Machine::Root, "root", 0),
        (Machine::OrdinaryUser, "ordinary-user", 0),
        (Machine::NamespacesRefused, "namespaces-refused", 0),
        (Machine::NoLandlock, "no-landlock", 0),
        (Machine::Neither, "neither", 9),
        (Machine::Container, "container", 0),
    ] {
        let yard = machine.yard();
        let said = machine.run(&yard, &["doctor"]).expect(code).stdout;
        let rows = ["process trees", "sandbox", "landlock", "limits"];
        let is_row = |line: &&str| rows.iter().any(|row| line[5..].starts_with(&format!("{row}: ")));
        let said: String = said.lines().filter(is_row).map(|line| general(line) + "\n").collect();
        assert_eq!(said.lines().count(), rows.len(), "{machine:?}: {said}");
        let golden =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/golden/doctor/{name}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
            std::fs::write(&golden, &said).unwrap();
        }
        let wanted = std::fs::read_to_string(&golden).unwrap();
        assert_eq!(said, wanted, "{machine:?}: run the tests with UPDATE_GOLDEN=1");
    }
}

/// Without what differs between machines of one kind: the version of cgroups, and where ours is.
fn general(line: &str) -> String {
    let line = line.replace("(version 1)", "(version N)").replace("(version 2)", "(version N)");
    match (line.split_once("in the sandbox): "), line.split_once("; remedy: ")) {
        (Some((head, _)), Some((_, remedy))) => format!("{head}in the sandbox): REASON; remedy: {remedy}"),
        _ => line,
    }
}

#[test]
fn a_tool_below_the_required_level_is_refused_with_the_reason() {
    for (machine, config, loaded) in [
        (Machine::Root, "", Ok("full")),
        (Machine::Root, "require = \"full\"\n", Ok("full")),
        (
            Machine::Root,
            "level = \"landlock\"\nrequire = \"full\"\n",
            Err("toolyard.toml says [sandbox] level"),
        ),
        (Machine::NamespacesRefused, "", Ok("landlock")),
        (Machine::NamespacesRefused, "require = \"full\"\n", Err("a seccomp filter")),
        (Machine::NoLandlock, "require = \"full\"\n", Ok("full")),
        (Machine::Neither, "", Err("supports no sandbox")),
        (Machine::Neither, "require = \"none\"\n", Ok("none")),
    ] {
        let yard = machine.yard();
        plain_tool(&yard);
        yard.file("toolyard.toml", format!("[sandbox]\n{config}"));
        let checked = machine.run(&yard, &["check"]);
        let called = machine.run(&yard, &["call", "t", "--json"]);
        match loaded {
            Ok(level) => {
                checked.expect(0);
                called.expect(0);
                let listed = machine.run(&yard, &["list", "--json"]).expect(0).json();
                assert_eq!(listed[0]["sandbox"], level, "{machine:?} {config}: {listed}");
            }
            Err(reason) => {
                let checked = checked.expect(3).stdout;
                assert!(
                    checked.contains("cannot be sandboxed on this machine") && checked.contains(reason),
                    "{machine:?} {config}: {checked}"
                );
                called.expect(4);
            }
        }
    }
}

#[test]
fn a_weaker_level_is_never_silent() {
    for (machine, weaker) in [(Machine::Root, false), (Machine::NamespacesRefused, true)] {
        let yard = machine.yard();
        plain_tool(&yard);
        let listed = machine.run(&yard, &["list"]).expect(0);
        let warning = "the sandbox is landlock, not full, and tools run with less: a seccomp filter";
        assert_eq!(listed.stderr.contains(warning), weaker, "{machine:?}: {}", listed.stderr);
        assert_eq!(listed.stdout.contains("(sandbox: landlock)"), weaker, "{machine:?}: {}", listed.stdout);
        let mut command = machine.command(&yard);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        let server = Server::start(command);
        assert_eq!(server.post("t", "{}").json()["error"], json!(null));
        assert_eq!(server.stderr().contains(warning), weaker, "{machine:?}: {}", server.stderr());
    }
}

#[test]
fn the_key_that_was_replaced_is_refused_with_the_new_one() {
    let yard = Yard::new();
    for (old, new) in [("refuse", "landlock"), ("run unconfined", "none")] {
        yard.file("toolyard.toml", format!("[sandbox]\nwhen_unavailable = \"{old}\"\n"));
        let said = yard.run(&["list"]).expect(3).stderr;
        assert!(said.contains("'sandbox.when_unavailable' was replaced by 'sandbox.require'"), "{said}");
        assert!(said.contains(&format!("write require = \"{new}\"")), "{said}");
    }
}
