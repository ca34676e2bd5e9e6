//! Events in a table used as a ring buffer: the newest are stored, with consecutive numbers.

use super::columns::{self, number};
use super::database::Database;
use super::error::SqliteError;
use super::newest_event::NewestEvent;
use crate::job_rules;
use rusqlite::{Connection, Row, params};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use toolyard_engine::stores::{
    Durability, EventPage, EventQuery, EventStore, NewEvent, StoreError, StoreFuture,
};
use toolyard_protocol::{Event, Format, Timestamp};

/// Default capacity of the ring.
pub const RING: u64 = 16_384;

pub const TABLES: &str = "
    CREATE TABLE event (
        seq INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        kind TEXT NOT NULL,
        subject TEXT,
        format INTEGER NOT NULL,
        data BLOB NOT NULL
    ) STRICT;
";

/// The most data that the ring keeps, checked whenever a process has appended another `CHECK_BYTES`.
const RING_BYTES: u64 = 64 << 20;
const CHECK_BYTES: u64 = 4 << 20;

/// Rows are deleted in batches of this size; until then, rows outside the ring are ignored.
const TRIM_BATCH: u64 = 64;

/// How often waiters poll for events of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub struct Events {
    database: Arc<Database>,
    log: EventLog,
    /// Last poll for events of other processes; one poll serves all waiters.
    last_poll: Mutex<Instant>,
}

/// Appends events within the transaction of any store.
#[derive(Clone)]
pub struct EventLog {
    ring: u64,
    newest: Arc<NewestEvent>,
    /// Appended by this process since the last check.
    unchecked: Arc<AtomicU64>,
}

impl Events {
    /// `ring`: capacity of the ring, at least one.
    pub fn new(database: Arc<Database>, ring: u64) -> Events {
        let (ring, newest) = (ring.clamp(1, i64::MAX as u64), database.newest().clone());
        let log = EventLog { ring, newest, unchecked: Arc::default() };
        Events { database, log, last_poll: Mutex::new(Instant::now()) }
    }

    pub fn log(&self) -> EventLog {
        self.log.clone()
    }

    async fn poll_newest(&self) -> Result<(), StoreError> {
        *self.last_poll.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let newest = self.database.read(|connection| Ok(newest(connection)?)).await?;
        self.log.newest.observe(newest);
        Ok(())
    }

    fn poll_is_due(&self) -> bool {
        self.last_poll.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= POLL_INTERVAL
    }

    async fn wait(&self, seq: u64, timeout: Duration) -> Result<(), StoreError> {
        let deadline = Instant::now().checked_add(timeout);
        let mut known = self.log.newest.subscribe();
        if *known.borrow() > seq {
            return Ok(());
        }
        self.poll_newest().await?;
        loop {
            if *known.borrow_and_update() > seq || deadline.is_some_and(|deadline| Instant::now() >= deadline)
            {
                return Ok(());
            }
            let tick = Instant::now() + POLL_INTERVAL;
            let until = deadline.map_or(tick, |deadline| deadline.min(tick));
            let changed = tokio::time::timeout_at(until, known.changed()).await;
            if changed.is_err() && self.poll_is_due() {
                self.poll_newest().await?;
            }
        }
    }
}

impl EventLog {
    pub fn append(
        &self,
        connection: &Connection,
        at: Timestamp,
        kind: &str,
        subject: Option<&str>,
        (format, data): (Format, &[u8]),
    ) -> Result<u64, SqliteError> {
        // SQLite assigns the highest number plus one, and the row with the highest number is never deleted.
        let insert = "INSERT INTO event (at, kind, subject, format, data) VALUES (?1, ?2, ?3, ?4, ?5)";
        let format = columns::format_code(format);
        let row = params![number(at.unix_ms()), kind, subject, format, data];
        let seq = connection.prepare_cached(insert)?.insert(row)? as u64;
        if seq.is_multiple_of(TRIM_BATCH) && seq > self.ring {
            let mut trim = connection.prepare_cached("DELETE FROM event WHERE seq <= ?1")?;
            trim.execute([number(seq - self.ring)])?;
        }
        let unchecked = self.unchecked.fetch_add(data.len() as u64, Ordering::Relaxed) + data.len() as u64;
        if unchecked > CHECK_BYTES {
            self.unchecked.store(0, Ordering::Relaxed);
            drop_oldest_bytes(connection)?;
        }
        self.newest.appended(seq);
        Ok(seq)
    }

    fn page(&self, connection: &Connection, query: &EventQuery) -> Result<EventPage, SqliteError> {
        let newest = newest(connection)?;
        let oldest_row = connection
            .prepare_cached("SELECT min(seq) FROM event")?
            .query_row([], |row| row.get::<_, Option<i64>>(0))?;
        let oldest = (oldest_row.unwrap_or(0) as u64).max((newest + 1).saturating_sub(self.ring));
        let oldest = if newest == 0 { 0 } else { oldest };
        let after = match (query.after, query.since) {
            (Some(after), _) => after,
            (None, Some(_)) => oldest.saturating_sub(1),
            (None, None) => newest,
        };
        job_rules::check_cursor(after, oldest, newest)?;
        let mut page = EventPage { events: Vec::new(), cursor: after, has_more: false, oldest, newest };
        let mut statement = connection.prepare_cached(
            "SELECT seq, at, kind, subject, format, data FROM event
             WHERE seq > ?1 AND at >= ?2 AND (?3 IS NULL OR subject = ?3) ORDER BY seq",
        )?;
        let since = query.since.map_or(0, |since| number(since.unix_ms()));
        let mut rows = statement.query(params![number(after), since, query.subject])?;
        let mut bytes = 0;
        while page.events.len() < query.limit {
            let Some(row) = rows.next()? else {
                page.cursor = newest;
                break;
            };
            let kind = row.get_ref(2)?.as_str().unwrap_or_default();
            if query.kinds.is_empty() || query.kinds.iter().any(|wanted| wanted == kind) {
                let more = row.get_ref(5)?.as_blob().map_or(0, <[u8]>::len);
                if !job_rules::fits_on_page(bytes, more) {
                    break;
                }
                bytes += more;
                let event = event(row)?;
                page.cursor = event.seq;
                page.events.push(event);
            }
        }
        page.has_more = page.cursor < newest;
        Ok(page)
    }
}

impl EventStore for Events {
    fn append(&self, events: Vec<NewEvent>) -> StoreFuture<'_, u64> {
        let log = self.log();
        Box::pin(self.database.write_checked(Durability::Written, move |connection| {
            let mut newest = 0;
            for event in events {
                let data = (event.data.format(), &event.data.bytes()[..]);
                newest = log.append(connection, event.at, &event.kind, event.subject.as_deref(), data)?;
            }
            Ok(newest)
        }))
    }

    fn read(&self, query: EventQuery) -> StoreFuture<'_, EventPage> {
        let log = self.log();
        Box::pin(self.database.read(move |connection| log.page(connection, &query)))
    }

    fn wait(&self, seq: u64, timeout: Duration) -> StoreFuture<'_, ()> {
        Box::pin(self.wait(seq, timeout))
    }
}

fn drop_oldest_bytes(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("SELECT seq, length(data) FROM event ORDER BY seq DESC")?;
    let (mut rows, mut bytes) = (statement.query([])?, 0);
    while let Some(row) = rows.next()? {
        bytes += row.get::<_, i64>(1)? as u64;
        if bytes > RING_BYTES {
            let oldest: i64 = row.get(0)?;
            connection.prepare_cached("DELETE FROM event WHERE seq <= ?1")?.execute([oldest])?;
            break;
        }
    }
    Ok(())
}

fn newest(connection: &Connection) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("SELECT max(seq) FROM event")?;
    Ok(statement.query_row([], |row| row.get::<_, Option<i64>>(0))?.unwrap_or(0) as u64)
}

fn event(row: &Row) -> rusqlite::Result<Event> {
    Ok(Event {
        seq: row.get::<_, i64>(0)? as u64,
        at: Timestamp::from_unix_ms(row.get::<_, i64>(1)? as u64),
        kind: row.get(2)?,
        subject: row.get(3)?,
        data: columns::read_payload(row, 4, 5)?,
    })
}
