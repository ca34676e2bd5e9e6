//! `toolyard state prune|verify|adopt`: removes expired jobs and unreferenced blobs, verifies the stored blobs, takes
//! over a copied state folder.

use crate::output;
use crate::state::StateDir;
use crate::wiring::{GlobalOptions, Yard, small_runtime};
use std::collections::HashSet;
use std::time::Duration;
use toolyard_engine::clock::{Clock, SystemClock};
use toolyard_engine::stores::{JobFilter, JobStore};
use toolyard_formats::duration;
use toolyard_formats::json::Object;
use toolyard_protocol::error_table::EXIT_DAMAGED;
use toolyard_protocol::{Error, Hash, Payload};
use toolyard_runtimes::builtin::Stores;

/// Rows that are read, or removed, at a time.
const PAGE: usize = 500;

/// Jobs that are read at a time, with their arguments and results.
const JOB_PAGE: usize = 20;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Prune and verify stored jobs and blobs, take over a copied state folder
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Remove expired jobs, and blobs that no artifact or job references
    Prune {
        /// Do not remove blobs younger than this; at least a day
        #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = parse_age)]
        min_age: Duration,
    },
    /// Read every blob and list the damaged ones
    Verify,
    /// Use a state folder that was copied or restored with this yard. Only for your own: it decides what is
    /// shown as your jobs, results and secrets. Open jobs end, and the token changes
    Adopt,
}

fn parse_age(text: &str) -> Result<Duration, String> {
    let age = duration::parse(text).map_err(|error| error.to_string())?;
    let range = DAY..=DAY * 36_500;
    range.contains(&age).then_some(age).ok_or_else(|| "from 1d to 36500d is allowed".to_owned())
}

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    let min_age = match args.command {
        Command::Prune { min_age } => Some(min_age),
        Command::Verify => None,
        Command::Adopt => return super::adopt::run(&global),
    };
    let yard = Yard::look(&global)?;
    let state_dir = yard.state_dir.clone();
    if !state_dir.exists() {
        output::note("nothing is stored in this yard yet");
        return Ok(0);
    }
    small_runtime()?.block_on(async {
        match min_age {
            Some(min_age) => prune(&state_dir, min_age, global.json).await,
            None => verify(&state_dir.open_stores()?, global.json).await,
        }
    })
}

async fn prune(state_dir: &StateDir, min_age: Duration, as_json: bool) -> Result<u8, Error> {
    let (jobs, stores) = (state_dir.job_store()?, state_dir.open_stores()?);
    let now = SystemClock.now();
    // By the clock of the servers, so that setting the wall clock removes nothing too early.
    let job_clock = state_dir.clock();
    let mut expired = 0;
    loop {
        let removed = jobs.expire(job_clock.now(), PAGE).await?;
        expired += removed;
        if removed < PAGE as u64 {
            break;
        }
    }
    let mut live = hashes_of_artifacts(&stores).await?;
    let mut filter = JobFilter { limit: JOB_PAGE, ..JobFilter::default() };
    loop {
        let page = jobs.list(filter.clone()).await?;
        for job in &page {
            live.extend(hashes_in(&job.arguments));
            live.extend(job.outcome.iter().flat_map(hashes_in));
        }
        match page.last() {
            Some(job) if page.len() == JOB_PAGE => filter.before = Some(job.id),
            _ => break,
        }
    }
    let collected = stores.blobs.collect(&mut |hash| live.contains(hash), min_age, now).await?;
    state_dir.compact()?;
    if as_json {
        let mut out = Vec::new();
        let mut object = Object::new(&mut out);
        object.number("jobs_removed", expired).number("blobs_removed", collected.removed);
        object.number("bytes_removed", collected.bytes).number("blobs_kept", collected.kept);
        object.end();
        output::data(out);
    } else {
        output::line(format!(
            "removed {expired} job(s) and {} blob(s) of {} byte(s); {} blob(s) left",
            collected.removed, collected.bytes, collected.kept
        ));
    }
    Ok(0)
}

async fn verify(stores: &Stores, as_json: bool) -> Result<u8, Error> {
    let report = stores.blobs.verify().await?;
    let damaged = report.damaged.len() as u64 + report.more;
    if as_json {
        let mut out = Vec::new();
        let mut object = Object::new(&mut out);
        object.number("blobs", report.blobs).number("bytes", report.bytes).number("damaged", damaged);
        let hashes: Vec<String> = report.damaged.iter().map(|damage| damage.hash.hex()).collect();
        object.texts("hashes", hashes.iter().map(String::as_str));
        object.end();
        output::data(out);
    } else {
        for damage in &report.damaged {
            output::line(format!("DAMAGED {} ({:?})", damage.hash, damage.flaw));
        }
        let verdict = if damaged == 0 { "intact".to_owned() } else { format!("{damaged} damaged") };
        output::line(format!("{} blob(s), {} byte(s): {verdict}", report.blobs, report.bytes));
    }
    Ok(if damaged == 0 { 0 } else { EXIT_DAMAGED })
}

async fn hashes_of_artifacts(stores: &Stores) -> Result<HashSet<Hash>, Error> {
    let mut live = HashSet::new();
    let mut after = None;
    loop {
        let page = stores.artifacts.hashes(after, PAGE).await?;
        live.extend(page.iter().filter_map(|text| Hash::parse(text)));
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.clone()),
            _ => return Ok(live),
        }
    }
}

/// Everything that looks like a hash, anywhere in the document: a blob left over is safer than a blob lost.
fn hashes_in(payload: &Payload) -> impl Iterator<Item = Hash> {
    let hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    payload
        .bytes()
        .chunk_by(move |a, b| hex(a) == hex(b))
        .filter(|run| run.len() >= 64)
        .flat_map(|run| run.windows(64))
        .filter_map(|word| std::str::from_utf8(word).ok().and_then(Hash::parse))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_found_anywhere_in_a_document() {
        let hash = Hash::from_bytes([0xab; 32]);
        let found = |text: String| hashes_in(&Payload::json(text)).collect::<Vec<_>>();
        assert_eq!(found(format!("{{\"a\":[\"{hash}\"]}}")), [hash]);
        assert_eq!(found(format!("\"cas://{hash}?x\"")), [hash]);
        assert!(found(format!("\"x0{hash}\"")).contains(&hash), "next to another digit");
        assert_eq!(found(format!("\"{}\"", &hash.hex()[1..])), []);
    }
}
