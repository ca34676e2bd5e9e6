//! Conformance cases of the event log.

use super::{Subject, at, on_every_subject};
use std::time::{Duration, Instant};
use toolyard_engine::stores::{EventPage, EventQuery, NewEvent, StoreError};
use toolyard_protocol::{Event, Format, Payload};

on_every_subject!(
    events_are_numbered_from_one_and_read_back_as_they_were,
    a_page_ends_at_its_limit_and_the_next_goes_on_from_its_cursor,
    a_page_is_bounded_in_bytes,
    filters_choose_and_the_cursor_passes_what_they_left_out,
    a_first_read_without_a_cursor_starts_after_the_newest,
    a_full_ring_drops_the_oldest_and_reports_it,
    a_cursor_from_the_future_is_refused,
    numbers_go_on_after_a_restart,
    a_wait_ends_with_an_event_or_with_its_time,
);

const FOREVER: Duration = Duration::from_secs(3600);

fn new(n: u64) -> NewEvent {
    let kind = if n.is_multiple_of(2) { "even" } else { "odd" };
    let subject = (n.is_multiple_of(3)).then(|| "third".to_owned());
    NewEvent { at: at(n * 10), kind: kind.into(), subject, data: Payload::json(format!("{{\"n\":{n}}}")) }
}

async fn filled<S: Subject>(ring: u64, count: u64) -> S {
    let subject = S::fresh(ring);
    for n in 1..=count {
        assert_eq!(subject.events().append(vec![new(n)]).await, Ok(n));
    }
    subject
}

async fn read<S: Subject>(subject: &S, query: EventQuery) -> EventPage {
    subject.events().read(query).await.unwrap()
}

fn after(cursor: u64) -> EventQuery {
    EventQuery { after: Some(cursor), limit: 1000, ..Default::default() }
}

fn numbers(page: &EventPage) -> Vec<u64> {
    page.events.iter().map(|event| event.seq).collect()
}

async fn events_are_numbered_from_one_and_read_back_as_they_were<S: Subject>() {
    let subject = S::fresh(10);
    let empty = read(&subject, after(0)).await;
    assert_eq!(empty, EventPage::default());
    let binary = NewEvent { data: Payload::new(Format::MsgPack, vec![0x81, 0xa1, 0x00]), ..new(3) };
    assert_eq!(subject.events().append(vec![new(1)]).await, Ok(1));
    assert_eq!(subject.events().append(vec![binary.clone()]).await, Ok(2));
    let page = read(&subject, after(0)).await;
    let expected =
        |seq, new: NewEvent| Event { seq, at: new.at, kind: new.kind, subject: new.subject, data: new.data };
    assert_eq!(page.events, [expected(1, new(1)), expected(2, binary)]);
    assert_eq!((page.cursor, page.has_more, page.oldest, page.newest), (2, false, 1, 2));
}

async fn a_page_ends_at_its_limit_and_the_next_goes_on_from_its_cursor<S: Subject>() {
    let subject = filled::<S>(100, 7).await;
    let page = read(&subject, EventQuery { limit: 3, ..after(1) }).await;
    assert_eq!((numbers(&page), page.cursor, page.has_more), (vec![2, 3, 4], 4, true));
    let page = read(&subject, EventQuery { limit: 3, ..after(page.cursor) }).await;
    assert_eq!((numbers(&page), page.cursor, page.has_more), (vec![5, 6, 7], 7, false));
    let page = read(&subject, EventQuery { limit: 3, ..after(page.cursor) }).await;
    assert_eq!((numbers(&page), page.cursor, page.has_more), (vec![], 7, false));
    let page = read(&subject, EventQuery { limit: 0, ..after(2) }).await;
    assert_eq!((numbers(&page), page.cursor, page.has_more), (vec![], 2, true));
}

async fn filters_choose_and_the_cursor_passes_what_they_left_out<S: Subject>() {
    let subject = filled::<S>(100, 10).await;
    let odd = EventQuery { kinds: vec!["odd".into()], ..after(0) };
    assert_eq!(numbers(&read(&subject, odd.clone()).await), [1, 3, 5, 7, 9]);
    let both = EventQuery { kinds: vec!["odd".into(), "even".into(), "other".into()], ..after(8) };
    assert_eq!(numbers(&read(&subject, both).await), [9, 10]);
    let third = EventQuery { subject: Some("third".into()), ..odd.clone() };
    assert_eq!(numbers(&read(&subject, third).await), [3, 9]);
    let late = EventQuery { since: Some(at(70)), ..odd.clone() };
    assert_eq!(numbers(&read(&subject, late).await), [7, 9]);
    let none = read(&subject, EventQuery { kinds: vec!["other".into()], ..after(0) }).await;
    assert_eq!((numbers(&none), none.cursor, none.has_more), (vec![], 10, false));
    let cut = read(&subject, EventQuery { limit: 2, ..odd }).await;
    assert_eq!((numbers(&cut), cut.cursor, cut.has_more), (vec![1, 3], 3, true));
}

async fn a_first_read_without_a_cursor_starts_after_the_newest<S: Subject>() {
    let subject = filled::<S>(4, 6).await;
    let first = EventQuery { limit: 10, ..Default::default() };
    let page = read(&subject, first.clone()).await;
    assert_eq!((numbers(&page), page.cursor, page.has_more), (vec![], 6, false));
    // With a time it starts with the oldest stored.
    let page = read(&subject, EventQuery { since: Some(at(50)), ..first }).await;
    assert_eq!((numbers(&page), page.cursor, page.oldest), (vec![5, 6], 6, 3));
}

async fn a_full_ring_drops_the_oldest_and_reports_it<S: Subject>() {
    // More than the rows that SQLite removes at a time.
    let subject = filled::<S>(5, 200).await;
    let page = read(&subject, after(195)).await;
    assert_eq!((numbers(&page), page.oldest, page.newest), (vec![196, 197, 198, 199, 200], 196, 200));
    for cursor in [194, 100, 0] {
        let expired = subject.events().read(after(cursor)).await;
        assert_eq!(expired, Err(StoreError::CursorExpired { cursor, oldest: 196 }));
    }
    assert_eq!(numbers(&read(&S::fresh(5), after(0)).await), Vec::<u64>::new());
}

async fn a_cursor_from_the_future_is_refused<S: Subject>() {
    let subject = filled::<S>(5, 2).await;
    assert!(matches!(subject.events().read(after(3)).await, Err(StoreError::Invalid(_))));
    assert!(matches!(subject.events().read(after(u64::MAX)).await, Err(StoreError::Invalid(_))));
    assert!(matches!(S::fresh(5).events().read(after(1)).await, Err(StoreError::Invalid(_))));
}

async fn numbers_go_on_after_a_restart<S: Subject>() {
    let subject = filled::<S>(3, 4).await.reopen().await;
    assert_eq!(subject.events().append(vec![new(5)]).await, Ok(5));
    assert_eq!(numbers(&read(&subject, after(2)).await), [3, 4, 5]);
}

async fn a_wait_ends_with_an_event_or_with_its_time<S: Subject>() {
    let subject = filled::<S>(10, 2).await.reopen().await;
    subject.events().wait(1, FOREVER).await.unwrap();
    let since = Instant::now();
    subject.events().wait(2, Duration::from_millis(30)).await.unwrap();
    assert!(since.elapsed() >= Duration::from_millis(30));
    let since = Instant::now();
    let (waited, appended) = tokio::join!(subject.events().wait(2, FOREVER), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        subject.events().append(vec![new(3)]).await
    });
    assert_eq!((waited, appended), (Ok(()), Ok(3)));
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
    // A number far ahead is not reached by one event.
    let (waited, _) = tokio::join!(
        subject.events().wait(100, Duration::from_millis(50)),
        subject.events().append(vec![new(4)])
    );
    assert_eq!(waited, Ok(()));
}

async fn a_page_is_bounded_in_bytes<S: Subject>() {
    let subject = S::fresh(10);
    let large = |n: u64, kb: usize| NewEvent {
        data: Payload::json(format!("\"{}\"", "x".repeat(kb * 1000))),
        ..new(n)
    };
    let events = vec![large(1, 600), large(2, 400), large(3, 600), large(4, 2000), new(5)];
    assert_eq!(subject.events().append(events).await, Ok(5));
    let mut cursor = 0;
    for (expected, has_more) in [(vec![1, 2], true), (vec![3], true), (vec![4], true), (vec![5], false)] {
        let page = read(&subject, after(cursor)).await;
        assert_eq!((numbers(&page), page.has_more), (expected, has_more));
        cursor = page.cursor;
    }
}
