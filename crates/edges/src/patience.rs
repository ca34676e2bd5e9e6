//! Time limits that cost nothing where the work is done at once.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Looks at the work so often before a timer is set for it.
const LOOKS: u32 = 3;

/// Between two looks at something that takes its time.
const PAUSE: Duration = Duration::from_millis(5);

/// `None` when the work takes longer than `limit`.
///
/// Nearly all requests are done after a look or two, and setting a timer and taking it back costs more than looking.
pub async fn within<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut looks = 1;
    let done = std::future::poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if looks == LOOKS => Poll::Ready(None),
        Poll::Pending => {
            looks += 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    });
    match done.await {
        Some(done) => Some(done),
        None => tokio::time::timeout(limit, work).await.ok(),
    }
}

/// Waits until something is over, at most `limit`. What was cancelled stops at its next step, so the first looks come
/// without a pause.
pub async fn until_over(limit: Duration, mut is_over: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if is_over() {
            return;
        }
        tokio::task::yield_now().await;
    }
    let over = async {
        while !is_over() {
            tokio::time::sleep(PAUSE).await;
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
    async fn work_has_its_time_and_no_more() {
        let (short, long) = (Duration::from_millis(20), Duration::from_secs(60));
        assert_eq!(within(short, async { 1 }).await, Some(1));
        assert_eq!(within(long, slow(short)).await, Some(2));
        assert_eq!(within(short, slow(long)).await, None);
    }

    #[tokio::test]
    async fn what_is_not_over_is_waited_for_until_the_limit() {
        let mut looks = 0;
        until_over(Duration::from_secs(60), || {
            looks += 1;
            looks > 5
        })
        .await;
        assert_eq!(looks, 6);
        until_over(Duration::from_millis(20), || false).await;
    }

    #[test]
    fn work_that_steps_back_needs_no_timer() {
        // This runtime has no clock: setting a timer would panic.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let steps = async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            3
        };
        assert_eq!(runtime.block_on(within(Duration::ZERO, steps)), Some(3));
    }
}
