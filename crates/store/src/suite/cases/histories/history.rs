//! One history: groups of operations on SQLite and on the model, with crashes, restarts and power cuts in between.

use super::invariants::{InvariantChecker, StoreCounts, StoreSnapshot};
use super::operation::{Answer, Operation};
use super::random::Random;
use super::script::{FaultScript, PlannedFault};
use super::workload::Workload;
use crate::sqlite::faults::{
    AFTER_CHANGE, AFTER_COMMIT, AFTER_SYNC, BEFORE_BEGIN, BEFORE_COMMIT, BETWEEN_ANSWERS, Fault, POINTS,
    WOKEN,
};
use crate::sqlite::{Database, Events, Jobs, tests::TempDir};
use crate::suite::memory::{self, Memory};
use futures_util::future::{FutureExt, join_all};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolyard_engine::stores::{Lease, StoreError};
use toolyard_protocol::Id;

pub struct History {
    folder: TempDir,
    ring: u64,
    /// Each simulates a process of its own.
    processes: Vec<Process>,
    workload: Workload,
    invariants: InvariantChecker,
    model: Memory,
    /// Possible states after a power cut: the model as it was last synced, and after each group since.
    durable: Vec<Memory>,
    synced_log: u64,
    pub tally: Tally,
}

/// Statistics of a history, to be summed over all.
#[derive(Clone, Default)]
pub struct Tally {
    pub operations: u64,
    pub crashes: [u64; POINTS.len()],
    pub failures: u64,
    pub restarts: u64,
    pub power_cuts: u64,
    /// Power cuts that lost something unsynced.
    pub losses: u64,
}

struct Process {
    script: Arc<FaultScript>,
    database: Arc<Database>,
    jobs: Jobs,
    events: Events,
}

impl Process {
    fn open(file: &Path, ring: u64) -> Process {
        let script = Arc::new(FaultScript::new(with_suffix(file, "-wal")));
        let database = Database::open(file, script.clone()).unwrap();
        let events = Events::new(database.clone(), ring);
        let jobs = Jobs::new(database.clone(), &events);
        Process { script, database, jobs, events }
    }

    async fn sums(&self) -> StoreCounts {
        StoreCounts::of(&self.jobs, self.leases().await.unwrap()).await.unwrap()
    }

    async fn leases(&self) -> Result<Vec<Lease>, StoreError> {
        let query = |connection: &Connection| {
            let mut statement = connection.prepare_cached("SELECT id, owner, fence FROM job ORDER BY id")?;
            let leases = statement.query_map([], |row| {
                let (id, owner) = (Id::from_bytes(row.get(0)?), Id::from_bytes(row.get(1)?));
                Ok(Lease { id, owner, fence: row.get::<_, i64>(2)? as u64 })
            })?;
            Ok(leases.collect::<rusqlite::Result<_>>()?)
        };
        self.database.read(query).await
    }

    async fn run(
        &self,
        group: &[Operation],
        planned: Option<PlannedFault>,
    ) -> Vec<Result<Answer, StoreError>> {
        self.script.hold(group.len(), planned);
        let all = join_all(group.iter().map(|operation| operation.clone().run(&self.jobs, &self.events)));
        // Polled in order: every operation is queued when the writer is released.
        tokio::join!(all, async { self.script.release() }).0
    }
}

impl History {
    pub fn new(seed: u64, template: &[u8]) -> History {
        let mut random = Random::new(seed);
        let folder = TempDir::fresh();
        std::fs::write(folder.file(), template).unwrap();
        let ring = *random.pick(&[4, 1000]);
        let count = if random.chance(20) { 2 } else { 1 };
        let processes = (0..count).map(|_| Process::open(&folder.file(), ring)).collect();
        let model = Memory::new(ring);
        History {
            folder,
            ring,
            processes,
            workload: Workload::new(random),
            invariants: InvariantChecker::default(),
            durable: vec![model.fork()],
            model,
            synced_log: 0,
            tally: Tally::default(),
        }
    }

    pub async fn run(mut self) -> Tally {
        for _ in 0..4 + self.workload.random.below(6) {
            match self.workload.random.below(100) {
                0..3 => self.restart().await,
                3..9 => self.power_cut().await,
                _ => self.group().await,
            }
        }
        self.compare_sums().await;
        for process in &self.processes {
            process.database.close().await;
        }
        self.tally
    }

    async fn group(&mut self) {
        let size = 1 + self.workload.random.below(4);
        let group: Vec<Operation> = (0..size).map(|_| self.workload.operation()).collect();
        let planned = self.plan(group.len());
        let at = self.workload.random.below(self.processes.len() as u64) as usize;
        let answers = self.processes[at].run(&group, planned).await;
        let (fired, synced_log) = self.processes[at].script.happened();
        let fault = planned.filter(|_| fired);
        let expected = self.expect(&group, fault);
        assert_eq!(answers, expected, "answers to {group:#?} with {fault:?}");
        self.tally.operations += group.len() as u64;
        for (operation, answer) in group.iter().zip(&answers) {
            if let Ok(answer) = answer {
                self.workload.observe(answer);
                self.invariants.observe(operation, answer);
                assert!(synced_log.is_some() || !operation.promises(answer), "not synced: {operation:?}");
            }
        }
        match synced_log {
            Some(length) => {
                self.synced_log = length;
                self.durable = vec![self.model.fork()];
            }
            None => self.durable.push(self.model.fork()),
        }
        if let Some(PlannedFault { point, fault: Fault::Crash, .. }) = fault {
            self.tally.crashes[POINTS.iter().position(|&other| other == point).unwrap()] += 1;
            self.processes[at].database.close().await;
            self.processes[at] = Process::open(&self.folder.file(), self.ring);
            self.compare_sums().await;
        } else if fault.is_some() {
            self.tally.failures += 1;
        }
        let seen = self.seen(at).await;
        assert_eq!(seen, self.modelled(), "after {group:#?} with {fault:?}");
        self.invariants.check_group(seen, &group);
    }

    fn plan(&mut self, size: usize) -> Option<PlannedFault> {
        let random = &mut self.workload.random;
        if !random.chance(18) {
            return None;
        }
        let fault = if random.chance(80) { Fault::Crash } else { Fault::Fail };
        let can_fail = [BEFORE_BEGIN, AFTER_CHANGE, BEFORE_COMMIT];
        let point = *if fault == Fault::Fail { random.pick(&can_fail) } else { random.pick(&POINTS) };
        let nth = match point {
            AFTER_CHANGE | BETWEEN_ANSWERS => random.below(size as u64) as usize,
            _ => 0,
        };
        Some(PlannedFault { point, nth, fault })
    }

    /// The expected answers, given the fault that happened; applies what must be stored to the model.
    fn expect(
        &mut self,
        group: &[Operation],
        fault: Option<PlannedFault>,
    ) -> Vec<Result<Answer, StoreError>> {
        let all = |error: StoreError| vec![Err(error); group.len()];
        match fault {
            Some(PlannedFault { fault: Fault::Fail, .. }) => all(StoreError::Full),
            Some(PlannedFault { point: WOKEN | BEFORE_BEGIN | AFTER_CHANGE | BEFORE_COMMIT, .. }) => {
                all(StoreError::Stopped)
            }
            Some(PlannedFault { point: AFTER_SYNC | AFTER_COMMIT, .. }) => {
                group.iter().for_each(|operation| drop(self.apply_to_model(operation)));
                all(StoreError::Stopped)
            }
            Some(PlannedFault { point, nth, .. }) => {
                assert_eq!(point, BETWEEN_ANSWERS);
                let each = group.iter().map(|operation| self.apply_to_model(operation)).enumerate();
                each.map(|(i, answer)| if i <= nth { answer } else { Err(StoreError::Stopped) }).collect()
            }
            None => group.iter().map(|operation| self.apply_to_model(operation)).collect(),
        }
    }

    fn apply_to_model(&self, operation: &Operation) -> Result<Answer, StoreError> {
        let (jobs, events) = stores_of(&self.model);
        operation.clone().run(&jobs, &events).now_or_never().unwrap()
    }

    /// Closes all processes properly and opens them again.
    async fn restart(&mut self) {
        for process in &self.processes {
            process.database.close().await;
        }
        // The WAL was checkpointed into the file, which was synced.
        assert!(!with_suffix(&self.folder.file(), "-wal").exists());
        (self.durable, self.synced_log) = (vec![self.model.fork()], 0);
        self.open_all();
        self.tally.restarts += 1;
        self.compare_sums().await;
    }

    /// Crashes all processes; of the WAL, the synced part and any part of what was written since remain.
    async fn power_cut(&mut self) {
        for process in &self.processes {
            let planned = PlannedFault { point: WOKEN, nth: 0, fault: Fault::Crash };
            let last = Operation::Append(self.workload.event());
            assert_eq!(process.run(&[last], Some(planned)).await, [Err(StoreError::Stopped)]);
            process.database.close().await;
        }
        let (log, shared) =
            (with_suffix(&self.folder.file(), "-wal"), with_suffix(&self.folder.file(), "-shm"));
        let mut bytes = std::fs::read(&log).unwrap_or_default();
        let unsynced = bytes.len() as u64 - self.synced_log;
        bytes.truncate((self.synced_log + self.workload.random.below(unsynced + 1)) as usize);
        let left = bytes.len() as u64 - self.synced_log;
        if left > 0 && self.workload.random.chance(50) {
            bytes[(self.synced_log + self.workload.random.below(left)) as usize] ^= 0x10;
        }
        std::fs::write(&log, &bytes).unwrap();
        let _ = std::fs::remove_file(shared);
        self.open_all();
        let (seen, sums) = (self.seen(0).await, self.processes[0].sums().await);
        let found = self.durable.iter().rposition(|model| modelled(model) == seen && summed(model) == sums);
        let synced = &self.durable[0];
        let found = found.unwrap_or_else(|| panic!("{seen:#?} is left, synced was {:#?}", modelled(synced)));
        self.tally.power_cuts += 1;
        self.tally.losses += u64::from(found + 1 < self.durable.len());
        self.model = self.durable.swap_remove(found);
        (self.durable, self.synced_log) = (vec![self.model.fork()], bytes.len() as u64);
        self.invariants.reset();
    }

    fn open_all(&mut self) {
        let count = self.processes.len();
        self.processes = (0..count).map(|_| Process::open(&self.folder.file(), self.ring)).collect();
    }

    async fn seen(&self, process: usize) -> StoreSnapshot {
        let process = &self.processes[process];
        StoreSnapshot::of(&process.jobs, &process.events).await.unwrap()
    }

    fn modelled(&self) -> StoreSnapshot {
        modelled(&self.model)
    }

    async fn compare_sums(&self) {
        for process in &self.processes {
            assert_eq!(process.sums().await, summed(&self.model));
        }
    }
}

fn summed(model: &Memory) -> StoreCounts {
    let (jobs, _) = stores_of(model);
    StoreCounts::of(&jobs, jobs.leases()).now_or_never().unwrap().unwrap()
}

fn modelled(model: &Memory) -> StoreSnapshot {
    let (jobs, events) = stores_of(model);
    StoreSnapshot::of(&jobs, &events).now_or_never().unwrap().unwrap()
}

fn stores_of(model: &Memory) -> (memory::Jobs, memory::Events) {
    (memory::Jobs(model.clone()), memory::Events(model.clone()))
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
