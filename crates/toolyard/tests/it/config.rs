//! `toolyard.toml` and `TOOLYARD_*`: unknown settings are refused, with their position or name.

use crate::support::{Kind, TIMEOUT, Yard, run_for};
use serde_json::json;

#[test]
fn a_wrong_configuration_is_refused_with_file_line_and_column() {
    for (content, place, what, hint) in [
        ("[server\n", "1:8", "not valid TOML", ""),
        (
            "[server]\nlisen = \"127.0.0.1:1\"\n",
            "2:1",
            "unknown field 'server.lisen'",
            "did you mean 'server.listen'?",
        ),
        ("[sever]\n", "1:2", "unknown field 'sever'", "did you mean 'server'?"),
        ("[server]\nlisten = 3333\n", "2:10", "'server.listen' must be a string, not a number", ""),
        (
            "[server]\n\nlisten = \"0.0.0.0:80\"\n",
            "3:10",
            "can be reached from other machines",
            "127.0.0.1:3333",
        ),
        ("[server]\nlisten = \"somewhere\"\n", "2:10", "is not an address", "127.0.0.1:3333"),
        ("[limits]\ntimeout = \"0s\"\n", "2:11", "'limits.timeout' must be from 1ms to 1d, not 0s", ""),
        (
            "[limits]\ntimeout = 30\n",
            "2:11",
            "must be a duration such as \"30s\", not a number",
            "250ms, 30s, 5m",
        ),
        ("[jobs]\nkeep_long = \"1 day\"\n", "2:13", "such as \"30s\", not '1 day'", "2h or 7d"),
        (
            "[cache]\nttl = \"99999999999999999999d\"\n",
            "2:7",
            "from 1s to 366d, not 99999999999999999999d",
            "",
        ),
        ("[limits]\ninput = 1.5\n", "2:9", "'limits.input' must be a whole number", ""),
        ("[audit]\nsync = \"sometimes\"\n", "2:8", "'audit.sync' is 'sometimes'", "\"always\""),
        ("audit = 5\n", "1:9", "'audit' must be a map", ""),
        ("[audit]\nsync = \"always\"\nsync = \"always\"\n", "3:1", "", ""),
    ] {
        let yard = Yard::new();
        yard.file("toolyard.toml", content);
        for command in ["list", "check", "doctor", "serve"] {
            let ran = yard.run(&[command]);
            assert_eq!(ran.code, 3, "{content:?}: {ran:?}");
            let file = format!("toolyard.toml:{place}: ");
            assert!(
                ran.stderr.contains(&file) && ran.stderr.contains(what),
                "{content:?} at {place}: {ran:?}"
            );
            assert!(ran.stderr.contains(hint), "{content:?}: {ran:?}");
        }
    }
}

#[test]
fn variables_override_the_file_and_are_refused_by_name_when_wrong() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "echo 1").file("toolyard.toml", "[limits]\ntimeout = \"5s\"\n");
    let with = |name: &str, value: &str, arguments: &[&str]| {
        let mut command = yard.command();
        command.env(name, value).args(arguments);
        run_for(command, TIMEOUT)
    };
    let shown = |name: &str, value: &str| with(name, value, &["show", "tool", "--json"]).expect(0).json();
    assert_eq!(shown("UNRELATED", "1")["limits"]["timeoutMs"], 5000);
    assert_eq!(shown("TOOLYARD_LIMITS_TIMEOUT", "700ms")["limits"]["timeoutMs"], 700);
    for (name, value, what) in [
        (
            "TOOLYARD_LIMITS_TIMEOUT",
            "soon",
            "'limits.timeout' must be a duration such as \"30s\", not 'soon'",
        ),
        ("TOOLYARD_LIMITS_TIMEOUT", "5", "'limits.timeout' must be a duration such as \"30s\", not a number"),
        ("TOOLYARD_LIMITS_TIMEOUT_MS", "700", "hint: set TOOLYARD_LIMITS_TIMEOUT=700ms"),
        ("TOOLYARD_SERVER_LISTEN", "0.0.0.0:80", "can be reached from other machines"),
    ] {
        let ran = with(name, value, &["list"]).expect(3);
        assert!(
            ran.stderr.contains(&format!("the environment variable {name}")) && ran.stderr.contains(what),
            "{ran:?}"
        );
        assert!(ran.stderr.contains("hint: "), "{ran:?}");
    }
}

#[test]
fn an_unknown_variable_is_a_warning_with_the_nearest_name() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "echo 1");
    let run = |name: &str, value: &str, arguments: &[&str]| {
        let mut command = yard.command();
        command.env(name, value).args(arguments);
        run_for(command, TIMEOUT).expect(0)
    };
    for (name, hint) in [
        ("TOOLYARD_SERVER_LISTN", "did you mean TOOLYARD_SERVER_LISTEN?"),
        ("TOOLYARD_LIMIT_TIMEOUT", "did you mean TOOLYARD_LIMITS_TIMEOUT?"),
        ("TOOLYARD_TOKENS", "did you mean TOOLYARD_TOKEN?"),
        ("TOOLYARD_SOMETHING_ELSE", "TOOLYARD_<SECTION>_<KEY>"),
        ("TOOLYARD_", "TOOLYARD_<SECTION>_<KEY>"),
    ] {
        for arguments in [&["list"][..], &["call", "tool"]] {
            let ran = run(name, "its value", arguments);
            let warning = format!("warning: the environment variable {name} is unknown and has no effect; ");
            assert_eq!(ran.stderr.matches(&warning).count(), 1, "{ran:?}");
            assert!(ran.stderr.contains(hint) && !ran.stderr.contains("its value"), "{ran:?}");
        }
    }
    for name in ["TOOLYARD_CONTEXT", "TOOLYARD_TOKEN", "TOOLYARD_SECRET_NAME", "TOOLYARDS", "UNRELATED"] {
        let ran = run(name, "a long value", &["list"]);
        assert_eq!(ran.stderr, "", "{name}: {ran:?}");
    }
    let ran = run("TOOLYARD_YARD", yard.path(".").to_str().unwrap(), &["list"]);
    assert_eq!(ran.stderr, "", "{ran:?}");
}

#[test]
fn keys_with_a_unit_in_their_name_are_refused_with_the_line_to_write() {
    for (section, old, value, new) in [
        ("server", "session_idle_ms", "1800000", "session_idle = \"30m\""),
        ("server", "header_ms", "10000", "header_timeout = \"10s\""),
        ("server", "stalled_ms", "1500", "stalled = \"1500ms\""),
        ("server", "ping_ms", "20000", "ping = \"20s\""),
        ("server", "drain_ms", "0", "drain = \"0s\""),
        ("limits", "timeout_ms", "30000", "timeout = \"30s\""),
        ("limits", "timeout_ms", "\"soon\"", "timeout = \"30s\""),
        ("cache", "ttl_seconds", "86400", "ttl = \"1d\""),
        ("audit", "retention_days", "365", "retention = \"365d\""),
        ("jobs", "keep_short_seconds", "3600", "keep_short = \"1h\""),
        ("jobs", "keep_long_seconds", "90", "keep_long = \"90s\""),
        ("jobs", "keep_failed_seconds", "604800", "keep_failed = \"7d\""),
    ] {
        let yard = Yard::new();
        yard.file("toolyard.toml", format!("[{section}]\n  {old} = {value}\n"));
        let ran = yard.run(&["list"]).expect(3);
        let key = new.split(' ').next().unwrap();
        let message =
            format!("toolyard.toml:2:3: '{section}.{old}' was replaced by '{section}.{key}', a duration");
        assert!(ran.stderr.contains(&message), "{ran:?}");
        assert!(ran.stderr.contains(&format!("hint: write {new}\n")), "{ran:?}");
        // What the hint says is accepted.
        yard.file("toolyard.toml", format!("[{section}]\n{new}\n"));
        yard.run(&["list"]).expect(0);
    }
}

#[test]
fn flags_take_durations_with_a_unit_only() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "echo 1");
    yard.run(&["call", "tool", "--timeout", "2m"]).expect(0);
    for arguments in [["call", "tool", "--timeout", "200"], ["state", "prune", "--min-age", "30"]] {
        let ran = yard.run(&arguments).expect(2);
        assert!(ran.stderr.contains("250ms, 30s, 5m, 2h or 7d"), "{ran:?}");
    }
}

#[test]
fn the_yards_file_overrides_the_users() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "echo 1");
    yard.file("../home/.config/toolyard/toolyard.toml", "[limits]\ntimeout = \"111ms\"\noutput = 222\n");
    yard.file("toolyard.toml", "[limits]\ntimeout = \"333ms\"\n");
    let limits = yard.run(&["show", "tool", "--json"]).expect(0).json()["limits"].clone();
    assert_eq!(limits, json!({"timeoutMs": 333, "input": 65536, "output": 222}));
}

#[test]
fn the_state_folder_is_configurable_and_accessible_to_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    for (content, folder) in [("", ".toolyard"), ("[state]\ndir = \"elsewhere/state\"\n", "elsewhere/state")]
    {
        let yard = Yard::new();
        yard.shell(Kind::Cli, "tool", "echo 1").file("toolyard.toml", content);
        yard.run(&["list"]).expect(0);
        assert!(!yard.path(folder).exists() || !memory_can_be_executed(), "list creates no files");
        yard.run(&["call", "tool"]).expect(0);
        let mode = std::fs::metadata(yard.path(folder)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(yard.path(folder).join("audit").is_dir());
    }
}

#[test]
fn records_can_be_synced_before_each_response() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "echo 1").file("toolyard.toml", "[audit]\nsync = \"always\"\n");
    let server = yard.serve();
    for _ in 0..5 {
        assert_eq!(server.post("tool", "{}").status, 200);
    }
    server.kill();
    let verified = yard.run(&["audit", "verify", "--json"]).expect(0).json();
    assert_eq!((&verified["intact"], &verified["records"]), (&json!(true), &json!(11)), "{verified}");
}

/// Where it cannot, the launcher is stored as a file in the state folder.
fn memory_can_be_executed() -> bool {
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let mut memory = std::fs::File::from(memfd_create("probe", MemfdFlags::CLOEXEC).unwrap());
    memory.write_all(&std::fs::read("/bin/true").unwrap()).unwrap();
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    std::process::Command::new(path).status().is_ok_and(|status| status.success())
}
