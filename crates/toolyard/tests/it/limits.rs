//! Limits that a tool's file declares hold without a sandbox too.

use crate::support::{RunAs, Yard};
use serde_json::json;

const CODE: &str = "import os, time\n\
    def run(mib, processes):\n    \
    held = bytearray(os.urandom(1 << 20)) * mib\n    \
    for _ in range(processes):\n        \
    if os.fork() == 0:\n            \
    time.sleep(3)\n            \
    os._exit(0)\n    \
    time.sleep(1)\n    \
    return len(held)\n\
    if __name__ == '__main__':\n    \
    import json, sys\n    \
    given = json.load(sys.stdin)['arguments']\n    \
    print(json.dumps(run(given['mib'], given['processes'])))\n";

#[test]
fn a_tool_without_a_sandbox_has_its_limits() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        yard.file("tools/take.py", CODE);
        // Of the two formats, and with limits of its own.
        let limits = "memory: 80000000, processes: 10";
        for (name, sandbox) in [("small", format!("{{level: none, {limits}}}")), ("usual", "none".to_owned())]
        {
            let text = format!("id: {name}\nkind: python\nentry: tools.take:run\nsandbox: {sandbox}\n");
            yard.file(&format!("tools/{name}.tool.yaml"), text);
        }
        yard.file(
            "tools/manifest/tool.json",
            json!({
                "id": "manifest", "runtime": "process", "sandbox": "none",
                "entry": {"command": "python3", "args": ["tools/take.py"]},
                "policy": {"memory_bytes": 80_000_000, "cpu_time_ms": 20_000},
            })
            .to_string(),
        );
        let server = yard.serve();
        let call = |tool: &str, mib: u32, processes: u32| {
            server.post(tool, json!({"mib": mib, "processes": processes}).to_string()).json()
        };
        for tool in ["small", "usual", "manifest"] {
            let done = call(tool, 10, 0);
            assert_eq!(done["meta"]["sandbox"], "none", "{run_as:?} {tool}: {done}");
            let held = if done["body"].is_object() { &done["body"]["result"] } else { &done["body"] };
            assert_eq!(*held, 10 << 20, "{run_as:?} {tool}: {done}");
        }
        let message = |answer: serde_json::Value| answer["error"]["message"].as_str().map(str::to_owned);
        for tool in ["small", "manifest"] {
            let over = message(call(tool, 150, 0)).unwrap();
            assert!(over.contains("more than 80000000 bytes of memory"), "{run_as:?} {tool}: {over}");
        }
        let over = message(call("usual", 1200, 0)).unwrap();
        assert!(over.contains("more than 1073741824 bytes of memory"), "{run_as:?}: {over}");
        // The kernel refuses processes of an ordinary user's own user namespace.
        let over = message(call("small", 1, 20)).unwrap();
        assert!(
            over.contains("more than 10 processes") || over.contains("Resource temporarily unavailable"),
            "{run_as:?}: {over}"
        );
    }
}
