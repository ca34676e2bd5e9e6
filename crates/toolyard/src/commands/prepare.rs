//! `toolyard prepare`: prepares tools before their first call, with network access.

use crate::log;
use crate::output;
use crate::wiring::{GlobalOptions, Yard, small_runtime};
use toolyard_engine::{Severity, Snapshot};
use toolyard_protocol::{Error, ErrorKind};
use toolyard_runtimes::uv::forget_failures;

/// Prepare the environments of tools that need one (uv scripts)
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_: Args, global: GlobalOptions) -> Result<u8, Error> {
    let yard = Yard::open(&global)?;
    forget_failures(&yard.state);
    let failed = small_runtime()?.block_on(prepare(&yard.load(), true));
    Ok(if failed == 0 { 0 } else { ErrorKind::Unavailable.row().exit })
}

/// Prepares every tool in turn and returns the number of failures.
pub async fn prepare(snapshot: &Snapshot, print_success: bool) -> usize {
    let mut failed = 0;
    for entry in snapshot.entries() {
        match entry.runner.prepare().await {
            Ok(true) if print_success => output::note(format!("prepared {}", entry.spec.exposed)),
            Ok(_) => {}
            Err(error) => {
                failed += 1;
                log::problem(Severity::Warning, &format!("{}: {}", entry.spec.source, error.message));
            }
        }
    }
    failed
}
