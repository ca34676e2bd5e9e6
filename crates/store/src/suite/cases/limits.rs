//! Conformance cases of rate limits.

use super::stores::{Stores, assert_invalid, at, cases};
use std::time::Duration;
use toolyard_protocol::Rate;

cases! {
    a_bucket_is_full_at_first_and_fills_evenly
    keys_do_not_share
    a_clock_that_went_backwards_neither_fills_nor_empties
    a_rate_that_changed_counts_from_now_on
    many_keys_that_are_full_again_do_no_harm
    what_is_malformed_is_refused
}

fn rate(calls: u32, ms: u64) -> Rate {
    Rate { calls, per: Duration::from_millis(ms) }
}

/// How many milliseconds to wait; 0 when a token was taken.
async fn take(stores: &Stores, key: &str, rate: Rate, ms: u64) -> u128 {
    stores.limits.take(key.into(), rate, at(ms)).await.unwrap().map_or(0, |wait| wait.as_millis())
}

async fn a_bucket_is_full_at_first_and_fills_evenly(stores: &Stores) {
    let rate = rate(4, 1000);
    for _ in 0..4 {
        assert_eq!(take(stores, "k", rate, 10_000).await, 0);
    }
    assert_eq!(take(stores, "k", rate, 10_000).await, 250);
    assert_eq!(take(stores, "k", rate, 10_100).await, 150, "a refused take costs nothing");
    assert_eq!(take(stores, "k", rate, 10_250).await, 0);
    assert_eq!(take(stores, "k", rate, 10_499).await, 1);
    assert_eq!(take(stores, "k", rate, 10_500).await, 0);
    for _ in 0..4 {
        assert_eq!(take(stores, "k", rate, 99_000).await, 0);
    }
    assert_eq!(take(stores, "k", rate, 99_000).await, 250, "it never exceeds its capacity");
}

async fn keys_do_not_share(stores: &Stores) {
    assert_eq!(take(stores, "a", rate(1, 1000), 0).await, 0);
    assert_eq!(take(stores, "b", rate(1, 1000), 0).await, 0);
    assert_eq!(take(stores, "a", rate(1, 1000), 1).await, 999);
}

async fn a_clock_that_went_backwards_neither_fills_nor_empties(stores: &Stores) {
    let rate = rate(2, 10_000);
    for _ in 0..2 {
        assert_eq!(take(stores, "k", rate, 100_000).await, 0);
    }
    assert_eq!(take(stores, "k", rate, 99_500).await, 5_500, "read just before: no time has passed");
    assert_eq!(take(stores, "k", rate, 100_000).await, 5_000);
    assert_eq!(take(stores, "k", rate, 20_000).await, 5_000, "set back: as empty as it was");
    assert_eq!(take(stores, "k", rate, 24_999).await, 1);
    assert_eq!(take(stores, "k", rate, 25_000).await, 0, "and it fills from there");
    assert_eq!(take(stores, "other", rate, 50_000).await, 0);
    assert_eq!(take(stores, "other", rate, 10_000).await, 0, "the token that was left is left");
    assert_eq!(take(stores, "other", rate, 10_000).await, 5_000);
}

async fn a_rate_that_changed_counts_from_now_on(stores: &Stores) {
    assert_eq!(take(stores, "k", rate(1, 3_600_000), 0).await, 0);
    assert_eq!(take(stores, "k", rate(10, 1000), 0).await, 100);
    assert_eq!(take(stores, "k", rate(10, 1000), 1000).await, 0);
}

async fn many_keys_that_are_full_again_do_no_harm(stores: &Stores) {
    let rate = rate(1, 10_000);
    for n in 0..200u64 {
        assert_eq!(take(stores, &format!("key {n}"), rate, n * 1000).await, 0);
    }
    for n in 0..200u64 {
        let wait = take(stores, &format!("key {n}"), rate, 200_000).await;
        assert_eq!(wait, if n > 190 { u128::from(n * 1000 + 10_000 - 200_000) } else { 0 }, "key {n}");
    }
}

async fn what_is_malformed_is_refused(stores: &Stores) {
    let day = Duration::from_secs(24 * 60 * 60);
    for wrong in [rate(0, 1000), rate(1, 0), Rate { calls: 1, per: 400 * day }] {
        assert_invalid(stores.limits.take("k".into(), wrong, at(0)).await, "rate");
    }
    assert_invalid(stores.limits.take(String::new(), rate(1, 1), at(0)).await, "key is empty");
    let largest = Rate { calls: u32::MAX, per: 366 * day };
    assert_eq!(stores.limits.take("k".into(), largest, at(u64::MAX)).await, Ok(None));
}
