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
        ("[limits]\ntimeout_ms = 0\n", "2:14", "'limits.timeout_ms' must be a whole number from 1", ""),
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
    yard.shell(Kind::Cli, "tool", "echo 1").file("toolyard.toml", "[limits]\ntimeout_ms = 5000\n");
    let with = |name: &str, value: &str, arguments: &[&str]| {
        let mut command = yard.command();
        command.env(name, value).args(arguments);
        run_for(command, TIMEOUT)
    };
    let shown = |name: &str, value: &str| with(name, value, &["show", "tool", "--json"]).expect(0).json();
    assert_eq!(shown("UNRELATED", "1")["limits"]["timeoutMs"], 5000);
    assert_eq!(shown("TOOLYARD_LIMITS_TIMEOUT_MS", "700")["limits"]["timeoutMs"], 700);
    for (name, value, what) in [
        ("TOOLYARD_LIMITS_TIMEOUT_MS", "soon", "'limits.timeout_ms' must be a whole number"),
        ("TOOLYARD_LIMITS_TIMEOUT", "5", "unknown field 'limits.timeout'"),
        ("TOOLYARD_NONSENSE", "5", "names no section"),
        ("TOOLYARD_SERVER_LISTEN", "0.0.0.0:80", "can be reached from other machines"),
    ] {
        let ran = with(name, value, &["list"]).expect(3);
        assert!(
            ran.stderr.contains(&format!("the environment variable {name}")) && ran.stderr.contains(what),
            "{ran:?}"
        );
        assert!(ran.stderr.contains("hint: ") || what.starts_with("'limits"), "{ran:?}");
    }
}

#[test]
fn the_yards_file_overrides_the_users() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "echo 1");
    yard.file("../home/.config/toolyard/toolyard.toml", "[limits]\ntimeout_ms = 111\noutput = 222\n");
    yard.file("toolyard.toml", "[limits]\ntimeout_ms = 333\n");
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
    use std::io::Write;
    use std::os::fd::{AsRawFd, FromRawFd};
    // SAFETY: the name ends in NUL; the descriptor is new and ours alone.
    let mut memory =
        unsafe { std::fs::File::from_raw_fd(libc::memfd_create(c"probe".as_ptr(), libc::MFD_CLOEXEC)) };
    memory.write_all(&std::fs::read("/bin/true").unwrap()).unwrap();
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    std::process::Command::new(path).status().is_ok_and(|status| status.success())
}
