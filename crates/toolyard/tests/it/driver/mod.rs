//! A driver for the scenarios of the official conformance suite, which supports HTTP only: the same scenarios
//! over any transport, message by message, each response validated with the schema of its revision.

mod client;
pub mod context;
pub mod coverage;
mod network;
pub mod scenarios;
pub mod suite;
pub mod transport;
mod validator;

use crate::docs::repository;
use crate::examples::copy_folder;
use crate::support::{Kind, Yard, marker};
use context::{Connector, ScenarioContext};
use coverage::{Coverage, HANDSHAKE, OLDER, OURS_HANDSHAKE, OURS_STATELESS, STATELESS, Set};
use network::{Events, Socket};
use serde_json::json;
use suite::Suite;
use transport::{Pipes, Transport};
use validator::SchemaValidator;

#[test]
fn handshake_scenarios_hold_on_pipes() {
    run_on_pipes("2025-11-25", &[HANDSHAKE, OURS_HANDSHAKE], Minimum { checks: 470, messages: 130 });
}

#[test]
fn stateless_scenarios_hold_on_pipes() {
    run_on_pipes("2026-07-28", &[STATELESS, OURS_STATELESS], Minimum { checks: 748, messages: 280 });
}

#[test]
fn older_revisions_hold_on_pipes() {
    run_on_pipes("2024-11-05", &[OLDER], Minimum { checks: 38, messages: 0 });
    run_on_pipes("2025-03-26", &[OLDER], Minimum { checks: 40, messages: 18 });
    run_on_pipes("2025-06-18", &[OLDER], Minimum { checks: 37, messages: 16 });
}

#[test]
fn handshake_scenarios_hold_on_legacy_events() {
    run_on_sse("2025-11-25", &[HANDSHAKE, OURS_HANDSHAKE], Minimum { checks: 470, messages: 130 });
}

#[test]
fn handshake_scenarios_hold_on_a_websocket() {
    run_on_websocket("2025-11-25", &[HANDSHAKE, OURS_HANDSHAKE], Minimum { checks: 470, messages: 130 });
}

#[test]
fn stateless_scenarios_hold_on_a_websocket() {
    run_on_websocket("2026-07-28", &[STATELESS, OURS_STATELESS], Minimum { checks: 748, messages: 280 });
}

#[test]
fn older_revisions_hold_on_legacy_events_and_on_a_websocket() {
    for (revision, checks, messages) in
        [("2024-11-05", 38, 0), ("2025-03-26", 40, 18), ("2025-06-18", 37, 16)]
    {
        run_on_sse(revision, &[OLDER], Minimum { checks, messages });
        run_on_websocket(revision, &[OLDER], Minimum { checks, messages });
    }
}

#[test]
fn no_scenario_of_the_suite_is_forgotten() {
    let Some(suite) = Suite::installed() else { return };
    for (revision, set) in [("2025-11-25", HANDSHAKE), ("2026-07-28", STATELESS)] {
        let ours: Vec<&str> = set.iter().map(|(name, _)| *name).collect();
        assert_eq!(ours, suite.scenarios(revision), "{revision}");
        for (name, how) in set {
            let (Coverage::HttpOnly(reason) | Coverage::NeedsAddress(_, reason)) = how else { continue };
            assert!(!reason.is_empty(), "{name}: why?");
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

/// The number of checks when it was last raised: fewer means that something is no longer checked.
pub struct Minimum {
    pub checks: usize,
    /// Messages validated with the schema that the suite contains.
    pub messages: usize,
}

fn run_on_pipes(revision: &'static str, sets: &[Set], minimum: Minimum) {
    let yard = Yard::new();
    let marker = fixtures(&yard);
    let open = || Box::new(Pipes::toolyard(&yard)) as Box<dyn Transport>;
    run_scenarios(revision, sets, (&yard, &marker), &open, minimum);
}

fn run_on_sse(revision: &'static str, sets: &[Set], minimum: Minimum) {
    let yard = Yard::new();
    let marker = fixtures(&yard);
    let server = yard.serve();
    let open = || Box::new(Events::connect(&server.address)) as Box<dyn Transport>;
    let connector = Connector { open: &open, endpoint: Some((&server.address, "/sse")) };
    run_scenarios_with(revision, sets, (&yard, &marker), connector, minimum);
}

fn run_on_websocket(revision: &'static str, sets: &[Set], minimum: Minimum) {
    let yard = Yard::new();
    let marker = fixtures(&yard);
    let server = yard.serve();
    let open = || Box::new(Socket::connect(&server.address)) as Box<dyn Transport>;
    let connector = Connector { open: &open, endpoint: Some((&server.address, "/ws")) };
    run_scenarios_with(revision, sets, (&yard, &marker), connector, minimum);
}

/// Runs the scenarios with new connections from `open` and reports every failed check.
pub fn run_scenarios(
    revision: &'static str,
    sets: &[Set],
    fixtures: (&Yard, &str),
    open: &dyn Fn() -> Box<dyn Transport>,
    minimum: Minimum,
) {
    run_scenarios_with(revision, sets, fixtures, Connector { open, endpoint: None }, minimum);
}

fn run_scenarios_with(
    revision: &'static str,
    sets: &[Set],
    fixtures: (&Yard, &str),
    connector: Connector<'_>,
    minimum: Minimum,
) {
    let validator = SchemaValidator::of(revision);
    let (mut made, mut validated, mut wrong) = (0, 0, Vec::new());
    for (name, how) in sets.iter().copied().flatten() {
        let scenario = match how {
            Coverage::Run(scenario) => scenario,
            Coverage::NeedsAddress(scenario, _) if connector.endpoint.is_some() => scenario,
            Coverage::NeedsAddress(..) | Coverage::HttpOnly(_) => continue,
        };
        let context = ScenarioContext::new(revision, fixtures, connector, validator.as_ref());
        scenario(&context);
        let failed = context.checks.failed();
        made += context.checks.made();
        validated += context.checks.messages_validated();
        if !failed.is_empty() {
            wrong.push(format!("{name}:\n  {}", failed.join("\n  ")));
        }
    }
    eprintln!("{revision}: {made} checks, {validated} messages validated");
    assert!(wrong.is_empty(), "{revision}: {made} checks, but\n{}", wrong.join("\n"));
    assert!(made >= minimum.checks, "{revision}: only {made} checks; it was {}", minimum.checks);
    if validator.is_some() {
        assert!(
            validated >= minimum.messages,
            "{revision}: only {validated} messages; it was {}",
            minimum.messages
        );
    }
}
