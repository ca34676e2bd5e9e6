//! `toolyard serve [DIR]`: serves the yard over HTTP, in the foreground, until SIGINT or SIGTERM.

use crate::config::{Server, parse_listen};
use crate::log::{Log, LogOptions};
use crate::memory;
use crate::output;
use crate::reload;
use crate::servers;
use crate::token;
use crate::wiring::{GlobalOptions, Yard, large_runtime};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use toolyard_edges::{Auth, Options, TokenPolicy, serve};
use toolyard_engine::Engine;
use toolyard_protocol::{Error, ErrorKind};
use tracing::level_filters::LevelFilter;
use tracing::{info, warn};

/// Serve the yard over HTTP
#[derive(clap::Args)]
pub struct Args {
    /// The yard (same as --yard)
    pub dir: Option<PathBuf>,
    /// Address to listen on, for example 127.0.0.1:3333; port 0 chooses a free port
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen)]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    log: LogOptions,
}

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    let log = Log::start(&args.log, (LevelFilter::INFO, LevelFilter::WARN))?;
    log.report(open_and_serve(&global, args.listen, &log))
}

fn open_and_serve(global: &GlobalOptions, listen: Option<SocketAddr>, log: &Log) -> Result<u8, Error> {
    let yard = Yard::open_with(global, move |config| {
        config.server.listen = listen.unwrap_or(config.server.listen);
    })?;
    log.redact(yard.loader.secrets.clone());
    large_runtime()?.block_on(run_server(yard))
}

async fn run_server(yard: Yard) -> Result<u8, Error> {
    let engine = Arc::new(yard.engine()?);
    let server = &yard.config.server;
    let token = token::read_or_create(&yard.state, engine.random.as_ref())?;
    let auth = Auth { policy: yard.config.auth.token, token };
    if auth.policy == TokenPolicy::Off {
        warn!(
            target: "toolyard",
            "[auth] token is \"off\": every user and program of this machine has the rights of the yard's owner"
        );
    }
    if let Some(warning) = yard.sandbox_warning() {
        warn!(target: "toolyard", "{warning}");
    }
    let options = cap_by_descriptor_limit(options(server, auth));
    let listener = TcpListener::bind(server.listen).await.map_err(|error| {
        Error::new(ErrorKind::Unavailable, format!("cannot listen on {}: {error}", server.listen))
            .hint("another program may use the port; choose one with --listen")
    })?;
    let address =
        listener.local_addr().map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
    yard.loader.host.add_own_port(address.port());
    let record = servers::Record::write(&yard.state, address);
    if let Err(error) = &record {
        warn!(target: "toolyard", "{error}; the command line will not send it the yard's token by itself");
    }
    let snapshot = engine.registry.snapshot();
    info!(target: "toolyard", version = env!("CARGO_PKG_VERSION"), yard = &*yard.root.to_string_lossy(), "started");
    reload::print_problems(snapshot.problems());
    let mcp = yard.mcp(&engine)?;
    let watcher = reload::watch(&yard, &engine)?;
    let stop = stop_signal()?;
    let stop = async move {
        stop.await;
        // Before the port is free for others.
        drop(record);
    };
    info!(target: "toolyard", tools = snapshot.entries().len(), %address, "listening");
    output::line(format!("{} tool(s) at http://{address}  (Ctrl-C stops)", snapshot.entries().len()));
    let resuming = tokio::spawn(resume_jobs(engine.clone()));
    tokio::spawn(memory::release_idle_memory());
    tokio::spawn(async move { super::prepare::prepare(&snapshot, false).await });
    // On a worker: the allocations of the main thread, which never parks as one, would not be collected.
    let serving = tokio::spawn(serve(listener, engine.clone(), mcp, options, stop));
    serving
        .await
        .map_err(|error| Error::new(ErrorKind::Internal, format!("the listener failed: {error}")))?;
    drop(watcher);
    resuming.abort();
    if let Some(jobs) = engine.jobs.if_open() {
        jobs.shut_down().await;
    }
    engine.audit.close();
    info!(target: "toolyard", "stopped");
    Ok(0)
}

/// Resumes the jobs that an earlier process left unfinished. Retries until the store opens, so that the
/// server starts even when the disk is full.
async fn resume_jobs(engine: Arc<Engine>) {
    let mut warned = false;
    loop {
        match engine.jobs.get() {
            Ok(jobs) => return jobs.spawn_maintenance(&engine),
            Err(error) if !warned => {
                warned = true;
                warn!(target: "toolyard", "jobs are not available yet: {error}");
            }
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The configured limits and timeouts of the listener.
pub fn options(server: &Server, auth: Auth) -> Options {
    Options {
        auth,
        max_body: server.max_body,
        max_connections: server.max_connections,
        max_connections_per_peer: server.max_connections_per_peer,
        max_header: server.max_header,
        max_headers: server.max_headers,
        header_timeout: server.header_timeout,
        stalled: server.stalled,
        ping: server.ping,
        drain: server.drain,
    }
}

/// Raises the soft limit of file descriptors to the hard limit, because idle connections soon use up 1,024.
/// Reserves a quarter for tools and files: without descriptors the server could not even reject a connection.
fn cap_by_descriptor_limit(mut options: Options) -> Options {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let descriptors = if raised.is_ok() { limit.maximum } else { limit.current }.unwrap_or(u64::MAX);
    let most = usize::try_from(descriptors / 4 * 3).unwrap_or(usize::MAX).max(1);
    if options.max_connections > most {
        let wanted = options.max_connections;
        warn!(
            target: "toolyard",
            "max_connections is {wanted}, but only {descriptors} files may be open at once (ulimit -Hn): \
             {most} connections are served"
        );
        options.max_connections = most;
        options.max_connections_per_peer = options.max_connections_per_peer.min(most.div_ceil(10) * 9);
    }
    options
}

/// Resolves at the first SIGINT or SIGTERM.
pub fn stop_signal() -> Result<impl Future<Output = ()>, Error> {
    let failed =
        |error: std::io::Error| Error::new(ErrorKind::Internal, format!("signals cannot be caught: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
