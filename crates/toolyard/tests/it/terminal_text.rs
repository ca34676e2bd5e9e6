//! Names, descriptions and paths come from files, and text for people is printed on terminals.

use crate::support::{RunAs, Yard};
use serde_json::json;

/// Clears the screen, starts a new line, turns the direction of text around, and is an 8-bit escape sequence.
const HOSTILE: &str = "x\u{1b}[2J\r\u{202e}y\u{9b}31m\u{7}";

#[test]
fn no_control_character_of_a_file_reaches_the_terminal() {
    for run_as in RunAs::all() {
        let yard = Yard::of_without_secret(run_as);
        let hostile = |extra: serde_json::Value| {
            let mut tool = json!({"id": "hostile", "kind": "cli", "entry": ["/bin/echo", "1"],
            "title": HOSTILE, "description": format!("first{HOSTILE}\nhostile2  second row"),
            "examples": [{"name": HOSTILE, "input": {}, "output": HOSTILE}]});
            tool.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            serde_json::to_string(&tool).unwrap()
        };
        yard.file("tools/hostile.tool.yaml", hostile(json!({})));
        yard.file(
            &format!("tools/{HOSTILE}/bad.tool.yaml"),
            hostile(json!({"id": HOSTILE, "kind": HOSTILE, HOSTILE: 1})),
        );
        yard.run(&["call", HOSTILE]);
        yard.file(
            "tools/say.tool.yaml",
            hostile(json!({"id": "say", "entry": ["/bin/printf", "\"%b\"", "\\\\033[2J"]})),
        );
        for arguments in [
            &["list"][..],
            &["show", "hostile"],
            &["check"],
            &["test"],
            &["doctor"],
            &["audit", "list"],
            &["call", "hostile", HOSTILE],
            &["show", HOSTILE],
            &["resource", "list"],
        ] {
            let ran = yard.run(arguments);
            for (stream, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
                let found = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
                assert_eq!(found, None, "{arguments:?}, {stream}: {text:?}");
            }
        }
        let listed = yard.run(&["list"]).expect(0).stdout;
        assert!(listed.contains("\\u{1b}[2J"), "it is made visible: {listed}");
        assert!(!listed.lines().any(|line| line.starts_with("hostile2")), "no row can be forged: {listed}");
        // Programs get what the file says.
        let json = yard.run(&["show", "hostile", "--json"]).expect(0).json();
        assert_eq!(json["title"], HOSTILE);
    }
}
