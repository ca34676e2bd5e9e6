//! Our own driver for the scenarios of the official conformance suite, which knows HTTP only: the same conversations over
//! any transport, message by message, each answer held against the schema of its revision.

mod grammar;
mod peer;
pub mod scenarios;
pub mod stage;
mod suite;
pub mod table;
pub mod transport;

use crate::docs::repository;
use crate::examples::copy_folder;
use crate::support::{Kind, Yard, marker};
use grammar::Grammar;
use serde_json::json;
use stage::Stage;
use suite::Suite;
use table::{HANDSHAKE, How, OLDER, OURS_HANDSHAKE, OURS_STATELESS, STATELESS, Set};
use transport::{Pipes, Transport};

#[test]
fn handshake_scenarios_hold_on_pipes() {
    play_on_pipes("2025-11-25", &[HANDSHAKE, OURS_HANDSHAKE], Least { checks: 470, messages: 130 });
}

#[test]
fn stateless_scenarios_hold_on_pipes() {
    play_on_pipes("2026-07-28", &[STATELESS, OURS_STATELESS], Least { checks: 748, messages: 280 });
}

#[test]
fn older_revisions_hold_on_pipes() {
    play_on_pipes("2024-11-05", &[OLDER], Least { checks: 38, messages: 0 });
    play_on_pipes("2025-03-26", &[OLDER], Least { checks: 40, messages: 18 });
    play_on_pipes("2025-06-18", &[OLDER], Least { checks: 37, messages: 16 });
}

#[test]
fn no_scenario_of_the_suite_is_forgotten() {
    let Some(suite) = Suite::installed() else {
        eprintln!("skipped: scripts/test installs the suite and sets YARD_CONFORMANCE");
        return;
    };
    for (revision, set) in [("2025-11-25", HANDSHAKE), ("2026-07-28", STATELESS)] {
        let ours: Vec<&str> = set.iter().map(|(name, _)| *name).collect();
        assert_eq!(ours, suite.scenarios(revision), "{revision}");
        for (name, how) in set {
            assert!(!matches!(how, How::HttpOnly(reason) if reason.is_empty()), "{name}: why?");
        }
    }
}

/// A yard with the suite's fixtures and a tool `hang` that never ends by itself; its processes carry the marker.
pub fn fixtures(yard: &Yard) -> String {
    copy_folder(&repository().join("tests/conformance/yard"), &yard.root());
    let marker = marker();
    let argv = ["/bin/sh", "-c", "trap '' TERM; sleep 300", &marker];
    yard.tool(Kind::Cli, "hang", &argv, json!({"description": "Never ends by itself"}));
    marker
}

/// How much was checked when the numbers were last raised: less means that something is no longer looked at.
pub struct Least {
    pub checks: usize,
    /// Messages held against the schema; the suite brings it.
    pub messages: usize,
}

fn play_on_pipes(revision: &'static str, sets: &[Set], least: Least) {
    let yard = Yard::new();
    let marker = fixtures(&yard);
    let open = || Box::new(Pipes::toolyard(&yard)) as Box<dyn Transport>;
    play(revision, sets, (&yard, &marker), &open, least);
}

/// Plays the scenarios with new connections made by `open`, and tells everything that did not hold.
pub fn play(
    revision: &'static str,
    sets: &[Set],
    fixtures: (&Yard, &str),
    open: &dyn Fn() -> Box<dyn Transport>,
    least: Least,
) {
    let grammar = Grammar::of(revision);
    let (mut made, mut validated, mut wrong) = (0, 0, Vec::new());
    for (name, how) in sets.iter().copied().flatten() {
        let How::Played(scenario) = how else { continue };
        let stage = Stage::new(revision, fixtures, open, grammar.as_ref());
        scenario(&stage);
        let failed = stage.checks.failed();
        made += stage.checks.made();
        validated += stage.checks.messages_validated();
        if !failed.is_empty() {
            wrong.push(format!("{name}:\n  {}", failed.join("\n  ")));
        }
    }
    eprintln!("{revision}: {made} checks, {validated} messages held against the schema");
    assert!(wrong.is_empty(), "{revision}: {made} checks, but\n{}", wrong.join("\n"));
    assert!(made >= least.checks, "{revision}: only {made} checks; it was {}", least.checks);
    if grammar.is_some() {
        assert!(
            validated >= least.messages,
            "{revision}: only {validated} messages; it was {}",
            least.messages
        );
    } else {
        eprintln!("{revision}: no schema to hold messages against (scripts/test installs the suite)");
    }
}
