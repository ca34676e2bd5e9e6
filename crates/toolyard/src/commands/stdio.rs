//! `toolyard stdio [DIR]`: serves MCP on stdin and stdout, for clients that start the server.

use super::serve::stop_signal;
use crate::log::{Log, LogOptions};
use crate::output;
use crate::reload;
use crate::wiring::{GlobalOptions, Yard, large_runtime};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use toolyard_edges::{serve_framed, serve_stdio};
use toolyard_protocol::Error;
use tracing::level_filters::LevelFilter;
use tracing::warn;

/// Serve MCP on stdin and stdout
#[derive(clap::Args)]
pub struct Args {
    /// The yard (same as --yard)
    pub dir: Option<PathBuf>,
    /// How messages are delimited
    #[arg(long, value_enum, default_value_t = Framing::Lines)]
    framing: Framing,
    #[command(flatten)]
    log: LogOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Framing {
    /// One message per line: MCP
    Lines,
    /// A Content-Length header before each message: mcp.discover, mcp.prompt.get, mcp.tool.invoke
    ContentLength,
}

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    let log = Log::start(&args.log, (LevelFilter::WARN, LevelFilter::ERROR))?;
    log.report(open_and_serve(&global, args.framing, &log))
}

fn open_and_serve(global: &GlobalOptions, framing: Framing, log: &Log) -> Result<u8, Error> {
    let yard = Yard::open(global)?;
    log.redact(yard.loader.secrets.clone());
    let runtime = large_runtime()?;
    let ended = runtime.block_on(run_stdio(yard, framing));
    // A blocked read of stdin cannot be cancelled, so the shutdown does not wait for it.
    runtime.shutdown_timeout(Duration::ZERO);
    ended
}

async fn run_stdio(yard: Yard, framing: Framing) -> Result<u8, Error> {
    let engine = Arc::new(yard.engine()?);
    if let Some(warning) = yard.sandbox_warning() {
        warn!(target: "toolyard", "{warning}");
    }
    let snapshot = engine.registry.snapshot();
    reload::print_problems(snapshot.problems());
    let mcp = yard.mcp(&engine)?;
    let watcher = reload::watch(&yard, &engine)?;
    // Resumes jobs that an earlier process left unfinished.
    let jobs = engine.jobs.get()?;
    jobs.spawn_maintenance(&engine);
    tokio::spawn(async move { super::prepare::prepare(&snapshot, false).await });
    let (input, out) = output::pipes();
    let (served, most, stop) = (mcp.clone(), yard.config.server.max_body, stop_signal()?);
    let serving = async {
        match framing {
            Framing::Lines => serve_stdio(served, input, out, most, stop).await,
            Framing::ContentLength => serve_framed(served, input, out, most, stop).await,
        }
    };
    tokio::select! {
        () = serving => {}
        () = mcp.run_maintenance() => {}
    }
    drop(watcher);
    jobs.shut_down().await;
    engine.audit.close();
    Ok(0)
}
