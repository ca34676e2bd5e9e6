//! Limits of requests: body size and timeouts.

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use toolyard_protocol::{Error, ErrorKind};

/// How long a client may take to send a body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    TooLarge,
    TooSlow,
}

/// Stops reading at the limit.
pub async fn read_body(body: Body, limit: usize) -> Result<Bytes, BodyError> {
    match with_timeout(BODY_TIMEOUT, to_bytes(body, limit)).await {
        Some(Ok(body)) => Ok(body),
        Some(Err(_)) => Err(BodyError::TooLarge),
        None => Err(BodyError::TooSlow),
    }
}

impl BodyError {
    pub fn message(self, limit: usize) -> String {
        match self {
            BodyError::TooLarge => format!("the request body is over {limit} bytes or incomplete"),
            BodyError::TooSlow => {
                format!("the request body did not arrive within {} s", BODY_TIMEOUT.as_secs())
            }
        }
    }

    /// For routes that respond with Toolyard's own errors.
    pub fn to_error(self, limit: usize) -> Error {
        let kind = match self {
            BodyError::TooLarge => ErrorKind::InputTooLarge,
            BodyError::TooSlow => ErrorKind::Timeout,
        };
        Error::new(kind, self.message(limit))
    }
}

/// How often a future is polled before a timer is set.
const POLLS_BEFORE_TIMER: u32 = 3;

/// The interval between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// `None` when `work` takes longer than `limit`.
///
/// Nearly all requests finish within a poll or two, and a timer costs more than polling.
pub async fn with_timeout<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut polls = 1;
    let done = std::future::poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if polls == POLLS_BEFORE_TIMER => Poll::Ready(None),
        Poll::Pending => {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    });
    match done.await {
        Some(done) => Some(done),
        None => tokio::time::timeout(limit, work).await.ok(),
    }
}

/// Waits until `is_done` returns true, at most `limit`. Cancelled tasks stop at their next step, so the first
/// checks follow without a pause.
pub async fn wait_until(limit: Duration, mut is_done: impl FnMut() -> bool) {
    for _ in 0..POLLS_BEFORE_TIMER {
        if is_done() {
            return;
        }
        tokio::task::yield_now().await;
    }
    let over = async {
        while !is_done() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let _ = tokio::time::timeout(limit, over).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn slow(time: Duration) -> u8 {
        tokio::time::sleep(time).await;
        2
    }

    #[tokio::test]
    async fn work_is_stopped_at_its_timeout() {
        let (short, long) = (Duration::from_millis(20), Duration::from_secs(60));
        assert_eq!(with_timeout(short, async { 1 }).await, Some(1));
        assert_eq!(with_timeout(long, slow(short)).await, Some(2));
        assert_eq!(with_timeout(short, slow(long)).await, None);
    }

    #[tokio::test]
    async fn a_condition_is_waited_for_until_the_limit() {
        let mut polls = 0;
        wait_until(Duration::from_secs(60), || {
            polls += 1;
            polls > 5
        })
        .await;
        assert_eq!(polls, 6);
        wait_until(Duration::from_millis(20), || false).await;
    }

    #[test]
    fn work_that_yields_needs_no_timer() {
        // This runtime has no clock: setting a timer would panic.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let steps = async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            3
        };
        assert_eq!(runtime.block_on(with_timeout(Duration::ZERO, steps)), Some(3));
    }
}
