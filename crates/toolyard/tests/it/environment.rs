//! The environment of a tool: working folder, search path, private folders, a UTF-8 locale, and the variables its
//! file lists.

use crate::support::{Kind, RunAs, TIMEOUT, Yard, run_for};
use serde_json::{Value, json};

#[test]
fn a_tool_sees_only_the_variables_of_every_tool_and_those_its_file_lists() {
    for kind in Kind::ALL {
        let yard = Yard::without_secret();
        // Builds JSON from `env` with names only; values are ignored.
        let names = "env | cut -d= -f1 | sort | awk '{printf \"%s\\\"%s\\\"\", (NR>1?\",\":\"[\"), $0} END {print \"]\"}'";
        let listed = match kind {
            Kind::Cli => json!({"env": ["WANTED", "NOT_SET"]}),
            Kind::Process | Kind::Binary => json!({"policy": {"env_allowlist": ["WANTED", "NOT_SET"]}}),
        };
        let script = format!("unset PWD OLDPWD SHLVL _; {names}");
        yard.tool(kind, "names", &["/bin/sh", "-c", &script], listed.clone());
        let mut command = yard.command();
        command
            .args(["call", "names", "--json"])
            .env("WANTED", "yes")
            .env("SECRET", "no")
            .env("LD_PRELOAD_X", "no");
        let ran = run_for(command, TIMEOUT).expect(0);
        assert_eq!(
            ran.json()["data"]["result"],
            json!(["HOME", "LANG", "PATH", "TMPDIR", "WANTED"]),
            "{kind:?}"
        );
        let problems = yard.run(&["check", "--json"]).json();
        let messages: Vec<&str> =
            problems.as_array().unwrap().iter().filter_map(|p| p["message"].as_str()).collect();
        assert!(
            messages.iter().any(|message| message.contains("'NOT_SET' is to be passed on but is not set")),
            "{messages:?}"
        );
    }
}

#[test]
fn home_and_the_folder_for_temporary_files_are_private_empty_and_writable() {
    let script = "test -z \"$(ls -A $HOME)\" && test $HOME != $TMPDIR && touch $HOME/a $TMPDIR/b && \
                  test \"$(ls -A $HOME)\" = a && printf '[\"%s\",\"%s\"]' $HOME $TMPDIR";
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        yard.shell(Kind::Cli, "folders", script);
        // Empty for each run.
        for _ in 0..2 {
            let (_, envelope) = yard.call("folders", &json!({}));
            assert_eq!(envelope["data"]["result"], json!(["/tmp/home", "/tmp"]), "{envelope}");
        }
        assert_eq!(std::fs::read_dir(yard.home()).unwrap().count(), 0);
    }
}

#[test]
fn listed_variables_are_passed_whatever_they_contain() {
    let yard = Yard::new();
    yard.tool(
        Kind::Cli,
        "value",
        &["/bin/sh", "-c", "printf '\"%s\"' \"$WANTED\""],
        json!({"env": ["WANTED"]}),
    );
    let mut command = yard.command();
    command.args(["call", "value", "--json"]).env("WANTED", "a=b; $(id) é");
    assert_eq!(run_for(command, TIMEOUT).expect(0).json()["data"]["result"], "a=b; $(id) é");
}

#[test]
fn a_tool_runs_in_the_yard_folder_and_inherits_no_descriptor() {
    for kind in Kind::ALL {
        let yard = Yard::new();
        yard.shell(
            kind,
            "look",
            "printf '{\"cwd\":\"%s\",\"fds\":\"%s\"}' \"$(pwd)\" \"$(ls /proc/self/fd | tr '\\n' ' ')\"",
        );
        let server = yard.serve();
        let body = server.post("look", "{}").json()["body"].clone();
        assert_eq!(body["cwd"], json!(std::fs::canonicalize(yard.root()).unwrap()), "{kind:?}");
        assert_eq!(body["fds"], "0 1 2 3 ", "{kind:?}: 3 is where ls itself reads");
    }
}

#[test]
fn words_of_an_entry_are_never_split_or_expanded() {
    for kind in Kind::ALL {
        let yard = Yard::new();
        let script = "use strict; print '[', join(',', map { s/([\"\\\\])/\\\\$1/g; s/\\n/\\\\n/g; qq(\"$_\") } @ARGV), \"]\\n\"";
        let words = ["a b", "$HOME", "*", "`id`", "line\nbreak", "", "é"];
        let argv: Vec<&str> = ["/usr/bin/perl", "-e", script].into_iter().chain(words).collect();
        yard.tool(kind, "words", &argv, json!({}));
        let (_, envelope) = yard.call("words", &json!({}));
        assert_eq!(envelope["data"]["result"], json!(words), "{kind:?}");
    }
    // A single string is a program's name, not a command line.
    let yard = Yard::new();
    yard.file("tools/line.tool.yaml", "id: line\nkind: cli\nentry: echo 1\n");
    let (ran, envelope) = yard.call("line", &Value::Object(Default::default()));
    assert_eq!((ran.code, &envelope["error"]["error_details"]["kind"]), (4, &json!("file_not_found")));
}
