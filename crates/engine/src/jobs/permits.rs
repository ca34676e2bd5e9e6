//! How many jobs run at once: in this process and for each caller.
//!
//! Callers take turns. A job that goes on after an answer comes before the queued jobs of its caller.

use super::options::Options;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;
use toolyard_protocol::Identity;

#[derive(Clone)]
pub struct JobPermits(Arc<Mutex<State>>);

struct State {
    /// Negative while jobs go on without having waited, see [`JobPermits::force`].
    free: isize,
    max_running: usize,
    per_caller: usize,
    /// Jobs that gave up their permit until they are answered.
    suspended: usize,
    callers: HashMap<Identity, CallerJobs>,
    /// Callers with a waiting job, in the order in which they are served.
    turns: VecDeque<Identity>,
}

#[derive(Default)]
struct CallerJobs {
    running: usize,
    resumed: VecDeque<oneshot::Sender<JobPermit>>,
    queued: VecDeque<oneshot::Sender<JobPermit>>,
    has_turn: bool,
}

/// The right of one job to run; freed when dropped.
pub struct JobPermit {
    state: Option<Arc<Mutex<State>>>,
    identity: Identity,
}

/// A job that gave up its permit; dropping it lets another job do so.
pub struct Suspended(Arc<Mutex<State>>);

/// Which jobs of a caller come first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// A job that has run before, and was answered.
    Resumed,
    New,
}

impl JobPermits {
    pub fn new(options: &Options) -> JobPermits {
        JobPermits(Arc::new(Mutex::new(State {
            free: options.max_running as isize,
            max_running: options.max_running,
            per_caller: options.max_running_of_caller,
            suspended: 0,
            callers: HashMap::new(),
            turns: VecDeque::new(),
        })))
    }

    /// A permit, if one is free now and nobody waits for it.
    pub fn try_acquire(&self, identity: &Identity) -> Option<JobPermit> {
        let mut state = lock(&self.0);
        let per_caller = state.per_caller;
        if state.free <= 0 || state.callers.get(identity).is_some_and(|caller| !caller.may_run(per_caller)) {
            return None;
        }
        Some(self.grant(&mut state, identity))
    }

    pub async fn acquire(&self, identity: &Identity, priority: Priority) -> JobPermit {
        let waiting = {
            let mut state = lock(&self.0);
            let (permit, waiting) = oneshot::channel();
            let caller = state.callers.entry(identity.clone()).or_default();
            match priority {
                Priority::Resumed => caller.resumed.push_back(permit),
                Priority::New => caller.queued.push_back(permit),
            }
            if !std::mem::replace(&mut caller.has_turn, true) {
                state.turns.push_back(identity.clone());
            }
            self.serve(&mut state);
            waiting
        };
        match waiting.await {
            Ok(permit) => permit,
            // A waiting sender is only removed to be used.
            Err(_) => self.force(identity),
        }
    }

    /// A permit at once, even over the limits: the job is already running.
    pub fn force(&self, identity: &Identity) -> JobPermit {
        self.grant(&mut lock(&self.0), identity)
    }

    /// Frees the permit while its job waits for an answer; `Err` when too many jobs do so already.
    pub fn suspend(&self, permit: JobPermit) -> Result<Suspended, JobPermit> {
        let mut state = lock(&self.0);
        // Their processes exist, so their number is bounded too.
        if state.suspended >= state.max_running.saturating_mul(4) {
            return Err(permit);
        }
        state.suspended += 1;
        drop(state);
        drop(permit);
        Ok(Suspended(self.0.clone()))
    }

    fn grant(&self, state: &mut State, identity: &Identity) -> JobPermit {
        state.free -= 1;
        match state.callers.get_mut(identity) {
            Some(caller) => caller.running += 1,
            None => {
                state.callers.insert(identity.clone(), CallerJobs { running: 1, ..CallerJobs::default() });
            }
        }
        JobPermit { state: Some(self.0.clone()), identity: identity.clone() }
    }

    /// Gives free permits to waiting jobs.
    fn serve(&self, state: &mut State) {
        let per_caller = state.per_caller;
        while state.free > 0 {
            let Some(identity) = state.turns.pop_front() else { return };
            let Some(caller) = state.callers.get_mut(&identity) else { continue };
            caller.has_turn = false;
            if caller.running >= per_caller {
                // It gets a turn again when one of its jobs ends.
                continue;
            }
            let Some(waiting) = caller.next_waiting() else {
                state.forget_if_idle(&identity);
                continue;
            };
            let permit = self.grant(state, &identity);
            if let Err(mut permit) = waiting.send(permit) {
                // The job stopped waiting just now. The lock is held, so the permit must not free itself.
                permit.state = None;
                state.free_one(&identity);
            }
            state.give_turn(identity);
        }
    }
}

impl CallerJobs {
    fn may_run(&self, per_caller: usize) -> bool {
        self.running < per_caller && self.resumed.is_empty() && self.queued.is_empty()
    }

    fn next_waiting(&mut self) -> Option<oneshot::Sender<JobPermit>> {
        loop {
            let next = self.resumed.pop_front().or_else(|| self.queued.pop_front())?;
            if !next.is_closed() {
                return Some(next);
            }
        }
    }
}

impl State {
    fn free_one(&mut self, identity: &Identity) {
        self.free += 1;
        if let Some(caller) = self.callers.get_mut(identity) {
            caller.running -= 1;
        }
    }

    fn give_turn(&mut self, identity: Identity) {
        let Some(caller) = self.callers.get_mut(&identity) else { return };
        if caller.resumed.is_empty() && caller.queued.is_empty() {
            self.forget_if_idle(&identity);
        } else if !std::mem::replace(&mut caller.has_turn, true) {
            self.turns.push_back(identity);
        }
    }

    fn forget_if_idle(&mut self, identity: &Identity) {
        if self.callers.get(identity).is_some_and(|caller| caller.running == 0 && !caller.has_turn) {
            self.callers.remove(identity);
        }
    }
}

impl Drop for JobPermit {
    fn drop(&mut self) {
        let Some(permits) = self.state.take() else { return };
        let mut state = lock(&permits);
        state.free_one(&self.identity);
        state.give_turn(self.identity.clone());
        JobPermits(permits.clone()).serve(&mut state);
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        lock(&self.0).suspended -= 1;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn permits(max_running: usize, max_running_of_caller: usize) -> JobPermits {
        JobPermits::new(&Options { max_running, max_running_of_caller, ..Options::default() })
    }

    fn caller(n: u32) -> Identity {
        Identity::new(format!("caller {n}"))
    }

    #[test]
    fn callers_are_forgotten_when_none_of_their_jobs_runs() {
        let permits = permits(10_000, 1);
        let mut held: Vec<_> = (0..1100).map(|n| permits.try_acquire(&caller(n)).unwrap()).collect();
        assert!(permits.try_acquire(&caller(5)).is_none(), "each caller has one permit");
        held.truncate(1);
        assert_eq!(lock(&permits.0).callers.len(), 1);
        assert!(permits.try_acquire(&caller(5)).is_some());
        assert!(permits.try_acquire(&caller(0)).is_none(), "a permit in use is not forgotten");
    }

    #[test]
    fn a_caller_has_as_many_permits_as_it_may_and_others_the_rest() {
        let permits = permits(3, 2);
        let [first, second] = [0, 0].map(|n| permits.try_acquire(&caller(n)).unwrap());
        assert!(permits.try_acquire(&caller(0)).is_none(), "two at a time");
        let other = permits.try_acquire(&caller(1)).unwrap();
        assert!(permits.try_acquire(&caller(2)).is_none(), "three in all");
        // One that still runs is still counted.
        drop((first, other));
        let third = permits.try_acquire(&caller(0)).unwrap();
        assert!(permits.try_acquire(&caller(0)).is_none());
        drop((second, third));
        assert!(lock(&permits.0).callers.is_empty());
    }

    #[test]
    fn a_caller_at_its_limit_is_served_when_one_of_its_jobs_ends() {
        let permits = permits(2, 1);
        let held = permits.try_acquire(&caller(0)).unwrap();
        let same = caller(0);
        let mut waiting = Box::pin(permits.acquire(&same, Priority::New));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(held);
        assert!(waiting.now_or_never().is_some());
    }

    #[test]
    fn callers_take_turns_and_answered_jobs_come_first() {
        let permits = permits(1, 1);
        let held = permits.try_acquire(&caller(0)).unwrap();
        let order = [(1, Priority::New), (1, Priority::New), (2, Priority::New), (1, Priority::Resumed)];
        let callers = order.map(|(n, _)| caller(n));
        let waiting = std::iter::zip(&callers, order);
        let mut waiting: Vec<_> = waiting
            .map(|(caller, (_, priority))| permits.acquire(caller, priority).boxed())
            .enumerate()
            .collect();
        let mut served = Vec::new();
        for (_, one) in &mut waiting {
            assert!(one.now_or_never().is_none());
        }
        drop(held);
        for _ in 0..order.len() {
            let ready = (0..waiting.len()).find_map(|i| Some((i, (&mut waiting[i].1).now_or_never()?)));
            let (i, permit) = ready.unwrap();
            served.push(waiting.remove(i).0);
            assert!(permits.try_acquire(&caller(9)).is_none(), "one runs at a time");
            drop(permit);
        }
        assert_eq!(served, [3, 2, 0, 1]);
        assert!(lock(&permits.0).callers.is_empty());
    }

    #[test]
    fn a_job_that_stops_waiting_takes_no_permit_with_it() {
        let permits = permits(1, 1);
        let held = permits.try_acquire(&caller(0)).unwrap();
        let (first, second) = (caller(1), caller(2));
        let mut leaving = Box::pin(permits.acquire(&first, Priority::New));
        let mut staying = Box::pin(permits.acquire(&second, Priority::New));
        assert!(leaving.as_mut().now_or_never().is_none() && staying.as_mut().now_or_never().is_none());
        drop(held);
        // It has its permit, and does not know it yet.
        drop(leaving);
        assert!(staying.now_or_never().is_some());
        assert_eq!(lock(&permits.0).free, 1);
    }

    #[test]
    fn a_forced_permit_counts_and_is_paid_back() {
        let permits = permits(1, 1);
        let (first, second) = (permits.try_acquire(&caller(0)).unwrap(), permits.force(&caller(0)));
        drop(first);
        assert!(permits.try_acquire(&caller(1)).is_none());
        drop(second);
        assert!(permits.try_acquire(&caller(1)).is_some());
    }

    #[test]
    fn four_times_as_many_jobs_as_may_run_can_wait_for_an_answer_without_a_permit() {
        let permits = permits(2, 2);
        let mut suspended = Vec::new();
        for n in 0..8 {
            suspended.push(permits.suspend(permits.try_acquire(&caller(n)).unwrap()).ok().unwrap());
        }
        let kept = permits.suspend(permits.try_acquire(&caller(8)).unwrap()).err().unwrap();
        suspended.pop();
        assert!(permits.suspend(kept).is_ok());
    }
}
