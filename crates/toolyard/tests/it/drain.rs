//! Stopping the server: running calls may finish within a limit; then everything is killed.

use crate::support::{Kind, TIMEOUT, Yard, assert_no_survivor, eventually, marker, processes_with, signal};
use serde_json::json;
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn a_running_call_is_answered_before_the_server_exits() {
    for stop in [libc::SIGTERM, libc::SIGINT] {
        let (yard, marker) = (Yard::new(), marker());
        yard.tool(Kind::Cli, "slow", &["/bin/sh", "-c", "sleep 1; echo '{\"n\":1}'", &marker], json!({}));
        let mut server = yard.serve();
        let mut idle = server.client();
        assert_eq!(idle.send("GET", "/healthz", &[], b"").status, 200);
        let mut client = server.client();
        client.write("POST", "/mcp/tool/slow", &[], b"{}").unwrap();
        eventually("the call runs", TIMEOUT, || !processes_with(&marker).is_empty());
        signal(server.pid(), stop);
        let answer = client.read().unwrap();
        assert_eq!((answer.status, answer.json()["body"].clone()), (200, json!({"n": 1})));
        assert_eq!(server.wait(Duration::from_secs(5)), 0, "an idle connection does not keep it");
        eventually("it says that it stopped", TIMEOUT, || server.stderr().ends_with("stopped\n"));
        let verified = yard.run(&["audit", "verify", "--json"]).expect(0).json();
        assert_eq!((&verified["intact"], &verified["notes"]), (&json!(true), &json!([])), "closed in order");
    }
}

#[test]
fn a_stopping_server_accepts_no_new_connections() {
    let (yard, marker) = (Yard::new(), marker());
    yard.tool(Kind::Cli, "slow", &["/bin/sh", "-c", "sleep 1; echo 1", &marker], json!({}));
    let mut server = yard.serve();
    let mut client = server.client();
    client.write("POST", "/mcp/tool/slow", &[], b"{}").unwrap();
    eventually("the call runs", TIMEOUT, || !processes_with(&marker).is_empty());
    signal(server.pid(), libc::SIGTERM);
    eventually("the port is closed", TIMEOUT, || TcpStream::connect(&server.address).is_err());
    assert_eq!(client.read().unwrap().status, 200);
    assert_eq!(server.wait(TIMEOUT), 0);
}

#[test]
fn over_the_drain_limit_calls_are_cancelled_and_nothing_survives() {
    let (yard, marker) = (Yard::new(), marker());
    yard.file("toolyard.toml", "[server]\ndrain = \"300ms\"\n");
    yard.tool(Kind::Cli, "slow", &["/bin/sh", "-c", "trap '' TERM; sleep 300", &marker], json!({}));
    let mut server = yard.serve();
    let mut client = server.client();
    client.write("POST", "/mcp/tool/slow", &[], b"{}").unwrap();
    eventually("the call runs", TIMEOUT, || !processes_with(&marker).is_empty());
    let started = Instant::now();
    signal(server.pid(), libc::SIGTERM);
    assert_eq!(server.wait(Duration::from_secs(5)), 0);
    assert!(started.elapsed() >= Duration::from_millis(300), "it waited {:?} only", started.elapsed());
    assert_no_survivor(&marker, Duration::from_secs(1));
    assert!(client.read().is_err());
    let records = yard.records();
    let end = records.iter().find(|record| record["kind"] == "end").unwrap();
    assert_eq!((&end["status"], &end["error"]), (&json!("failure"), &json!("cancelled")), "{end}");
    assert_eq!(records.last().unwrap()["kind"], "close");
}
