//! The hostile tree: a leader that ignores every polite signal, a child that does the same, and a daemon that
//! left session and group behind. Whatever ends the call, none of them survives; as root and as an ordinary user.

use crate::support::{
    Kind, RunAs, Running, TIMEOUT, Yard, assert_no_survivor, eventually, marker, processes_with, signal,
};
use serde_json::json;
use std::time::{Duration, Instant};

const HOSTILE: &str = r"
use POSIX;
$SIG{$_} = 'IGNORE' for qw(TERM INT HUP QUIT PIPE);
sub stay { sleep 1 while 1 }
if (!fork) { setsid(); exit if fork; setsid(); close STDIN; close STDOUT; close STDERR; stay() }
if (!fork) { setpgrp(0, 0); stay() }
stay();
";

/// Leader, child and daemon.
const TREE_SIZE: usize = 3;

/// How many of them run, the launcher aside.
fn count_running(marker: &str) -> usize {
    let is_perl = |process: &&String| {
        process.split_once(' ').is_some_and(|(_, line)| line.starts_with("/usr/bin/perl"))
    };
    processes_with(marker).iter().filter(is_perl).count()
}

struct Tree {
    yard: Yard,
    marker: String,
}

impl Tree {
    fn start(run_as: RunAs, kind: Kind, timeout_ms: u64) -> Tree {
        let (yard, marker) = (Yard::of(run_as), marker());
        let limit = match kind {
            Kind::Cli => json!({"timeoutMs": timeout_ms}),
            Kind::Process | Kind::Binary => json!({"policy": {"timeout_ms": timeout_ms}}),
        };
        yard.tool(kind, "hostile", &["/usr/bin/perl", "-e", HOSTILE, &marker], limit);
        Tree { yard, marker }
    }

    fn wait_until_running(&self) {
        eventually("the tree has grown", TIMEOUT, || count_running(&self.marker) >= TREE_SIZE);
    }

    #[track_caller]
    fn assert_dead(&self, limit: Duration) {
        assert_no_survivor(&self.marker, limit);
    }

    /// The status of its calls, from the audit log.
    fn ends(&self) -> Vec<String> {
        let records = self.yard.records();
        let ends = records.iter().filter(|record| record["kind"] == "end");
        ends.map(|record| record["error"].as_str().unwrap_or("none").to_owned()).collect()
    }
}

fn in_every_way(mut test: impl FnMut(RunAs, Kind)) {
    for run_as in RunAs::all() {
        for kind in [Kind::Cli, Kind::Process] {
            test(run_as, kind);
        }
    }
}

#[test]
fn no_survivor_after_a_timeout() {
    in_every_way(|run_as, kind| {
        let tree = Tree::start(run_as, kind, 1000);
        let (ran, envelope) = tree.yard.call("hostile", &json!({}));
        // The tree is killed before the response is sent.
        tree.assert_dead(Duration::ZERO);
        assert_eq!(
            (ran.code, &envelope["error"]["error_details"]["code"]),
            (5, &json!("ETIMEOUT")),
            "{run_as:?} {kind:?}"
        );
        assert_eq!(tree.ends(), ["timeout"]);
    });
}

#[test]
fn no_survivor_after_ctrl_c() {
    in_every_way(|run_as, kind| {
        let tree = Tree::start(run_as, kind, 60_000);
        let mut command = tree.yard.command();
        command.args(["call", "hostile"]);
        let call = Running::start(command);
        tree.wait_until_running();
        signal(call.child.id(), libc::SIGINT);
        let ran = call.finish(Duration::from_secs(5));
        tree.assert_dead(Duration::from_secs(1));
        assert_eq!(ran.code, 130, "{run_as:?} {kind:?} {ran:?}");
        assert!(ran.stderr.contains("interrupted"), "{ran:?}");
        assert_eq!(tree.ends(), ["cancelled"]);
    });
}

#[test]
fn no_survivor_after_the_http_caller_went_away() {
    in_every_way(|run_as, kind| {
        let tree = Tree::start(run_as, kind, 60_000);
        let server = tree.yard.serve();
        let mut client = server.client();
        client.write("POST", "/mcp/tool/hostile", &[], b"{}").unwrap();
        tree.wait_until_running();
        drop(client);
        // The documented limit is one second; the rest is slack for a busy machine.
        tree.assert_dead(Duration::from_secs(2));
        assert_eq!(server.get("/healthz").status, 200, "{run_as:?} {kind:?}");
        assert_eq!(server.stop(), 0);
        assert_eq!(tree.ends(), ["cancelled"]);
    });
}

#[test]
fn no_survivor_2_s_after_kill_9_of_a_call() {
    in_every_way(|run_as, kind| {
        let tree = Tree::start(run_as, kind, 60_000);
        let mut command = tree.yard.command();
        command.args(["call", "hostile"]);
        let call = Running::start(command);
        tree.wait_until_running();
        signal(call.child.id(), libc::SIGKILL);
        tree.assert_dead(Duration::from_secs(2));
        assert_eq!(call.finish(TIMEOUT).code, 128 + libc::SIGKILL, "{run_as:?} {kind:?}");
    });
}

#[test]
fn no_survivor_2_s_after_kill_9_of_the_server() {
    in_every_way(|run_as, kind| {
        let tree = Tree::start(run_as, kind, 60_000);
        let server = tree.yard.serve();
        let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
        for client in &mut clients {
            client.write("POST", "/mcp/tool/hostile", &[], b"{}").unwrap();
        }
        eventually("three trees have grown", TIMEOUT, || count_running(&tree.marker) >= 3 * TREE_SIZE);
        server.kill();
        tree.assert_dead(Duration::from_secs(2));
        tree.yard.run(&["audit", "verify"]).expect(0);
        tree.yard.serve().wait_until_ready();
        assert_eq!(clients.len(), 3, "{run_as:?} {kind:?}");
    });
}

#[test]
fn a_tree_that_never_stops_forking_dies_too() {
    for run_as in RunAs::all() {
        let (yard, marker) = (Yard::of(run_as), marker());
        // Eight chains in which each process forks its successor and exits, so that a killed process already
        // has a successor. Only a few run at a time.
        let chains = "use POSIX; $SIG{TERM} = 'IGNORE';
                      for (1..8) { next if fork; while (1) { exit if fork; setsid(); select undef, undef, undef, .005 } }
                      sleep 1 while 1";
        yard.tool(Kind::Cli, "chains", &["/usr/bin/perl", "-e", chains, &marker], json!({"timeoutMs": 500}));
        let started = Instant::now();
        assert_eq!(yard.call("chains", &json!({})).0.code, 5, "{run_as:?}");
        assert_no_survivor(&marker, Duration::ZERO);
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}
