//! The live side of a tool's declared limits: how many calls run now, how many may still come.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolyard_protocol::{Behavior, Error, ErrorKind, Rate};

/// Calls that may wait for one tool; more are refused at once.
const MAX_WAITING: usize = 1000;

/// Shared by every version of a tool, so that a reload does not reset it.
pub struct ToolLimiter {
    permits: Option<Permits>,
    bucket: Option<Mutex<TokenBucket>>,
}

struct Permits {
    running: Arc<Semaphore>,
    waiting: Semaphore,
}

/// A token bucket: full at first, refilled evenly.
struct TokenBucket {
    rate: Rate,
    tokens: f64,
    refilled_at: Instant,
}

impl ToolLimiter {
    pub fn new(behavior: &Behavior) -> ToolLimiter {
        ToolLimiter {
            permits: behavior.concurrency.map(|permits| Permits {
                running: Arc::new(Semaphore::new(permits)),
                waiting: Semaphore::new(MAX_WAITING),
            }),
            bucket: behavior.rate.map(|rate| Mutex::new(TokenBucket::new(rate, Instant::now()))),
        }
    }

    /// Takes one call's worth from the rate limit.
    pub fn take_token(&self, now: Instant) -> Result<(), Error> {
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

    /// A permit, if there is one now; `Some(None)` when the tool has no bound.
    pub fn try_acquire(&self) -> Option<Option<OwnedSemaphorePermit>> {
        let Some(permits) = &self.permits else { return Some(None) };
        permits.running.clone().try_acquire_owned().ok().map(Some)
    }

    /// Waits for a permit however long it takes: jobs, whose number has a bound of its own.
    pub async fn acquire(&self) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let Some(permits) = &self.permits else { return Ok(None) };
        let permit = permits.running.clone().acquire_owned().await;
        permit.map(Some).map_err(|_| Error::new(ErrorKind::Internal, "the places of this tool are gone"))
    }

    /// Waits for a permit to run in, at most until `deadline`. Keep the permit while running.
    pub async fn acquire_until(&self, deadline: Instant) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let Some(permits) = &self.permits else { return Ok(None) };
        let running = permits.running.clone();
        if let Ok(permit) = running.clone().try_acquire_owned() {
            return Ok(Some(permit));
        }
        let busy = || Error::new(ErrorKind::Busy, "every place for concurrent calls of this tool is taken");
        let _waiting = permits.waiting.try_acquire().map_err(|_| busy().hint("try again later"))?;
        match tokio::time::timeout_at(deadline.into(), running.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            _ => Err(busy().hint("the call waited until its deadline; raise 'concurrency' or 'timeoutMs'")),
        }
    }
}

impl TokenBucket {
    fn new(rate: Rate, now: Instant) -> TokenBucket {
        TokenBucket { rate, tokens: f64::from(rate.calls), refilled_at: now }
    }

    /// `Err` holds the time until the next token.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let full = f64::from(self.rate.calls);
        let per_second = full / self.rate.per.as_secs_f64();
        let gained = now.saturating_duration_since(self.refilled_at).as_secs_f64() * per_second;
        self.tokens = (self.tokens + gained).min(full);
        self.refilled_at = now;
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
        let mut bucket = TokenBucket::new(Rate { calls: 2, per: Duration::from_secs(1) }, start);
        assert!(bucket.take(start).is_ok() && bucket.take(start).is_ok());
        assert_eq!(bucket.take(start).unwrap_err().as_millis(), 500);
        assert!(bucket.take(start + Duration::from_millis(600)).is_ok());
        assert!(bucket.take(start + Duration::from_millis(700)).is_err());
        let much_later = start + Duration::from_secs(1000);
        assert!((0..2).all(|_| bucket.take(much_later).is_ok()) && bucket.take(much_later).is_err());
    }

    #[tokio::test]
    async fn places_are_waited_for_until_the_deadline() {
        let behavior = Behavior { concurrency: Some(1), ..Behavior::default() };
        let limiter = ToolLimiter::new(&behavior);
        let soon = || Instant::now() + Duration::from_millis(20);
        let first = limiter.acquire_until(soon()).await.unwrap();
        assert_eq!(limiter.acquire_until(soon()).await.unwrap_err().kind, ErrorKind::Busy);
        drop(first);
        assert!(limiter.acquire_until(soon()).await.unwrap().is_some());
    }
}
