//! Simulated callers and workers of a history: what they know, and their next operation.

use super::operation::{Answer, Operation};
use super::random::Random;
use std::time::Duration;
use toolyard_engine::stores::{Created, Durability, JobEnd, Lease, NewEvent, NewJob, Recovered};
use toolyard_protocol::{Id, Identity, JobState, Payload, Progress, Timestamp, Timing};

const DAY: u64 = 86_400_000;

pub struct Workload {
    pub random: Random,
    now: u64,
    /// Every lease ever granted: workers do not know which of theirs is still valid.
    leases: Vec<Lease>,
    owners: [Id; 3],
}

impl Workload {
    pub fn new(mut random: Random) -> Workload {
        let mut bits = [0; 10];
        let owners = [1, 2, 3].map(|n| {
            bits[9] = n;
            Id::from_parts(n.into(), bits)
        });
        let now = 1_700_000_000_000 + random.below(1000);
        Workload { random, now, leases: Vec::new(), owners }
    }

    pub fn operation(&mut self) -> Operation {
        self.pass_time();
        match self.random.below(100) {
            0..28 => self.create(),
            28..40 => Operation::Start(self.lease(), self.time(), self.durability()),
            40..47 => Operation::Progress(self.lease(), self.progress(), self.time()),
            47..53 => Operation::Waiting(self.lease(), self.random.chance(60), self.time()),
            53..56 => Operation::GiveBack(self.lease(), self.random.chance(50), self.time()),
            56..71 => Operation::Finish(self.lease(), self.ending(), self.durability()),
            71..78 => Operation::Cancel(self.lease().id, self.time()),
            78..86 => {
                let (from, to) = (*self.random.pick(&self.owners), *self.random.pick(&self.owners));
                Operation::TakeOver(from, to, self.time(), 1 + self.random.below(4) as usize)
            }
            86..93 => Operation::Expire(self.time(), 1 + self.random.below(4) as usize),
            _ => Operation::Append(self.event()),
        }
    }

    /// Remembers the leases of an answer.
    pub fn observe(&mut self, answer: &Answer) {
        match answer {
            Answer::Created(Created::New(lease)) => self.leases.push(*lease),
            Answer::Recovered(recovered) => {
                self.leases.extend(recovered.iter().filter_map(|one| match one {
                    Recovered::Requeued(lease, _) => Some(*lease),
                    Recovered::Ended(..) => None,
                }));
            }
            _ => {}
        }
    }

    pub fn event(&mut self) -> NewEvent {
        let kind = *self.random.pick(&["log", "config_update"]);
        let data = Payload::json(format!("{{\"n\":{}}}", self.random.below(1000)));
        NewEvent { at: self.time(), kind: kind.into(), subject: None, data }
    }

    fn create(&mut self) -> Operation {
        let random = &mut self.random;
        let mut bits = [0; 10];
        bits[..8].copy_from_slice(&random.next().to_le_bytes());
        let new = NewJob {
            id: Id::from_parts(self.now, bits),
            tool: (*random.pick(&["a.b", "a.c"])).into(),
            arguments: Payload::json(format!("{{\"x\":\"{}\"}}", "y".repeat(random.below(200) as usize))),
            identity: Identity::new(*random.pick(&["anna", "bert"])),
            timing: *random.pick(&Timing::ALL),
            repeatable: random.chance(50),
            state: if random.chance(60) { JobState::Running } else { JobState::Pending },
            now: Timestamp::from_unix_ms(self.now),
            owner: *random.pick(&self.owners),
            key: random.chance(40).then(|| format!("key {}", random.below(3))),
            trace: None,
            max_open: 6,
            max_open_of_caller: 4,
            ttl: Duration::from_millis(random.below(2000)),
        };
        // Other operations of the same group may use the lease before the answer arrives.
        self.leases.push(Lease { id: new.id, owner: new.owner, fence: 1 });
        Operation::Create(new)
    }

    /// Mostly one of the newest; sometimes one that never existed.
    fn lease(&mut self) -> Lease {
        let count = self.leases.len() as u64;
        if count == 0 {
            return Lease { id: Id::from_parts(self.now, [9; 10]), owner: self.owners[0], fence: 1 };
        }
        let back =
            if self.random.chance(70) { self.random.below(count.min(3)) } else { self.random.below(count) };
        let mut lease = self.leases[(count - 1 - back) as usize];
        match self.random.below(20) {
            0 => lease.owner = *self.random.pick(&self.owners),
            1 => lease.fence = self.random.below(4),
            _ => {}
        }
        lease
    }

    fn ending(&mut self) -> JobEnd {
        let states = [JobState::Complete, JobState::Complete, JobState::Failed, JobState::Cancelled];
        JobEnd {
            state: *self.random.pick(&states),
            outcome: self
                .random
                .chance(80)
                .then(|| Payload::json(format!("{{\"r\":{}}}", self.random.next()))),
            progress: self.random.chance(30).then(|| self.progress()),
            now: self.time(),
            ttl: Duration::from_millis(self.random.below(2000)),
        }
    }

    fn progress(&mut self) -> Progress {
        let total = self.random.chance(50).then_some(7.0);
        let message = self.random.chance(50).then(|| "so \"far\"".to_owned());
        Progress { done: self.random.below(8) as f64, total, message }
    }

    fn durability(&mut self) -> Durability {
        if self.random.chance(40) { Durability::Synced } else { Durability::Written }
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.now)
    }

    fn pass_time(&mut self) {
        match self.random.below(40) {
            0 => self.now += DAY,
            1 => self.now -= DAY,
            _ => self.now += self.random.below(500),
        }
    }
}
