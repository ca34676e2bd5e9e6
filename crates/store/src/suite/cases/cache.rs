//! Conformance cases of cached results.

use super::rng::Rng;
use super::stores::at;
use crate::sqlite::tests::TempDir;
use std::collections::BTreeMap;
use std::path::Path;
use toolyard_engine::stores::{CacheRow, CacheStore};
use toolyard_protocol::{Format, Payload, Timestamp};

macro_rules! cases {
    ($($case:ident)*) => {
        mod memory {
            $(#[test]
            fn $case() {
                super::$case(&mut crate::suite::memory::Cache::default());
            })*
        }
        mod sqlite {
            use crate::sqlite::tests::TempDir;
            $(#[test]
            fn $case() {
                let folder = TempDir::fresh();
                super::$case(&mut crate::sqlite::CacheTable::open(&folder.file()));
            })*
        }
    };
}

cases! {
    rows_come_back_whole_and_the_last_one_counts
    at_most_the_bytes_stay_and_the_oldest_go_first
    the_outdated_go_before_the_old
    a_row_over_a_quarter_is_not_cached
}

/// Nothing is outdated.
fn all() -> Timestamp {
    at(0)
}

fn key(n: u64) -> [u8; 32] {
    *blake3::hash(&n.to_le_bytes()).as_bytes()
}

fn row(created: u64, bytes: usize) -> CacheRow {
    CacheRow { created: at(created), data: Some(Payload::json(vec![b'7'; bytes])), content: None }
}

fn rows_come_back_whole_and_the_last_one_counts(store: &mut dyn CacheStore) {
    let packed = CacheRow {
        created: at(5),
        data: Some(Payload::new(Format::MsgPack, vec![0xc3])),
        content: Some(Payload::json("[{\"type\":\"text\",\"text\":\"yes\"}]")),
    };
    let nothing = CacheRow { created: at(6), data: None, content: Some(Payload::json("")) };
    for row in [packed, nothing] {
        store.put(&key(1), row.clone(), 1 << 20, all());
        assert_eq!(store.get(&key(1)), Some(row));
        assert_eq!(store.get(&key(2)), None);
    }
}

fn at_most_the_bytes_stay_and_the_oldest_go_first(store: &mut dyn CacheStore) {
    let max = 100 * row(0, 1000).size();
    for n in 0..500 {
        store.put(&key(n), row(n, 1000), max, all());
        assert!(store.get(&key(n)).is_some(), "the newest is always cached");
    }
    let cached: Vec<u64> = (0..500).filter(|&n| store.get(&key(n)).is_some()).collect();
    let bytes: u64 = cached.len() as u64 * row(0, 1000).size();
    assert!(bytes <= max && bytes >= max / 2, "{} rows are cached", cached.len());
    assert_eq!(cached, (500 - cached.len() as u64..500).collect::<Vec<_>>(), "the oldest are evicted first");
}

fn the_outdated_go_before_the_old(store: &mut dyn CacheStore) {
    let max = 8 * row(0, 1000).size();
    for n in 0..8 {
        store.put(&key(n), row(n, 1000), max, all());
    }
    store.put(&key(8), row(8, 1000), max, at(6));
    let cached: Vec<u64> = (0..9).filter(|&n| store.get(&key(n)).is_some()).collect();
    assert_eq!(cached, [6, 7, 8]);
}

fn a_row_over_a_quarter_is_not_cached(store: &mut dyn CacheStore) {
    let max = 4 * row(0, 1000).size();
    store.put(&key(1), row(1, 1000), max, all());
    store.put(&key(2), row(2, 1001), max, all());
    assert_eq!((store.get(&key(1)), store.get(&key(2))), (Some(row(1, 1000)), None));
}

/// Random puts, reopened and damaged in between: a get returns the last row put, or nothing.
#[test]
fn whatever_happens_to_the_file_no_wrong_row_is_served() {
    let mut served = 0;
    for seed in 0..60 {
        let folder = TempDir::fresh();
        let mut rng = Rng::new(seed);
        let mut put: BTreeMap<u64, CacheRow> = BTreeMap::new();
        let mut store: Box<dyn CacheStore> = Box::new(crate::sqlite::CacheTable::open(&folder.file()));
        for step in 0..40 {
            let n = rng.below(8);
            match rng.below(12) {
                0 => store = Box::new(crate::sqlite::CacheTable::open(&folder.file())),
                1 if seed % 2 == 0 => {
                    drop(store);
                    damage(&folder.file(), &mut rng);
                    store = Box::new(crate::sqlite::CacheTable::open(&folder.file()));
                }
                2..6 => {
                    let new = row(step, rng.below(3000) as usize);
                    store.put(&key(n), new.clone(), 1 << 20, all());
                    put.insert(n, new);
                }
                _ => match store.get(&key(n)) {
                    None => assert!(
                        seed % 2 == 0 || !put.contains_key(&n),
                        "seed {seed}: a whole file lost a row"
                    ),
                    Some(row) => {
                        served += 1;
                        assert_eq!(Some(&row), put.get(&n), "seed {seed}");
                    }
                },
            }
        }
    }
    assert!(served > 150, "{served} rows were served: this tests nothing");
}

fn damage(file: &Path, rng: &mut Rng) {
    let mut bytes = std::fs::read(file).unwrap();
    for _ in 0..=rng.below(3) {
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << rng.below(8);
    }
    std::fs::write(file, bytes).unwrap();
}

/// The model evicts no row that would fit.
#[test]
fn the_model_caches_as_much_as_fits() {
    let mut store = crate::suite::memory::Cache::default();
    let max = 10 * row(0, 100).size();
    (0..12).for_each(|n| store.put(&key(n), row(n, 100), max, all()));
    assert_eq!(
        (0..12).filter(|&n| store.get(&key(n)).is_some()).collect::<Vec<_>>(),
        (2..12).collect::<Vec<_>>()
    );
}
