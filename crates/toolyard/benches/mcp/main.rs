//! Cost of an MCP call of the built-in `echo` on the real server, with all gates and the audit log, compared
//! with a bare axum handler for the same JSON and with the same tool on the official Rust SDK; memory of an
//! idle session and of an idle server.
//!
//! `scripts/bench-mcp` builds the SDK's server and runs this; with `--check` it fails when a budget is
//! exceeded. The servers and the load are separate processes, so that only the server's CPU time is counted.
#![allow(clippy::print_stdout, reason = "a measurement prints its result")]

mod bare;
mod load;
mod process;

use load::{Connection, Load};
use process::Server;
use std::error::Error;
use std::process::ExitCode;

type BoxError = Box<dyn Error>;

/// Each figure is the median of this many rounds, to reduce noise from other processes.
const ROUNDS: usize = 7;
const SESSIONS: u32 = 10_000;

const STATELESS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello, world"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"b","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;
const IN_SESSION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello, world"}}}"#;
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}"#;
const HEADERS: &str = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: echo\r\n";

struct Case<'a> {
    what: &'static str,
    server: &'a Server,
    load: Load,
    costs: Vec<f64>,
    waits: Vec<f64>,
}

fn main() -> Result<ExitCode, BoxError> {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|first| first == "--bare") {
        bare::serve()?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.get(1).is_some_and(|first| first == "--load") {
        println!("{}", load::run(&arguments[2..])?);
        return Ok(ExitCode::SUCCESS);
    }
    let check = arguments.iter().any(|argument| argument == "--check");
    let bare = Server::bare()?;
    let ours = Server::ours(&[])?;
    let logging = Server::ours(&["-v"])?;
    let rmcp = Server::rmcp()?;
    let idle = ours.resident_kb()?;
    let session = Connection::open(&ours.address)?.send("", HELLO)?.session.ok_or("no session")?;
    let stateless = Load { headers: HEADERS.into(), body: STATELESS };
    let in_session = Load { headers: format!("mcp-session-id: {session}\r\n"), body: IN_SESSION };
    let mut cases = vec![
        Case::new("bare axum", &bare, stateless.clone())?,
        Case::new("toolyard, 2026-07-28", &ours, stateless.clone())?,
        Case::new("toolyard, in a session", &ours, in_session)?,
        Case::new("toolyard, calls logged", &logging, stateless.clone())?,
    ];
    if let Some(rmcp) = &rmcp {
        cases.push(Case::new("rmcp 3.8, 2026-07-28", rmcp, stateless)?);
    }
    for _ in 0..ROUNDS {
        for case in &mut cases {
            case.round()?;
        }
    }
    let mut broken = report(&mut cases);
    if rmcp.is_none() {
        println!("rmcp not found, nothing to compare with: run scripts/bench-mcp");
    }
    let before = ours.resident_kb()?;
    let mut connection = Connection::open(&ours.address)?;
    for _ in 0..SESSIONS {
        connection.send("", HELLO)?.session.ok_or("no session")?;
    }
    let each = (ours.resident_kb()? - before) / f64::from(SESSIONS);
    broken += row(&format!("an idle session, of {SESSIONS}"), each, "KB", Some(10.0));
    broken += row("an idle server, just started", idle / 1024.0, "MB", Some(20.0));
    Ok(ExitCode::from(u8::from(check && (broken > 0 || rmcp.is_none()))))
}

impl<'a> Case<'a> {
    /// Includes a warm-up round, which is not counted.
    fn new(what: &'static str, server: &'a Server, load: Load) -> Result<Case<'a>, BoxError> {
        load.check(&server.address)?;
        server.cost_of(&load)?;
        Ok(Case { what, server, load, costs: Vec::new(), waits: Vec::new() })
    }

    fn round(&mut self) -> Result<(), BoxError> {
        let (cost, wait) = self.server.cost_of(&self.load)?;
        self.costs.push(cost);
        self.waits.push(wait);
        Ok(())
    }
}

/// Returns the number of exceeded budgets.
fn report(cases: &mut [Case<'_>]) -> usize {
    let medians: Vec<f64> = cases.iter_mut().map(|case| median(&mut case.costs)).collect();
    for (case, cpu) in cases.iter_mut().zip(&medians) {
        row(&format!("{}: CPU per call", case.what), *cpu, "µs", None);
        row(&format!("{}: latency, median", case.what), median(&mut case.waits), "µs", None);
    }
    let mut broken = row("toolyard, 2026-07-28 / bare axum", medians[1] / medians[0], "×", Some(1.5));
    broken += row("toolyard, in a session / bare axum", medians[2] / medians[0], "×", Some(1.5));
    row("toolyard, calls logged / not logged", medians[3] / medians[1], "×", None);
    if let Some(rmcp) = medians.get(4) {
        broken += row("toolyard, 2026-07-28 / rmcp", medians[1] / rmcp, "×", Some(0.5));
    }
    broken
}

fn row(what: &str, value: f64, unit: &str, budget: Option<f64>) -> usize {
    let Some(budget) = budget else {
        println!("{what:<44} {value:>9.2} {unit}");
        return 0;
    };
    let within_budget = value <= budget;
    println!(
        "{what:<44} {value:>9.2} {unit:<3} budget {budget:>5} {}",
        if within_budget { "PASS" } else { "FAIL" }
    );
    usize::from(!within_budget)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
