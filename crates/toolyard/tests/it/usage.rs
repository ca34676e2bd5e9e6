//! Wrong command lines: exit code 2 and the usage on stderr, with and without `--json`; aliases; `--url`.

use crate::support::{Kind, Yard};
use serde_json::json;

#[test]
fn a_wrong_command_line_exits_with_2_and_prints_nothing_on_stdout() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "one", "echo 1");
    for (arguments, what) in [
        (&["serve", "a", "--yard", "b"][..], "--yard cannot be used with the folder given as argument"),
        (&["--yard", "b", "serve", "a"], "--yard cannot be used with the folder given as argument"),
        (&["stdio", "a", "--yard", "b"], "--yard cannot be used with the folder given as argument"),
        (&["init", "a", "--yard", "b"], "--yard cannot be used with the folder given as argument"),
        (&["list", "--yard", "b", "--url", "http://127.0.0.1:1"], "--yard cannot be used with --url"),
        (&["--yard", "b", "list", "--url", "http://127.0.0.1:1"], "--yard cannot be used with --url"),
        (&["list", "--url", "ftp://x"], "only http and https"),
        (&["list", "--url", "nonsense"], "relative URL without a base"),
        (&["call", "one", "--detach"], "--detach needs a server"),
        (&["new", "tool", "--kind", "cli", "Bad-Name"], "use a-z, 0-9 and _"),
        (&["new", "tool", "--kind", "nonsense", "x"], "invalid value 'nonsense'"),
        (&["serve", "--listen", "nonsense"], "is not an address with a port"),
        (&["serve", "--listen", "0.0.0.0:80"], "can be reached from other machines"),
        (&["audit", "list", "--call", "nonsense"], "not a call id"),
        (&["audit", "export", "--call", "nonsense"], "not a call id"),
        (&["audit", "list", "--state", "nonsense"], "possible values: success"),
        (&["job", "list", "--state", "nonsense"], "known states are"),
        (&["job", "show", "nonsense"], "not a job id"),
        (&["secret", "rm", "sk-live/0123456789"], "this is not a valid name of a secret"),
        (&["nonsense"], "unrecognized subcommand"),
        (&["call"], "required arguments"),
    ] {
        for json in [&[][..], &["--json"]] {
            let ran = yard.run(&[arguments, json].concat()).expect(2);
            assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(what), "{arguments:?}: {ran:?}");
            assert!(ran.stderr.contains("--help") && ran.stdout.is_empty(), "{arguments:?}: {ran:?}");
        }
    }
    assert!(!yard.path("a").exists() && !yard.path("b").exists());
}

#[test]
fn a_pasted_secret_is_not_repeated() {
    let refused = Yard::without_secret().run(&["secret", "set", "sk-live/0123456789"]).expect(2);
    assert!(!refused.stderr.contains("sk-live"), "{refused:?}");
}

#[test]
fn groups_are_singular_with_a_plural_alias_and_removal_is_rm() {
    let yard = Yard::new();
    let root = "[[resources.root]]\nname = \"notes\"\npath = \"notes\"\nwrite = true\ndelete = true\n";
    yard.file("toolyard.toml", root).file("notes/a", "1").file("notes/b", "2");
    for group in ["job", "resource", "prompt", "secret"] {
        let (one, many) =
            (yard.run(&[group, "list"]).expect(0), yard.run(&[&format!("{group}s"), "list"]).expect(0));
        assert_eq!(one.stdout, many.stdout);
    }
    let help = yard.run(&["--help"]).expect(0).stdout;
    assert!(help.contains("[alias: jobs]") && !help.contains("\n  jobs"), "{help}");
    yard.run(&["resource", "rm", "yard://notes/a"]).expect(0);
    yard.run(&["resource", "delete", "yard://notes/b"]).expect(0);
    assert!(!yard.path("notes/a").exists() && !yard.path("notes/b").exists());
    yard.run(&["call", "nothing"]).expect(4);
    let refused = yard.run(&["audit", "list", "--state", "refused"]).expect(0).stdout;
    assert!(refused.contains("nothing"), "{refused}");
    assert_eq!(yard.run(&["audit", "list", "--status", "refused"]).expect(0).stdout, refused);
}

#[test]
fn commands_that_need_the_yard_itself_refuse_a_url() {
    let yard = Yard::new();
    for arguments in [
        &["init"][..],
        &["new", "tool", "--kind", "cli", "x"],
        &["check"],
        &["test"],
        &["prepare"],
        &["secret", "list"],
        &["serve"],
        &["stdio"],
        &["audit", "list"],
        &["state", "verify"],
        &["doctor"],
        &["completions", "bash"],
    ] {
        let ran = yard.run(&[arguments, &["--url", "http://127.0.0.1:1"]].concat()).expect(2);
        assert!(
            ran.stderr.contains("--url works with list, show, call, batch, job, prompt and resource"),
            "{arguments:?}: {ran:?}"
        );
    }
}

#[test]
fn a_server_shows_the_same_tools_resources_and_prompts_as_its_yard() {
    let yard = Yard::new();
    let tool = "id: one\nkind: cli\nentry: [echo, '1']\ntitle: The One\ndescription: First.\nversion: \"1.2.3\"\n\
                concurrency: 2\nannotations: {readOnlyHint: true}\nrateLimit: {calls: 5, perMs: 1000}\nretry: {attempts: 2, backoffMs: 5}\n\
                examples:\n  - name: plain\n    input: {}\n    output: 1\n";
    yard.file("tools/one.tool.yaml", tool);
    let root = "[[resources.root]]\nname = \"notes\"\npath = \"notes\"\nwrite = true\ndelete = true\n";
    yard.file("toolyard.toml", root).file("notes/ä b.txt", "inside\n").file("notes/raw.bin", b"\0\xff");
    yard.file("new", "\u{0}bytes");
    let examples = crate::docs::repository().join("examples/prompts");
    crate::examples::copy_folder(&examples, &yard.root());
    let server = yard.serve();
    let url = format!("http://{}", server.address);
    let there = |arguments: &[&str]| yard.run(&[arguments, &["--url", &url]].concat());
    for arguments in [
        &["show", "one"][..],
        &["show", "one", "--json"],
        &["show", "tools.one"],
        &["resource", "list"],
        &["resource", "list", "--json"],
        &["resource", "read", "yard://notes/%C3%A4%20b.txt"],
        &["resource", "read", "yard://notes/%C3%A4%20b.txt", "--json"],
        &["resource", "read", "yard://notes/raw.bin", "--json"],
        &["show", "yard://notes/raw.bin"],
        &["show", "yard://notes/{+path}", "--json"],
        &["prompt", "get", "writing.draft", "topic=5"],
        &["prompt", "get", "writing.draft", "topic=5", "--json"],
        &["prompt", "get", "writing.draft@1", "topic=x"],
    ] {
        let (here, there) = (yard.run(arguments).expect(0), there(arguments).expect(0));
        assert!(!here.stdout.is_empty(), "{arguments:?}");
        assert_eq!(here.stdout, there.stdout, "{arguments:?}");
    }
    let page = there(&["show", "one"]).expect(0).stdout;
    for line in [
        "retry           up to 2 attempts, backoff from 5 ms",
        "concurrency     2 call(s)",
        "rate            5 call(s) per 1000 ms",
    ] {
        assert!(page.contains(line), "{page}");
    }
    assert!(page.contains("example: plain\n  toolyard call one '{}'\n  1"), "{page}");
    let (here, listed) =
        (yard.run(&["prompt", "list"]).expect(0).stdout, there(&["prompt", "list"]).expect(0).stdout);
    let names = |list: &str| -> Vec<String> {
        list.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&here), names(&listed));
    assert!(names(&listed).len() > 2, "{listed}");
    for (arguments, code) in [
        (&["show", "nothing"][..], 4),
        (&["show", "x://y"], 4),
        (&["resource", "read", "yard://notes/none"], 4),
        (&["resource", "rm", "yard://notes/none"], 4),
        (&["prompt", "get", "none"], 4),
        (&["prompt", "get", "writing.draft"], 3),
    ] {
        let (here, there) = (yard.run(arguments).expect(code), there(arguments).expect(code));
        assert!(there.stderr.starts_with("error[EINVAL]: "), "{arguments:?}: {here:?} {there:?}");
    }
    let wrote = there(&["resource", "write", "yard://notes/b.bin", "new"]).expect(0);
    assert_eq!(wrote.stderr, "wrote 6 bytes to yard://notes/b.bin\n");
    assert_eq!(std::fs::read(yard.path("notes/b.bin")).unwrap(), b"\0bytes");
    assert_eq!(
        there(&["resource", "rm", "yard://notes/b.bin"]).expect(0).stderr,
        "removed yard://notes/b.bin\n"
    );
    assert!(!yard.path("notes/b.bin").exists());
    assert_eq!(there(&["resource", "write", "yard://notes/c", "new", "--json"]).expect(0).json(), json!({}));
    // Something else answers there.
    let nowhere = yard.run(&["resource", "list", "--url", "http://127.0.0.1:1"]).expect(9);
    assert!(nowhere.stderr.contains("cannot be reached"), "{nowhere:?}");
    let elsewhere = yard.run(&["prompt", "list", "--url", &format!("{url}/none")]).expect(1);
    assert!(elsewhere.stderr.contains("unknown body"), "{elsewhere:?}");
}
