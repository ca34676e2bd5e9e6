//! Random histories of jobs and events on SQLite, compared step by step with the in-memory stores.
//!
//! `YARD_HISTORY=<seed>` replays one; `YARD_HISTORIES=<count>` runs that many per part.

mod history;
mod invariants;
mod operation;
mod random;
mod script;
mod workload;

use crate::sqlite::{Database, NoFaults, POINTS, tests::TempDir};
use futures_util::FutureExt;
use history::{History, Tally};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// Per part; there are four, which run in parallel.
const HISTORIES: u64 = 2_500;

#[test]
fn first_part() {
    run_part(0);
}

#[test]
fn second_part() {
    run_part(1);
}

#[test]
fn third_part() {
    run_part(2);
}

#[test]
fn fourth_part() {
    run_part(3);
}

fn run_part(part: u64) {
    let asked = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let template = runtime.block_on(template());
    let run = |seed| runtime.block_on(AssertUnwindSafe(History::new(seed, &template).run()).catch_unwind());
    if let Some(seed) = asked("YARD_HISTORY") {
        run(seed).unwrap();
        return;
    }
    let count = asked("YARD_HISTORIES").unwrap_or(HISTORIES);
    let mut sum = Tally::default();
    for seed in part * count..(part + 1) * count {
        match run(seed) {
            Ok(tally) => sum.add(&tally),
            Err(_) => panic!("history {seed} went wrong; replay it with YARD_HISTORY={seed}"),
        }
    }
    println!("{count} histories: {sum}");
    // A short run may miss some points.
    if count >= HISTORIES {
        for (point, crashes) in POINTS.iter().zip(sum.crashes) {
            assert!(crashes >= 50, "only {crashes} crashes at '{point}'");
        }
        assert!(
            sum.failures >= 50 && sum.restarts >= 50 && sum.power_cuts >= 50 && sum.losses >= 50,
            "{sum}"
        );
    }
}

/// A file with its tables, created once: creating it per history would cost more than the rest of it.
async fn template() -> Vec<u8> {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    database.close().await;
    std::fs::read(folder.file()).unwrap()
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.failures += other.failures;
        self.restarts += other.restarts;
        self.power_cuts += other.power_cuts;
        self.losses += other.losses;
        for (sum, crashes) in self.crashes.iter_mut().zip(other.crashes) {
            *sum += crashes;
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} operations, {} full disks, {} restarts, ",
            self.operations, self.failures, self.restarts
        )?;
        write!(f, "{} power cuts ({} lost something unsynced), crashes:", self.power_cuts, self.losses)?;
        POINTS.iter().zip(self.crashes).try_for_each(|(point, crashes)| write!(f, " {point} {crashes},"))
    }
}
