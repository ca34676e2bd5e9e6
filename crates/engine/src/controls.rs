//! The live side of a tool's declared limits: how many calls run now, how many may still come.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolyard_protocol::{Conduct, Error, ErrorKind, Rate};

/// Calls that may wait for one tool; more are refused at once.
const MAX_WAITING: usize = 1000;

/// Shared by every version of a tool, so that a reload does not reset it.
pub struct Controls {
    places: Option<Places>,
    bucket: Option<Mutex<Bucket>>,
}

struct Places {
    running: Arc<Semaphore>,
    waiting: Semaphore,
}

/// A token bucket: full at first, refilled evenly.
struct Bucket {
    rate: Rate,
    tokens: f64,
    filled: Instant,
}

impl Controls {
    pub fn new(conduct: &Conduct) -> Controls {
        Controls {
            places: conduct.concurrency.map(|places| Places {
                running: Arc::new(Semaphore::new(places)),
                waiting: Semaphore::new(MAX_WAITING),
            }),
            bucket: conduct.rate.map(|rate| Mutex::new(Bucket::new(rate, Instant::now()))),
        }
    }

    /// Takes one call's worth from the rate limit.
    pub fn take_rate(&self, now: Instant) -> Result<(), Error> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let mut bucket = bucket.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        bucket.take(now).map_err(|wait| {
            let Rate { calls, per } = bucket.rate;
            let message =
                format!("the tool's rate limit of {calls} calls per {} ms is used up", per.as_millis());
            Error::new(ErrorKind::RateLimited, message)
                .hint(format!("try again in {} ms", wait.as_millis()))
                .with(|details| details.retry_after = Some(wait))
        })
    }

    /// A place, if there is one now; `Some(None)` when the tool has no bound.
    pub fn try_place(&self) -> Option<Option<OwnedSemaphorePermit>> {
        let Some(places) = &self.places else { return Some(None) };
        places.running.clone().try_acquire_owned().ok().map(Some)
    }

    /// Waits for a place however long it takes: jobs, whose number has a bound of its own.
    pub async fn place_unhurried(&self) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let Some(places) = &self.places else { return Ok(None) };
        let place = places.running.clone().acquire_owned().await;
        place.map(Some).map_err(|_| Error::new(ErrorKind::Internal, "the places of this tool are gone"))
    }

    /// Waits for a place to run in, at most until `deadline`. Keep the permit while running.
    pub async fn place(&self, deadline: Instant) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let Some(places) = &self.places else { return Ok(None) };
        let running = places.running.clone();
        if let Ok(permit) = running.clone().try_acquire_owned() {
            return Ok(Some(permit));
        }
        let busy = || Error::new(ErrorKind::Busy, "every place for concurrent calls of this tool is taken");
        let _waiting = places.waiting.try_acquire().map_err(|_| busy().hint("try again later"))?;
        match tokio::time::timeout_at(deadline.into(), running.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            _ => Err(busy().hint("the call waited until its deadline; raise 'concurrency' or 'timeoutMs'")),
        }
    }
}

impl Bucket {
    fn new(rate: Rate, now: Instant) -> Bucket {
        Bucket { rate, tokens: f64::from(rate.calls), filled: now }
    }

    /// `Err` holds the time until the next token.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let full = f64::from(self.rate.calls);
        let per_second = full / self.rate.per.as_secs_f64();
        let gained = now.saturating_duration_since(self.filled).as_secs_f64() * per_second;
        self.tokens = (self.tokens + gained).min(full);
        self.filled = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.tokens) / per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_gives_what_the_rate_allows_and_says_when_to_come_back() {
        let start = Instant::now();
        let mut bucket = Bucket::new(Rate { calls: 2, per: Duration::from_secs(1) }, start);
        assert!(bucket.take(start).is_ok() && bucket.take(start).is_ok());
        assert_eq!(bucket.take(start).unwrap_err().as_millis(), 500);
        assert!(bucket.take(start + Duration::from_millis(600)).is_ok());
        assert!(bucket.take(start + Duration::from_millis(700)).is_err());
        let much_later = start + Duration::from_secs(1000);
        assert!((0..2).all(|_| bucket.take(much_later).is_ok()) && bucket.take(much_later).is_err());
    }

    #[tokio::test]
    async fn places_are_waited_for_until_the_deadline() {
        let conduct = Conduct { concurrency: Some(1), ..Conduct::default() };
        let controls = Controls::new(&conduct);
        let soon = || Instant::now() + Duration::from_millis(20);
        let first = controls.place(soon()).await.unwrap();
        assert_eq!(controls.place(soon()).await.unwrap_err().kind, ErrorKind::Busy);
        drop(first);
        assert!(controls.place(soon()).await.unwrap().is_some());
    }
}
