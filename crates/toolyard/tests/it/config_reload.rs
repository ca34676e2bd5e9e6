//! A running server takes over a changed `toolyard.toml`, or says what needs a restart; it ignores nothing.

use crate::mcp::{Pipes, initialize};
use crate::support::{Kind, Server, TIMEOUT, Yard, eventually};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A server whose address comes from the file: a flag would override it.
struct Live {
    yard: Yard,
    server: Server,
}

const LISTEN: &str = "[server]\nlisten = \"127.0.0.1:0\"\n";

impl Live {
    fn start(yard: Yard, settings: &str) -> Live {
        yard.file("toolyard.toml", format!("{LISTEN}{settings}"));
        let mut command = yard.command();
        command.arg("serve");
        Live { server: Server::start(command), yard }
    }

    /// Writes the file and waits for the line, which comes when the change is in force.
    fn change(&self, settings: &str, line: &str) -> String {
        self.write(&format!("{LISTEN}{settings}"), line)
    }

    fn write(&self, content: &str, line: &str) -> String {
        let before = self.server.stderr().len();
        self.yard.file("toolyard.toml", content);
        let news = || self.server.stderr()[before..].to_owned();
        eventually(&format!("{line:?} after {content:?}"), TIMEOUT, || news().contains(line));
        news()
    }

    fn call(&self, tool: &str, arguments: Value) -> (u16, Value) {
        let answer = self.server.client().send(
            "POST",
            &format!("/v1/tools/{tool}"),
            &[],
            arguments.to_string().as_bytes(),
        );
        (answer.status, answer.json())
    }
}

fn applied(key: &str) -> String {
    format!("toolyard.toml: {key} changed; applied")
}

#[test]
fn a_limit_applies_to_the_next_call_and_a_bad_file_changes_nothing() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "slow", "sleep 1; echo 1");
    let live = Live::start(yard, "[limits]\ntimeout = \"20s\"\n");
    let status = || live.call("slow", json!({})).0;
    assert_eq!(status(), 200);
    live.change("[limits]\ntimeout = \"200ms\"\n", &applied("[limits] timeout"));
    assert_eq!(status(), 504);

    for (content, place, what) in [
        (
            "[limits]\ntimeout = 5\n",
            "2:11",
            "'limits.timeout' must be a duration such as \"30s\", not a number",
        ),
        ("[limits]\ntimeout = \"20s\"\n[cach]\n", "3:2", "unknown field 'cach' (did you mean 'cache'?)"),
        ("[limits", "1:8", "not valid TOML"),
    ] {
        let kept = "; the configuration in use is kept\n";
        let news = live.write(content, kept);
        let error = format!("ERROR toolyard: {}:{place}: ", live.yard.path("toolyard.toml").display());
        assert!(news.contains(&error) && news.contains(what), "{news}");
        assert_eq!(news.matches(kept).count(), 1, "{news}");
        assert_eq!(status(), 504, "{content:?} is not applied in part");
    }

    live.change("[limits]\ntimeout = \"21s\"\n", &applied("[limits] timeout"));
    assert_eq!(status(), 200);
    let news = live.write(
        "[server]\nlisten = \"127.0.0.1:1\"\n[limits]\ntimeout = \"200ms\"\n",
        "toolyard.toml: [server] listen changed; restart to apply",
    );
    assert!(news.contains(&applied("[limits] timeout")), "{news}");
    assert_eq!(status(), 504, "it still listens where it did");

    std::fs::remove_file(live.yard.path("toolyard.toml")).unwrap();
    eventually("the defaults are back", TIMEOUT, || status() == 200);
}

#[test]
fn limits_of_calls_and_tools_apply_at_once() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "long", "sleep 1; echo '\"long enough\"'");
    let live = Live::start(yard, "");
    live.change("[limits]\ninput = 10\n", &applied("[limits] input"));
    assert_eq!(live.call("long", json!({"a": "more than ten bytes"})).0, 413);
    live.change("[limits]\noutput = 5\n", &applied("[limits] output"));
    let (_, refused) = live.call("long", json!({}));
    assert_eq!(refused["error"]["kind"], "output_too_large", "{refused}");
    live.change("[limits]\nmax_calls = 1\n", &applied("[limits] max_calls"));
    let both = std::thread::scope(|scope| {
        [0, 1].map(|_| scope.spawn(|| live.call("long", json!({})).0)).map(|call| call.join().unwrap())
    });
    assert!(both.contains(&200) && both.contains(&503), "{both:?}");
}

#[test]
fn the_sandbox_policy_applies_to_every_tool_at_once() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "plain", "echo 1");
    let hosts = json!({"sandbox": {"network": ["example.com"]}});
    yard.tool(Kind::Cli, "hosts", &["/bin/sh", "-c", "echo 1"], hosts);
    let live = Live::start(yard, "");
    let levels = || {
        let tools = live.server.get("/v1/tools").json();
        let tools = tools["tools"].as_array().or(tools.as_array()).unwrap().clone();
        ["plain", "hosts"].map(|name| {
            let tool = tools.iter().find(|tool| tool["exposed"] == name && tool["sandbox"].is_string());
            tool.map(|tool| tool["sandbox"].as_str().unwrap().to_owned())
        })
    };
    let level = |text: &str| Some(text.to_owned());
    let at_the_start = levels();
    live.change("[sandbox]\nlevel = \"landlock\"\n", &applied("[sandbox] level"));
    assert_eq!(levels(), [level("landlock"), None], "a list of hosts needs the full sandbox");
    let run = "[sandbox]\nlevel = \"landlock\"\nrequire = \"none\"\n";
    live.change(run, &applied("[sandbox] require"));
    assert_eq!(levels(), [level("landlock"), level("none")]);
    live.change("", &applied("[sandbox] level"));
    assert_eq!(levels(), at_the_start);
}

#[test]
fn the_lifetime_of_cached_results_and_of_jobs_applies_at_once() {
    let yard = Yard::new();
    let shell = |name: &str, script: &str, extra| {
        yard.tool(Kind::Cli, name, &["/bin/sh", "-c", script], extra);
    };
    shell("same", "echo 1", json!({"deterministic": true}));
    shell("job", "echo 1", json!({"timing": "async_long"}));
    shell("open", "sleep 100", json!({"timing": "async_long"}));
    let live = Live::start(yard, "");
    let is_cached = || live.server.post("same", "{}").json()["meta"]["cached"].as_bool().unwrap();
    assert!(!is_cached() && is_cached());
    live.change("[cache]\nttl = \"1s\"\n", &applied("[cache] ttl"));
    std::thread::sleep(Duration::from_millis(1100));
    assert!(!is_cached());

    live.change("[jobs]\nkeep_long = \"1s\"\n", &applied("[jobs] keep_long"));
    let (_, started) = live.call("job", json!({}));
    let job = format!("/v1/jobs/{}", started["data"]["job_id"].as_str().unwrap());
    assert_eq!(live.server.get(&format!("{job}?wait_ms=30000")).json()["state"], "complete");
    eventually("the finished job is removed", TIMEOUT, || live.server.get(&job).status == 404);

    live.change("[jobs]\nmax_open = 1\n", &applied("[jobs] max_open"));
    assert_eq!(live.call("open", json!({})).0, 202);
    let (status, refused) = live.call("open", json!({}));
    assert_eq!(status, 503, "{refused}");
    live.change("", &applied("[jobs] max_open"));
    assert_eq!(live.call("open", json!({})).0, 202);
}

#[test]
fn every_key_is_either_applied_or_named() {
    let yard = Yard::without_secret();
    yard.file("notes/a.txt", "1");
    let config = "[builtin]\nconfig = true\n";
    let live = Live::start(yard, config);
    let get = || live.call("config_get", json!({})).1["data"]["value"].clone();
    let at_the_start = get();
    let (mut applied_keys, mut named_keys) = (0, 0);
    for (section, keys) in at_the_start.as_object().unwrap() {
        for (key, value) in keys.as_object().unwrap() {
            let (line, shown) = another(section, key, value);
            let settings = match (section.as_str(), key.as_str()) {
                // Without it, nothing could be asked; another test turns it off.
                ("builtin", "config") => continue,
                ("builtin", _) => format!("{LISTEN}{config}{line}"),
                ("server", "listen") => format!("[server]\n{line}{config}"),
                ("server", _) => format!("{LISTEN}{line}{config}"),
                ("resources", _) => format!("{LISTEN}{config}{line}"),
                _ => format!("{LISTEN}[{section}]\n{line}{config}"),
            };
            let news = live.write(&settings, &format!("[{section}] {key} changed; "));
            let now = get();
            let mut expected = at_the_start.clone();
            if news.contains(&applied(&format!("[{section}] {key}"))) {
                expected[section][key] = shown;
                applied_keys += 1;
            } else {
                let line = format!("toolyard.toml: [{section}] {key} changed; restart to apply");
                assert!(news.contains(&line), "{news}");
                named_keys += 1;
            }
            assert_eq!(now, expected, "{settings}");
            assert_eq!(news.matches(" changed; ").count(), 1, "{settings}: {news}");
            if news.contains("; applied") {
                live.change(config, &applied(&format!("[{section}] {key}")));
            } else {
                // Back to what is in use: nothing to say. The next change shows that it was read.
                live.yard.file("toolyard.toml", format!("{LISTEN}{config}"));
                live.change(&format!("{config}echo = true\n"), &applied("[builtin] echo"));
                live.change(config, &applied("[builtin] echo"));
            }
        }
    }
    assert!(applied_keys >= 20 && named_keys >= 15, "{applied_keys} applied, {named_keys} named");
}

/// Another value of the key as a line of the file, and as `config.get` shows it.
fn another(section: &str, key: &str, value: &Value) -> (String, Value) {
    let shown = match (section, key, value) {
        ("server", "listen", _) => json!("127.0.0.1:1"),
        ("auth", "token", _) => json!("all"),
        ("audit", "sync", _) => json!("always"),
        ("audit", "retention", _) => json!("99d"),
        ("sandbox", "level", _) => json!("landlock"),
        ("sandbox", "require", _) => json!("full"),
        ("prepare", "network", _) => json!("deny"),
        ("state", "dir", _) => json!("elsewhere"),
        ("limits", "timeout", _) => json!("7s"),
        ("limits", "input" | "output", _) => json!(7000),
        ("resources", "root", _) => {
            let text = "[[resources.root]]\npath = \"notes\"\nname = \"notes\"\nwrite = true\n";
            return (text.to_owned(), json!("notes=notes write"));
        }
        (_, _, Value::Number(number)) => json!(number.as_u64().unwrap() + 1),
        (_, _, Value::Bool(on)) => json!(!on),
        // Every other text is a duration.
        (_, _, Value::String(_)) => json!("7m"),
        _ => panic!("give [{section}] {key} another value here"),
    };
    (format!("{key} = {shown}\n"), shown)
}

#[test]
fn built_in_tools_come_and_go() {
    let live = Live::start(Yard::new(), "[builtin]\nconfig = true\n");
    let status = |tool: &str| live.call(tool, json!({"message": "x"})).0;
    assert_eq!((live.call("config_get", json!({})).0, status("echo")), (200, 404));
    live.change("[builtin]\necho = true\n", &applied("[builtin] config"));
    assert_eq!((live.call("config_get", json!({})).0, status("echo")), (404, 200));
}

#[test]
fn it_is_applied_under_stdio_too() {
    let yard = Yard::new();
    let mut pipes = Pipes::start(&yard);
    pipes.send(&initialize());
    pipes.read();
    pipes.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let mut tools = |id: u64| {
        pipes.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}));
        loop {
            let message = pipes.read();
            if message["id"] == id {
                return message["result"]["tools"].as_array().unwrap().len();
            }
        }
    };
    assert_eq!(tools(1), 0);
    yard.file("toolyard.toml", "[builtin]\necho = true\n");
    let (start, mut id) = (Instant::now(), 2);
    while tools(id) == 0 {
        assert!(start.elapsed() < TIMEOUT, "the change is not applied");
        std::thread::sleep(Duration::from_millis(50));
        id += 1;
    }
}

#[test]
fn the_documented_file_has_every_key_with_its_default() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md")).unwrap();
    let block = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let yard = Yard::new();
    yard.file("notes/a.txt", "1").file("toolyard.toml", "[builtin]\nconfig = true\n");
    let get = || yard.run(&["call", "config_get", "--json"]).expect(0).json()["data"]["value"].clone();
    let defaults = get();
    yard.file("toolyard.toml", block);
    let documented = get();
    for (section, keys) in defaults.as_object().unwrap() {
        let mut sections = block.split("\n[");
        let text = sections.find(|text| text.trim_start_matches('[').starts_with(section.as_str()));
        let text = text.unwrap_or_else(|| panic!("[{section}] is not documented"));
        for (key, value) in keys.as_object().unwrap() {
            let is_example = value.is_null() || ["builtin", "resources"].contains(&section.as_str());
            assert!(
                is_example || documented[section][key] == *value,
                "[{section}] {key} has another default"
            );
            let line = format!("\n{key} = ");
            assert!(section == "resources" || text.contains(&line), "[{section}] {key} is not documented");
        }
    }
}
