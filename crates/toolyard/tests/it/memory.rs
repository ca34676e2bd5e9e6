//! Endless output: it is stopped at the limit while it streams, and the server's memory stays flat.

use crate::support::{Kind, Yard, assert_no_survivor, marker};
use serde_json::json;
use std::time::{Duration, Instant};

const ROOM_KB: u64 = 16 * 1024;

#[test]
fn ten_gigabytes_of_output_are_cut_at_the_cap_without_filling_memory() {
    for kind in Kind::ALL {
        let (yard, marker) = (Yard::new(), marker());
        let flood = "head -c 10000000000 /dev/zero | tr '\\0' x";
        yard.tool(kind, "flood", &["/bin/sh", "-c", flood, &marker], json!({})).shell(
            kind,
            "small",
            "echo '{}'",
        );
        let server = yard.serve();
        assert_eq!(server.post("small", "{}").status, 200);
        let before = server.peak_memory_kb();
        for _ in 0..3 {
            let started = Instant::now();
            let answer = server.post("flood", "{}");
            assert_eq!(answer.status, 502);
            let error = answer.json()["error"].clone();
            assert_eq!(
                (&error["code"], &error["details"]["kind"]),
                (&json!("ECAP"), &json!("output_too_large"))
            );
            assert!(
                error["message"].as_str().unwrap().contains("'flood' wrote more than 262144 bytes"),
                "{error}"
            );
            assert!(started.elapsed() < Duration::from_secs(5), "{kind:?} took {:?}", started.elapsed());
        }
        let rise = server.peak_memory_kb() - before;
        assert!(rise < ROOM_KB, "{kind:?}: memory rose by {rise} kB");
        assert_no_survivor(&marker, Duration::from_secs(2));
        assert_eq!(server.post("small", "{}").status, 200);
    }
}

#[test]
fn endless_output_on_stderr_does_not_fill_memory_either() {
    let (yard, marker) = (Yard::new(), marker());
    let flood = "tr '\\0' x </dev/zero >&2";
    yard.tool(Kind::Cli, "flood", &["/bin/sh", "-c", flood, &marker], json!({"timeoutMs": 1000}));
    let server = yard.serve();
    assert_eq!(server.post("nothing", "{}").status, 404);
    let before = server.peak_memory_kb();
    let answer = server.post("flood", "{}");
    assert_eq!(answer.status, 504);
    let said = answer.json()["error"]["details"]["stderr"].as_str().unwrap().len();
    assert!(said <= 2048, "{said} bytes of stderr in the answer");
    let rise = server.peak_memory_kb() - before;
    assert!(rise < ROOM_KB, "memory rose by {rise} kB");
    assert_no_survivor(&marker, Duration::from_secs(2));
}

#[test]
fn an_answer_of_exactly_the_cap_passes_and_one_byte_more_does_not() {
    for kind in Kind::ALL {
        let yard = Yard::new();
        let extra = if kind == Kind::Cli {
            json!({"limits": {"output": 1000}})
        } else {
            json!({"policy": {"max_output_bytes": 1000}})
        };
        for (name, digits) in [("fits", 1000), ("over", 1001)] {
            let script = format!("printf '%0{digits}d' 0 | tr 0 1");
            yard.tool(kind, name, &["/bin/sh", "-c", &script], extra.clone());
        }
        let server = yard.serve();
        assert_eq!(server.post("fits", "{}").status, 200, "{kind:?}");
        let over = server.post("over", "{}");
        assert_eq!((over.status, &over.json()["error"]["code"]), (502, &json!("ECAP")), "{kind:?}");
    }
    let yard = Yard::new();
    yard.tool(Kind::Cli, "over", &["/bin/echo", "12345"], json!({"limits": {"output": 3}}));
    assert_eq!(yard.call("over", &json!({})).0.code, 6);
}
