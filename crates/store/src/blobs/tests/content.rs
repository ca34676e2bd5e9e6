//! Blobs are read back as stored: every size, every way to store, every range.

use super::*;
use proptest::prelude::*;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::task::Poll;
use toolyard_protocol::{Error, ErrorKind};

/// Sizes around the borders where the tree changes its shape.
fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, 1, 1023, 1024, 1025];
    for groups in [1, 2, 3, 4, 5, 7, 8, 9, 16, 17] {
        sizes.extend([groups * G - 1, groups * G, groups * G + 1]);
    }
    sizes
}

#[test]
fn every_size_comes_back_whole_whichever_way_it_went_in() {
    run(async {
        for size in sizes() {
            let dir = TempDir::in_memory();
            let blobs = dir.blobs();
            let bytes = sample(size, size as u64);
            let expected = StoredBlob { hash: hash_of(&bytes), size: size as u64 };

            assert_eq!(blobs.size(&expected.hash).await.unwrap(), None);
            assert_eq!(blobs.put(Bytes::from(bytes.clone())).await.unwrap(), expected);
            assert_eq!(blobs.get(&expected.hash, size as u64).await.unwrap(), bytes);
            assert_eq!(read_all(&blobs, &expected.hash, None).await.unwrap(), bytes);
            assert_eq!(blobs.size(&expected.hash).await.unwrap(), Some(size as u64));
            assert_eq!(dir.file(&expected.hash, "tree").exists(), size > G);

            // The other ways to store give the same files, byte for byte.
            let other = TempDir::in_memory();
            let mut writer = other.blobs().writer();
            for part in bytes.chunks(50_000) {
                writer.write(Bytes::copy_from_slice(part)).await.unwrap();
            }
            assert_eq!(writer.finish().await.unwrap(), expected);
            let third = TempDir::in_memory();
            let mut file = tempfile(&third, &bytes);
            // The position of the file does not matter.
            file.seek(SeekFrom::End(0)).unwrap();
            assert_eq!(third.blobs().put_file(file).await.unwrap(), expected);
            for suffix in ["blob", "tree"] {
                let first = std::fs::read(dir.file(&expected.hash, suffix)).ok();
                assert_eq!(std::fs::read(other.file(&expected.hash, suffix)).ok(), first, "{size} {suffix}");
                assert_eq!(std::fs::read(third.file(&expected.hash, suffix)).ok(), first, "{size} {suffix}");
            }
            for dir in [&dir, &other, &third] {
                assert_eq!(dir.temps(), [] as [PathBuf; 0]);
                let report = dir.blobs().verify().await.unwrap();
                let sound = Report { blobs: 1, bytes: size as u64, ..Report::default() };
                assert_eq!(report, sound);
            }
        }
    });
}

fn tempfile(dir: &TempDir, bytes: &[u8]) -> File {
    let path = dir.path().join("input");
    let mut file = File::options().create(true).truncate(true).read(true).write(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn every_range_is_the_plain_slice() {
    let dir = TempDir::new();
    let blobs = dir.blobs();
    let stored: Vec<(Vec<u8>, Hash)> = run(async {
        let mut stored = Vec::new();
        for size in sizes() {
            let bytes = sample(size, 7);
            let hash = blobs.put(Bytes::from(bytes.clone())).await.unwrap().hash;
            stored.push((bytes, hash));
        }
        stored
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) };
    // Ranges near the borders of groups find more than uniformly drawn ones.
    let near = |size: usize| {
        prop_oneof![
            0..=size,
            (0..=size / G + 1, -2i64..3)
                .prop_map(move |(group, off)| { ((group * G) as i64 + off).clamp(0, size as i64) as usize }),
        ]
    };
    let ranges = (0..stored.len()).prop_flat_map(|at| {
        let size = stored[at].0.len();
        (Just(at), near(size), near(size))
    });
    proptest::test_runner::TestRunner::new(config)
        .run(&ranges, |(at, one, other)| {
            let (bytes, hash) = &stored[at];
            let (start, end) = (one.min(other), one.max(other));
            let got = runtime.block_on(read_all(&blobs, hash, Some(start as u64..end as u64)));
            prop_assert_eq!(&got.unwrap()[..], &bytes[start..end]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn what_is_asked_for_wrongly_is_refused_with_the_facts() {
    run(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        let missing = hash_of(b"never stored");
        let absent = BlobError::NotFound { hash: missing };
        assert_eq!(blobs.get(&missing, 1).await.unwrap_err(), absent);
        assert_eq!(blobs.reader(&missing, None).await.err(), Some(absent.clone()));
        for size in [0u64, 10, 3 * GROUP] {
            let hash = blobs.put(Bytes::from(sample(size as usize, 1))).await.unwrap().hash;
            for range in [0..size + 1, size + 1..size + 1, size + 1..size + 2, 0..u64::MAX] {
                let refused = blobs.reader(&hash, Some(range.clone())).await.err();
                assert_eq!(refused, Some(BlobError::Range { start: range.start, end: range.end, size }));
            }
            #[expect(clippy::reversed_empty_ranges, reason = "a caller may well send one")]
            let turned = blobs.reader(&hash, Some(1..0)).await.err();
            assert_eq!(turned, Some(BlobError::Range { start: 1, end: 0, size }));
            assert_eq!(read_all(&blobs, &hash, Some(size..size)).await.unwrap(), b"");
            if size > 0 {
                let over = BlobError::TooLarge { hash, size, cap: size - 1 };
                assert_eq!(blobs.get(&hash, size - 1).await.unwrap_err(), over);
                assert_eq!(Error::from(over).kind, ErrorKind::OutputTooLarge);
            }
        }
        assert_eq!(Error::from(absent).kind, ErrorKind::ResourceNotFound);
        assert_eq!(Error::from(BlobError::Range { start: 1, end: 0, size: 0 }).kind, ErrorKind::InvalidInput);
        let full = Error::from(BlobError::Full);
        assert!(full.kind == ErrorKind::Unavailable && full.hint.unwrap().contains("free some space"));
    });
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing_and_one_that_lost_a_write_cannot_finish() {
    run_with_one_blocking_thread(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        let mut writer = blobs.writer();
        for _ in 0..20 {
            writer.write(Bytes::from(sample(3 * G, 1))).await.unwrap();
        }
        assert_eq!(dir.temps().len(), 1);
        drop(writer);
        assert_eq!(dir.temps(), [] as [PathBuf; 0]);

        let mut writer = blobs.writer();
        let release = occupy();
        // Polled once, so that the write has begun, then dropped.
        let first = poll_once(std::pin::pin!(writer.write(Bytes::from(sample(40 * G, 1))))).await;
        assert!(first.is_pending(), "{first:?}");
        drop(release);
        assert_eq!(writer.write(Bytes::from_static(b"more")).await, Err(BlobError::Broken));
        assert_eq!(writer.finish().await, Err(BlobError::Broken));
        while !dir.temps().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(blobs.verify().await.unwrap().blobs, 0);
    });
}

#[test]
fn a_reader_whose_next_is_dropped_loses_no_byte() {
    run_with_one_blocking_thread(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        let bytes = sample(30 * G + 9, 3);
        let hash = blobs.put(Bytes::from(bytes.clone())).await.unwrap().hash;
        let mut reader = blobs.reader(&hash, None).await.unwrap();
        let mut got = Vec::new();
        loop {
            let release = occupy();
            let dropped = poll_once(std::pin::pin!(reader.next())).await;
            drop(release);
            if matches!(dropped, Poll::Ready(None)) {
                break;
            }
            assert!(dropped.is_pending(), "{dropped:?}");
            got.extend_from_slice(&reader.next().await.unwrap().unwrap());
        }
        assert!(got == bytes, "{} bytes", got.len());
    });
}

fn run_with_one_blocking_thread(work: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.max_blocking_threads(1).enable_all().build().unwrap().block_on(work);
}

/// Occupies the only blocking thread until the returned sender is dropped.
fn occupy() -> std::sync::mpsc::Sender<()> {
    let (release, wait) = std::sync::mpsc::channel();
    tokio::task::spawn_blocking(move || wait.recv());
    release
}

async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

#[test]
fn a_blob_that_is_there_is_not_written_again_but_is_young_again() {
    run(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        for size in [0, 100, 3 * G] {
            let bytes = Bytes::from(sample(size, 5));
            let stored = blobs.put(bytes.clone()).await.unwrap();
            let file = dir.file(&stored.hash, "blob");
            let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&file).unwrap());
            let (first, old) = (inode(), std::time::SystemTime::now() - Duration::from_secs(5000));
            for way in 0..2 {
                File::options().append(true).open(&file).unwrap().set_modified(old).unwrap();
                if way == 0 {
                    assert_eq!(blobs.put(bytes.clone()).await.unwrap(), stored);
                } else {
                    let mut writer = blobs.writer();
                    writer.write(bytes.clone()).await.unwrap();
                    assert_eq!(writer.finish().await.unwrap(), stored);
                }
                assert_eq!(inode(), first);
                let age = std::fs::metadata(&file).unwrap().modified().unwrap().elapsed().unwrap_or_default();
                assert!(age < Duration::from_secs(60), "{age:?}");
                assert_eq!(dir.temps(), [] as [PathBuf; 0]);
            }
        }
    });
}

#[test]
fn only_the_owner_may_look() {
    run(async {
        let dir = TempDir::new();
        let hash = dir.blobs().put(Bytes::from(sample(3 * G, 5))).await.unwrap().hash;
        let blobs = dir.path().join("blobs");
        let shard = dir.file(&hash, "blob").parent().unwrap().to_owned();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for folder in [&blobs, &shard, &blobs.join("tmp")] {
            assert_eq!(mode(folder), 0o700, "{}", folder.display());
        }
        for file in [dir.file(&hash, "blob"), dir.file(&hash, "tree"), blobs.join("pins")] {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    });
}
