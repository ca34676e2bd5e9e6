//! Measures the cost of a job in the SQLite store: jobs created per second by 64 callers, compared with one
//! synced transaction per job on one connection, and the CPU time of a job from creation to end.
//!
//! `cargo run --release -p toolyard-store --example job_cost [folder] [seconds per round] [folder in
//! memory]`; the first folder must be on a real disk, or the syncs cost nothing and the ratio is meaningless.
//! The kernel's work for a sync counts as CPU time of the process; the second folder has no syncs and shows
//! what the store itself needs.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use toolyard_engine::clock::{Clock, SystemClock, SystemRandom, new_id};
use toolyard_engine::stores::{Created, Durability, JobEnd, JobStore, NewJob, StoreError};
use toolyard_protocol::{Id, Identity, JobState, Payload, Timing};
use toolyard_store::sqlite::{Database, Events, Jobs, NoFaults, RING};

type Failure = Box<dyn std::error::Error>;

const FILE: &str = "yard.sqlite";
const CALLERS: u64 = 64;
const ROUNDS: usize = 3;
const RATIO: f64 = 10.0;
const CPU_US: f64 = 50.0;
const ARGUMENTS: &str = "{\"text\":\"hello, world\",\"count\":3}";

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let folder = words.first().map_or_else(|| "target/tmp".into(), PathBuf::from);
    let seconds: f64 = words.get(1).map_or(Ok(2.0), |word| word.parse())?;
    let time = Duration::from_secs_f64(seconds);
    let name = format!("job-cost-{}", std::process::id());
    let disk = folder.join(&name);
    let memory = words.get(2).map_or_else(|| "/dev/shm".into(), PathBuf::from).join(&name);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(async {
        measure_rates(&disk, time).await?;
        measure_lives("on disk, the kernel's syncs included", &disk, time).await?;
        measure_lives("in memory, without syncs", &memory, time).await
    });
    for folder in [disk, memory] {
        let _ = std::fs::remove_dir_all(folder);
    }
    result
}

async fn measure_rates(folder: &Path, time: Duration) -> Result<(), Failure> {
    let (database, jobs) = open(folder)?;
    // Interleaved, so that other load on the disk affects all variants alike.
    let (mut bare, mut naive, mut single, mut many) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for (rates, is_bare) in [(&mut bare, true), (&mut naive, false)] {
            let place = folder.join(format!("{round}-{is_bare}"));
            let (database, _) = open(&place)?; // creates the tables
            database.close().await;
            rates.push(one_by_one(&place.join(FILE), time, is_bare)?);
        }
        single.push(created(&jobs, 1, time).await?);
        many.push(created(&jobs, CALLERS, time).await?);
    }
    let (bare, naive, single, many) = (median(bare), median(naive), median(single), median(many));
    let ratio = many / naive;
    println!("one synced transaction per job: {naive:.0} jobs/s (one bare row each: {bare:.0})");
    println!("created by 1 caller:            {single:.0} jobs/s");
    println!("created by {CALLERS} callers:          {many:.0} jobs/s");
    println!(
        "ratio {ratio:.1}, budget {RATIO}: {} (against bare rows: {:.1})",
        verdict(ratio >= RATIO),
        many / bare
    );
    database.close().await;
    Ok(())
}

async fn measure_lives(place: &str, folder: &Path, time: Duration) -> Result<(), Failure> {
    let (database, jobs) = open(folder)?;
    println!("create + finish by {CALLERS} callers, {place}:");
    for durability in [Durability::Written, Durability::Synced] {
        let (cpu, wall) = lives(&jobs, time, durability).await?;
        let held = verdict(cpu < CPU_US);
        println!(
            "  {durability:?} end: CPU {cpu:.1} us, wall {wall:.1} us per job, budget {CPU_US} us CPU: {held}"
        );
    }
    database.close().await;
    Ok(())
}

fn open(folder: &Path) -> Result<(Arc<Database>, Arc<Jobs>), Failure> {
    std::fs::create_dir_all(folder)?;
    let database = Database::open(&folder.join(FILE), Arc::new(NoFaults))?;
    let events = Events::new(database.clone(), RING);
    let jobs = Arc::new(Jobs::new(database.clone(), &events));
    Ok((database, jobs))
}

/// The baseline without group commit: one synced transaction per job, in the tables of the store and with all
/// that it writes for a job, or (`bare`) with one row in a table without any index.
fn one_by_one(file: &Path, time: Duration, bare: bool) -> Result<f64, Failure> {
    let mut connection = rusqlite::Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(
        "CREATE TABLE bare (id BLOB PRIMARY KEY, tool TEXT, identity TEXT, state INTEGER, created INTEGER,
            arguments BLOB) STRICT, WITHOUT ROWID;
         INSERT OR IGNORE INTO job_count VALUES ('', 0, 0, 0, 0, 0, 0, 0), ('=local', 0, 0, 0, 0, 0, 0, 0)",
    )?;
    let owner = new_id(&SystemClock, &SystemRandom);
    let (begun, mut count) = (Instant::now(), 0u32);
    while begun.elapsed() < time {
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if bare {
            insert_bare(&transaction)?;
        } else {
            insert_whole(&transaction, owner)?;
        }
        transaction.commit()?;
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

fn insert_bare(connection: &rusqlite::Connection) -> Result<(), Failure> {
    let id = new_id(&SystemClock, &SystemRandom);
    let now = SystemClock.now().unix_ms() as i64;
    let row = rusqlite::params![id.as_bytes(), "example.echo", "local", 1, now, ARGUMENTS.as_bytes()];
    connection.prepare_cached("INSERT INTO bare VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?.execute(row)?;
    Ok(())
}

/// The job, its event and the two counts.
fn insert_whole(connection: &rusqlite::Connection, owner: Id) -> Result<(), Failure> {
    let id = new_id(&SystemClock, &SystemRandom);
    let now = SystemClock.now().unix_ms() as i64;
    let job = "INSERT INTO job (id, tool, identity, state, owner, fence, timing, repeatable, cancel_requested, attempt,
            created, started, ttl, arguments_format, arguments)
        VALUES (?1, 'example.echo', 'local', 1, ?2, 1, 1, 0, 0, 1, ?3, ?3, 3600000, 0, ?4)";
    let row = rusqlite::params![id.as_bytes(), owner.as_bytes(), now, ARGUMENTS.as_bytes()];
    connection.prepare_cached(job)?.execute(row)?;
    let text = id.text();
    let data =
        format!("{{\"job_id\":\"{}\",\"tool\":\"example.echo\",\"state\":\"running\"}}", text.as_str());
    let event =
        "INSERT INTO event (at, kind, subject, format, data) VALUES (?1, 'job_state_changed', ?2, 0, ?3)";
    connection.prepare_cached(event)?.execute(rusqlite::params![now, text.as_str(), data.as_bytes()])?;
    let mut counted =
        connection.prepare_cached("UPDATE job_count SET running = running + 1 WHERE scope = ?1")?;
    counted.execute([""])?;
    counted.execute(["=local"])?;
    Ok(())
}

/// Jobs per second through `create`; each is on disk before its caller creates the next.
async fn created(jobs: &Arc<Jobs>, callers: u64, time: Duration) -> Result<f64, Failure> {
    let owner = new_id(&SystemClock, &SystemRandom);
    let begun = Instant::now();
    let count = each_caller(callers, |count| {
        let jobs = jobs.clone();
        async move {
            while begun.elapsed() < time {
                jobs.create(new(owner)).await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }
    })
    .await?;
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

/// CPU and wall time of a job that is created running and finished, events included, in microseconds.
async fn lives(jobs: &Arc<Jobs>, time: Duration, durability: Durability) -> Result<(f64, f64), Failure> {
    let owner = new_id(&SystemClock, &SystemRandom);
    let (begun, cpu) = (Instant::now(), cpu_time());
    let count = each_caller(CALLERS, |count| {
        let jobs = jobs.clone();
        async move {
            while begun.elapsed() < time {
                let Created::New(lease) = jobs.create(new(owner)).await? else { continue };
                let ending = JobEnd {
                    state: JobState::Complete,
                    outcome: Some(Payload::json("{\"status\":\"success\",\"data\":{\"ok\":true}}")),
                    progress: None,
                    now: SystemClock.now(),
                    ttl: Duration::from_secs(3600),
                };
                jobs.finish(lease, ending, durability).await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }
    })
    .await?;
    let per_job = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
    Ok((per_job(cpu_time() - cpu), per_job(begun.elapsed())))
}

async fn each_caller<F>(callers: u64, work: impl Fn(Arc<AtomicU64>) -> F) -> Result<u64, Failure>
where
    F: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    let count = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..callers).map(|_| tokio::spawn(work(count.clone()))).collect();
    for task in tasks {
        task.await??;
    }
    Ok(count.load(Ordering::Relaxed))
}

fn new(owner: Id) -> NewJob {
    NewJob {
        id: new_id(&SystemClock, &SystemRandom),
        tool: "example.echo".into(),
        arguments: Payload::json(ARGUMENTS),
        identity: Identity::local(),
        timing: Timing::AsyncShort,
        repeatable: false,
        state: JobState::Running,
        now: SystemClock.now(),
        owner,
        key: None,
        trace: None,
        max_open: u64::MAX,
        max_open_of_caller: u64::MAX,
        ttl: Duration::from_secs(3600),
    }
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn verdict(held: bool) -> &'static str {
    if held { "ok" } else { "OVER" }
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
