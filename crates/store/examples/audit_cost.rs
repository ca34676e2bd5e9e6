//! Prints what auditing one call costs: CPU time of the whole process per begin and end, syncing included.
//!
//! `cargo run --release -p toolyard-store --example audit_cost [calls] [threads] [folder]`

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_engine::clock::{SystemClock, SystemRandom, new_id};
use toolyard_protocol::*;
use toolyard_store::audit::{FileAuditLog, Options, verify};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default| words.get(n).and_then(|word| word.parse().ok()).unwrap_or(default);
    let (calls, threads): (u32, u32) = (number(0, 200_000), number(1, 1));
    let folder = words.get(2).map_or_else(std::env::temp_dir, PathBuf::from);
    let state = folder.join(format!("toolyard-audit-cost-{}", std::process::id()));
    std::fs::create_dir_all(&state)?;
    let log = FileAuditLog::open(
        &state,
        Options::default(),
        Arc::new(SystemClock),
        Arc::new(SystemRandom),
        Arc::new(AsIs),
    )?;
    let spec = spec()?;
    let outcome = Outcome::success(Some(Payload::json("{\"ok\":true}")));

    let (cpu, wall) = (cpu_time(), Instant::now());
    let failed = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..calls / threads {
                        log.begin(&call(), &spec)?.end(&outcome)?;
                    }
                    Ok::<(), toolyard_store::audit::AuditError>(())
                })
            })
            .collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()?.err()).next()
    });
    let (cpu, wall) = (cpu_time() - cpu, wall.elapsed());
    if let Some(error) = failed {
        return Err(error.into());
    }
    drop(log);
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(calls);
    println!(
        "{calls} calls on {threads} threads: CPU {:.2} us, wall {:.2} us each",
        micros(cpu),
        micros(wall)
    );
    let begun = Instant::now();
    let report = verify(&state)?;
    println!("verify: {} records, {} problems, {:?}", report.records, report.problems.len(), begun.elapsed());
    std::fs::remove_dir_all(&state)?;
    Ok(())
}

/// Leaves out redaction, which is not a cost of the audit log.
struct AsIs;

impl JsonView for AsIs {
    fn redacted(&self, payload: &Payload, _cap: usize) -> Result<Vec<u8>, Error> {
        Ok(payload.bytes().to_vec())
    }

    fn members(&self, _json: &[u8], names: &[&str]) -> Result<Vec<Option<String>>, Error> {
        Ok(vec![None; names.len()])
    }
}

fn call() -> Call {
    Call {
        id: new_id(&SystemClock, &SystemRandom),
        tool: "example.echo".into(),
        arguments: Payload::json("{\"text\":\"hello, world\",\"count\":3}"),
        identity: Identity::local(),
        edge: Edge::Http,
        deadline: None,
        wait: Default::default(),
        trace: None,
        idempotency_key: None,
    }
}

fn spec() -> Result<ToolSpec, Box<dyn std::error::Error>> {
    Ok(ToolSpec {
        name: ToolName::parse("example.echo")?,
        exposed: ExposedName::parse("echo")?,
        kind: "process",
        source: "tools/echo.yaml".into(),
        about: Default::default(),
        annotations: Annotations::default(),
        timing: Timing::Sync,
        behavior: Default::default(),
        sandbox: toolyard_protocol::Sandbox::None,
        permissions: Default::default(),
        examples: Vec::new(),
        limits: Limits { timeout: Duration::from_secs(1), input: 1024, output: 1024 },
        digest: Digest([0xab; 32]),
        input_schema: None,
        output_schema: None,
    })
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
